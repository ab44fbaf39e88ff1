"""The time without commits after the loss of the leader: it is killed, or loses its network.

From then on a client requests a small change every few milliseconds from the survivors in turn,
concurrently and each on its own connection. The first commit ends the outage.
"""

import asyncio
from collections.abc import AsyncIterator
from time import perf_counter
from typing import Final

from bench.faults import RunFailed
from bench.peers.cluster import NODES, Cluster, NotDone
from chaos.processes.network import Namespaces

PROBE_SECONDS: Final = 0.02
OUTAGE_SECONDS_MAX: Final = 30.0
CALM_SECONDS: Final = 1.0
"""The pause between two losses, after the lost node has caught up again."""


async def outages_by_kill(cluster: Cluster, count: int) -> AsyncIterator[float]:
    """Kill the leader `count` times; yield each outage in seconds."""
    for _ in range(count):
        leader = await cluster.leader()
        lost = await cluster.kill(leader)
        yield await outage(cluster, leader, lost)
        await cluster.start(leader)
        await cluster.until_whole(leader)
        await asyncio.sleep(CALM_SECONDS)


async def outages_by_cut(cluster: Cluster, network: Namespaces, count: int) -> AsyncIterator[float]:
    """Isolate the leader from the other nodes `count` times; yield each outage in seconds."""
    for _ in range(count):
        leader = await cluster.leader()
        others = [node for node in NODES if node != leader]
        begun = perf_counter()
        await network.cut([(leader, node) for node in others])
        await network.cut([(node, leader) for node in others])
        yield await outage(cluster, leader, begun)
        await network.heal()
        await cluster.until_whole(leader)
        await asyncio.sleep(CALM_SECONDS)


async def outage(cluster: Cluster, gone: int, since: float) -> float:
    """Return the seconds from `since` until the nodes other than `gone` commit a change."""
    survivors = [node for node in NODES if node != gone]
    done: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def probe(node: int) -> None:
        try:
            await cluster.kind.write(node)
        except NotDone:
            return
        if not done.done():
            done.set_result(perf_counter())

    async with asyncio.TaskGroup() as tasks:
        probes: list[asyncio.Task[None]] = []
        while not done.done():
            if perf_counter() - since > OUTAGE_SECONDS_MAX:
                raise RunFailed(
                    f"{cluster.kind.name} committed nothing after the loss of its leader"
                )
            probes.append(tasks.create_task(probe(survivors[len(probes) % len(survivors)])))
            await asyncio.wait({done}, timeout=PROBE_SECONDS)
        for each in probes:
            each.cancel()
    return done.result() - since
