"""An estimate for a year's logs of 1,000 nodes, read by 100 executors, from measured figures.

    python -m bench.lag_at_scale docs/lag.md [--write docs/lag_scale.md]

This module measures nothing. It reads the figures of two cores from the tables of the document and
multiplies them by the assumptions below; every line names its assumptions. A test compares the page
with the document.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from bench.faults import RunFailed
from bench.options import document_option
from bench.report import Section

SECTION: Final = "lag-at-scale"
NODES: Final = 1_000
DAYS: Final = 365
COMMITS_A_SECOND: Final = 100
EXECUTORS: Final = 100
CORES_AN_EXECUTOR: Final = 2
SEGMENT_MIB: Final = 1_024
INDEX_BYTES: Final = 24
"""The size of the append time of a commit."""
_DAY_S: Final = 86_400
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The measured figures, per core except for memory."""

    headers_mb_s: float
    """MB of log that a core reads per second of processor time, with one record per batch."""
    records_thousand_s: float
    """Thousands of typed records per second likewise."""
    commits: float
    """The commits of the whole report, in each of three replicas,"""
    log_mb: float
    """and the size of one of these logs."""
    row_us: float
    """The cost of a report per commit and replica, where there are many replicas,"""
    shuffled_bytes: float
    """what stages write for each other,"""
    kept_bytes: float
    """and what Spark keeps until the report is done."""
    worker_mb: float
    java_mb: float
    planned: str
    """What was planned: segments and logs,"""
    planned_s: float
    """how long it took,"""
    tasks: float
    """the tasks that it made,"""
    tasks_mb: float
    """and their size in Spark's plan."""

    @property
    def commit_bytes(self) -> float:
        """The size of a commit in the log."""
        return self.log_mb * 1e6 / self.commits


def figures_of(document: Path) -> Figures:
    """The figures in the document's tables; raises `RunFailed` if they are missing."""
    cells = {
        row[0]: row[1:]
        for line in document.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and len(row := _cells(line)) > 1
    }
    report = "whole report, three replicas of "
    names = [name for name in cells if name.startswith(report)]
    if len(names) != 2:
        raise RunFailed(f"{document} has no figures of lag reports: run bench.lag_report first")
    of_row = "a commit more on one of these replicas"
    planning = next((name for name in cells if name.startswith("planning of ")), "planning of ")
    return Figures(
        headers_mb_s=_number(_named(cells, document, "headers, 1 record a batch")[4]),
        records_thousand_s=_number(_named(cells, document, "typed records, 1 a batch")[4]),
        commits=_number(names[0].removeprefix(report).split()[0]),
        row_us=_number(_named(cells, document, of_row)[1]),
        shuffled_bytes=_following(document, of_row),
        kept_bytes=_number(_named(cells, document, "... what Spark keeps of it")[1]),
        log_mb=_number(_named(cells, document, "one log of these commits")[1]),
        worker_mb=_number(_named(cells, document, "memory of a worker at its highest")[1]),
        java_mb=_number(_named(cells, document, "memory of Spark's Java process")[1]),
        planned=planning.removeprefix("planning of ").partition(", processor")[0],
        planned_s=_number(_named(cells, document, planning)[1]),
        tasks=_number(_named(cells, document, "... the tasks that it makes")[1]),
        tasks_mb=_number(_named(cells, document, "... what they are to Spark")[1]),
    )


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _named(cells: Mapping[str, list[str]], document: Path, name: str) -> list[str]:
    found = [row for what, row in cells.items() if what.startswith(name)]
    if len(found) != 1:
        raise RunFailed(f"{document} has {len(found)} figures {name!r}, expected one")
    return found[0]


