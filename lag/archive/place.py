"""The files of an archive, in any file system that Spark's Hadoop knows.

    archive.json                     format, schema version, and cluster
    checkpoint/                      the progress of the stream
    parts/part=0-000000000012-000000000012/day=2026-03-01/*.parquet
    replicas/1/000000000000.json     folder, meta.properties and quorum-state of a replica
    snapshots/2026-03-01/1/*.checkpoint

A *part* has the rows of the micro-batches first to last, and is whole once it has the file
`_SUCCESS`. A part of a higher level replaces those within its range, so a reader takes what no
other whole part covers. One process writes; any number may read.
"""

import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lag.source.files import copy, join, parent_of
from lag.source.invalid_input import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT: Final = "metaquorum lag archive"
SCHEMA: Final = 1
"""The version of the rows. A version may add columns, which are null in older rows; what else it
changes has to be read by its number."""
META: Final = "archive.json"
KEPT_FILES: Final = frozenset({"meta.properties", "../meta.properties", "quorum-state"})
"""The small files that are kept of a replica, by their path from its log."""
CHECKPOINT: Final = "checkpoint"
SUCCESS: Final = "_SUCCESS"
_DIGITS: Final = 12
_PART: Final = re.compile(r"part=(\d+)-(\d{12})-(\d{12})")
_DAY: Final = re.compile(r"day=(\d{4}-\d{2}-\d{2})")


class Part(NamedTuple):
    """Some micro-batches, written together."""

    level: int
    """0 for a single micro-batch; one more than the highest of the parts that it replaces."""
    first: int
    last: int

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"part={self.level}-{self.first:0{_DIGITS}}-{self.last:0{_DIGITS}}"

    def replaces(self, other: "Part") -> bool:
        """True if it has everything that the other has."""
        return self.level > other.level and self.first <= other.first and other.last <= self.last


def kept_file(folder: str, name: str) -> str:
    """The path of one of `KEPT_FILES` of the log in this folder."""
    above = name.removeprefix("../")
    return join(folder if name == above else parent_of(folder), above)


def current(parts: Iterable[Part]) -> list[Part]:
    """The parts that no other replaces, in order."""
    found = sorted(set(parts), key=lambda each: each.first)
    return [each for each in found if not any(other.replaces(each) for other in found)]


class Snapshot(NamedTuple):
    """A snapshot in the archive."""

    day: str
    """The UTC date of the last record in it."""
    replica: str
    name: str


class Cut(NamedTuple):
    """The days and snapshots that retention removes."""

    days: list[str]
    snapshots: list[str]
    """Days of snapshots."""


def expired(days: Iterable[str], snapshot_days: Iterable[str], cutoff: str) -> Cut:
    """The days to remove if those before `cutoff` are too old.

    A report of the rest begins with a snapshot. So the last snapshot before the cutoff stays, and
    the log from the day before it on: leaders' clocks may differ about a midnight. Without such a
    snapshot everything stays.
    """
    old = [day for day in snapshot_days if day <= cutoff]
    if not old:
        return Cut([], [])
    begin = max(old)
    kept = max((day for day in days if day < begin), default=begin)
    return Cut(
        sorted(day for day in days if day < kept), sorted({day for day in old if day < begin})
    )


def cluster_of(description: str, path: str) -> str | None:
    """The id of the cluster in the description of an archive, if its logs have one.

    Raises `InvalidInput` for an unknown version.
    """
    try:
        said = json.loads(description)
        is_ours = said["format"] == FORMAT
        version, cluster = int(said["schema"]), said["cluster"]
    except (ValueError, KeyError, TypeError):
        is_ours, version, cluster = False, 0, None
    if not is_ours:
        raise InvalidInput(f"{path}/{META} is not the description of an archive")
    if version > SCHEMA:
        raise InvalidInput(
            f"the archive {path} has the schema version {version}, and this version of metaquorum "
            f"knows those up to {SCHEMA}: use a newer one"
        )
    return None if cluster is None else str(cluster)


