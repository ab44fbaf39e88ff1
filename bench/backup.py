"""Backup and restore of a very large cluster: their times, and the cost to running commits.

    python -m bench.backup [--partitions N] [--seconds S] [--write docs/performance.md]

A snapshot of many partitions is backed up from a folder, and three controllers are restored from
that backup, by the commands of the product. The clock of the restore runs from the start of the
command to the first commit of the new controllers, whose start it includes. Then backups of the
running cluster are taken, one after the other, at rest and while the connections of `bench.commits`
change ISRs. The rounds with and without backups alternate. The backup runs on the same machine, at
the lowest priority: elsewhere it would take no processor time of the controllers. What it takes of
the leader itself, wherever it runs, is the leader's processor time during the backup at rest.
"""

import asyncio
import random
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final

import click
import msgspec

from admin.client.admin_client import AdminClient, AdminError
from admin.client.channels import NoResponse
from admin.tools.founding import log_folder_of, new_identity
from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import (
    SETTINGS_FILE,
    ClusterPlan,
    LocalError,
    NodePlan,
    Wanted,
    settle,
)
from bench import machine
from bench.brokers import Brokers
from bench.commits import BROKER_IDS, claim_partitions
from bench.faults import RunFailed
from bench.isr_connection import IsrConnection, check_patching
from bench.load import Load
from bench.options import document_option, folder_option, workplace
from bench.peers.cluster import NotDone
from bench.peers.controllers import change_quota
from bench.report import Processes, Section
from bench.scale import a_cluster, write_snapshot
from quorum.core.vocabulary import ReplicaId
from quorum.log.checkpoint import checkpoint_id
from quorum.log.segment import Segment
from quorum.transport.security.protocols import PLAIN_CLIENT

SECTION: Final = "backup"
PARTITIONS: Final = 1_000_000
BROKERS: Final = 100
"""Fewer than the first of the brokers that change ISRs."""
OUTSTANDING: Final = 16
SECONDS: Final = 10.0
ROUNDS: Final = 3
QUIET_MS: Final = 3_600_000
"""The session of the brokers in the snapshot, which send no heartbeats."""
UP_SECONDS: Final = 120
LOWEST_PRIORITY: Final = 19

assert min(BROKER_IDS) >= BROKERS


class Measured(msgspec.Struct, kw_only=True):
    """The results; times in seconds."""

    snapshot_mb: float
    backup_s: float
    """At rest: of the command, which a process starts."""
    further_s: float
    """The same, with a backup to go on from."""
    loaded_s: float
    """Under load: the median."""
    verify_s: float
    restore_s: float
    """Of the command alone."""
    first_commit_s: float
    """From the start of the command to the first commit."""
    commits: float
    """Commits per second without a backup: the median."""
    commits_meanwhile: float
    """The same while backups are taken."""
    leader: float
    """The leader's processor time during a backup at rest, in percent of the backup's time."""

    @property
    def cost(self) -> float:
        """The share of the commits that backups take while they run, in percent."""
        return (1 - self.commits_meanwhile / self.commits) * 100


ROWS: Final[Sequence[tuple[str, str, Callable[[Measured], float], float | None, float | None]]] = (
    ("backup of the running cluster, at rest", "s", lambda m: m.backup_s, 10, 3),
    ("... under load", "s", lambda m: m.loaded_s, 10, 3),
    ("... of what is new only", "s", lambda m: m.further_s, None, None),
    ("commits lost while a backup is taken", "%", lambda m: m.cost, 5, 2),
    ("... commits per second without one", "", lambda m: m.commits, None, None),
    ("processor time of the leader for it, of a core", "%", lambda m: m.leader, 5, 2),
    ("restore, to the first commit", "s", lambda m: m.first_commit_s, 20, 8),
    ("... of it, the command", "s", lambda m: m.restore_s, None, None),
    ("verify", "s", lambda m: m.verify_s, None, None),
    ("size of the backup", "MB", lambda m: m.snapshot_mb, None, None),
)
"""What, unit, value, and the targets `must` and `aim`."""


