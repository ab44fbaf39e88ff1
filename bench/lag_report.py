"""The cost of a whole lag report: seconds, growth with the log and with cores, memory.

    python -m bench.lag_report [--commits N] [--write docs/lag.md]

Each measurement makes a report of the logs of three voters (`bench.lag_logs`) with the code of
`metaquorum lag report`, up to the rows of all tables, in a new process with a new Spark session.
The clock starts once Spark has started. Further measurements have eight times the commits, or one
task at a time: either with a second core for Spark's own threads and the Python worker, or with
everything on one core. Files are read from the page cache; a million commits take 3.5 GB. Processor
time is that of the command, of Java and of all workers, so other load on the machine is not part of
it.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from bench import machine
from bench.faults import RunFailed
from bench.lag_logs import VOTERS, write_quorum
from bench.options import document_option, folder_option
from bench.process_tree import Watch, below
from bench.report import Section
from lag.progress import Steps
from lag.request import ReportRequest
from lag.runner import collect
from lag.session import spark_session

SECTION: Final = "lag-report"
COMMITS: Final = 1_000_000
GROWS: Final = 8


class Report(msgspec.Struct, kw_only=True):
    """The measurements of one report, by the process that made it."""

    commits: int
    master: str
    cores: int
    """The number of cores that it may use."""
    starts_s: float
    """Time until Spark has started."""
    seconds: float
    cpu_s: float
    """Processor time within these."""
    java_mb: float
    """Peak resident memory of Spark's Java process, which is driver, executor and cache in one."""
    worker_mb: float
    """Peak resident memory of any Python worker."""
    shuffled_mb: float
    """The shuffled bytes: those that its stages wrote for each other."""
    rows: int
    """The number of rows in all tables."""


class Line(msgspec.Struct):
    """One line of the table."""

    what: str
    unit: str
    value: float
    must: float | None = None
    aim: float | None = None
    is_least: bool = False
    """True if a larger value is better."""

    def met(self) -> str:
        """The better target that was met: `aim`, `must`, or neither."""
        if self.must is None or self.aim is None:
            return ""
        sign = -1 if self.is_least else 1
        if sign * self.value <= sign * self.aim:
            return "aim"
        return "must" if sign * self.value <= sign * self.must else "no"


def lines(whole: Report, large: Report, alone: Report, bound: Report, log_mb: float) -> list[Line]:
    """The lines for four reports: all logs, logs eight times as long, local[1], one core."""
    few, many = f"{whole.commits:,}", f"{large.commits:,}"
    return [
        Line(f"whole report, three replicas of {few} commits", "s", whole.seconds, 20, 12),
        Line("... processor time of it", "s", whole.cpu_s),
        Line("... before it, Spark's start", "s", whole.starts_s),
        Line(f"whole report, three replicas of {many} commits", "s", large.seconds),
        Line("... processor time of it", "s", large.cpu_s),
        Line(f"growth from {few} to {many} commits", "x", large.seconds / whole.seconds, 8.8, 8),
        Line("whole report on `local[1]`", "s", alone.seconds),
        Line("... processor time of it", "s", alone.cpu_s),
        Line("from `local[1]` to `local[2]`", "x", alone.seconds / whole.seconds),
        Line("whole report on `local[1]`, all of it on one core", "s", bound.seconds),
        Line("from one core to two", "x", bound.seconds / whole.seconds, 1.5, 1.8, True),
        Line(f"memory of a worker at its highest, {many} commits", "MB", large.worker_mb, 1e3, 512),
        Line(f"... {few} commits", "MB", whole.worker_mb),
        Line(f"memory of Spark's Java process at its highest, {many} commits", "MB", large.java_mb),
        Line(f"... {few} commits", "MB", whole.java_mb),
        Line("written by stages for each other", "MB", whole.shuffled_mb),
        Line("one log of these commits", "MB", log_mb),
    ]