@dataclass(frozen=True, slots=True)
class Replica:
    """The small files of a replica, kept beside its log."""

    name: str
    folder: str
    files: Mapping[str, str]
    """The content of small files, by their path from the folder."""


class Archive:
    """An archive at a path; the session does all reading and writing."""

    def __init__(self, spark: "SparkSession", path: str) -> None:
        self._spark = spark
        self.path = path
        java: Any = spark._jvm
        self._java = java.org.apache.hadoop.fs
        self._io = java.org.apache.commons.io.IOUtils
        self._conf: Any = spark._jsc.hadoopConfiguration()
        self._fs: Any = self._java.Path(path).getFileSystem(self._conf)

    def at(self, *names: str) -> Any:
        """The Hadoop path of a file in it."""
        return self._java.Path("/".join((self.path, *names)))

    # Its description.

    def cluster(self) -> str | None:
        """The id of its cluster, if the logs have one.

        Raises `InvalidInput` if there is no archive, or one of an unknown version.
        """
        if not self._fs.exists(self.at(META)):
            raise InvalidInput(
                f"{self.path} is not an archive: it has no {META}. `metaquorum lag archive "
                f"LOGDIR... --archive {self.path}` makes one"
            )
        return cluster_of(self._text(self.at(META)), self.path)

    def check_cluster(self, cluster: str | None, of: str) -> None:
        """Raise `InvalidInput` if the archive is of another cluster than the logs `of`."""
        own = self.cluster()
        if own is not None and cluster is not None and own != cluster:
            raise InvalidInput(
                f"the archive {self.path} is of the cluster {own}, and the logs ({of}) are of the "
                f"cluster {cluster}: name the archive of that cluster, or its logs"
            )

    def found(self, cluster: str | None, of: str) -> None:
        """Make the archive of a cluster if it does not exist; otherwise check that it is."""
        if self._fs.exists(self.at(META)):
            self.check_cluster(cluster, of)
            if self.parts() and not self._names(CHECKPOINT, "offsets"):
                raise InvalidInput(
                    f"the archive {self.path} has rows, and its {CHECKPOINT} is gone, which says "
                    "from where to go on: restore it, or begin an archive in another folder"
                )
            return
        if self._fs.exists(self.at()) and len(self._fs.listStatus(self.at())):
            raise InvalidInput(
                f"{self.path} is neither an archive nor empty: name an empty folder, or a new one"
            )
        if not self._fs.exists(self.at()):
            # Logs have credentials in them.
            self._fs.mkdirs(self.at(), self._java.permission.FsPermission("700"))
        said = {"format": FORMAT, "schema": SCHEMA, "cluster": cluster}
        self._write(self.at(META), json.dumps(said, indent=2) + "\n")

    # Parts.

    def parts(self) -> list[Part]:
        """The whole parts, replaced ones included."""
        return [part for part, is_whole in self._parts() if is_whole]

    def torn(self) -> list[Part]:
        """The parts whose writing was interrupted."""
        return [part for part, is_whole in self._parts() if not is_whole]

    def _parts(self) -> Iterator[tuple[Part, bool]]:
        for name in self._names("parts"):
            if match := _PART.fullmatch(name):
                part = Part(*map(int, match.groups()))
                yield part, self.is_whole(part)

    def is_whole(self, part: Part) -> bool:
        """True if it was written completely."""
        return bool(self._fs.exists(self.at("parts", part.name, SUCCESS)))

    def path_of(self, part: Part) -> str:
        """The path for Spark."""
        return f"{self.path}/parts/{part.name}"

    def size(self, part: Part) -> int:
        """Its size in bytes."""
        return int(self._fs.getContentSummary(self.at("parts", part.name)).getLength())

    def age_ms(self, part: Part, now_ms: int) -> int:
        """The time since it was written."""
        status = self._fs.getFileStatus(self.at("parts", part.name, SUCCESS))
        return now_ms - int(status.getModificationTime())

    def remove(self, part: Part) -> None:
        """Remove a part. It stops being whole first."""
        self._fs.delete(self.at("parts", part.name, SUCCESS), False)
        self._fs.delete(self.at("parts", part.name), True)

    def days(self) -> list[str]:
        """The days of all rows."""
        found = {
            match[1]
            for part in self.parts()
            for name in self._names("parts", part.name)
            if (match := _DAY.fullmatch(name))
        }
        return sorted(found)

    # Replicas and snapshots.

    def replicas(self) -> list[Replica]:
        """All replicas, as they were last seen."""
        found = []
        for name in self._names("replicas"):
            versions = [each for each in self._names("replicas", name) if each.endswith(".json")]
            if versions:
                said = json.loads(self._text(self.at("replicas", name, max(versions))))
                found.append(Replica(name, said["folder"], said["files"]))
        return found

    def keep_replica(self, replica: Replica) -> None:
        """Write down what is known of a replica now."""
        versions = [
            each for each in self._names("replicas", replica.name) if each.endswith(".json")
        ]
        following = int(max(versions).removesuffix(".json")) + 1 if versions else 0
        target = self.at("replicas", replica.name, f"{following:0{_DIGITS}}.json")
        said = {"folder": replica.folder, "files": dict(replica.files)}
        self._write(target, json.dumps(said))
        for each in versions:
            self._fs.delete(self.at("replicas", replica.name, each), False)

    def snapshots(self) -> list[Snapshot]:
        """All snapshots."""
        return [
            Snapshot(day, replica, name)
            for day in self._names("snapshots")
            for replica in self._names("snapshots", day)
            for name in self._names("snapshots", day, replica)
            if name.endswith(".checkpoint")
        ]

    def keep_snapshot(self, snapshot: Snapshot, source: str) -> None:
        """Copy a snapshot into the archive.

        Raises `FileNotFoundError` if its node removed it.
        """
        target = self.at("snapshots", *snapshot)
        beside = target.suffix(".part")
        with tempfile.TemporaryDirectory(prefix="metaquorum-lag-archive-") as place:
            # Copied here first, so that this error is about the snapshot and never the archive.
            copied = f"{place}/{snapshot.name}"
            copy(source, copied)
            self._fs.copyFromLocalFile(False, True, self._java.Path(f"file:{copied}"), beside)
        self._fs.rename(beside, target)

    def fetch_snapshot(self, snapshot: Snapshot, target: str) -> None:
        """Copy a snapshot to a file of this machine."""
        source = self.at("snapshots", *snapshot)
        self._fs.copyToLocalFile(False, source, self._java.Path(f"file:{target}"), True)

    def expire(self, cutoff: str) -> Sequence[str]:
        """Remove the days before `cutoff` that no report needs; return them."""
        kept = self.snapshots()
        cut = expired(self.days(), {each.day for each in kept}, cutoff)
        parts = self.parts()
        # The oldest first: whenever this ends, the rest has no gap.
        for day in cut.days:
            for part in parts:
                self._fs.delete(self.at("parts", part.name, f"day={day}"), True)
        for day in cut.snapshots:
            self._fs.delete(self.at("snapshots", day), True)
        # The last one says how far the stream has come.
        last = max((part.last for part in parts), default=0)
        for part in parts if cut.days else ():
            if part.last < last and not any(map(_DAY.fullmatch, self._names("parts", part.name))):
                self.remove(part)
        return cut.days

    # Files.

    def _names(self, *names: str) -> list[str]:
        if not self._fs.exists(self.at(*names)):
            return []
        return sorted(each.getPath().getName() for each in self._fs.listStatus(self.at(*names)))

    def _text(self, path: Any) -> str:
        stream = self._fs.open(path)
        try:
            return str(self._io.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _write(self, path: Any, text: str) -> None:
        """Write a file that is complete or absent, and does not exist yet."""
        beside = path.suffix(".part")
        stream = self._fs.create(beside, True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()
        self._fs.rename(beside, path)
