"""A shrunk ISR stays until the follower acts: no endless proposals.

Under min ISR the high watermark stands still, so that whoever was just taken out for its silence
still has all that is committed; by that alone it must not come in again.
"""

from broker.partition.assignment import Assignment
from broker.partition.leader import CommittedIsr, LeaderState

LAG_MS = 1_000
LIVE = {1: 11, 2: 12}


def test_a_follower_removed_for_its_silence_returns_only_when_it_has_caught_up() -> None:
    assignment = Assignment(
        replicas=(1, 2), isr=(1, 2), leader=1, leader_epoch=5, partition_epoch=8, min_isr=2
    )
    leader = LeaderState(
        1, assignment, log_end=3, written=3, high_watermark=3, now_ms=0, lag_ms_max=LAG_MS
    )
    leader.fetched(2, broker_epoch=12, offset=3, now_ms=1, live=LIVE)
    leader.appended(4)
    leader.wrote(4)
    shrunk = leader.propose(11, 2 * LAG_MS, LIVE)
    assert shrunk is not None
    assert shrunk.isr == (1,)
    leader.on_committed(shrunk, CommittedIsr((1,), 5, 9))
    assert not leader.advance(2 * LAG_MS, LIVE)
    assert leader.propose(11, 2 * LAG_MS, LIVE) is None

    leader.fetched(2, broker_epoch=12, offset=4, now_ms=3 * LAG_MS, live=LIVE)
    expanded = leader.propose(11, 3 * LAG_MS, LIVE)
    assert expanded is not None
    assert expanded.isr == (1, 2)
