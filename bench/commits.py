"""Commits per second of three controllers, and their latency.

Three controller processes run on this machine, each with its own folder and with fsync, with three
registered brokers and one topic. Each connection acts as the leader of one partition and repeatedly
removes a member from its ISR and adds it again. Each AlterPartition request writes one record,
which a majority has on disk before the response. At the end, the state of every controller is
compared with the last responses.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import click

from admin.client.admin_client import AdminClient, AdminError
from admin.client.channels import NoResponse
from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import LocalError, Wanted, settle
from bench import agreement, machine
from bench.brokers import Brokers
from bench.faults import RunFailed
from bench.isr_connection import Claim, IsrConnection, check_patching
from bench.load import Load
from bench.options import document_option, folder_option, workplace
from bench.report import Processes, Row, Section, table
from quorum.transport.address import Address
from quorum.transport.security.protocols import PLAIN_CLIENT, ClientSecurity

TOPIC: Final = "bench"
BROKER_IDS: Final = (101, 102, 103)
OUTSTANDING: Final = (1, 16, 128)
OUTSTANDING_MAX: Final = 1_000
SECONDS: Final = 10.0
RUNS_MAX: Final = 100
SECTION: Final = "commits"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The loads to measure, and the number and duration of their runs."""

    loads: Sequence[int]
    seconds: float
    best_of: int

    def __str__(self) -> str:
        loads = [f" --outstanding {each}" for each in self.loads if self.loads != OUTSTANDING]
        best_of = "" if self.best_of == 1 else f" --best-of {self.best_of}"
        return f"python -m bench.commits --seconds {self.seconds:g}{best_of}{''.join(loads)}"


async def measure(cluster: LocalCluster, options: RunOptions) -> tuple[dict[str, str], list[Row]]:
    """Return facts about the machine, and a row for each number of outstanding requests."""
    plan = cluster.plan
    security = cluster.config.security
    async with AdminClient(cluster.controllers, is_controller=True, security=security) as admin:
        leader_id = (await admin.describe_quorum()).leader_id
    (leader,) = [node for node in plan.controllers if node.id == leader_id]
    pids = {node.id: cluster.pid(node.name) or 0 for node in plan.controllers}
    click.echo(f"controllers are processes {pids}, {leader_id} leads", err=True)
    processes = Processes(pids.pop(leader_id), tuple(pids.values()))
    p50_ms, p99_ms = machine.fdatasync_ms(cluster.folder)
    disk = f"{p50_ms:.2f} ms median, {p99_ms:.2f} ms p99, before the load"
    brokers = Brokers(leader.kafka, plan.cluster_id, security)
    await brokers.register(BROKER_IDS)
    claims = await claim_partitions(leader.kafka, brokers, max(options.loads), security)
    rows = []
    async with asyncio.TaskGroup() as tasks:
        beating = tasks.create_task(brokers.beat())
        for outstanding in options.loads:
            runs = []
            for _ in range(options.best_of):
                makes = [partial(IsrConnection, claim) for claim in claims[:outstanding]]
                load = Load(leader.kafka, makes, processes, security.tls)
                runs.append(await load.run(options.seconds))
                click.echo(table(runs[-1:]).splitlines()[-1], err=True)
            rows.append(min(runs, key=lambda row: row.others))
        await agreement.check(TOPIC, cluster.controllers, leader.kafka, claims, security)
        beating.cancel()
    await brokers.close()
    return {**machine.facts(), "fdatasync of 250 bytes": disk}, rows


async def claim_partitions(
    leader: Address, brokers: Brokers, count: int, security: ClientSecurity = PLAIN_CLIENT
) -> list[Claim]:
    """Create the topic with leaders on all brokers, and return a claim for each partition."""
    # Only the leader: another node may not have applied the record of the topic yet.
    async with AdminClient([leader], is_controller=True, security=security) as admin:
        await admin.create_topic(TOPIC, assignments=turns_of(count))
        topic = (await admin.describe_topics([TOPIC]))[TOPIC]
    if topic.topic_id is None:
        raise RunFailed("the response of the controllers has no topic id")
    return [
        Claim(
            number=found.partition,
            topic_id=topic.topic_id,
            replicas=tuple(found.replicas),
            broker_epochs=brokers.epochs,
            leader_epoch=found.leader_epoch,
            isr=tuple(found.isr),
        )
        for found in topic.partitions
    ]


def turns_of(count: int) -> dict[int, tuple[int, ...]]:
    """The replicas of `count` partitions, with leaders on all brokers."""
    turns = [BROKER_IDS[at:] + BROKER_IDS[:at] for at in range(len(BROKER_IDS))]
    return {number: turns[number % len(turns)] for number in range(count)}


async def run(folder: Path, options: RunOptions) -> tuple[dict[str, str], list[Row]]:
    """Run `measure` on a new cluster in `folder`."""
    check_patching()
    plan = settle(folder, Wanted(controllers=3, brokers=0, base_port=0), random.Random())
    async with LocalCluster(folder, plan) as cluster:
        return await measure(cluster, options)


def section_name() -> str:
    """The name of the document section: compiled and interpreted modules have separate ones."""
    return SECTION if machine.is_compiled() else f"{SECTION}-interpreted"


@click.command()
@click.option("--seconds", type=click.FloatRange(0.1, 600), default=SECONDS, show_default=True)
@click.option(
    "--outstanding",
    type=click.IntRange(1, OUTSTANDING_MAX),
    multiple=True,
    default=OUTSTANDING,
    show_default=True,
    help="Requests in flight, each on its own connection; repeatable.",
)
@click.option(
    "--best-of",
    type=click.IntRange(1, RUNS_MAX),
    default=1,
    show_default=True,
    help="Runs of each load; the one least disturbed by other processes is shown.",
)
@folder_option
@document_option
def command(
    seconds: float,
    outstanding: tuple[int, ...],
    best_of: int,
    folder: Path | None,
    document: Path | None,
) -> None:
    """Measure commits of three controllers on this machine."""
    options = RunOptions(outstanding, seconds, best_of)
    try:
        machine.check()
        section = None if document is None else Section(document, section_name())
        with workplace(folder) as (place, runner):
            facts, rows = runner.run(run(place, options))
    except* (RunFailed, LocalError, AdminError, NoResponse) as failures:
        raise click.ClickException("; ".join(map(str, failures.exceptions))) from None
    if section is None:
        click.echo(table(rows))
    else:
        section.write_run(str(options), facts, table(rows))


if __name__ == "__main__":
    command()
