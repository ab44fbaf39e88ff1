"""The steps of a round: each measures some figures of one side, in a new cluster."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from bench import machine
from bench.load import Load
from bench.peers import cut_off, downloads, failover, figures, restart
from bench.peers.cluster import NODES, Cluster, Kind, one_of
from bench.peers.etcd import Etcd
from bench.peers.figures import ETCD, KAFKA, OURS, PYSYNCOBJ
from bench.peers.kafka import Kafka
from bench.peers.ours import Ours
from bench.peers.syncobj import PySyncObj
from bench.report import Row
from bench.turns import Found, Step

SLOWER_MICROSECONDS: Final = 1_000
IDLE_SECONDS: Final = 10.0
SETTLE_SECONDS: Final = 2.0
KILLS_OF_OTHERS_MAX: Final = 3
"""The limit per round: a kill of another leader takes several times as long as one of ours."""
CUTS_MAX: Final = 3
"""The limit per round, on both sides."""
COMPILING_CONNECTIONS: Final = 512
COMPILING_SECONDS: Final = 10.0
"""The warm-up: without it, Kafka's figures are a third of the later ones."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The duration of each load, and the number of kills of our leader per round."""

    seconds: float
    kills: int


async def commits(side: str, folder: Path, options: RunOptions) -> Found:
    """Commits per second with fsync: many at a time, then one.

    The largest load is first, so that a Java virtual machine has compiled its code before the
    smaller ones.
    """
    async with one_of(kind_of(side), folder) as cluster:
        await compiled(cluster)
        for outstanding in (128,) if side == PYSYNCOBJ else (512, 128, 1):
            row = await loaded(cluster, outstanding, options.seconds)
            yield f"commits-{outstanding}", row.commits_per_second
            if outstanding == 128:
                yield "p99-128", row.p99_ms
                yield "cpu-128", row.server_seconds


async def slow_fsync(side: str, folder: Path, options: RunOptions) -> Found:
    """The same with every fsync slowed down by a millisecond."""
    prefix = [str(downloads.slow_fsync()), str(SLOWER_MICROSECONDS)]
    async with one_of(kind_of(side), folder, prefix=prefix) as cluster:
        await compiled(cluster)
        for outstanding in (128, 1):
            row = await loaded(cluster, outstanding, options.seconds)
            yield f"slow-{outstanding}", row.commits_per_second


async def killed(side: str, folder: Path, options: RunOptions) -> Found:
    """Outages after a kill of the leader, with default settings."""
    async with one_of(kind_of(side), folder) as cluster:
        kills = options.kills if side == OURS else min(options.kills, KILLS_OF_OTHERS_MAX)
        async for seconds in failover.outages_by_kill(cluster, kills):
            yield "killed", seconds


async def cut(side: str, folder: Path, options: RunOptions) -> Found:
    """Outages after the isolation of the leader, with timeouts of one second."""
    async for seconds in cut_off.outages(side, folder, min(options.kills, CUTS_MAX)):
        yield "cut-off", seconds


async def idle(side: str, folder: Path, _: RunOptions) -> Found:
    """Processor time of the busiest node without requests."""
    async with one_of(kind_of(side), folder) as cluster:
        processes = cluster.pids(await cluster.leader())
        await asyncio.sleep(SETTLE_SECONDS)
        before = machine.used(processes.all)
        await asyncio.sleep(IDLE_SECONDS)
        used = machine.used(processes.all).since(before).by_pid
        servers = (processes.leader, *processes.followers)
        yield "idle", max(used[pid] for pid in servers) / IDLE_SECONDS * 100


async def restarted(side: str, folder: Path, _: RunOptions) -> Found:
    """Time from the start of a node's process until it has replayed a log of a million records."""
    ours = Ours(restart.NO_SNAPSHOTS)
    async with one_of(ours, folder, before=lambda: restart.fill(ours)) as cluster:
        leader = await cluster.leader()
        node = next(each for each in NODES if each != leader)
        await cluster.until_whole(node)
        await cluster.kill(node)
        begun = await cluster.start(node)
        await cluster.until_whole(node)
        yield "restart", restart.since(begun)


async def compiled(cluster: Cluster) -> None:
    """Run a load for the warm-up of a Java virtual machine's compiler."""
    if isinstance(cluster.kind, Kafka):
        await loaded(cluster, COMPILING_CONNECTIONS, COMPILING_SECONDS)


async def loaded(cluster: Cluster, outstanding: int, seconds: float) -> Row:
    """Run a load on the leader, then check the answers."""
    leader = await cluster.leader()
    processes = cluster.pids(leader)
    kind = cluster.kind
    if isinstance(kind, PySyncObj):
        return await kind.load(leader, outstanding, seconds, processes)
    async with kind.work(leader, outstanding) as makes:
        return await Load(kind.client_address(leader), makes, processes).run(seconds)


def kind_of(side: str) -> Kind:
    """The nodes of a side; raises `RunFailed` if they are not available."""
    match side:
        case figures.ETCD:
            return Etcd(downloads.etcd())
        case figures.KAFKA:
            return Kafka(downloads.kafka())
        case figures.PYSYNCOBJ:
            return PySyncObj(downloads.pysyncobj())
        case _:
            return Ours()


STEPS: Final[Mapping[str, Step[RunOptions]]] = MappingProxyType(
    {
        "commits": Step(commits, (OURS, ETCD, KAFKA, PYSYNCOBJ)),
        "slow-fsync": Step(slow_fsync, (OURS, ETCD, KAFKA)),
        "killed": Step(killed, (OURS, ETCD, KAFKA)),
        "cut-off": Step(cut, (OURS, ETCD)),
        "idle": Step(idle, (OURS, ETCD, KAFKA)),
        "restart": Step(restarted, (OURS,)),
    }
)