def table(measured: Measured) -> str:
    """The results beside their targets."""
    lines = ["| what | unit | measured | must | aim |", "| --- | --- | ---: | ---: | ---: |"]
    for what, unit, value, must, aim in ROWS:
        shown = [_shown(each) for each in (value(measured), must, aim)]
        lines.append(f"| {what} | {unit} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _shown(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def command_of(*arguments: object) -> list[str]:
    """The command line of a command of the product, at the lowest priority."""
    nice = ["nice", "-n", str(LOWEST_PRIORITY)]
    return [*nice, sys.executable, "-m", "admin.cli.main", *map(str, arguments)]


async def timed(*arguments: object) -> float:
    """Run a command to its end, and return the seconds that it took; raises `RunFailed`."""
    begun = perf_counter()
    process = await asyncio.create_subprocess_exec(
        *command_of(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        _, said = await process.communicate()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        raise RunFailed(f"{arguments[0]} ended with {process.returncode}: {said.decode()}")
    return perf_counter() - begun


def write_source(folder: Path, cluster_id: str, partitions: int) -> float:
    """Write the folder of a stopped node with that many partitions; return the megabytes."""
    log = log_folder_of(folder)
    log.mkdir(parents=True)
    new_identity(folder, ReplicaId(0), cluster_id)
    path = write_snapshot(a_cluster(partitions, BROKERS), log)
    id_ = checkpoint_id(path.name)
    assert id_ is not None
    Segment(log, id_.offset).path.touch()
    return path.stat().st_size / 1e6


async def first_commit(plan: ClusterPlan) -> None:
    """Return once the controllers have committed a change, whichever of them is asked."""
    async with asyncio.timeout(UP_SECONDS):
        while True:
            for node in plan.controllers:
                with suppress(NotDone, AdminError):
                    await change_quota(node.kafka, 1, PLAIN_CLIENT)
                    return
            await asyncio.sleep(0.05)


async def run(place: Path, partitions: int, seconds: float, rounds: int) -> Measured:
    """Make all measurements in a folder."""
    check_patching()
    cluster_folder, stored = place / "cluster", place / "backup-0"
    plan = settle(cluster_folder, Wanted(controllers=3, brokers=0, base_port=0), random.Random())
    click.echo(f"writing a snapshot of {partitions:,} partitions", err=True)
    snapshot_mb = write_source(place / "source", plan.cluster_id, partitions)
    await timed("backup", "--to", stored, "--from-folder", place / "source")
    verify_s = await timed("backup", "verify", stored)
    addresses = ",".join(f"{node.id}@{node.kafka}" for node in plan.controllers)
    click.echo("restoring it", err=True)
    begun = perf_counter()
    restore_s = await timed("restore", stored, "--dir", cluster_folder, "--controllers", addresses)
    for node in plan.controllers:
        # The command has written the settings, and they stay as they are.
        with (cluster_folder / node.name / SETTINGS_FILE).open("a", encoding="utf-8") as file:
            file.write(f"broker.session.timeout.ms={QUIET_MS}\n")
    async with LocalCluster(cluster_folder, plan) as cluster:
        await first_commit(plan)
        first_commit_s = perf_counter() - begun
        source = ("--bootstrap-controller", ",".join(str(n.kafka) for n in plan.controllers))
        async with AdminClient(cluster.controllers, is_controller=True) as admin:
            leader_id = (await admin.describe_quorum()).leader_id
        (leader,) = [node for node in plan.controllers if node.id == leader_id]
        pid = cluster.pid(leader.name) or 0
        before = machine.used([pid])
        backup_s = await timed("backup", "--to", place / "at-rest", *source)
        leader_s = machine.used([pid]).since(before).by_pid[pid]
        further_s = await timed("backup", "--to", place / "at-rest", *source)
        commits, took = await loaded(cluster, leader, place, source, seconds, rounds)
    return Measured(
        snapshot_mb=snapshot_mb,
        backup_s=backup_s,
        further_s=further_s,
        loaded_s=statistics.median(took),
        verify_s=verify_s,
        restore_s=restore_s,
        first_commit_s=first_commit_s,
        commits=statistics.median(commits[False]),
        commits_meanwhile=statistics.median(commits[True]),
        leader=leader_s / backup_s * 100,
    )


async def loaded(
    cluster: LocalCluster,
    leader: NodePlan,
    place: Path,
    source: Sequence[str],
    seconds: float,
    rounds: int,
) -> tuple[Mapping[bool, Sequence[float]], Sequence[float]]:
    """Return the commits per second of all rounds, without and with backups, and the times of
    these backups."""
    pids = {node.id: cluster.pid(node.name) or 0 for node in cluster.plan.controllers}
    processes = Processes(pids.pop(leader.id), tuple(pids.values()))
    brokers = Brokers(leader.kafka, cluster.plan.cluster_id)
    await brokers.register(BROKER_IDS)
    claims = await claim_partitions(leader.kafka, brokers, OUTSTANDING)
    commits: dict[bool, list[float]] = {False: [], True: []}
    took: list[float] = []
    async with asyncio.TaskGroup() as tasks:
        beating = tasks.create_task(brokers.beat())
        for turn in range(2 * rounds):
            with_backups = turn % 2 == 1
            load = Load(leader.kafka, [partial(IsrConnection, each) for each in claims], processes)
            others = None
            if with_backups:
                others = tasks.create_task(_again_and_again(place / str(turn), source, took))
            row = await load.run(seconds)
            commits[with_backups].append(row.commits_per_second)
            click.echo(
                f"{'with' if with_backups else 'without'} backups: "
                f"{row.commits_per_second:,.0f} commits/s, p99 {row.p99_ms:.1f} ms",
                err=True,
            )
            if others is not None:
                others.cancel()
        beating.cancel()
    await brokers.close()
    if not took:
        raise RunFailed(f"no backup was complete within {seconds} s: give more --seconds")
    return commits, took


async def _again_and_again(place: Path, source: Sequence[str], took: list[float]) -> None:
    """Take whole backups, one after the other, until cancelled."""
    number = 0
    while True:
        took.append(await timed("backup", "--to", f"{place}-{number}", *source))
        number += 1


@click.command()
@click.option("--partitions", type=click.IntRange(1), default=PARTITIONS, show_default=True)
@click.option("--seconds", type=click.FloatRange(1, 600), default=SECONDS, show_default=True)
@click.option("--rounds", type=click.IntRange(1, 100), default=ROUNDS, show_default=True)
@folder_option
@document_option
def command(
    partitions: int, seconds: float, rounds: int, folder: Path | None, document: Path | None
) -> None:
    """Measure backup and restore of a very large cluster."""
    try:
        machine.check()
        section = None if document is None else Section(document, SECTION)
        with workplace(folder) as (place, runner):
            found = runner.run(run(place, partitions, seconds, rounds))
    except* (RunFailed, LocalError, AdminError, NoResponse) as failures:
        raise click.ClickException("; ".join(map(str, failures.exceptions))) from None
    click.echo(table(found))
    if section is not None:
        argv = f"python -m bench.backup --partitions {partitions} --seconds {seconds:g}"
        section.write_run(argv, machine.facts(), table(found))


if __name__ == "__main__":
    command()
