"""Run one report, from log folders to rows: start Spark, compute every table, stop Spark."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
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
    from lag.source.tasks import Pick

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
        "topics": ("topic", "topic_id"),
        "topic_events": ("offset", "topic"),
        "brokers": ("broker_id",),
        "broker_activity": ("broker_id", "window_start_ms"),
        "broker_events": ("broker_id", "offset"),
        "clocks": ("replica", "relative_to"),
        "holes": ("start_offset",),
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

    Raises `NoSpark`, `SparkFailed`, `NothingToRead`, and `InvalidInput` for a time outside the
    logs, for the logs of several clusters, and for an archive that cannot be used.
    """
    check()
    input_bytes = None
    if request.archive is None or request.paths:
        input_bytes = check_for_logs(request.paths, request.cluster)
    with progress(live=live) as steps:
        steps.step("Starting Spark")
        session = spark_session(
            master,
            scratch_bytes_max=scratch_bytes_max,
            input_bytes=input_bytes if request.archive is None else None,
        )
        with session as spark, watched(steps, spark):
            if request.archive is None:
                return collect(spark, request, steps)
            return collect_archived(spark, request, steps, scratch_bytes_max=scratch_bytes_max)


def collect_archived(
    spark: "SparkSession",
    request: ReportRequest,
    steps: Steps,
    *,
    scratch_bytes_max: int = SCRATCH_BYTES_MAX,
) -> Results:
    """Compute the report of an archive and of the logs that still exist."""
    from lag.archive.restoring import restore
    from lag.source.invalid_input import InvalidInput

    assert request.archive is not None
    with tempfile.TemporaryDirectory(prefix="metaquorum-lag-archive-") as root:
        steps.step("Reading the archive")
        with spark_failures():
            restored = restore(
                spark,
                request.archive,
                request.paths,
                Path(root).resolve(),
                cluster=request.cluster,
                bytes_max=scratch_bytes_max,
            )
        try:
            whole = collect(spark, replace(request, paths=restored.paths), steps)
        except (InvalidInput, NothingToRead) as error:
            raise type(error)(restored.original(str(error))) from None
    tables = {
        name: [
            {
                key: restored.original(value) if isinstance(value, str) else value
                for key, value in row.items()
            }
            for row in whole.rows(name)
        ]
        for name in ("replicas", "problems")
    }
    return replace(
        whole, paths=(*request.paths, request.archive), tables={**whole.tables, **tables}
    )


def check_for_logs(paths: tuple[str, ...], cluster: str | None = None) -> int:
    """Return the size of the logs in bytes.

    Raises `NothingToRead` if none of the folders has a log, `InvalidInput` if they have logs of
    several clusters and `cluster` is not the id of one.
    """
    from lag.source.folders import find

    found = find(paths, cluster=cluster)
    if any(folder.segments or folder.snapshots for folder in found.folders):
        return sum(each.size_bytes for folder in found.folders for each in folder.segments)
    reasons = dict.fromkeys(f"{problem.path}: {problem.reason}" for _, problem in found.problems)
    raise NothingToRead(f"there is no log to read: {'; '.join(reasons) or ', '.join(paths)}")


def collect(spark: "SparkSession", request: ReportRequest, steps: Steps) -> Results:
    """Compute all tables of the report. The source must be registered in the session."""
    from lag.reports.dataframes import run_concurrently
    from lag.reports.schemas import RESULTS
    from lag.source.folders import find

    with spark_failures():
        steps.step("Reading headers")
        folders = find(request.paths, cluster=request.cluster).folders
        # Setting up the reading of records takes a second, in parallel with the headers.
        walked, records = run_concurrently(
            spark, lambda: _walk(spark, request, folders), lambda: _records(spark, request, folders)
        )
        tables = {name: _table_rows(walked, name) for name in ("replicas", "problems")}
        steps.step("Reading records")
        report = _report(spark, request, folders, walked, records)
        if report is None:
            raise _no_batch(walked, request.paths)
        _check_scope(request, report.scope)
        steps.step("Computing tables")
        names = [result.name for result in RESULTS]
        queries = (partial(_rows, report, name) for name in names)
        tables |= zip(names, run_concurrently(spark, *queries), strict=True)
        tables["problems"] = _table_rows(_with_misplaced(walked, report), "problems")
        tables["replicas"] = _table_rows(_with_ends(walked, report), "replicas")
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

    whole = read(spark, request, "walk", **_walk_options(folders)).persist(
        StorageLevel.MEMORY_AND_DISK
    )
    few: dict[str, list[dict[str, Any]]] = {}
    for row in whole.where(F.col("said").isNotNull()).select("kind", "said").collect():
        few.setdefault(row["kind"], []).append(json.loads(row["said"]))
    return _Walked(whole, few)


def _no_batch(walked: _Walked, paths: Sequence[str]) -> NothingToRead:
    """The error if no batch can be used."""
    from lag.source.reader import RUNS_KIND

    # Without other copies nothing says where a single batch between damage belongs.
    is_there = any(run["batches"] for run in walked.few.get(RUNS_KIND, ()))
    batch = "batch whose place is certain" if is_there else "batch"
    rows = walked.few.get("problems", ())
    reasons = sorted(f"{row['path']}: {row['reason']}" for row in rows)
    return NothingToRead(f"the logs hold no {batch}: {'; '.join(reasons[:5] or paths)}")


def _walk_options(folders: "Sequence[LogFolder]") -> dict[str, str]:
    from lag.source.batches import chunk_offsets

    return {"chunk_offsets": str(chunk_offsets(len(folders)))}


