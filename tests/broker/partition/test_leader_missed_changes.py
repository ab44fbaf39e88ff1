"""A leader that has missed a change of its partition: what followers had confirmed says no more.

Broker 1 leads for 2, which is in sync, and 3, which had caught up and was removed and brought back
while the leader stood still. It has removed its log meanwhile; its broker epoch is still right.
"""

from typing import Final

from broker.partition.assignment import Assignment
from broker.partition.leader import CommittedIsr, IsrProposal, LeaderState

LIVE: Final = {1: 11, 2: 12, 3: 13}
END: Final = 100


def assignment(*, leader_epoch: int, partition_epoch: int) -> Assignment:
    return Assignment(
        replicas=(1, 2, 3),
        isr=(1, 2),
        leader=1,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        min_isr=1,
    )


def leading() -> LeaderState:
    leader = LeaderState(
        1,
        assignment(leader_epoch=5, partition_epoch=8),
        log_end=END,
        written=END,
        high_watermark=0,
        now_ms=0,
        lag_ms_max=30_000,
    )
    fetch(leader, 2, END)
    fetch(leader, 3, END)
    assert leader.advance(1, LIVE)
    return leader


def fetch(leader: LeaderState, follower: int, offset: int) -> None:
    epoch = LIVE[follower]
    leader.fetched(follower, broker_epoch=epoch, offset=offset, now_ms=2, live=LIVE)


def propose(leader: LeaderState) -> IsrProposal | None:
    return leader.propose(11, 2, LIVE)


def test_a_replica_that_returns_after_a_missed_removal_is_not_in_sync_by_earlier_fetches() -> None:
    leader = leading()
    leader.update(assignment(leader_epoch=6, partition_epoch=10), now_ms=2)
    assert propose(leader) is None
    fetch(leader, 3, 0)
    assert propose(leader) is None
    fetch(leader, 3, END)
    assert propose(leader) == IsrProposal((1, 2, 3), (11, 12, 13), 6, 10)


def test_an_answer_about_a_change_does_not_hide_a_removal() -> None:
    leader = leading()
    proposal = propose(leader)
    assert proposal is not None
    leader.on_committed(proposal, CommittedIsr((1, 2, 3), 5, 9))
    leader.update(assignment(leader_epoch=6, partition_epoch=11), now_ms=2)
    assert propose(leader) is None


def test_a_replica_that_a_seen_change_leaves_alone_is_still_confirmed() -> None:
    leader = leading()
    leader.update(assignment(leader_epoch=5, partition_epoch=9), now_ms=2)
    assert propose(leader) == IsrProposal((1, 2, 3), (11, 12, 13), 5, 9)
