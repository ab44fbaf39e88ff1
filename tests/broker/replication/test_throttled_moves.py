"""Throttled moves from begin to end, with brokers that have real logs and sockets."""

from pathlib import Path

from quorum.clocks import monotonic_ms
from statemachine.commands import AlterMove, BeginMove, CancelMoves, MoveStarted, Reassignment
from tests.broker.client_requests import batch, produce
from tests.broker.embedded_cluster import Brokers, cluster, until

LEADER, NEW = 1, 2
BATCH_BYTES = 10_000
BATCHES = 32
RATE_BYTES_PER_S = 200_000


def begin(brokers: Brokers, bytes_per_s: int) -> int:
    """The only partition gets another replica, at this rate; returns which move that is."""
    asked = Reassignment(topic="t", partition=0, replicas=(LEADER, NEW))
    started = brokers.controller.decide(
        BeginMove(reassignments=(asked,), throttle_bytes_per_s=bytes_per_s)
    )
    assert isinstance(started, MoveStarted)
    return started.move_id


async def filled(brokers: Brokers) -> None:
    """A topic of several batches, on one broker alone."""
    await brokers.create("t", (LEADER,))
    for number in range(BATCHES):
        answer = await produce(brokers[LEADER], "t", batch(bytes((number,)) * BATCH_BYTES))
        assert answer.base_offset == number


def is_copied(brokers: Brokers) -> bool:
    return brokers.controller.of("t", 0).replicas == (LEADER, NEW)


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
