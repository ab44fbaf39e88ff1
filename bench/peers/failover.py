"""The time without commits after the leader is lost: killed, or cut off from the network.

From then on a small change is asked for every few milliseconds, of the survivors in turn, each on
a connection of its own; none waits for another. The first one that is committed ends the outage.
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
"""Between two losses, once the node that was lost is whole again."""


async def outages_by_kill(cluster: Cluster, count: int) -> AsyncIterator[float]:
    """Kill the leader so many times; yield each outage in seconds."""
    for _ in range(count):
        leader = await cluster.leader()
        lost = await cluster.kill(leader)
        yield await outage(cluster, leader, lost)
        await cluster.start(leader)
        await cluster.until_whole(leader)
        await asyncio.sleep(CALM_SECONDS)


async def outages_by_cut(cluster: Cluster, network: Namespaces, count: int) -> AsyncIterator[float]:
    """Let nothing pass between the leader and the others, so many times; yield each outage."""
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
    """Seconds from `since` until a change is committed without the node that is gone."""
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
                raise RunFailed(f"{cluster.kind.name} commits nothing after its leader is lost")
            probes.append(tasks.create_task(probe(survivors[len(probes) % len(survivors)])))
            await asyncio.wait({done}, timeout=PROBE_SECONDS)
        for each in probes:
            each.cancel()
    return done.result() - since