def _following(document: Path, name: str) -> float:
    """The figure in the line below the one that begins with this name."""
    lines = document.read_text(encoding="utf-8").splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith(f"| {name}"))
    return _number(_cells(lines[at + 1])[2])


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def table(found: Figures) -> str:
    """The page's table."""
    a_day = COMMITS_A_SECOND * _DAY_S
    commits = a_day * DAYS
    log_bytes = commits * found.commit_bytes
    all_bytes = log_bytes * NODES
    cores = EXECUTORS * CORES_AN_EXECUTOR
    segments = all_bytes / (SEGMENT_MIB * _MIB)
    rows = commits * NODES
    scan_s = all_bytes / 1e6 / found.headers_mb_s
    records_s = commits / 1e3 / found.records_thousand_s
    day_rows = a_day * NODES
    shuffled = found.shuffled_bytes
    lines = [
        ("commits of a day", f"{a_day:,}", f"{COMMITS_A_SECOND} a second, one record each"),
        ("a node's log of a day", _bytes(a_day * found.commit_bytes),
         f"{found.commit_bytes:.0f} bytes a commit"),
        ("... and its append times", _bytes(a_day * INDEX_BYTES), f"{INDEX_BYTES} bytes a commit"),
        ("all logs of a year", _bytes(all_bytes), f"{NODES:,} nodes, {DAYS} days"),
        ("rows of `batches`", f"{rows:.3g}", "one a commit and node"),
        (f"segments of {SEGMENT_MIB:,} MiB", f"{segments:,.0f}", "as nodes make them"),
        ("tasks for them", f"{found.tasks:,.0f}", f"measured: {found.planned}"),
        ("... planned by the driver", f"{_time(found.planned_s)}, {_bytes(found.tasks_mb * 1e6)}",
         "measured likewise, files on this machine, one core"),
        ("... each of them reads", _bytes(all_bytes / found.tasks), "of one log"),
        ("headers of the year read once", _time(scan_s / cores),
         f"{found.headers_mb_s:,.0f} MB/s a core, {cores} cores"),
        ("typed records of one copy", _time(records_s / cores),
         f"{found.records_thousand_s:,.0f} thousand/s a core"),
        ("whole report of the year", _time(rows * found.row_us / 1e6 / cores),
         f"{found.row_us:.3g} µs a commit and node, {cores} cores"),
        ("... what stages write for each other", _bytes(rows * shuffled),
         f"{shuffled:.2g} bytes a commit and node"),
        ("... what Spark keeps until it is done", _bytes(rows * found.kept_bytes),
         f"{found.kept_bytes:.2g} bytes a commit and node"),
        ("... of it on each executor", _bytes(rows * found.kept_bytes / EXECUTORS),
         f"{EXECUTORS} executors"),
        ("whole report of one day", _time(day_rows * found.row_us / 1e6 / cores),
         "of all nodes, `--since` and `--until`"),
        ("... what stages write for each other", _bytes(day_rows * shuffled), "likewise"),
        ("... what Spark keeps until it is done", _bytes(day_rows * found.kept_bytes), "likewise"),
        ("memory of an executor", _bytes(1e6 * (found.java_mb + CORES_AN_EXECUTOR
         * found.worker_mb)), f"Java {found.java_mb:,.0f} MB, {CORES_AN_EXECUTOR} workers of "
         f"{found.worker_mb:,.0f} MB"),
    ]  # fmt: skip
    head = ["| what | comes to | because |", "| --- | ---: | --- |"]
    return "\n".join([*head, *(f"| {what} | {value} | {why} |" for what, value, why in lines)])


def _bytes(value: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if value < 1_000 or unit == "TB":
            break
        value /= 1_000
    return f"{value:,.3g} {unit}"


def _time(seconds: float) -> str:
    for unit, size in (("days", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.3g} {unit}"
    return f"{seconds:,.3g} s"


@click.command()
@click.argument(
    "figures", type=click.Path(path_type=Path, dir_okay=False, exists=True), metavar="DOCUMENT"
)
@document_option
def command(figures: Path, document: Path | None) -> None:
    """Estimate the cost of reports on a year's logs of 1,000 nodes."""
    try:
        section = None if document is None else Section(document, SECTION)
        found = table(figures_of(figures))
    except RunFailed as failure:
        raise click.ClickException(str(failure)) from None
    click.echo(found)
    if section is not None:
        section.write(f"{found}\n")


if __name__ == "__main__":
    command()
