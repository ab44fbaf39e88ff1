"""The longest pause of writes while three controllers are upgraded one by one, and go back.

The cluster begins with the code of a past commit (`bench.past_tree`), or with `--same` with this
one. Each node is restarted as docs/upgrading.md has it: the lead is given away first, and the next
restart waits until `metaquorum upgrade check` finds it safe. Meanwhile clients create topics, each
one after the other.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from msgspec.structs import replace

from admin.capabilities.quorum import TransferLead
from admin.client.admin_client import AdminClient
from admin.client.upgrade_facts import upgrade_facts
from admin.client.upgrade_rules import UpgradeReport, judge, order
from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import Wanted, settle
from bench import machine
from bench.faults import RunFailed
from bench.options import folder_option, workplace
from bench.past_tree import NoHistory, past_tree
from quorum.transport.address import Address
from quorum.version import VERSION
from tests.process.change_load import Load, now
from tests.process.controller_processes import SILENCE_MS
from tests.support.broker_requests import joined
from tests.support.kafka_client import kafka_client

WRITERS: Final = 8
INTERVAL_SECONDS: Final = 0.02
"""Each of them writes so often, at most: nodes that start need a part of the processors."""
BETWEEN: Final = 100
"""Writes that are acknowledged between two restarts, at least."""
MUST_MS: Final = 500
ASK_MS: Final = 500
"""The time for one node to answer: the broker of the load never does."""
AIM_MS: Final = 200


def connect(address: Address, is_controller: bool) -> AdminClient:
    """Return a client of one node."""
    return AdminClient([address], is_controller=is_controller, timeout_ms=ASK_MS)


async def report(client: AdminClient) -> UpgradeReport:
    """Return the report of `metaquorum upgrade check`, once the next step is safe.

    The broker of the load is only registered and runs nowhere, so it is left out.
    """
    while True:
        facts = await upgrade_facts(client, connect, VERSION)
        controllers = [each for each in facts.nodes if each.role == "controller"]
        found = judge(replace(facts, nodes=controllers))
        if found.safe:
            return found


async def restart(
    cluster: LocalCluster, client: AdminClient, load: Load, node_id: int, tree: Path | None
) -> float:
    """Restart a node on a tree, None for this one; return the longest pause meanwhile, in ms."""
    name = f"controller-{node_id}"
    since = now()
    if (await client.describe_quorum()).leader_id == node_id:
        await client.ask(TransferLead())
    if not await cluster.stop_node(name):
        raise RunFailed(f"{name} did not stop, and was killed")
    if tree is None:
        cluster.trees.pop(name, None)
    else:
        cluster.trees[name] = tree
    await cluster.restart(name)
    await report(client)
    until = now()
    await load.acknowledge(BETWEEN)
    return load.pause_ms(since, until)


async def paced(begun: float) -> None:
    """Let a client write once in each interval at most."""
    await asyncio.sleep(max(0.0, begun + INTERVAL_SECONDS - now()))


@dataclass(frozen=True, slots=True)
class Restart:
    """One restart, with the longest pause of writes around it."""

    name: str
    pause_ms: float


async def roll(folder: Path, tree: Path | None, rounds: int) -> tuple[list[Restart], list[float]]:
    """Roll the cluster forward and back; return each restart, and the seconds of all writes."""
    wanted = Wanted(controllers=3, brokers=0, base_port=0)
    plan = settle(folder / "cluster", wanted, random.Random(str(folder)))
    settings = {"broker.session.timeout.ms": str(SILENCE_MS)}
    cluster = LocalCluster(folder / "cluster", plan, settings=settings)
    if tree is not None:
        cluster.trees = dict.fromkeys([each.name for each in plan.nodes], tree)
    load, found = Load(), []
    async with cluster, AdminClient(cluster.controllers, is_controller=True) as client:
        leader = (await client.describe_quorum()).leader_id
        address = next(each.kafka for each in plan.controllers if each.id == leader)
        async with kafka_client(address) as broker:
            await joined(broker, 101, plan.cluster_id)
        async with asyncio.TaskGroup() as tasks:
            writing = [
                tasks.create_task(load.write(cluster, each, paced)) for each in range(WRITERS)
            ]
            await load.acknowledge(BETWEEN)
            for _ in range(rounds):
                for way, to in (("forward", None), ("back", tree)):
                    for node in order((await report(client)).nodes):
                        pause = await restart(cluster, client, load, node.id, to)
                        found.append(Restart(f"{way}, {node.name}", pause))
                        click.echo(f"{found[-1].name}: {pause:.0f} ms", err=True)
            for task in writing:
                task.cancel()
    return found, load.latencies


def table(found: Sequence[Restart], latencies: Sequence[float]) -> str:
    """Return the figures as rows."""
    pauses = sorted(each.pause_ms for each in found)
    worst = pauses[-1]
    verdict = (
        "aim reached" if worst <= AIM_MS else "good enough" if worst <= MUST_MS else "TOO LONG"
    )
    return "\n".join(
        (
            "| what | ms |",
            "| --- | --- |",
            f"| restarts | {len(found)} |",
            f"| pause of writes, median of the restarts | {pauses[len(pauses) // 2]:.0f} |",
            f"| pause of writes, longest: {verdict} ({MUST_MS}, {AIM_MS}) | {worst:.0f} |",
            f"| a single write, longest of {len(latencies)} | {1_000 * max(latencies):.0f} |",
        )
    )


@click.command()
@click.option("--rounds", type=click.IntRange(1, 100), default=3, show_default=True)
@click.option("--same", is_flag=True, help="Restart on the same code, without a past commit.")
@folder_option
def command(rounds: int, same: bool, folder: Path | None) -> None:
    """Measure the pauses of writes of rolling upgrades."""
    try:
        machine.check()
        with workplace(folder) as (place, runner):
            tree = None if same else past_tree(place / "past")
            found, latencies = runner.run(roll(place, tree, rounds))
    except* (NoHistory, RunFailed) as failures:
        raise click.ClickException("; ".join(map(str, failures.exceptions))) from None
    click.echo(table(found, latencies))


if __name__ == "__main__":
    command()