def table(found: list[Line]) -> str:
    """All lines with their targets."""
    head = [
        "| what | unit | measured | must | aim | met |",
        "| --- | --- | ---: | ---: | ---: | --- |",
    ]
    return "\n".join(
        [
            *head,
            *(
                f"| {line.what} | {line.unit} | {_shown(line.value)} | {_shown(line.must)} "
                f"| {_shown(line.aim)} | {line.met()} |"
                for line in found
            ),
        ]
    )


def _shown(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def one(folder: Path, commits: int, master: str) -> Report:
    """Make one report, in this process."""
    asked = ReportRequest(paths=(str(folder),))
    began = time.perf_counter()
    with Watch() as watch, spark_session(master) as spark:
        started, used = time.perf_counter(), _cpu_seconds()
        results = collect(spark, asked, Steps(None))
        ended, used_then = time.perf_counter(), _cpu_seconds()
        store: Any = spark.sparkContext._jsc.sc().statusStore()
        executors = store.executorList(False)
        shuffled = sum(executors.apply(at).totalShuffleWrite() for at in range(executors.size()))
        watch.look()
    return Report(
        commits=commits,
        master=master,
        cores=len(os.sched_getaffinity(0)),
        starts_s=started - began,
        seconds=ended - started,
        cpu_s=used_then - used,
        java_mb=watch.highest("java"),
        worker_mb=watch.highest("python"),
        shuffled_mb=shuffled / 1e6,
        rows=sum(len(rows) for rows in results.tables.values()),
    )


def _cpu_seconds() -> float:
    return time.process_time() + sum(process.seconds for process in below(os.getpid()))


def measured(folder: Path, commits: int, master: str, *, is_bound: bool = False) -> Report:
    """Make one report in a new process; with `is_bound`, all its processes share one core."""
    argv = [sys.executable, "-m", "bench.lag_report", "--commits", str(commits)]
    argv += ["--of", str(folder), "--master", master, *(["--bound"] if is_bound else [])]
    click.echo(f"{commits:,} commits on {master}{' and one core' if is_bound else ''}", err=True)
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise RunFailed(f"{' '.join(argv)} ended with {done.returncode}")
    found = msgspec.json.decode(done.stdout, type=Report)
    click.echo(f"  {found.seconds:.1f} s, {found.cpu_s:.1f} s of processor time", err=True)
    return found


def run(place: Path, commits: int) -> str:
    """Write the logs and measure; the table."""
    once, often = place / "once", place / "often"
    for folder in (once, often):
        folder.mkdir()
    log_mb = write_quorum(once, commits) / 1e6
    click.echo(f"{len(VOTERS)} logs of {commits:,} commits, {log_mb:,.0f} MB each", err=True)
    whole = measured(once, commits, "local[2]")
    alone = measured(once, commits, "local[1]")
    bound = measured(once, commits, "local[1]", is_bound=True)
    write_quorum(often, commits * GROWS)
    large = measured(often, commits * GROWS, "local[2]")
    return table(lines(whole, large, alone, bound, log_mb))


@click.command()
@click.option("--commits", type=click.IntRange(1_000), default=COMMITS, show_default=True)
@click.option(
    "--of",
    "made",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Only make the report of these logs, and print the measurements as JSON.",
    hidden=True,
)
@click.option("--master", default="local[2]", hidden=True)
@click.option("--bound", "is_bound", is_flag=True, hidden=True)
@folder_option
@document_option
def command(
    commits: int,
    made: Path | None,
    master: str,
    is_bound: bool,
    folder: Path | None,
    document: Path | None,
) -> None:
    """Measure the cost of a whole lag report."""
    if made is not None:
        if is_bound:
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        click.echo(msgspec.json.encode(one(made, commits, master)))
        return
    try:
        machine.check()
        load = machine.load()
        section = None if document is None else Section(document, SECTION)
        with tempfile.TemporaryDirectory(prefix="bench-", dir=folder) as place:
            found = run(Path(place), commits)
    except RunFailed as failure:
        raise click.ClickException(str(failure)) from None
    click.echo(found)
    if section is not None:
        argv = f"python -m bench.lag_report --commits {commits}"
        section.write_run(argv, {**machine.facts(), **load}, found)


if __name__ == "__main__":
    command()
