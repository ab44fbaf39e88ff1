"""Find the logs below the given paths, their replicas, and their files.

A path is the folder of a log, of a node, or of several nodes. Only names are examined, and the
small file that identifies a folder; where it is missing, also the first batch of a log. A file with
a foreign name is a problem. Logs of which it is known that they are of two clusters are refused:
they are never compared.

Folders are listed by several threads at once, each folder once. No other segment is opened: the
tasks that read them do that.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from crc32c import crc32c

from lag.source import files
from lag.source.files import Entry, join, name_of, parent_of
from lag.source.invalid_input import InvalidInput
from lag.source.problems import (
    ASSUMED,
    CLUSTER,
    FOREIGN_FILE,
    META,
    MISNAMED,
    NO_LOG,
    UNREADABLE,
    Problem,
)
from quorum.core.vocabulary import uuid_to_text
from quorum.log.append_times import SUFFIX
from quorum.log.checkpoint import checkpoint_id
from quorum.log.errors import StorageError
from quorum.log.meta_properties import FILE_NAME as META_NAME
from quorum.log.meta_properties import look
from quorum.log.segment import segment_base
from quorum.records.batch import CRC_START, HEADER_BYTES, MAGIC, header_at

METADATA: Final = "__cluster_metadata-0"
"""The name of a log's folder in that of a node, ours and Kafka's."""
_NOBODYS: Final = "lost+found"
"""A folder at the root of a file system."""

# Known files of Kafka and metaquorum, including those that are being removed or written.
_OTHERS: Final = re.compile(
    r"(\.lock|\.kafka_cleanshutdown|boot-timestamp|bootstrap\.checkpoint|meta\.properties"
    r"|quorum-state|leader-epoch-checkpoint|partition\.metadata|(log-start|cleaner|recovery-point|"
    r"replication)-offset-checkpoint|.*-offset-checkpoint"
    r"|\d{20}\.(index|timeindex|txnindex|snapshot)|.*\.(deleted|tmp|part|swap|cleaned))"
)

_OF_LOGS: Final = (".log", ".checkpoint", SUFFIX)
"""The endings of the files that are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A segment, with its size when it was found."""

    path: str
    base: int
    size_bytes: int
    next_base: int | None
    """The base offset of the next segment; None for the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFolder:
    """The log of one replica."""

    path: str
    replica: str
    node_id: int | None = None
    directory_id: str | None = None
    cluster_id: str | None = None
    segments: tuple[Segment, ...] = ()
    snapshots: tuple[str, ...] = ()
    """Paths of the checkpoint files, oldest first."""
    snapshot_sizes: tuple[int, ...] = ()
    """Their sizes when they were found; 0 if unknown."""
    indexes: tuple[str, ...] = ()
    """Paths of the indexes of append times, in order."""


@dataclass(frozen=True, slots=True)
class Found:
    """The logs below some paths, and the problems."""

    folders: tuple[LogFolder, ...]
    problems: tuple[tuple[str, Problem], ...]
    """Each with its replica; empty for none."""


def find(
    paths: Sequence[str], known: dict[str, str] | None = None, cluster: str | None = None
) -> Found:
    """Find the logs below these paths; `known` has the replicas of folders found earlier.

    Raises `InvalidInput` if they are of several clusters and `cluster` is not the id of one.
    """
    problems: list[tuple[str, Problem]] = []
    there: dict[str, None] = {}
    for path in paths:
        listed = _Listed()
        try:
            logs = list(_log_folders(path, listed))
            empty = list(_empty_beside(path, logs, listed))
        except OSError as error:
            problems.append(("", unreadable(path, error)))
            continue
        if not logs:
            problems.append(("", _no_log(path)))
        problems += [("", _empty(each)) for each in empty]
        there |= dict.fromkeys(logs)
    folders: dict[str, LogFolder] = {}
    for log, wrong in files.all_of(_read_folder, there):
        folders[log.path] = log
        problems += [(log.path, each) for each in wrong]
    logs_, unclear = _of_one_cluster(list(folders.values()), cluster)
    labelled = _labelled(logs_, known or {})
    labels = {log.path: log.replica for log in labelled}
    named = [
        (labels.get(path, ""), problem)
        for path, problem in problems
        if path in labels or path not in folders
    ]
    for log in unclear:
        is_read = log.path in labels
        problem = _assumed(log, logs_) if is_read else _left_out(log, cluster)
        named.append((labels.get(log.path, ""), problem))
    return Found(tuple(labelled), tuple(named))


