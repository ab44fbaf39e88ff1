"""The cost of event streams: commits with many clients that watch the leader, beside none.

One cluster, as that of `bench.commits`, takes the same load in turns with and without the clients,
which are in a process of their own. They watch all that the live page shows, at the leader, which
is the worst place. On a machine with few cores the clients themselves take from what the
controllers have; the processor time of the leader for a commit leaves them out.
"""

import asyncio
import json
import random
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import click

from admin.client.admin_client import AdminClient, AdminError
from admin.client.channels import NoResponse
from admin.http.events.resources import OVERVIEW
from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import LocalError, Wanted, settle
from bench import machine
from bench.brokers import Brokers
from bench.commits import BROKER_IDS, claim_partitions
from bench.faults import RunFailed
from bench.isr_connection import IsrConnection, check_patching
from bench.load import Load
from bench.options import folder_option, workplace
from bench.report import Processes, Row, table
from quorum.transport.address import Address

CLIENTS: Final = 500
CLIENTS_MAX: Final = 2_000
OUTSTANDING: Final = 128
ROUNDS: Final = 5
ROUNDS_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class Figures:
    """The rows of each side, one of each round, and the events that all clients received."""

    without: list[Row]
    watched: list[Row]
    events: int


async def measure(folder: Path, clients: int, seconds: float, rounds: int) -> Figures:
    """Measure both sides in turns on one cluster."""
    check_patching()
    plan = settle(folder, Wanted(controllers=3, brokers=0, base_port=0), random.Random())
    settings = {"http.streams.max.per.ip": str(CLIENTS_MAX)}
    async with LocalCluster(folder, plan, settings=settings) as cluster:
        async with AdminClient(cluster.controllers, is_controller=True) as admin:
            leader_id = (await admin.describe_quorum()).leader_id
        (leader,) = [node for node in plan.controllers if node.id == leader_id]
        pids = {node.id: cluster.pid(node.name) or 0 for node in plan.controllers}
        processes = Processes(pids.pop(leader_id), tuple(pids.values()))
        assert leader.http is not None
        brokers = Brokers(leader.kafka, plan.cluster_id)
        await brokers.register(BROKER_IDS)
        claims = await claim_partitions(leader.kafka, brokers, OUTSTANDING)

        async def run() -> Row:
            makes = [partial(IsrConnection, claim) for claim in claims]
            row = await Load(leader.kafka, makes, processes).run(seconds)
            click.echo(table([row]).splitlines()[-1], err=True)
            return row

        found = Figures([], [], 0)
        events = 0
        async with asyncio.TaskGroup() as tasks:
            beating = tasks.create_task(brokers.beat())
            for _ in range(rounds):
                found.without.append(await run())
                async with watching(leader.http, clients) as received:
                    found.watched.append(await run())
                events += received[0]
            beating.cancel()
        await brokers.close()
    return Figures(found.without, found.watched, events)


@asynccontextmanager
async def watching(address: Address, clients: int) -> AsyncIterator[list[int]]:
    """Clients that watch a node; the list has the number of their events after the block."""
    received: list[int] = []
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "bench.stream_watchers", address.host, str(address.port), OVERVIEW, str(clients)),
        stdin=PIPE,
        stdout=PIPE,
    )
    assert process.stdout is not None
    if not await process.stdout.readline():
        raise RunFailed("the clients could not all watch")
    yield received
    output, _ = await process.communicate(b"")
    received.append(json.loads(output)["events"])


@click.command()
@click.option("--clients", type=click.IntRange(1, CLIENTS_MAX), default=CLIENTS, show_default=True)
@click.option("--seconds", type=click.FloatRange(0.1, 600), default=4.0, show_default=True)
@click.option("--rounds", type=click.IntRange(1, ROUNDS_MAX), default=ROUNDS, show_default=True)
@folder_option
def command(clients: int, seconds: float, rounds: int, folder: Path | None) -> None:
    """Measure commits at 128 connections while clients watch the leader, beside none."""
    try:
        machine.check()
        with workplace(folder) as (place, runner):
            found = runner.run(measure(place, clients, seconds, rounds))
    except* (RunFailed, LocalError, AdminError, NoResponse) as failures:
        raise click.ClickException("; ".join(map(str, failures.exceptions))) from None
    click.echo(f"no client\n\n{table(found.without)}\n{clients} clients\n\n{table(found.watched)}")
    click.echo(f"events received: {found.events}")
    for name, of in (
        ("commits/s", lambda row: row.commits_per_second),
        ("leader us/commit", lambda row: row.leader_us),
    ):
        before, after = (median(map(of, rows)) for rows in (found.without, found.watched))
        click.echo(f"{name}, medians: {before:.1f} and {after:.1f}: {after / before:.3f}")


if __name__ == "__main__":
    command()
