"""Moves of brokers of ours while unmodified clients write and read all that moves.

One is gone through with while its controller and a leader die, others are taken back at moments
that nobody chose. Every test leaves the cluster whole; the log of its controllers is judged when it
ends.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from admin.capabilities.moves import CancelMoves
from admin.cli.moves import refused
from controller.move_requests import OngoingReassignment
from tests.process.kafka_traffic import UNMODIFIED_CLIENTS
from tests.process.moved_cluster import Layout, MovedCluster, layout_of, moved_cluster
from tests.process.siege import kill_broker, kill_controller

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    *UNMODIFIED_CLIENTS,
]

FEW: Final = 8
"""Partitions of a move that is gone through with."""
BYTES_OF_FEW: Final = 112 * 1024
BYTES_PER_SECOND: Final = 60_000
"""The rate of each broker until a first partition has moved."""
SLOWLY_PER_SECOND: Final = 1_000
"""From then on, so that the rest takes minutes."""
SEED: Final = 3

MANY: Final = 40
"""Partitions of moves that are cancelled."""
BYTES_OF_MANY: Final = 56 * 1024
STEADILY_PER_SECOND: Final = 100_000
"""The rate of each broker; the copies of one move take some seconds."""
CANCELS: Final = 5
SEED_OF_CANCELS: Final = 9
LOOKS_MAX: Final = 20


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[MovedCluster]:
    async with moved_cluster(tmp_path_factory.mktemp("load") / "cluster", brokers=4) as it:
        yield it


async def test_kafka_python_and_confluent_lose_nothing_when_controller_and_leader_die_at_once(
    cluster: MovedCluster,
) -> None:
    """Traffic of assigned partitions, with acks=all: every record once, in order, at its offset."""
    topic, rng = "served", random.Random(SEED)
    await cluster.limit(replicas=1, partitions=3)
    wanted = cluster.ring(FEW, turned=3)
    async with cluster.moving(topic, wanted, BYTES_OF_FEW, BYTES_PER_SECOND) as move:
        await cluster.until_completed(move, more_than=0)
        await cluster.hold_back(topic, SLOWLY_PER_SECOND)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(kill_broker(cluster, move, rng))
            tasks.create_task(kill_controller(cluster, move, rng))


async def test_five_cancels_at_random_moments_restore_the_replicas_before_the_step(
    cluster: MovedCluster,
) -> None:
    topic, rng = "cancelled", random.Random(SEED_OF_CANCELS)
    await cluster.limit(replicas=1, partitions=8)
    written = await cluster.place(topic, cluster.ring(MANY), BYTES_OF_MANY)
    async with cluster.flowing(topic, written):
        await cluster.hold_back(topic, STEADILY_PER_SECOND)
        for _ in range(CANCELS):
            await cancel_somewhere(cluster, topic, rng)
        await cluster.let_go(topic)


async def cancel_somewhere(it: MovedCluster, topic: str, rng: random.Random) -> None:
    """Move everything to anywhere, and take it back in the middle; nothing may be left over."""
    before = await it.layout(topic)
    wanted = {number: tuple(rng.sample(it.brokers, 3)) for number in range(MANY)}
    move = await it.begin(topic, wanted)
    await it.until_completed(move, more_than=rng.randrange(MANY // 2))
    for _ in range(rng.randrange(LOOKS_MAX)):
        await it.standing(move)
    under_way = {each.partition: each for each in await it.client.list_reassignments()}
    await it.note_cancel(topic)
    changed = await it.client.ask(rng.choice(cancels(topic, move)))

    if list(refused(changed)):
        # It has ended since the last look: another one is begun.
        assert (await it.standing(move)).state == "completed", changed
        return await cancel_somewhere(it, topic, rng)
    assert (await it.standing(move)).state == "cancelled"
    described = await it.described(topic)
    assert all(each.leader in each.isr for each in described.partitions), described
    now = layout_of(described)
    told = {each.partition or 0: each.replicas for each in changed.partitions}
    assert told.items() <= now.items()
    check_as_before(under_way, told)
    for number in now.keys() - told.keys():
        assert now[number] in (before[number], wanted[number])
    await it.until_whole()
    await it.until_disks_agree(topic)


def cancels(topic: str, move: int) -> list[CancelMoves]:
    """The ways to ask for it."""
    return [
        CancelMoves(moves=(move,)),
        CancelMoves(topics=(topic,)),
        CancelMoves(everything=True),
    ]


def check_as_before(under_way: dict[int, OngoingReassignment], told: Layout) -> None:
    """The added replica is gone; if a step had just ended, the removed one is gone instead."""
    reverted = 0
    for number in under_way.keys() & told.keys():
        step = under_way[number]
        before = tuple(each for each in step.replicas if each not in step.adding)
        if step.adding and told[number] == before:
            reverted += 1
        else:
            done = set(step.replicas) - set(step.removing)
            assert told[number] == before or set(told[number]) == done, (step, told[number])
    assert reverted, f"no step was under way: {under_way}"