def check_paths(paths: Iterable[str]) -> None:
    """Raise `InvalidInput` with every path that has no log, and what would be right."""
    wrong = []
    for path in paths:
        reason = _not_a_folder(path)
        if reason is None:
            try:
                reason = None if any(_log_folders(path, _Listed())) else _NO_SEGMENT
            except OSError as error:
                reason = unreadable(path, error).reason
        if reason is not None:
            wrong.append(f"{path}: {reason}")
    if wrong:
        raise InvalidInput("; ".join(wrong))


def folders(named: Sequence[str]) -> tuple[str, ...]:
    """The named folders, each once and absolute; raises `InvalidInput` for what is not a folder."""
    wrong = [f"{name}: {reason}" for name in named if (reason := _not_a_folder(name)) is not None]
    if wrong:
        raise InvalidInput("; ".join(wrong))
    return absolute(named)


def absolute(paths: Iterable[str]) -> tuple[str, ...]:
    """These paths, each once: the working directory of a worker may differ from ours."""
    plain = (re.sub("^file:(//)?(?=/)", "", path) for path in paths)
    return tuple(
        dict.fromkeys(
            path if path.startswith("~") or _ELSEWHERE.match(path) else str(Path(path).absolute())
            for path in map(_without_slash, plain)
        )
    )


def _without_slash(path: str) -> str:
    """A path elsewhere without slashes at its end: its name is its last part."""
    plain = path.rstrip("/")
    return plain if _ELSEWHERE.match(plain) else path


_ELSEWHERE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_WILDCARDS: Final = frozenset("*?[")
_NAME_A_FOLDER: Final = (
    f"name the folder of a log, such as .../{METADATA}, of a node, or one with several nodes"
)
_NO_SEGMENT: Final = f"no segment (*.log) is in it, nor in its {METADATA}, nor in a folder below"


def _not_a_folder(path: str) -> str | None:
    """The reason that a path is not a folder, and what would be right; None if it is one."""
    reason = files.misspelled(path)
    if reason is not None:
        return reason
    try:
        at = files.files_of(path)
        if at.is_folder(path):
            return None
        is_there = at.exists(path)
        bucket = None if is_there else files.missing_bucket(path)
    except OSError as error:
        return unreadable(path, error).reason
    if bucket is not None:
        return files.no_bucket(bucket)
    if is_there:
        return f"it is a file: name its folder, {parent_of(absolute([path])[0])}"
    if path.startswith("~"):
        return f"~ is not expanded: write {os.path.expanduser(path)}"
    if _WILDCARDS.intersection(path):
        return f"wildcards are not expanded, and it does not exist: {_NAME_A_FOLDER}"
    return f"it does not exist: {_NAME_A_FOLDER}"


def _no_log(path: str) -> Problem:
    return Problem(path, None, None, NO_LOG, _not_a_folder(path) or _NO_SEGMENT)


class _Listed:
    """The folders that were listed for one path, so that each is listed once."""

    def __init__(self) -> None:
        self._found: dict[str, Sequence[Entry] | OSError] = {}

    def entries(self, folder: str) -> Sequence[Entry]:
        """The entries of a folder, by name; raises `OSError`."""
        if folder not in self._found:
            self._found[folder] = self._list(folder)
        found = self._found[folder]
        if isinstance(found, OSError):
            raise found
        return found

    def ahead(self, folders: Iterable[str]) -> None:
        """List these folders, several at once."""
        wanted = [each for each in folders if each not in self._found]
        self._found |= zip(wanted, files.all_of(self._list, wanted), strict=True)

    def _list(self, folder: str) -> Sequence[Entry] | OSError:
        try:
            return files.files_of(folder).entries(folder)
        except OSError as error:
            return error


