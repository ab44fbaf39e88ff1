"""The faults of a cluster that moves partitions, in an order that a seed decides."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from enum import Enum
from typing import Any, Final

from admin.capabilities.moves import PauseMoves, ResumeMoves
from admin.tools.local_plan import NodePlan
from tests.process.moved_cluster import MovedCluster

BROKERS_KILLED: Final = 2
SECONDS_AT_FIRST: Final = 15
"""The assumed duration of a fault before one was measured."""
LEISURE: Final = 3
"""At its rate the move would take so many times as long as all faults together."""


class Fault(Enum):
    """One thing that happens to the cluster, or to the move."""

    CONTROLLER = "the active controller is killed and restarted"
    BROKER = "a broker that leads partitions on the move is killed and restarted"
    PAUSE = "the move is paused, comes to rest, and is resumed"


def faults(controllers_killed: int, rng: random.Random) -> list[Fault]:
    """The faults: so many controllers, two brokers and one pause, in any order."""
    chosen = (
        [Fault.CONTROLLER] * controllers_killed + [Fault.BROKER] * BROKERS_KILLED + [Fault.PAUSE]
    )
    return rng.sample(chosen, len(chosen))


async def besiege(
    it: MovedCluster,
    move: int,
    chosen: Sequence[Fault],
    rng: random.Random,
    *,
    topic: str,
    bytes_each: int,
) -> None:
    """Do one thing after the other, while each partition of the topic has so much to copy.

    How fast it is copied follows from how long the faults take here, so that the move goes on all
    the time and is not over before the last of them. Fails if it is: then less was shown than was
    meant.
    """
    now = asyncio.get_running_loop().time
    begun = now() - SECONDS_AT_FIRST
    for done, fault in enumerate(chosen):
        found = await it.standing(move)
        assert not found.ended, f"over after {done} of {len(chosen)} faults"
        seconds_each = (now() - begun) / (done + 1)
        left_bytes = (found.partitions_total - found.completed) * bytes_each // len(it.brokers)
        left_seconds = LEISURE * seconds_each * (len(chosen) - done)
        await it.hold_back(topic, max(1, round(left_bytes / left_seconds)))
        await FAULTS[fault](it, move, rng)
    found = await it.standing(move)
    steps_done = sum((each.step or 0) > 1 for each in found.partitions)
    assert found.completed + steps_done > 0, found


async def kill_controller(it: MovedCluster, move: int, _: random.Random) -> None:
    """Kill the active controller; another one knows the move, and the killed one comes back."""
    before = await it.standing(move)
    killed = await it.active_controller()
    await it.cluster.kill(killed.name)
    assert await it.active_controller() != killed
    after = await it.standing(move)
    assert after.completed >= before.completed, (before, after)
    await it.cluster.restart(killed.name)


async def kill_broker(it: MovedCluster, move: int, rng: random.Random) -> None:
    """Kill a broker that leads something on the move; others lead it, until it is back."""
    killed = await leader_on_the_move(it, rng)
    await it.cluster.kill(killed.name)
    await it.until_without(killed)
    await it.cluster.restart(killed.name)


async def leader_on_the_move(it: MovedCluster, rng: random.Random) -> NodePlan:
    """A broker that leads a partition with a step under way, any of them."""
    topics = await it.client.describe_topics()
    moving = [each for each in await it.client.list_reassignments() if each.adding]
    leaders = {topics[each.topic].partitions[each.partition].leader for each in moving}
    known = [node for node in it.cluster.plan.brokers if node.id in leaders]
    return rng.choice(known or it.cluster.plan.brokers)


async def pause(it: MovedCluster, move: int, _: random.Random) -> None:
    """Pause it and wait until no step is under way; that none begins is seen in the log."""
    await it.alter(PauseMoves(moves=(move,), after_step=True))
    rested = await it.until_at_rest(move)
    assert rested.state == "paused", rested
    await it.alter(ResumeMoves(moves=(move,)))


FAULTS: Final[
    dict[Fault, Callable[[MovedCluster, int, random.Random], Coroutine[Any, Any, None]]]
] = {
    Fault.CONTROLLER: kill_controller,
    Fault.BROKER: kill_broker,
    Fault.PAUSE: pause,
}
