"""The speed of reading logs as tables: headers at 20 records a batch and at one, and typed records.

    python -m bench.lag_scan [--megabytes N] [--records N] [--spark] [--write docs/lag.md]

The benchmark writes logs with partition changes in a controller's format. Two processes read them
with the readers alone; with `--spark` a session on `local[2]` reads them too, in a query that sums
a column. Files are read from the page cache. The main figures use wall-clock time of the whole
machine, so they include the effect of other load. The amount that one core reads per second of
processor time does not include it.
"""

import multiprocessing
import os
import resource
import struct
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

import click

from bench import machine
from bench.faults import RunFailed
from bench.options import document_option, folder_option
from bench.report import Section
from lag.source.data_source import QuorumLogSource
from lag.source.options import Options, options_of
from lag.source.planner import plan
from lag.source.reader import read
from lag.source.tasks import Task
from quorum.records.encode import encode
from statemachine.records import codec, kafka_records
from statemachine.vocabulary import BrokerId

SECTION: Final = "lag-scan"
MEGABYTES: Final = 2_048
RECORDS: Final = 1_000_000
WORKERS: Final = 2
DIFFERENT: Final = 2_000
"""The batches that are encoded; the log repeats them with new offsets and times."""
LEVEL: Final = 29
EPOCH: Final = 7
_TOPIC: Final = UUID(int=0x1A6 << 100)
_ADDED_UP: Final = {"batches": "sum(records)", "records": "sum(partition)"}


class Case(NamedTuple):
    """One line of the table."""

    what: str
    table: str
    records_a_batch: int
    unit: str
    must: float
    aim: float


CASES: Final = (
    Case("headers, 20 records a batch", "batches", 20, "MB/s", 400, 900),
    Case("headers, 1 record a batch", "batches", 1, "MB/s", 60, 120),
    Case("typed records, 20 a batch", "records", 20, "thousand/s", 250, 500),
    Case("typed records, 1 a batch", "records", 1, "thousand/s", 250, 500),
)


class Done(NamedTuple):
    """The result of one worker."""

    rows: int
    cpu_s: float
    peak_mb: float


def change(number: int) -> bytes:
    """A change of ISR and leader, the most frequent record."""
    isr = tuple(BrokerId(1 + (number * 7 + at) % 40) for at in range(3))
    said = kafka_records.PartitionChange(
        partition_id=number % 100_000, topic_id=_TOPIC, isr=isr, leader=isr[0]
    )
    return codec.encode(said, LEVEL)


