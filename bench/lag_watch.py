"""The time from an append until the table of `metaquorum lag watch` shows it.

    python -m bench.lag_watch [--times N] [--write docs/lag.md]

The command runs as a user starts it, on the logs of three replicas. This process writes the logs
with the class that nodes use. It commits each append to all three logs, at moments that do not
depend on the command's polling. The measurement of an append ends when the command's output has a
table that shows it in all three rows.
"""

import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import click

from bench import machine
from bench.faults import RunFailed
from bench.options import document_option, folder_option
from bench.report import Section
from quorum.clocks import wall_ms
from quorum.core.vocabulary import ReplicaId
from quorum.log.segmented_log import SegmentedLog
from quorum.records.control import LeaderChange, encode_leader_change
from quorum.records.encode import encode

SECTION: Final = "lag-watch"
TIMES: Final = 20
REPLICAS: Final = ("1", "2", "3")
WARM_UP: Final = 5
"""The first appends, which are not counted: Java still compiles hot code."""
PAUSE_SECONDS: Final = (0.3, 1.3)
"""The range of the interval between two appends."""
SECONDS_MAX: Final = 300.0
"""The time limit for the command."""
MUST_SECONDS: Final = 5.0
AIM_SECONDS: Final = 2.0


def commit(logs: Sequence[SegmentedLog]) -> int:
    """Append the same record in the first epoch to each log; return their end."""
    end = logs[0].end.offset
    if end:
        made = encode([b"a record of metadata"] * 3, timestamp_ms=wall_ms())
    else:
        voters = tuple(ReplicaId(int(name)) for name in REPLICAS)
        change = LeaderChange(leader=voters[0], voters=voters, granting=voters)
        made = encode_leader_change(change, timestamp_ms=wall_ms())
    for log in logs:
        log.append(_placed(bytes(made), end))
        log.commit(sync=False)
    return logs[0].end.offset


def _placed(made: bytes, base: int) -> bytes:
    return base.to_bytes(8, "big") + made[8:12] + (1).to_bytes(4, "big") + made[16:]


def shown(lines: Iterator[str], end: int) -> None:
    """Read tables until all replicas have this end; raises `RunFailed` if the output ends."""
    there: set[str] = set()
    for line in lines:
        cells = line.split()
        if cells[:1] == ["replica"]:
            there.clear()
        elif len(cells) > 3 and cells[3] == str(end):
            there.add(cells[0])
        if there == set(REPLICAS):
            return
    raise RunFailed("the command ended before it showed the append")


def measured(folder: Path, times: int) -> tuple[float, list[float]]:
    """Return the seconds until the first table, and from each append to its table."""
    chance = random.Random(7)
    with ExitStack() as parts:
        logs = [
            parts.enter_context(closing(SegmentedLog(folder / name, wall_clock=wall_ms)))
            for name in REPLICAS
        ]
        end = commit(logs)
        began = time.perf_counter()
        process = parts.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "admin.cli.main", "lag", "watch", str(folder)],
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        parts.callback(process.terminate)
        guard = threading.Timer(SECONDS_MAX, process.terminate)
        parts.callback(guard.cancel)
        guard.start()
        assert process.stdout is not None
        lines = iter(process.stdout)
        shown(lines, end)
        first_s = time.perf_counter() - began
        found = []
        for _ in range(WARM_UP + times):
            time.sleep(chance.uniform(*PAUSE_SECONDS))  # noqa: TID251
            end = commit(logs)
            began = time.perf_counter()
            shown(lines, end)
            found.append(time.perf_counter() - began)
    return first_s, found[WARM_UP:]


def table(first_s: float, found: list[float]) -> str:
    """The figures, as a table."""
    limits = f"{MUST_SECONDS:.0f} s / {AIM_SECONDS:.0f} s"
    return "\n".join(
        [
            "| what | must / aim | median | worst | best | of |",
            "| --- | --- | --- | --- | --- | --- |",
            f"| from an append to the table | {limits} | {statistics.median(found):.2f} s "
            f"| {max(found):.2f} s | {min(found):.2f} s | {len(found)} |",
            f"| from the start of the command to the first table | – | {first_s:.1f} s | | | 1 |",
        ]
    )


@click.command()
@click.option("--times", type=click.IntRange(1), default=TIMES, show_default=True)
@folder_option
@document_option
def command(times: int, folder: Path | None, document: Path | None) -> None:
    """Measure the time until `metaquorum lag watch` shows an append."""
    try:
        section = None if document is None else Section(document, SECTION)
        load = machine.load()
        with tempfile.TemporaryDirectory(prefix="bench-", dir=folder) as place:
            figures = table(*measured(Path(place), times))
    except RunFailed as failure:
        raise click.ClickException(str(failure)) from None
    click.echo(figures)
    if section is not None:
        section.write_run(
            f"python -m bench.lag_watch --times {times}", {**machine.facts(), **load}, figures
        )


if __name__ == "__main__":
    command()
