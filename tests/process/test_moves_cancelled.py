"""Moves that are taken back at moments that nobody chose, and what is left of them."""

import logging
import random
from pathlib import Path
from typing import Final

import pytest

from admin.model import Reassignment
from admin.moves import MovesRequest, Operation
from tests.process.moved_cluster import Layout, MovedCluster, layout_of, moved_cluster

pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

TOPIC: Final = "orders"
PARTITIONS: Final = 40
BYTES_EACH: Final = 56 * 1024
BYTES_PER_SECOND: Final = 100_000
"""Of each broker; all that one move copies takes some seconds."""
CANCELS: Final = 5
SEED: Final = 9
LOOKS_MAX: Final = 20


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """No log lines of kafka-python: they would keep its failed sockets for a later test to find."""
    caplog.set_level(logging.CRITICAL, logger="kafka")


async def test_five_cancels_at_random_moments_leave_what_was_before_the_step(
    tmp_path: Path,
) -> None:
    rng = random.Random(SEED)
    async with moved_cluster(tmp_path / "cluster", brokers=4) as it:
        await it.limit(replicas=1, partitions=8)
        written = await it.place(TOPIC, it.ring(PARTITIONS), BYTES_EACH)
        async with it.flowing(TOPIC, written):
            await it.hold_back(TOPIC, BYTES_PER_SECOND)
            for _ in range(CANCELS):
                await cancel_somewhere(it, rng)


async def cancel_somewhere(it: MovedCluster, rng: random.Random) -> None:
    """Move everything to anywhere, and take it back in the middle; nothing may be left over."""
    before = await it.layout(TOPIC)
    wanted = {number: tuple(rng.sample(it.brokers, 3)) for number in range(PARTITIONS)}
    move = await it.begin(TOPIC, wanted)
    await it.until_completed(move, more_than=rng.randrange(PARTITIONS // 2))
    for _ in range(rng.randrange(LOOKS_MAX)):
        await it.standing(move)
    under_way = {each.partition: each for each in await it.client.list_reassignments()}
    changed = await it.client.alter_moves(rng.choice(cancels(move)))

    assert not changed.has_refusals, changed
    assert (await it.standing(move)).state == "cancelled"
    described = await it.described(TOPIC)
    assert all(each.leader in each.isr for each in described.partitions), described
    now = layout_of(described)
    told = {each.id.partition: tuple(each.replicas) for each in changed.partitions}
    assert told.items() <= now.items()
    check_as_before(under_way, told)
    for number in now.keys() - told.keys():
        assert now[number] in (before[number], wanted[number])
    await it.until_whole()
    await it.until_disks_agree(TOPIC)


def cancels(move: int) -> list[MovesRequest]:
    """The ways to ask for it."""
    return [
        MovesRequest(operation=Operation.CANCEL, move_ids=(move,)),
        MovesRequest(operation=Operation.CANCEL, topics=(TOPIC,)),
        MovesRequest(operation=Operation.CANCEL, everything=True),
    ]


def check_as_before(under_way: dict[int, Reassignment], told: Layout) -> None:
    """Who was being added is gone; where a step was just done, whom it removed is gone instead."""
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
