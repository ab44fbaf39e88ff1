"""Run one report, from log folders to rows: start Spark, compute every table, stop Spark."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lag.progress import Steps, progress, watched
from lag.request import InvalidRequest, ReportRequest, as_iso, check_windows
from lag.results import Results, Rows, sort_rows
from lag.session import SCRATCH_BYTES_MAX, check, spark_failures, spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lag.reports.report import Report
    from lag.reports.scope import Scope
    from lag.source.folders import LogFolder

TASKS_OF_A_CORE: Final = 4
SPLIT_BYTES_MIN: Final = 4 << 20

_PARTITION: Final = ("topic", "topic_id", "partition", "number")

ORDER: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "replication_lag": ("replica", "window_start_ms"),
        "replica_lag": ("replica",),
        "status": ("replica",),
        "leadership": ("epoch",),
        "commits": ("window_start_ms",),
        "voters": ("offset",),
        "moves": _PARTITION,
        "move_steps": (*_PARTITION, "step"),
        "move_replicas": (*_PARTITION, "step", "broker_id"),
        "operations": ("move_id",),
        "brokers": ("broker_id",),
        "broker_activity": ("broker_id", "window_start_ms"),
        "broker_events": ("broker_id", "offset"),
        "clocks": ("replica", "relative_to"),
        "replicas": ("replica",),
        "problems": ("replica", "path", "position", "kind"),
        "epochs": ("replica", "epoch"),
        "assignments": ("replica", "path", "offset"),
    }
)
"""The sort keys of each table, so that two reports of the same logs are equal."""


class NothingToRead(Exception):
    """No log, or no log with a batch, in the folders; the message says why for each."""


def make(
    request: ReportRequest,
    master: str,
    *,
    live: bool,
    scratch_bytes_max: int = SCRATCH_BYTES_MAX,
) -> Results:
    """Make a report; with `live` draw progress on stderr.

    Raises `NoSpark`, `SparkFailed`, `NothingToRead`, and `InvalidRequest` for a time outside the
    logs.
    """
    check()
    check_for_logs(request.paths)
    with progress(live=live) as steps:
        steps.step("Starting Spark")
        session = spark_session(master, scratch_bytes_max=scratch_bytes_max)
        with session as spark, watched(steps, spark):
            return collect(spark, request, steps)


def check_for_logs(paths: tuple[str, ...]) -> None:
    """Raise `NothingToRead` if none of the folders has a log."""
    from lag.source.folders import find

    found = find(paths)
    if any(folder.segments or folder.snapshots for folder in found.folders):
        return
    reasons = dict.fromkeys(f"{problem.path}: {problem.reason}" for _, problem in found.problems)
    raise NothingToRead(f"there is no log to read: {'; '.join(reasons) or ', '.join(paths)}")


def collect(spark: "SparkSession", request: ReportRequest, steps: Steps) -> Results:
    """Compute all tables of the report. The source must be registered in the session."""
    from lag.reports.dataframes import run_concurrently
    from lag.reports.schemas import RESULTS
    from lag.source.folders import find

    with spark_failures():
        steps.step("Reading headers")
        folders = find(request.paths).folders
        # Setting up the reading of records takes a second, in parallel with the headers.
        walked, records = run_concurrently(
            spark, lambda: _walk(spark, request, folders), lambda: _records(spark, request, folders)
        )
        tables = {name: _table_rows(walked, name) for name in ("replicas", "problems")}
        steps.step("Reading records")
        report = _report(spark, request, walked, records)
        if report is None:
            reasons = [f"{row['path']}: {row['reason']}" for row in tables["problems"]]
            raise NothingToRead(
                f"the logs hold no batch: {'; '.join(reasons[:5]) or request.paths}"
            )
        _check_scope(request, report.scope)
        steps.step("Computing tables")
        names = [result.name for result in RESULTS]
        queries = (partial(_rows, report, name) for name in names)
        tables |= zip(names, run_concurrently(spark, *queries), strict=True)
        report.release()
        walked.whole.unpersist()
    return Results(
        paths=request.paths,
        since_ms=report.scope.start_ms,
        until_ms=report.scope.end_ms,
        window_ms=report.scope.window_ms,
        tables=tables,
    )


class _Walked(NamedTuple):
    """The result of one pass over all files."""

    whole: "DataFrame"
    """All rows, persisted by Spark."""
    few: Mapping[str, Rows]
    """The rows of all tables but the batches."""


def _walk(spark: "SparkSession", request: ReportRequest, folders: "Sequence[LogFolder]") -> _Walked:
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    from lag.source.batches import chunk_offsets

    whole = read(spark, request, "walk", chunk_offsets=str(chunk_offsets(len(folders)))).persist(
        StorageLevel.MEMORY_AND_DISK
    )
    few: dict[str, list[dict[str, Any]]] = {}
    for row in whole.where(F.col("said").isNotNull()).select("kind", "said").collect():
        few.setdefault(row["kind"], []).append(json.loads(row["said"]))
    return _Walked(whole, few)


def _table_rows(walked: _Walked, name: str) -> Rows:
    """The rows of one table, with all its columns and in order."""
    from lag.reports.dataframes import typed
    from lag.source.schemas import TABLES

    columns = TABLES[name].columns
    rows = [
        {column.name: row.get(column.name) for column in columns}
        for row in walked.few.get(name, [])
    ]
    return sort_rows(typed(columns, rows), ORDER[name])


def _records(
    spark: "SparkSession", request: ReportRequest, folders: "Sequence[LogFolder]"
) -> "DataFrame":
    """The records in packs; Spark reads them lazily."""
    # If the session pushes filters down, only one of several copies is read.
    return read(
        spark,
        request,
        "packs",
        json="few",
        shares=spark.conf.get("spark.sql.shuffle.partitions", "1"),
        push_filters=spark.conf.get("spark.sql.python.filterPushdown.enabled", "false"),
        partition_bytes=str(_split_bytes(spark, folders)),
    )


def _split_bytes(spark: "SparkSession", folders: "Sequence[LogFolder]") -> int:
    """Bytes of a log per task, at most the default.

    Each core gets several tasks of one replica, so that all cores finish at about the same time.
    """
    from lag.source.options import PARTITION_BYTES

    sizes: list[int] = [sum(each.size_bytes for each in log.segments) for log in folders]
    tasks: int = TASKS_OF_A_CORE * spark.sparkContext.defaultParallelism
    return min(PARTITION_BYTES, max(SPLIT_BYTES_MIN, max(sizes, default=0) // tasks))


def _report(
    spark: "SparkSession", request: ReportRequest, walked: _Walked, records: "DataFrame"
) -> "Report | None":
    from lag.reports.arrivals import PACKS
    from lag.reports.dataframes import frame
    from lag.reports.epochs import Span
    from lag.reports.logs import Logs
    from lag.reports.report import report
    from lag.source.batches import merged
    from lag.source.schemas import TABLES

    _check_window(spark, request)
    few = {
        name: frame(spark, TABLES[name].columns, _table_rows(walked, name))
        for name in ("epochs", "assignments", "replicas")
    }
    batches = walked.whole.where("kind = 'batches'").select(*(name for name, _ in PACKS))
    held = [Span(**span) for span in merged(walked.few.get("spans", ()))]
    logs = Logs(batches=batches, records=records, held=held, **few)
    return report(
        logs, since_ms=request.since_ms, until_ms=request.until_ms, window_ms=request.window_ms
    )


def read(spark: "SparkSession", request: ReportRequest, table: str, **options: str) -> "DataFrame":
    """Read a table of the source from the folders of the request."""
    reader = spark.read.format("quorumlog").option("table", table)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.option("paths", json.dumps(request.paths)).load()


def _check_window(spark: "SparkSession", request: ReportRequest) -> None:
    """Raise `InvalidRequest` if the requested window is too short for the time of the logs.

    The time is queried first, because Spark would compute all windows at once.
    """
    if request.window_ms is None:
        return
    from pyspark.sql import functions as F

    times = read(spark, request, "batches", columns="leader_append_ms", source="log")
    row = times.agg(F.min("leader_append_ms").alias("low"), F.max("leader_append_ms").alias("high"))
    found = row.first()
    if found is None or found["low"] is None:
        return
    since_ms = found["low"] if request.since_ms is None else request.since_ms
    until_ms = found["high"] if request.until_ms is None else request.until_ms
    check_windows(since_ms, until_ms, request.window_ms)


def _check_scope(request: ReportRequest, scope: "Scope") -> None:
    if request.since_ms is not None and scope.end_ms <= request.since_ms:
        raise InvalidRequest(
            f"the logs hold nothing after --since {as_iso(request.since_ms)}: use an earlier time"
        )
    if request.until_ms is not None and scope.start_ms >= request.until_ms:
        raise InvalidRequest(
            f"the logs hold nothing before --until {as_iso(request.until_ms)}: use a later time"
        )


def _rows(report: "Report", name: str) -> Rows:
    return sort_rows(report.table(name), ORDER[name])