def _empty_beside(path: str, there: Sequence[str], listed: _Listed) -> Iterator[str]:
    """Empty folders beside those of nodes: probably failed copies, which a report must not hide."""
    if not there or there[0] in (path, join(path, METADATA)):
        return
    for entry in listed.entries(path):
        below = join(path, entry.name)
        with suppress(PermissionError):  # The log folders themselves report this problem.
            if entry.is_folder() and entry.name != _NOBODYS and not listed.entries(below):
                yield below


def _empty(path: str) -> Problem:
    reason = "the folder is empty, and those beside it are of nodes"
    return Problem(path, None, None, NO_LOG, reason)


def unreadable(path: str, error: OSError) -> Problem:
    """A problem for a path that its file system refuses to read."""
    where = str(error.filename) if error.filename is not None else path
    reason = f"it cannot be read: {error.strerror or error}"
    return Problem(where, None, None, UNREADABLE, reason)


def _log_folders(path: str, listed: _Listed) -> Iterator[str]:
    """The log folders at `path`, with nodes up to two levels below it, in order."""
    # `is_folder` raises if a parent folder is not accessible.
    if files.misspelled(path) is not None or not files.files_of(path).is_folder(path):
        return
    there = listed.entries(path)
    if _is_log(path, there):
        yield path
        return
    if METADATA in {entry.name for entry in there}:
        yield join(path, METADATA)
        return
    listed.ahead(join(path, entry.name) for entry in there if _may_be_folder(entry))
    for entry in there:
        below = join(path, entry.name)
        try:
            if not entry.is_folder():
                continue
            if _has_metadata(below, listed):
                yield join(below, METADATA)
                continue
            inside = listed.entries(below)
            if _is_log(below, inside):
                yield below
                continue
            yield from _data_folders(below, inside, listed)
        except PermissionError:
            yield below  # The next read of this folder reports it as a problem.


def _may_be_folder(entry: Entry) -> bool:
    try:
        return entry.is_folder()
    except PermissionError:
        return False


def _has_metadata(folder: str, listed: _Listed) -> bool:
    """True if the folder of a node has the folder of its log."""
    try:
        inside = listed.entries(folder)
    except PermissionError:
        # What is in it may be accessible, although it cannot be listed.
        return files.files_of(folder).is_folder(join(folder, METADATA))
    return any(entry.name == METADATA and entry.is_folder() for entry in inside)


def _data_folders(node: str, inside: Sequence[Entry], listed: _Listed) -> Iterator[str]:
    """The logs of a node with a separate data folder, one of these."""
    listed.ahead(join(node, entry.name) for entry in inside if _may_be_folder(entry))
    for entry in inside:
        folder = join(node, entry.name)
        try:
            if entry.is_folder() and _has_metadata(folder, listed):
                yield join(folder, METADATA)
        except PermissionError:
            yield folder


def _is_log(path: str, there: Sequence[Entry]) -> bool:
    names = [entry.name for entry in there]
    is_of_log = any(segment_base(name) is not None or checkpoint_id(name) for name in names)
    return is_of_log or (name_of(path) == METADATA and "quorum-state" in names)


