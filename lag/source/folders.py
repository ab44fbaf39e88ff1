"""Find the logs below the given paths, their replicas, and their files.

A path is the folder of a log, of a node, or of several nodes. Only names are examined, and the two
small files that identify a folder. A file with a foreign name is a problem.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from lag.source.problems import FOREIGN_FILE, META, NO_LOG, UNREADABLE, Problem
from quorum.core.vocabulary import uuid_to_text
from quorum.log.append_times import SUFFIX
from quorum.log.checkpoint import checkpoint_id
from quorum.log.errors import StorageError
from quorum.log.meta_properties import FILE_NAME as META_NAME
from quorum.log.meta_properties import look
from quorum.log.segment import segment_base

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
    indexes: tuple[str, ...] = ()
    """Paths of the indexes of append times, in order."""


@dataclass(frozen=True, slots=True)
class Found:
    """The logs below some paths, and the problems."""

    folders: tuple[LogFolder, ...]
    problems: tuple[tuple[str, Problem], ...]
    """Each with its replica; empty for none."""


def find(paths: Sequence[str], known: dict[str, str] | None = None) -> Found:
    """Find the logs below these paths; `known` has the replicas of folders found earlier."""
    folders: dict[str, LogFolder] = {}
    problems: list[tuple[str, Problem]] = []
    for path in paths:
        try:
            logs = list(_log_folders(Path(path)))
            empty = list(_empty_beside(Path(path), logs))
        except OSError as error:
            problems.append(("", unreadable(path, error)))
            continue
        if not logs:
            problems.append(("", _no_log(path)))
        problems += [("", _empty(each)) for each in empty]
        for folder in logs:
            if str(folder) in folders:
                continue
            log, wrong = _read_folder(folder)
            folders[log.path] = log
            problems += [(log.path, each) for each in wrong]
    labelled = _labelled(list(folders.values()), known or {})
    labels = {log.path: log.replica for log in labelled}
    named = tuple((labels.get(path, ""), problem) for path, problem in problems)
    return Found(tuple(labelled), named)


def _no_log(path: str) -> Problem:
    there = Path(path)
    if not there.exists():
        return Problem(path, None, None, NO_LOG, "there is no such folder")
    if there.is_file():
        reason = "it is a file; a folder with segments (*.log) is wanted"
        return Problem(path, None, None, FOREIGN_FILE, reason)
    reason = f"no segment (*.log) is in it, nor in its {METADATA}, nor in a folder below"
    return Problem(path, None, None, NO_LOG, reason)


def _empty_beside(path: Path, there: Sequence[Path]) -> Iterator[Path]:
    """Empty folders beside those of nodes: probably failed copies, which a report must not hide."""
    if not there or there[0] in (path, path / METADATA):
        return
    for below in sorted(path.iterdir()):
        with suppress(PermissionError):  # The log folders themselves report this problem.
            if below.is_dir() and below.name != _NOBODYS and not any(below.iterdir()):
                yield below


def _empty(path: Path) -> Problem:
    reason = "the folder is empty, and those beside it are of nodes"
    return Problem(str(path), None, None, NO_LOG, reason)


def unreadable(path: str, error: OSError) -> Problem:
    """A problem for a path that the operating system refuses to read."""
    where = str(error.filename) if error.filename is not None else path
    reason = f"it cannot be read: {error.strerror or error}"
    return Problem(where, None, None, UNREADABLE, reason)


def _log_folders(path: Path) -> Iterator[Path]:
    """The log folders at `path`, with nodes up to two levels below it, in order."""
    if not path.is_dir():
        # It raises if a parent folder is not accessible, but not if the path does not exist.
        if path.exists():
            return
        path.parent.stat() if path.parent.exists() else None
        return
    names = sorted(each.name for each in path.iterdir())
    if _is_log(path, names):
        yield path
        return
    if METADATA in names:
        yield path / METADATA
        return
    for name in names:
        below = path / name
        try:
            if not below.is_dir():
                continue
            if (below / METADATA).is_dir():
                yield below / METADATA
                continue
            inside = sorted(each.name for each in below.iterdir())
            if _is_log(below, inside):
                yield below
                continue
            yield from _data_folders(below / each for each in inside)
        except PermissionError:
            yield below  # The next read of this folder reports it as a problem.


def _data_folders(folders: Iterable[Path]) -> Iterator[Path]:
    """The logs of nodes with a separate data folder, one of these."""
    for folder in folders:
        try:
            if (folder / METADATA).is_dir():
                yield folder / METADATA
        except PermissionError:
            yield folder


def _is_log(path: Path, names: Sequence[str]) -> bool:
    is_of_log = any(segment_base(name) is not None or checkpoint_id(name) for name in names)
    return is_of_log or (path.name == METADATA and "quorum-state" in names)


def _read_folder(folder: Path) -> tuple[LogFolder, list[Problem]]:
    """The content of a log folder."""
    problems: list[Problem] = []
    segments: list[Segment] = []
    snapshots: list[str] = []
    indexes: list[str] = []
    log = _identity(folder, problems)
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        return log, [*problems, unreadable(str(folder), error)]
    for path in entries:
        base = segment_base(path.name)
        try:
            if base is not None:
                size = path.stat().st_size
                segments.append(Segment(path=str(path), base=base, size_bytes=size, next_base=None))
            elif checkpoint_id(path.name) is not None:
                snapshots.append(str(path))
            elif segment_base(path.name, SUFFIX) is not None:
                indexes.append(str(path))
            elif not _OTHERS.fullmatch(path.name) and path.name != META_NAME:
                reason = "no log has a file of this name; it was not read"
                problems.append(Problem(str(path), None, None, FOREIGN_FILE, reason))
        except OSError as error:
            problems.append(unreadable(str(path), error))
    if not segments:
        reason = "the folder of a log without a single segment (*.log)"
        problems.append(Problem(str(folder), None, None, NO_LOG, reason))
    linked = [
        replace(each, next_base=following.base) for each, following in pairwise(segments)
    ] + segments[-1:]
    log = replace(log, segments=tuple(linked), snapshots=tuple(snapshots), indexes=tuple(indexes))
    return log, problems


def _identity(folder: Path, problems: list[Problem]) -> LogFolder:
    """The identity of a folder, from meta.properties in it or in its parent."""
    around = folder.parent if folder.name == METADATA else folder
    log = LogFolder(path=str(folder), replica=around.absolute().name)
    for where in dict.fromkeys((folder, around)):
        try:
            if not (where / META_NAME).exists():
                continue
            # Kafka's file has no directory id before 3.7; a report needs only the node id.
            meta = look(where, needs_directory=False)
        except OSError as error:
            problems.append(unreadable(str(where / META_NAME), error))
            continue
        except StorageError as error:
            problems.append(Problem(str(where / META_NAME), None, None, META, str(error)))
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
