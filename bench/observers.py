"""The cost of observers: commits while brokers follow the log of the leader, beside none.

One cluster, as that of `bench.commits`, takes the same load in turns without observers and with so
many. They are as light as possible (`bench.light_observers`), in a few processes of their own. On a
machine with few cores they still take from what the controllers have; the processor time of the
leader for a commit leaves them out. The lag is the time from the append of a record at the leader
to its arrival, for the oldest record of each answer: that of all records is shorter.
"""

import asyncio
import json
import random
import resource
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import click

from admin.client.admin_client import AdminClient, AdminError
from admin.client.channels import NoResponse
from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import LocalError, Wanted, settle
from bench import machine
from bench.brokers import Brokers
from bench.commits import BROKER_IDS, claim_partitions
from bench.faults import RunFailed
from bench.isr_connection import IsrConnection, check_patching
from bench.light_observers import FIRST_ID
from bench.load import Load
from bench.options import document_option, folder_option, workplace
from bench.report import Processes, Row, Section
from quorum.transport.address import Address

OBSERVERS: Final = (100, 300, 1_000)
OBSERVERS_MAX: Final = 2_000
OUTSTANDING: Final = 128
PROCESSES: Final = 2
ROUNDS: Final = 3
ROUNDS_MAX: Final = 50
SECTION: Final = "observers"
_DESCRIPTORS: Final = 512
"""File descriptors of a node besides those of observers."""


@dataclass(slots=True)
class Watched:
    """The answers that observers received during one run."""

    answers: int = 0
    bytes: int = 0
    lags: Counter[int] | None = None
    """The answers with records by their lag in milliseconds."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the load, and what the observers received meanwhile."""

    row: Row
    watched: Watched


Figures = dict[int, list[Run]]
"""The runs by the number of observers; those without observers are under 0."""


async def measure(folder: Path, counts: Sequence[int], seconds: float, rounds: int) -> Figures:
    """Measure without observers and with so many, in turns on one cluster."""
    check_patching()
    plan = settle(folder, Wanted(controllers=3, brokers=0, base_port=0), random.Random())
    async with LocalCluster(folder, plan) as cluster:
        async with AdminClient(cluster.controllers, is_controller=True) as admin:
            leader_id = (await admin.describe_quorum()).leader_id
        (leader,) = [node for node in plan.controllers if node.id == leader_id]
        pids = {node.id: cluster.pid(node.name) or 0 for node in plan.controllers}
        click.echo(f"controllers are processes {pids}, {leader_id} leads", err=True)
        processes = Processes(pids.pop(leader_id), tuple(pids.values()))
        brokers = Brokers(leader.kafka, plan.cluster_id)
        await brokers.register(BROKER_IDS)
        claims = await claim_partitions(leader.kafka, brokers, OUTSTANDING)
        figures: Figures = {count: [] for count in (0, *counts)}
        async with asyncio.TaskGroup() as tasks:
            beating = tasks.create_task(brokers.beat())
            for count in tuple(figures) * rounds:
                async with observing(leader.kafka, plan.cluster_id, count) as watched:
                    makes = [partial(IsrConnection, claim) for claim in claims]
                    row = await Load(leader.kafka, makes, processes).run(seconds)
                figures[count].append(Run(row, watched))
                click.echo(table({count: figures[count][-1:]}).splitlines()[-1], err=True)
            beating.cancel()
        await brokers.close()
    return figures


@asynccontextmanager
async def observing(leader: Address, cluster_id: str, count: int) -> AsyncIterator[Watched]:
    """Observers of the leader; the value has what they received after the block."""
    watched = Watched()
    async with AdminClient([leader], is_controller=True) as admin:
        quorum = await admin.describe_quorum()
    processes = []
    for number in range(PROCESSES if count else 0):
        begin, end = (count * each // PROCESSES for each in (number, number + 1))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "bench.light_observers", leader.host, str(leader.port), cluster_id),
            *map(str, (quorum.leader_epoch, quorum.high_watermark)),
            *map(str, (FIRST_ID + begin, end - begin)),
            stdin=PIPE,
            stdout=PIPE,
        )
        processes.append(process)
    for process in processes:
        assert process.stdout is not None
        if not await process.stdout.readline():
            raise RunFailed("the observers could not all fetch")
    yield watched
    for process in processes:
        await _collect(process, watched)