def _read_folder(folder: str) -> tuple[LogFolder, list[Problem]]:
    """The content of a log folder."""
    problems: list[Problem] = []
    segments: list[Segment] = []
    snapshots: list[tuple[str, int]] = []
    indexes: list[str] = []
    log = _identity(folder, problems)
    try:
        entries = files.files_of(folder).entries(folder)
    except OSError as error:
        return log, [*problems, unreadable(folder, error)]
    for entry in entries:
        path, base = join(folder, entry.name), segment_base(entry.name)
        try:
            if base is not None:
                size = entry.size_bytes()
                segments.append(Segment(path=path, base=base, size_bytes=size, next_base=None))
            elif checkpoint_id(entry.name) is not None:
                snapshots.append((path, _size_or_0(entry)))
            elif segment_base(entry.name, SUFFIX) is not None:
                indexes.append(path)
            elif not _OTHERS.fullmatch(entry.name) and entry.name != META_NAME:
                kind = MISNAMED if entry.name.endswith(_OF_LOGS) else FOREIGN_FILE
                reason = "no log has a file of this name; it was not read"
                problems.append(Problem(path, None, None, kind, reason))
        except OSError as error:
            problems.append(unreadable(path, error))
    if not segments:
        reason = "the folder of a log without a single segment (*.log)"
        problems.append(Problem(folder, None, None, NO_LOG, reason))
    linked = [
        replace(each, next_base=following.base) for each, following in pairwise(segments)
    ] + segments[-1:]
    return replace(
        log,
        segments=tuple(linked),
        snapshots=tuple(path for path, _ in snapshots),
        snapshot_sizes=tuple(size for _, size in snapshots),
        indexes=tuple(indexes),
    ), problems


def _size_or_0(entry: Entry) -> int:
    """The size of a snapshot; if it cannot be told, the task that reads it reports the reason."""
    try:
        return entry.size_bytes()
    except OSError:
        return 0


def _identity(folder: str, problems: list[Problem]) -> LogFolder:
    """The identity of a folder, from meta.properties in it or in its parent."""
    around = parent_of(folder) if name_of(folder) == METADATA else folder
    log = LogFolder(path=folder, replica=name_of(around))
    for where in dict.fromkeys((folder, around)):
        path = join(where, META_NAME)
        try:
            if not files.files_of(path).exists(path):
                continue
            # Kafka's file has no directory id before 3.7; a report needs only the node id.
            meta = look(Path(where), needs_directory=False, fs=files.read_by(path))
        except OSError as error:
            problems.append(unreadable(path, error))
            continue
        except StorageError as error:
            problems.append(Problem(path, None, None, META, files.with_path(error, path)))
            continue
        if meta is None:
            continue
        directory = meta.directory_id
        return replace(
            log,
            replica=str(meta.node_id),
            node_id=int(meta.node_id),
            directory_id=uuid_to_text(directory) if directory.int else None,
            cluster_id=meta.cluster_id,
        )
    return log


def _labelled(folders: list[LogFolder], known: dict[str, str]) -> list[LogFolder]:
    """Give every log a unique name; a log that had one keeps it."""
    taken = Counter(known.values())
    labelled = []
    for log in folders:
        label = known.get(log.path)
        if label is None:
            label, number = log.replica, 2
            while taken[label]:
                label, number = f"{log.replica}#{number}", number + 1
            taken[label] += 1
        labelled.append(replace(log, replica=label))
    return labelled


PATHS_SHOWN: Final = 3
"""The folders of a cluster that an error names."""
FIRST_BATCH_BYTES_MAX: Final = 1 << 20
"""A first batch that is larger does not identify a log."""


def _of_one_cluster(
    logs: Sequence[LogFolder], wanted: str | None
) -> tuple[list[LogFolder], list[LogFolder]]:
    """The logs of one cluster, and those that may be of it or of another one. These are among the
    first if there is only one cluster.

    Raises `InvalidInput`.
    """
    clusters, unclear = _clusters(logs)
    chosen = clusters
    if wanted is not None:
        chosen = [each for each in clusters if each[0].cluster_id == wanted]
        if logs and not chosen:
            there = "; ".join(map(_named, clusters)) or "none that is known"
            raise InvalidInput(f"no log is of the cluster {wanted}; there are those of {there}")
    if len(chosen) > 1:
        there = "; ".join(map(_named, chosen))
        raise InvalidInput(
            f"these are the logs of {len(chosen)} clusters, which are never compared: {there}. "
            "Name the folders of one, or choose it by its id (--cluster; in Spark the option "
            "cluster)"
        )
    paths = {log.path for each in chosen for log in each}
    if len(clusters) <= 1:
        paths |= {log.path for log in unclear}
    return [log for log in logs if log.path in paths], unclear


