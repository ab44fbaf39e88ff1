"""The cost of lag reports where there are many replicas, and of planning to read many segments.

    python -m bench.lag_many [--commits N] [--write docs/lag.md]

What a commit more costs on each of many replicas is the difference of two reports with 256
replicas, in which chunks of offsets are as small as with 1,000 (`lag.source.batches`): the fixed
cost of a report, and of each replica, is in both. Three replicas are the voters of
`bench.lag_logs`; the others are observers, whose files are links to those of a voter. The planning
of a read is measured with as many segments as a year of 1,000 nodes has; they are empty.
"""

import tempfile
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from bench import machine
from bench.faults import RunFailed
from bench.lag_logs import add_observers, write_quorum
from bench.lag_report import Line, Report, measured, table
from bench.options import document_option, folder_option
from bench.report import Section
from lag.source.batches import CHUNK_OFFSETS_MIN, CHUNK_ROWS, chunk_offsets
from lag.source.folders import METADATA
from lag.source.options import options_of
from lag.source.planner import plan
from lag.source.reader import read
from quorum.core.limits import SEGMENT_BYTES_MAX

SECTION: Final = "lag-many"
COMMITS: Final = 25_000
GROWS: Final = 4
REPLICAS: Final = 256
LOGS: Final = 1_000
SEGMENTS: Final = 317
"""The segments of a node's log of a year, at 100 commits a second."""

assert CHUNK_ROWS // REPLICAS <= CHUNK_OFFSETS_MIN


class Planned(NamedTuple):
    """The cost of dividing logs into tasks, before they are read."""

    logs: int
    segments: int
    tasks: int
    seconds: float
    """Processor time, including the serialization of the tasks for Spark."""
    bytes: int
    """The size of the serialized tasks."""


def lines(
    few: Report, many: Report, replicas: int, kept_bytes: float, planned: Planned
) -> list[Line]:
    """The lines of two reports with so many replicas, and of planning."""
    rows = (many.commits - few.commits) * replicas
    cpu_s, shuffled_mb = many.cpu_s - few.cpu_s, many.shuffled_mb - few.shuffled_mb
    segments = f"{planned.segments:,} segments in {planned.logs:,} logs"
    return [
        Line(f"whole report, {replicas} replicas of {few.commits:,} commits", "s", few.seconds),
        Line("... processor time of it", "s", few.cpu_s),
        Line(f"whole report, {replicas} replicas of {many.commits:,} commits", "s", many.seconds),
        Line("... processor time of it", "s", many.cpu_s),
        Line("a commit more on one of these replicas, processor time", "µs", cpu_s / rows * 1e6),
        Line("... what stages write for each other", "bytes", shuffled_mb / rows * 1e6),
        Line("... what Spark keeps of it until the report is done", "bytes", kept_bytes),
        Line(f"planning of {segments}, processor time", "s", planned.seconds),
        Line("... the tasks that it makes", "", planned.tasks),
        Line("... what they are to Spark", "MB", planned.bytes / 1e6),
    ]


def kept(folder: Path, commits: int) -> float:
    """The bytes of the packs of a log, for each of its commits."""
    chunk = str(chunk_offsets(REPLICAS))
    options = options_of({"path": str(folder), "table": "walk", "chunk_offsets": chunk})
    packs = (
        len(pack.as_buffer())
        for task in plan(options)
        for batch in read(task, options)
        for pack in batch["rows"]
        if pack.is_valid
    )
    return sum(packs) / commits


def planning(place: Path, logs: int = LOGS, segments: int = SEGMENTS) -> Planned:
    """Plan the reading of empty (sparse) segments of the size that the product uses."""
    for number in range(logs):
        log = place / f"c{number}" / METADATA
        log.mkdir(parents=True)
        meta = f"version=1\nnode.id={number}\ncluster.id=bench\n"
        (log.parent / "meta.properties").write_text(meta, encoding="utf-8")
        for at in range(segments):
            with (log / f"{at * 10_000_000:020}.log").open("wb") as file:
                file.truncate(SEGMENT_BYTES_MAX)
    from pyspark.serializers import CPickleSerializer
    from pyspark.sql.datasource import InputPartition

    dumps: Any = CPickleSerializer().dumps
    options = options_of({"path": str(place)})
    began = time.process_time()
    # Spark's own planning worker serializes them one by one as well.
    sizes = [len(dumps(InputPartition(task))) for task in plan(options)]
    seconds = time.process_time() - began
    return Planned(logs, logs * segments, len(sizes), seconds, sum(sizes))


def run(place: Path, commits: int) -> str:
    """Write the logs and measure; the table."""
    reports = []
    for count in (commits, commits * GROWS):
        folder = place / str(count)
        folder.mkdir()
        write_quorum(folder, count)
        add_observers(folder, REPLICAS)
        reports.append(measured(folder, count, "local[2]"))
    few, many = reports
    kept_bytes = kept(folder / "c1", many.commits)
    return table(lines(few, many, REPLICAS, kept_bytes, planning(place / "planned")))


@click.command()
@click.option("--commits", type=click.IntRange(1_000), default=COMMITS, show_default=True)
@folder_option
@document_option
def command(commits: int, folder: Path | None, document: Path | None) -> None:
    """Measure lag reports on many replicas, and the planning of a large read."""
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
        argv = f"python -m bench.lag_many --commits {commits}"
        section.write_run(argv, {**machine.facts(), **load}, found)


if __name__ == "__main__":
    command()