def _read_picks(
    spark: "SparkSession",
    request: ReportRequest,
    folders: "Sequence[LogFolder]",
    table: str,
    picks: "Sequence[Pick]",
) -> "DataFrame":
    """Read parts of the files only, into the table `packs` or `walk`."""
    options = _walk_options(folders) if table == "walk" else _pack_options(spark, folders)
    return read(spark, request, table, picks=json.dumps(picks), **options)


def _with_misplaced(walked: _Walked, report: "Report") -> _Walked:
    """Add problems for batches that are not used although their checksum is right."""
    from lag.source.problems import DUPLICATE, EPOCH, GAP, MISPLACED, UNCONFIRMED, Problem

    rows = list(walked.few.get("problems", ()))
    headers = (DUPLICATE, EPOCH, GAP, MISPLACED)
    known = {(row["path"], row["position"]) for row in rows if row["kind"] in headers}
    log = report.copies.log
    reasons = (
        *((run, EPOCH, _OUTVOTED.format(epoch=run.epoch)) for run in log.outvoted),
        *((run, MISPLACED, _IN_CONFLICT) for run in log.in_conflict),
        *((run, UNCONFIRMED, _UNCONFIRMED) for run in log.unconfirmed),
    )
    for run, kind, reason in reasons:
        # Often the header of the batch, or of the next one, is a problem already.
        beside = {(run.path, run.position), (run.path, run.end_position)}
        if kind == UNCONFIRMED or not known & beside:
            problem = Problem(str(run.path), run.position, run.first, kind, reason)
            rows.append({"replica": run.replica, **problem._asdict()})
    return walked._replace(few={**walked.few, "problems": rows})


_OUTVOTED: Final = (
    "its epoch is {epoch}, but other copies, or the index of append times, have another one at "
    "this offset; it is not used"
)
_IN_CONFLICT: Final = (
    "its offset or its epoch contradicts the batches around it, although its checksum is right; it "
    "is not used"
)
_UNCONFIRMED: Final = (
    "it is between damage, and only its own header says its offset and its epoch: no other copy, "
    "no index of append times and no snapshot has it; it is not used"
)


def _with_ends(walked: _Walked, report: "Report") -> _Walked:
    """Correct the ends of logs that end with batches in a wrong place."""
    wrong = {run.replica for run in report.copies.log.misplaced}
    rows = []
    for row in walked.few.get("replicas", ()):
        own = [run for run in report.copies.runs if run.replica == row["replica"]]
        if row["replica"] in wrong and own:
            end, epoch = max(run.end for run in own), max(run.epoch for run in own)
            row = {**row, "log_end": end, "last_epoch": epoch}
        rows.append(row)
    return walked._replace(few={**walked.few, "replicas": rows})


def _table_rows(walked: _Walked, name: str) -> Rows:
    """The rows of one table, with all its columns and in order."""
    from lag.reports.dataframes import typed
    from lag.source.schemas import TABLES

    columns = TABLES[name].in_ms.columns
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
    push_filters = spark.conf.get("spark.sql.python.filterPushdown.enabled", "false")
    options = _pack_options(spark, folders)
    return read(spark, request, "packs", push_filters=push_filters, **options)


def _pack_options(spark: "SparkSession", folders: "Sequence[LogFolder]") -> dict[str, str]:
    return {
        "json": "few",
        "shares": spark.conf.get("spark.sql.shuffle.partitions", "1"),
        "partition_bytes": str(_split_bytes(spark, folders)),
    }


def _split_bytes(spark: "SparkSession", folders: "Sequence[LogFolder]") -> int:
    """Bytes of a log per task, at most the default.

    Each core gets several tasks of one replica, so that all cores finish at about the same time.
    """
    from lag.source.options import PARTITION_BYTES

    sizes: list[int] = [sum(each.size_bytes for each in log.segments) for log in folders]
    tasks: int = TASKS_OF_A_CORE * spark.sparkContext.defaultParallelism
    return min(PARTITION_BYTES, max(SPLIT_BYTES_MIN, max(sizes, default=0) // tasks))


def _report(
    spark: "SparkSession",
    request: ReportRequest,
    folders: "Sequence[LogFolder]",
    walked: _Walked,
    records: "DataFrame",
) -> "Report | None":
    from lag.reports.arrivals import PACKS
    from lag.reports.dataframes import frame
    from lag.reports.logs import Logs
    from lag.reports.report import report
    from lag.source.reader import INDEXED_KIND, RUNS_KIND, UNKNOWN_END_KIND
    from lag.source.runs import Run
    from lag.source.schemas import TABLES

    _check_window(spark, request)
    few = {
        name: frame(spark, TABLES[name].in_ms.columns, _table_rows(walked, name))
        for name in ("epochs", "assignments", "replicas")
    }
    batches = walked.whole.where("kind = 'batches'").select(*(name for name, _ in PACKS))
    logs = Logs(
        batches=batches,
        records=records,
        runs=[Run(**run) for run in walked.few.get(RUNS_KIND, ())],
        indexed=[Run(**run) for run in walked.few.get(INDEXED_KIND, ())],
        unknown_ends=frozenset(row["replica"] for row in walked.few.get(UNKNOWN_END_KIND, ())),
        damaged=frozenset(str(row["path"]) for row in walked.few.get("problems", ())),
        read=partial(_read_picks, spark, request, folders),
        **few,
    )
    return report(
        logs, since_ms=request.since_ms, until_ms=request.until_ms, window_ms=request.window_ms
    )


def read(spark: "SparkSession", request: ReportRequest, table: str, **options: str) -> "DataFrame":
    """Read a table of the source from the folders of the request."""
    reader = spark.read.format("quorumlog").option("table", table).option("missing", "report")
    for name, value in options.items():
        reader = reader.option(name, value)
    if request.cluster is not None:
        reader = reader.option("cluster", request.cluster)
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
