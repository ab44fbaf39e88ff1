"""Throttled moves from begin to end, with brokers that have real logs and sockets."""

from pathlib import Path

import pytest

from broker.partition.assignment import PartitionKey
from quorum.clocks import monotonic_ms
from statemachine.commands import (
    AlterMove,
    BeginMove,
    CancelMoves,
    MoveStarted,
    PauseMoves,
    Reassignment,
)
from tests.broker.client_requests import batch, produce
from tests.broker.embedded_cluster import Brokers, cluster, until

LEADER, NEW = 1, 2
BATCH_BYTES = 10_000
BATCHES = 32
RATE_BYTES_PER_S = 200_000


def begin(brokers: Brokers, bytes_per_s: int, topic: str = "t") -> int:
    """The only partition gets another replica, at this rate; returns which move that is."""
    asked = Reassignment(topic=topic, partition=0, replicas=(LEADER, NEW))
    started = brokers.controller.decide(
        BeginMove(reassignments=(asked,), throttle_bytes_per_s=bytes_per_s)
    )
    assert isinstance(started, MoveStarted)
    return started.move_id


async def filled(brokers: Brokers, topic: str = "t") -> None:
    """A topic of several batches, on one broker alone."""
    await brokers.create(topic, (LEADER,))
    for number in range(BATCHES):
        answer = await produce(brokers[LEADER], topic, batch(bytes((number,)) * BATCH_BYTES))
        assert answer.base_offset == number


def is_copied(brokers: Brokers, topic: str = "t") -> bool:
    return brokers.controller.of(topic, 0).isr == (LEADER, NEW)


def copied(brokers: Brokers) -> int:
    """The batches that the new replica has."""
    key = PartitionKey(brokers[NEW].image.topic_ids["t"], 0)
    partition = brokers[NEW].manager.partitions.get(key)
    return 0 if partition is None else partition.log_end


async def test_a_move_copies_at_its_rate_and_then_nobody_is_held_up_any_more(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path, LEADER, NEW) as brokers:
        await filled(brokers)
        begun_ms = monotonic_ms()
        begin(brokers, RATE_BYTES_PER_S)
        throttles = brokers[LEADER].manager.throttles
        assert throttles.leader.rate_bytes_per_s == RATE_BYTES_PER_S
        await until(lambda: is_copied(brokers) and not brokers.controller.of("t", 0).moving)
        passed_ms = monotonic_ms() - begun_ms
        # The bytes of one second pass at once, and the last batch may be owed.
        least = (BATCHES - 1) * BATCH_BYTES - RATE_BYTES_PER_S
        assert passed_ms >= least * 1_000 // RATE_BYTES_PER_S
        for node in brokers.nodes.values():
            assert node.manager.throttles.leader.rate_bytes_per_s is None
            assert node.manager.throttles.follower.rate_bytes_per_s is None
        assert brokers[NEW].partition("t").log_end == BATCHES


async def test_a_rate_that_is_raised_counts_at_once_and_a_cancel_lifts_it(tmp_path: Path) -> None:
    """At one byte a second it would take days."""
    async with cluster(tmp_path, LEADER, NEW) as brokers:
        await filled(brokers)
        move_id = begin(brokers, 1)
        brokers.controller.decide(CancelMoves(moves=(move_id,)))
        assert brokers[NEW].manager.throttles.follower.rate_bytes_per_s is None
        assert brokers[LEADER].manager.throttles.leader.rate_bytes_per_s is None
        move_id = begin(brokers, 1)
        assert brokers[NEW].manager.throttles.follower.rate_bytes_per_s == 1
        brokers.controller.decide(AlterMove(move_id=move_id, throttle_bytes_per_s=1 << 40))
        await until(lambda: not brokers.controller.of("t", 0).moving)
        assert is_copied(brokers)


@pytest.mark.parametrize("everything", [False, True], ids=["one", "all"])
async def test_a_pause_stops_the_copying_until_it_ends(tmp_path: Path, everything: bool) -> None:
    """The move has copied one batch, which passes at any rate, and has no throttle of its own then.

    Another move of the same brokers ends meanwhile; under a pause of all it does so before.
    """
    async with cluster(tmp_path, LEADER, NEW) as brokers:
        await filled(brokers)
        await filled(brokers, "free")
        move_id = begin(brokers, 1)
        await until(lambda: copied(brokers) == 1)
        paused = PauseMoves(moves=None if everything else (move_id,))
        if not everything:
            brokers.controller.decide(paused)
        begin(brokers, 0, "free")
        if everything:
            await until(lambda: is_copied(brokers, "free"))
            brokers.controller.decide(paused)
        brokers.controller.decide(AlterMove(move_id=move_id, throttle_bytes_per_s=0))
        for value in (b"a", b"b"):
            # It is answered once the new replica has it too.
            await until(lambda: is_copied(brokers, "free"))
            await produce(brokers[LEADER], "free", batch(value))
        assert copied(brokers) == 1
        assert brokers[LEADER].manager.throttles.leader.rate_bytes_per_s == 0
        assert brokers[NEW].manager.throttles.follower.rate_bytes_per_s == 0
        brokers.controller.decide(PauseMoves(moves=paused.moves, paused=False))
        await until(lambda: is_copied(brokers))
        for node in brokers.nodes.values():
            assert node.manager.throttles.leader.rate_bytes_per_s is None
            assert node.manager.throttles.follower.rate_bytes_per_s is None
