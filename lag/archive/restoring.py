"""Make folders of logs from an archive, for the report to read as if nothing had been deleted.

Every file has the bytes that it had, at the same places. Files that are still in the logs are
linked, and the archive supplies what is before them. So a report needs no second way to read.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from lag.archive.merging import read_parts
from lag.archive.place import KEPT_FILES, Archive, Replica, current
from lag.reports.dataframes import mapped
from lag.source.files import all_of, copy, files_of, is_remote, join, parent_of
from lag.source.folders import LogFolder, find
from lag.source.invalid_input import InvalidInput
from lag.source.schemas import MARK_TRUNCATED
from quorum.log.append_times import (
    ENTRY_BYTES,
    decode_entry,
    encode_header,
    index_of,
)
from quorum.log.meta_properties import FILE_NAME as META_NAME
from quorum.log.segment import segment_base
from quorum.records.batch import headers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WRITTEN: Final = (("path", "STRING"), ("end", "BIGINT"))


@dataclass(frozen=True, slots=True)
class Restored:
    """Folders of logs."""

    paths: tuple[str, ...]
    root: str
    """The folder that they are in; the rest of their paths is that of the original."""

    def original(self, text: str) -> str:
        """The text with the paths of the original folders."""
        return re.sub(rf"{re.escape(self.root)}(?:/(s3:|hdfs:)(?=/))?", _scheme, text)


def _scheme(found: re.Match[str]) -> str:
    return f"{found[1]}/" if found[1] else ""


class Cut(NamedTuple):
    """A truncation: rows of an earlier generation are void from this offset on."""

    generation: int
    offset: int


@dataclass(frozen=True, slots=True)
class Target:
    """The folder of a replica, and the rows that belong into it."""

    folder: str
    end: int | None
    """The offset at which the log begins that still exists; None without one."""
    cuts: tuple[Cut, ...] = ()

    def end_of(self, generation: int) -> int | None:
        """The offset before which rows of this generation are valid; None for no limit."""
        ends = [cut.offset for cut in self.cuts if cut.generation > generation]
        return min([*ends, *([] if self.end is None else [self.end])], default=None)


def restore(
    spark: "SparkSession",
    path: str,
    logs: Sequence[str],
    root: Path,
    *,
    cluster: str | None,
    bytes_max: int,
) -> Restored:
    """Make the folders below `root`, from the archive at `path` and the logs that still exist.

    Without `logs` those are read of which the archive was made, as far as they exist. Raises
    `InvalidInput` for an archive that cannot be used.
    """
    archive = Archive(spark, path)
    archive.check_cluster(cluster, "--cluster")
    replicas = archive.replicas()
    parts = current(archive.parts())
    if not parts:
        raise InvalidInput(f"the archive {path} is empty: nothing was archived yet")
    logs = logs or [each.folder for each in replicas if _is_there(each.folder)]
    live = _live(logs, replicas, cluster)
    for log in live:
        archive.check_cluster(log.cluster_id, log.path)
    rows = read_parts(spark, archive, parts)
    _check_room(rows, live, archive, bytes_max)
    targets = _targets(root, replicas, live, _cuts(rows))
    for log in live:
        try:
            _link_or_copy(log, _below(root, log.path))
        except OSError as error:
            raise InvalidInput(f"{log.path} cannot be read: {error.strerror or error}") from None
    for replica in replicas:
        _write_files(replica, targets[replica.name])
    _write_rows(rows, targets)
    _put_snapshots(archive, targets)
    paths = dict.fromkeys([*(_below(root, log.path) for log in live), *_folders(targets)])
    return Restored(tuple(paths), str(root))


def _live(
    paths: Sequence[str], replicas: Sequence[Replica], cluster: str | None
) -> tuple[LogFolder, ...]:
    """The logs that still exist, by the names that they have in the archive."""
    if not paths:
        return ()
    there = {log.path for log in find(paths, cluster=cluster).folders}
    known = {each.folder: each.name for each in replicas if each.folder in there}
    return find(paths, known, cluster).folders


def _is_there(folder: str) -> bool:
    """True if the folder of a log exists; raises `InvalidInput` if its store does not answer."""
    try:
        return files_of(folder).is_folder(folder)
    except OSError as error:
        raise InvalidInput(
            f"{folder}, of which the archive was made, cannot be read: {error.strerror}. Name the "
            "logs to read together with it, if it is gone for good"
        ) from None


def _below(root: Path, folder: str) -> str:
    """The path of a folder below the root; that of a store has its scheme as a folder."""
    return f"{root}{os.path.abspath('/' + folder.replace('://', ':/'))}"


def _folders(targets: Mapping[str, Target]) -> list[str]:
    return [targets[name].folder for name in sorted(targets)]


def _targets(
    root: Path,
    replicas: Sequence[Replica],
    live: Sequence[LogFolder],
    cuts: Mapping[str, Sequence[Cut]],
) -> dict[str, Target]:
    """The folder of each archived replica: that of its log, or the one that it had."""
    logs = {log.replica: log for log in live}
    targets = {}
    for replica in replicas:
        log = logs.get(replica.name)
        folder = replica.folder if log is None else log.path
        end = log.segments[0].base if log is not None and log.segments else None
        targets[replica.name] = Target(_below(root, folder), end, tuple(cuts.get(replica.name, ())))
    return targets


def _cuts(rows: "DataFrame") -> dict[str, list[Cut]]:
    marks = rows.where(rows["mark"] == MARK_TRUNCATED)
    found: dict[str, list[Cut]] = {}
    for row in marks.select("replica", "generation", "base_offset").distinct().collect():
        found.setdefault(row["replica"], []).append(Cut(row["generation"], row["base_offset"]))
    return found


def _check_room(
    rows: "DataFrame", live: Sequence[LogFolder], archive: Archive, bytes_max: int
) -> None:
    from pyspark.sql import functions as F

    found = rows.agg(F.sum("bytes").alias("bytes")).first()
    size = 0 if found is None else found["bytes"] or 0
    for log in live:
        if is_remote(log.path):
            size += sum(each.size_bytes for each in log.segments) + sum(log.snapshot_sizes)
    if size > bytes_max:
        raise InvalidInput(
            f"the archive {archive.path} takes {size} bytes to restore, and a report may use "
            f"{bytes_max} bytes below TMPDIR: allow more (METAQUORUM_LAG_SCRATCH_MAX=64GiB)"
        )


def _link_or_copy(log: LogFolder, target: str) -> None:
    """Put everything in the folder of a log, and the identity that may be beside it, where the
    report reads: by links, and from a store by copies."""
    os.makedirs(target, exist_ok=True)
    if is_remote(log.path):
        _copy(log, target)
        return
    for name in os.listdir(log.path):
        os.symlink(os.path.join(log.path, name), os.path.join(target, name))
    beside = os.path.join(os.path.dirname(log.path), "meta.properties")
    if os.path.exists(beside):
        with suppress(FileExistsError):
            os.symlink(beside, os.path.join(os.path.dirname(target), "meta.properties"))


def _copy(log: LogFolder, target: str) -> None:
    wanted = {
        join(log.path, entry.name): os.path.join(target, entry.name)
        for entry in files_of(log.path).entries(log.path)
        if not entry.is_folder()
    }
    beside = join(parent_of(log.path), META_NAME)
    if files_of(beside).exists(beside):
        wanted[beside] = os.path.join(os.path.dirname(target), META_NAME)

    def take(path: str) -> None:
        # It may have been deleted since, or be that of another log in the same folder.
        with suppress(FileNotFoundError, FileExistsError):
            copy(path, wanted[path])

    all_of(take, wanted)


def _write_files(replica: Replica, target: Target) -> None:
    os.makedirs(target.folder, exist_ok=True)
    if target.end is not None:
        return  # Its log exists, with its own.
    for name in KEPT_FILES & replica.files.keys():
        text = replica.files[name]
        path = os.path.normpath(os.path.join(target.folder, name))
        with suppress(FileExistsError), open(path, "x", encoding="utf-8") as file:
            file.write(text)


def _write_rows(rows: "DataFrame", targets: Mapping[str, Target]) -> None:
    """Write the files on the workers, and check that they are here."""
    from pyspark.sql import functions as F

    names = ("replica", "path", "generation", "position", "base_offset", "last_offset", "bytes")
    wanted = rows.where(F.col("mark").isNull() & F.col("data").isNotNull())
    written = mapped(
        wanted.select(*names, "data", "index_position", "index"),
        partial(_written, dict(targets)),
        _WRITTEN,
    )
    for row in written.groupBy("path").agg(F.max("end").alias("end")).collect():
        try:
            is_here = os.stat(row["path"]).st_size >= row["end"]
        except OSError:
            is_here = False
        if not is_here:
            raise InvalidInput(
                f"the workers do not share {os.path.dirname(row['path'])} with this machine: with "
                "a Spark cluster, TMPDIR has to be a folder that all of its machines see"
            )


def _written(targets: Mapping[str, Target], batches: Iterator[Any]) -> Iterator[Any]:
    schema = pa.schema([("path", pa.string()), ("end", pa.int64())])
    for batch in batches:
        ends: dict[str, int] = {}
        with _Files() as files:
            for row in batch.to_pylist():
                for path, end in _write_row(files, row, targets[row["replica"]]):
                    ends[path] = max(end, ends.get(path, 0))
        rows = [{"path": path, "end": end} for path, end in ends.items()]
        yield pa.RecordBatch.from_pylist(rows, schema)


def _write_row(files: "_Files", row: dict[str, Any], target: Target) -> Iterator[tuple[str, int]]:
    name = os.path.basename(row["path"])
    assert segment_base(name) is not None, f"{row['path']} is no segment"
    end = target.end_of(row["generation"])
    data, index = row["data"], row["index"]
    if end is not None and row["last_offset"] >= end:
        data = _before(data, end)
        index = None if index is None else _entries_before(index, end)
    if not data:
        return
    path = os.path.join(target.folder, name)
    if files.write(path, data, row["position"]):
        yield path, row["position"] + len(data)
    if index:
        beside = str(index_of(Path(path)))
        if files.write(beside, encode_header(), 0):
            files.write(beside, index, row["index_position"])


def _before(data: bytes, end: int) -> bytes:
    """The batches that end by this offset."""
    for position, header in headers(data):
        if header.end_offset > end:
            return data[:position]
    return data


def _entries_before(index: bytes, end: int) -> bytes:
    """The entries that end by this offset, and damaged ones before them."""
    for at in range(0, len(index), ENTRY_BYTES):
        entry = decode_entry(index[at : at + ENTRY_BYTES])
        if entry is not None and entry[1] > end:
            return index[:at]
    return index


class _Files:
    """Files that are written in any order; an existing link is a file of a log, and is left."""

    def __init__(self) -> None:
        self._open: dict[str, int | None] = {}

    def __enter__(self) -> "_Files":
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self._open.values():
            if fd is not None:
                os.close(fd)

    def write(self, path: str, data: bytes, position: int) -> bool:
        """Write into a file; false if it is a link."""
        if path not in self._open:
            self._open[path] = self._opened(path)
        fd = self._open[path]
        if fd is None:
            return False
        view = memoryview(data)
        while view:
            count = os.pwrite(fd, view, position)
            view, position = view[count:], position + count
        return True

    def _opened(self, path: str) -> int | None:
        if os.path.islink(path):
            return None
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _put_snapshots(archive: Archive, targets: Mapping[str, Target]) -> None:
    """Put each snapshot where it came from, and where a log begins after offset 0 without one."""
    for snapshot in archive.snapshots():
        for name, target in targets.items():
            path = os.path.join(target.folder, snapshot.name)
            is_own = name == snapshot.replica
            if (is_own or _lacks_a_snapshot(target.folder)) and not os.path.lexists(path):
                archive.fetch_snapshot(snapshot, path)


def _lacks_a_snapshot(folder: str) -> bool:
    names = os.listdir(folder)
    bases = [base for name in names if (base := segment_base(name)) is not None]
    return min(bases, default=0) > 0 and not any(name.endswith(".checkpoint") for name in names)
