"""The stream behind `metaquorum lag archive`: Spark follows the logs and writes parts.

Exactly once: Spark's checkpoint in the archive says which offsets a micro-batch has before it is
written, and a part that is whole is never written again. A micro-batch that was interrupted is
written anew after a restart, over what is there of it.
"""

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lag.archive.merging import Parts
from lag.archive.place import CHECKPOINT, KEPT_FILES, Archive, Replica, Snapshot, kept_file
from lag.runner import check_for_logs
from lag.session import (
    SCRATCH_BYTES_MAX,
    check,
    signals_taken,
    spark_failures,
    spark_session,
)
from lag.source.files import read_by, read_file
from lag.source.folders import LogFolder, find
from lag.source.log_data import DAY_MS, date_of
from quorum.log.checkpoint import read_checkpoint
from quorum.log.errors import StorageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BYTES_AT_ONCE_MAX: Final = 256 << 20
"""The bytes of all logs in one micro-batch, so that it takes seconds."""
BYTES_OF_A_LOG_MIN: Final = 1 << 20
SETTLE_MS: Final = 1_000
"""The time to wait for append times, which are written just after the log."""
LOOK_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRequest:
    """A request to archive logs."""

    paths: tuple[str, ...]
    archive: str
    every_ms: int
    """Interval between two looks at the logs."""
    is_once: bool = False
    """True to end with what exists now."""
    keep_days: int | None = None
    """The age of days to remove; None to keep all."""
    cluster: str | None = None


def archive(
    asked: ArchiveRequest,
    master: str,
    ready: Callable[[], None],
    *,
    now_ms: Callable[[], int],
    scratch_bytes_max: int = SCRATCH_BYTES_MAX,
) -> None:
    """Archive the logs until Ctrl-C, or until the ends that they have now.

    `ready` is called once everything that existed at the start is in the archive. Raises `NoSpark`,
    `SparkFailed`, `NothingToRead`, and `InvalidInput` for another cluster or a foreign folder.
    """
    check()
    session = spark_session(
        master,
        name="metaquorum lag archive",
        scratch_bytes_max=scratch_bytes_max,
        input_bytes=check_for_logs(asked.paths, asked.cluster),
    )
    over, signals = threading.Event(), list[int]()

    def end(number: int) -> None:
        signals.append(number)
        over.set()

    with session as spark, signals_taken(end), spark_failures():
        writer = Writer(spark, asked, now_ms)
        # One query reads what exists to its end; the other goes on from its checkpoint.
        writer.run(is_once=True, over=over)
        if not over.is_set():
            ready()
        if not asked.is_once and not over.is_set():
            writer.run(is_once=False, over=over)
    if signal.SIGTERM in signals:
        raise SystemExit(128 + signal.SIGTERM)


class Writer:
    """The writer of an archive."""

    def __init__(
        self, spark: "SparkSession", asked: ArchiveRequest, now_ms: Callable[[], int]
    ) -> None:
        self._spark = spark
        self._asked = asked
        self._now_ms = now_ms
        self._archive = Archive(spark, asked.archive)
        self._replicas: dict[str, Replica] = {}
        logs = self._logs()
        cluster = next((each.cluster_id for each in logs if each.cluster_id), None)
        self._archive.found(cluster, ", ".join(asked.paths))
        self._replicas = {each.name: each for each in self._archive.replicas()}
        self._snapshot_days = {each.day for each in self._archive.snapshots()}
        self._seen: set[str] = set()
        """The paths of snapshots that were looked at."""
        self._expired_on = ""
        """The day on which old days were removed last."""
        self._keep_files()
        self._parts = Parts(spark, self._archive, now_ms())
        self._expire()

    def run(self, *, is_once: bool, over: threading.Event) -> None:
        """Run the query until `over` is set; with `is_once` until the present end of the logs."""
        from pyspark.errors import PySparkException

        query = self._query(is_once=is_once)
        try:
            while query.isActive and not over.wait(LOOK_SECONDS):
                pass
            if not over.is_set():
                query.awaitTermination()  # It raises the exception that ended the query.
        finally:
            # A micro-batch that does not end in time is written again by the next start.
            expected = (PySparkException,) if over.is_set() else ()
            with suppress(*expected):
                query.stop()

    def _query(self, *, is_once: bool) -> Any:
        asked = self._asked
        bytes_max = max(BYTES_OF_A_LOG_MIN, BYTES_AT_ONCE_MAX // max(1, len(self._logs())))
        stream = self._spark.readStream.format("quorumlog").option("table", "log_data")
        stream = stream.option("missing", "report").option("settle_ms", str(SETTLE_MS))
        stream = stream.option("max_bytes_per_trigger", str(bytes_max))
        if asked.cluster is not None:
            stream = stream.option("cluster", asked.cluster)
        rows = stream.option("paths", json.dumps(asked.paths)).load()
        writer = rows.writeStream.foreachBatch(self._take)
        writer = writer.option("checkpointLocation", f"{asked.archive}/{CHECKPOINT}")
        if is_once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{asked.every_ms} milliseconds").start()

    def _take(self, rows: "DataFrame", number: int) -> None:
        """Write a micro-batch, unless it was written before a restart."""
        from pyspark.sql import functions as F

        self._keep_files()
        now_ms = self._now_ms()
        if number not in self._parts:
            day = F.coalesce("day", F.lit(date_of(now_ms)))
            self._parts.write(rows.withColumn("day", day), number, now_ms)
        self._expire()

    def _logs(self) -> tuple[LogFolder, ...]:
        known = {each.folder: each.name for each in self._replicas.values()}
        return find(self._asked.paths, known, self._asked.cluster).folders

    def _keep_files(self) -> None:
        """Keep the small files of each replica, and a snapshot of each day."""
        for log in self._logs():
            replica = Replica(log.replica, log.path, dict(_small_files(log.path)))
            if self._replicas.get(replica.name) != replica:
                self._archive.keep_replica(replica)
                self._replicas[replica.name] = replica
            for path in log.snapshots:
                if path not in self._seen:
                    self._seen.add(path)
                    self._keep_snapshot(log.replica, path)

    def _keep_snapshot(self, replica: str, path: str) -> None:
        try:
            found = read_checkpoint(Path(path), read_by(path))
            if not found.id.offset or found.last_timestamp_ms < 0:
                return
            day = date_of(found.last_timestamp_ms)
            if day not in self._snapshot_days:
                self._archive.keep_snapshot(Snapshot(day, replica, Path(path).name), path)
                self._snapshot_days.add(day)
        except (StorageError, FileNotFoundError):
            return  # It is damaged, or was removed meanwhile.

    def _expire(self) -> None:
        """Remove old days, once a day."""
        now_ms = self._now_ms()
        today = date_of(now_ms)
        if self._asked.keep_days is not None and self._expired_on != today:
            self._expired_on = today
            self._archive.expire(date_of(now_ms - self._asked.keep_days * DAY_MS))
            self._parts = Parts(self._spark, self._archive, now_ms)


def _small_files(folder: str) -> Iterator[tuple[str, str]]:
    for name in sorted(KEPT_FILES):
        try:
            yield name, read_file(kept_file(folder, name)).decode()
        except (OSError, UnicodeDecodeError):
            continue  # A log has only one of the two meta.properties.