def _clusters(logs: Sequence[LogFolder]) -> tuple[list[list[LogFolder]], list[LogFolder]]:
    """The logs of each cluster, and those that nothing assigns to one.

    A log without the id of a cluster is of the one with which it has the first batch in common.
    """
    by_id: dict[str | None, list[LogFolder]] = {}
    for log in logs:
        by_id.setdefault(log.cluster_id, []).append(log)
    nameless = by_id.pop(None, [])
    clusters, unclear = list(by_id.values()), list[LogFolder]()
    begins = dict[str, _Begin | None]()
    if nameless:
        paths = [log.path for log in logs]
        begins |= zip(paths, files.all_of(_first_batch, logs), strict=True)
    for log in nameless:
        kinships = [
            {_begin_alike(begins[log.path], begins[other.path]) for other in each}
            for each in clusters
        ]
        same = next((each for each, k in zip(clusters, kinships, strict=True) if True in k), None)
        if same is not None:
            same.append(log)
        elif all(False in each for each in kinships):
            clusters.append([log])
        else:
            unclear.append(log)
    return clusters, unclear


_Begin = tuple[tuple[int, int], int]
"""Offset and epoch of the first batch of a log, and its checksum."""


def _begin_alike(one: _Begin | None, other: _Begin | None) -> bool | None:
    """True if both begin with the same batch, False if that proves them of different clusters.

    Raft's log matching: in one cluster, batches with the same offset and epoch are equal.
    """
    if one is None or other is None or one[0] != other[0]:
        return None
    return one[1] == other[1]


def _first_batch(log: LogFolder) -> _Begin | None:
    """The beginning of a log; None unless it is a valid batch."""
    if not log.segments:
        return None
    first = log.segments[0]
    try:
        with files.opened(first.path) as file:
            data = files.read_up_to(file, HEADER_BYTES, 0)
            if len(data) < HEADER_BYTES:
                return None
            header = header_at(data)
            if not HEADER_BYTES <= header.size_bytes <= FIRST_BATCH_BYTES_MAX:
                return None
            data += files.read_up_to(file, header.size_bytes - HEADER_BYTES, HEADER_BYTES)
    except OSError:
        return None  # Whatever reads the log reports it.
    is_valid = header.magic == MAGIC and crc32c(data[CRC_START:]) == header.crc
    if not is_valid or header.base_offset != first.base:
        return None
    return (header.base_offset, header.epoch), header.crc


def _named(cluster: Sequence[LogFolder]) -> str:
    paths = [log.path for log in cluster[:PATHS_SHOWN]]
    more = len(cluster) - len(paths)
    shown = ", ".join(paths) + (f" and {more} more" if more else "")
    return f"{cluster[0].cluster_id or 'a cluster without an id'} ({shown})"


def _assumed(log: LogFolder, others: Iterable[LogFolder]) -> Problem:
    known = next((each.cluster_id for each in others if each.cluster_id is not None), None)
    reason = (
        f"nothing says whether it is of the cluster {known or 'of the other logs'}, and it was "
        f"read as if it were: it lacks a {META_NAME} with the id of its cluster, and its first "
        "batch cannot be compared with that of another log"
    )
    return Problem(log.path, None, None, ASSUMED, reason)


def _left_out(log: LogFolder, cluster: str | None) -> Problem:
    reason = (
        f"nothing says whether it is of the cluster {cluster}, so it was left out: "
        f"it lacks a {META_NAME} with the id of its cluster"
    )
    return Problem(log.path, None, None, CLUSTER, reason)
