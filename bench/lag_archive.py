"""The delay of `metaquorum lag archive` behind the logs, and a report of an archived month.

    python -m bench.lag_archive [--times N] [--commits N] [--write docs/lag.md]

The delay: the command runs as a user starts it, on the logs of three replicas, which this process
writes with the class that nodes use. A measurement ends when the archive has a whole part with the
append in all three logs.

The month: ten nodes with `--commits` commits each, spread over 30 days, are archived, and their
logs deleted. The report is made by the command, from its start until it has written the page.
"""

import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import click
import pyarrow.parquet as pq

from bench import machine
from bench.faults import RunFailed
from bench.lag_logs import VOTERS, write_quorum
from bench.lag_watch import PAUSE_SECONDS, REPLICAS, SECONDS_MAX, WARM_UP, commit
from bench.options import document_option, folder_option
from bench.report import Section
from quorum.clocks import wall_ms
from quorum.log.segmented_log import SegmentedLog

SECTION: Final = "lag-archive"
TIMES: Final = 20
COMMITS: Final = 1_000_000
NODES: Final = 10
MONTH_MS: Final = 30 * 86_400_000
LOOK_SECONDS: Final = 0.02
COMMAND: Final = (sys.executable, "-m", "admin.cli.main", "lag")


class Seen:
    """The ends of the logs in the parts of an archive."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._parts: set[str] = set()
        self._ends: dict[str, int] = {}

    def wait(self, end: int, process: "subprocess.Popen[str]") -> None:
        """Return once all logs are archived up to this end; raises `RunFailed`."""
        until = time.perf_counter() + SECONDS_MAX
        while [self._ends.get(name) for name in REPLICAS] != [end] * len(REPLICAS):
            if process.poll() is not None or time.perf_counter() > until:
                raise RunFailed("the command ended, or did not archive the append")
            time.sleep(LOOK_SECONDS)  # noqa: TID251
            self._look()

    def _look(self) -> None:
        for whole in self._place.glob("parts/part=0-*/_SUCCESS"):
            if whole.parent.name in self._parts:
                continue
            self._parts.add(whole.parent.name)
            for path in whole.parent.rglob("*.parquet"):
                rows = pq.read_table(path, columns=["replica", "last_offset"]).to_pylist()
                for row in rows:
                    ends = self._ends
                    ends[row["replica"]] = max(row["last_offset"] + 1, ends.get(row["replica"], 0))


def delays(folder: Path, times: int) -> list[float]:
    """Return the seconds from each append until it is archived."""
    chance = random.Random(7)
    (folder / "logs").mkdir()
    with ExitStack() as parts:
        logs = [
            parts.enter_context(closing(SegmentedLog(folder / "logs" / name, wall_clock=wall_ms)))
            for name in REPLICAS
        ]
        end = commit(logs)
        process = parts.enter_context(
            subprocess.Popen(
                [*COMMAND, "archive", str(folder / "logs"), "--archive", str(folder / "archive")],
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        parts.callback(process.terminate)
        seen = Seen(folder / "archive")
        seen.wait(end, process)
        found = []
        for _ in range(WARM_UP + times):
            time.sleep(chance.uniform(*PAUSE_SECONDS))  # noqa: TID251
            end = commit(logs)
            began = time.perf_counter()
            seen.wait(end, process)
            found.append(time.perf_counter() - began)
    return found[WARM_UP:]


class Month:
    """The seconds and sizes of the month."""

    def __init__(self, folder: Path, commits: int) -> None:
        logs, place = folder / "logs", folder / "archive"
        logs.mkdir()
        self.log_mb = NODES * write_quorum(
            logs, commits, observers=NODES - len(VOTERS), length_ms=MONTH_MS
        ) / 1e6  # fmt: skip
        self.archive_s = _run("archive", str(logs), "--archive", str(place), "--once")
        self.archive_mb = _mb(place)
        shutil.rmtree(logs)
        self.report_s = _run("report", "--archive", str(place), "--out", str(folder / "out"))


def _run(*arguments: str) -> float:
    began = time.perf_counter()
    done = subprocess.run([*COMMAND, *arguments], stdout=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise RunFailed(f"lag {' '.join(arguments)} ended with {done.returncode}")
    return time.perf_counter() - began


def _mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def _met(value: float, must: float, aim: float) -> str:
    return "aim" if value <= aim else "must" if value <= must else "no"


def table(found: list[float], month: Month, commits: int) -> str:
    """The figures with their targets."""
    of_month = f"{NODES} nodes of {commits:,} commits in 30 days"
    return "\n".join(
        [
            "| what | unit | measured | must | aim | met |",
            "| --- | --- | ---: | ---: | ---: | --- |",
            f"| archive behind the logs, the worst of {len(found)} appends | s | {max(found):.2f} "
            f"| 10 | 3 | {_met(max(found), 10, 3)} |",
            f"| ... the median | s | {statistics.median(found):.2f} | | | |",
            f"| report of an archived month, {of_month} | s | {month.report_s:.1f} "
            f"| 60 | 15 | {_met(month.report_s, 60, 15)} |",
            f"| ... the archiving of it | s | {month.archive_s:.1f} | | | |",
            f"| ... the logs | MB | {month.log_mb:,.0f} | | | |",
            f"| ... the archive | MB | {month.archive_mb:,.0f} | | | |",
        ]
    )


@click.command()
@click.option("--times", type=click.IntRange(1), default=TIMES, show_default=True)
@click.option("--commits", type=click.IntRange(1_000), default=COMMITS, show_default=True)
@folder_option
@document_option
def command(times: int, commits: int, folder: Path | None, document: Path | None) -> None:
    """Measure the archive: its delay, and a report of a month."""
    try:
        section = None if document is None else Section(document, SECTION)
        load = machine.load()
        with tempfile.TemporaryDirectory(prefix="bench-", dir=folder) as place:
            for name in ("delay", "month"):
                (Path(place) / name).mkdir()
            found = delays(Path(place) / "delay", times)
            figures = table(found, Month(Path(place) / "month", commits), commits)
    except RunFailed as failure:
        raise click.ClickException(str(failure)) from None
    click.echo(figures)
    if section is not None:
        argv = f"python -m bench.lag_archive --times {times} --commits {commits}"
        section.write_run(argv, {**machine.facts(), **load}, figures)


if __name__ == "__main__":
    command()