async def _collect(process: Process, watched: Watched) -> None:
    output, _ = await process.communicate(b"\n")
    if process.returncode:
        raise RunFailed("observers failed; their process has said why")
    found = json.loads(output)
    watched.answers += found["answers"]
    watched.bytes += found["bytes"]
    lags = Counter({int(ms): count for ms, count in found["lags"].items()})
    watched.lags = lags if watched.lags is None else watched.lags + lags


def percentile(lags: Counter[int], percent: float) -> int:
    """The least lag that `percent` of the answers do not exceed."""
    left = lags.total() * percent / 100
    for ms in sorted(lags):
        left -= lags[ms]
        if left <= 0:
            return ms
    return max(lags, default=0)


def table(figures: Figures) -> str:
    """One line for each number of observers: medians of its runs."""
    lines = [
        "| observers | commits/s | to none | p50 ms | p99 ms | µs of leader | leader | followers "
        "| client | others | lag p50 ms | lag p99 ms |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    alone = [run.row.commits_per_second for run in figures.get(0, ())]
    for count, runs in figures.items():
        rows = [run.row for run in runs]
        lags = Counter[int]()
        for run in runs:
            lags += run.watched.lags or Counter()
        commits = median(row.commits_per_second for row in rows)
        ratio = f"{commits / median(alone):.2f}" if alone and count else ""
        shown = (percentile(lags, 50), percentile(lags, 99)) if lags else ("", "")
        lines.append(
            f"| {count:,} | {commits:,.0f} | {ratio} "
            f"| {median(row.p50_ms for row in rows):.2f} "
            f"| {median(row.p99_ms for row in rows):.2f} "
            f"| {median(row.leader_us for row in rows):.0f} "
            f"| {median(row.leader for row in rows):.2f} "
            f"| {median(row.followers for row in rows):.2f} "
            f"| {median(row.client for row in rows):.2f} "
            f"| {median(row.others for row in rows):.2f} | {shown[0]} | {shown[1]} |"
        )
    return "\n".join(lines)


def allow_descriptors(count: int) -> None:
    """Let this process and its children open so many files and connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise RunFailed(f"{count} file descriptors are needed, the limit is {hard} (ulimit -Hn)")
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


@click.command()
@click.option(
    "--observers",
    type=click.IntRange(1, OBSERVERS_MAX),
    multiple=True,
    default=OBSERVERS,
    show_default=True,
    help="How many observe; repeatable.",
)
@click.option("--seconds", type=click.FloatRange(0.1, 600), default=4.0, show_default=True)
@click.option("--rounds", type=click.IntRange(1, ROUNDS_MAX), default=ROUNDS, show_default=True)
@folder_option
@document_option
def command(
    observers: tuple[int, ...],
    seconds: float,
    rounds: int,
    folder: Path | None,
    document: Path | None,
) -> None:
    """Measure commits at 128 connections while observers follow the leader, beside none."""
    section = None if document is None else Section(document, SECTION)
    try:
        machine.check()
        allow_descriptors(2 * max(observers) + _DESCRIPTORS)
        with workplace(folder) as (place, runner):
            shown = table(runner.run(measure(place, observers, seconds, rounds)))
    except* (RunFailed, LocalError, AdminError, NoResponse) as failures:
        raise click.ClickException("; ".join(map(str, failures.exceptions))) from None
    if section is None:
        click.echo(shown)
    else:
        line = f"python -m bench.observers --seconds {seconds:g} --rounds {rounds}"
        section.write_run(line, machine.facts(), shown)


if __name__ == "__main__":
    command()