def write_log(folder: Path, records_a_batch: int, *, size: int | None, count: int | None) -> int:
    """Write a segment of `size` bytes, or `count` records; return its size."""
    folder.mkdir()
    made = []
    for at in range(DIFFERENT):
        first = at * records_a_batch
        values = [change(first + place) for place in range(records_a_batch)]
        made.append(bytearray(encode(values, timestamp_ms=1_795_236_537_000 + at)))
    base = written = 0
    with (folder / f"{0:020}.log").open("wb", buffering=1 << 22) as file:
        while (size is None or written < size) and (count is None or base < count):
            batch = made[base // records_a_batch % DIFFERENT]
            struct.pack_into(">q", batch, 0, base)
            struct.pack_into(">i", batch, 12, EPOCH)
            written += file.write(batch)
            base += records_a_batch
    return written


def work(tasks: Sequence[Task], options: Options) -> Done:
    """Read all rows of these tasks; runs in a new process."""
    began = time.process_time()
    rows = sum(batch.num_rows for task in tasks for batch in read(task, options))
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Done(rows, time.process_time() - began, peak_kb / 1024)


def alone(pool: ProcessPoolExecutor, options: Options) -> tuple[float, list[Done]]:
    """Run the readers without Spark; return wall-clock seconds and the result of each worker."""
    began = time.perf_counter()
    tasks = plan(options)
    shares = [tasks[at::WORKERS] for at in range(WORKERS)]
    done = list(pool.map(work, shares, [options] * WORKERS))
    return time.perf_counter() - began, done


def session() -> Any:
    """A Spark session on the same number of cores."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    made = (
        SparkSession.builder.master(f"local[{WORKERS}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    made.dataSource.register(QuorumLogSource)
    return made


def through_spark(spark: Any, folder: Path, case: Case) -> float:
    """Return the wall-clock seconds of a query that reads all columns and sums one of them."""
    began = time.perf_counter()
    rows = spark.read.format("quorumlog").option("table", case.table).load(str(folder))
    rows.selectExpr(_ADDED_UP[case.table], "count(*)").collect()
    return time.perf_counter() - began


def measured(case: Case, folder: Path, size: int, count: int, spark: Any | None) -> str:
    """One line of the table."""
    options = options_of({"path": str(folder), "table": case.table})
    amount = size / 1e6 if case.unit == "MB/s" else count / 1e3
    # Processes like Spark's workers: newly started, then reused.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, mp_context=context) as pool:
        alone(pool, options_of({"path": str(folder), "table": case.table, "to_offset": "100"}))
        runs = [alone(pool, options) for _ in range(3)]
    seconds, done = min(runs, key=lambda run: run[0])
    a_core = amount / sum(each.cpu_s for each in done)
    shown = "–"
    if spark is not None:
        through_spark(spark, folder, case)
        shown = f"{amount / through_spark(spark, folder, case):,.0f}"
    peak = max(each.peak_mb for each in done)
    return (
        f"| {case.what}, {size / 1e6:,.0f} MB, {count / 1e6:.1f}M records | {case.unit} "
        f"| {case.must:.0f} / {case.aim:.0f} | {amount / seconds:,.0f} | {shown} | {a_core:,.0f} "
        f"| {peak:,.0f} MB |"
    )


def run(place: Path, megabytes: int, count: int, *, with_spark: bool) -> str:
    """The table."""
    spark = session() if with_spark else None
    lines = [
        "| what | unit | must / aim | readers alone | through Spark | a core a second | memory |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for case in CASES:
        folder = place / case.what.replace(" ", "-")
        is_headers = case.table == "batches"
        size = write_log(
            folder,
            case.records_a_batch,
            size=megabytes * 1_000_000 if is_headers else None,
            count=None if is_headers else count,
        )
        total = _records_of(folder)
        line = measured(case, folder, size, total, spark)
        click.echo(line)
        lines.append(line)
        (folder / f"{0:020}.log").unlink()
    if spark is not None:
        spark.stop()
    return "\n".join(lines)


def _records_of(folder: Path) -> int:
    options = options_of({"path": str(folder), "table": "replicas"})
    (task,) = plan(options)
    (batch,) = read(task, options)
    return int(batch.column("log_end")[0].as_py())


@click.command()
@click.option("--megabytes", type=click.IntRange(1), default=MEGABYTES, show_default=True)
@click.option("--records", "count", type=click.IntRange(1_000), default=RECORDS, show_default=True)
@click.option(
    "--spark/--no-spark", "with_spark", default=True, help="Also measure reading through Spark."
)
@folder_option
@document_option
def command(
    megabytes: int, count: int, with_spark: bool, folder: Path | None, document: Path | None
) -> None:
    """Measure the speed of reading logs as tables."""
    load = machine.load()
    try:
        section = None if document is None else Section(document, SECTION)
    except RunFailed as failure:
        raise click.ClickException(str(failure)) from None
    with tempfile.TemporaryDirectory(prefix="bench-", dir=folder) as place:
        table = run(Path(place), megabytes, count, with_spark=with_spark)
    click.echo(table)
    if section is not None:
        argv = f"python -m bench.lag_scan --megabytes {megabytes} --records {count}"
        section.write_run(argv, {**machine.facts(), **load}, table)


if __name__ == "__main__":
    command()
