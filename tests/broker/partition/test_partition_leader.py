"""The leader's side of a partition: high watermark, ISR proposals, broker epochs (KIP-903)."""

from collections.abc import Mapping

import pytest

from broker.limits import ALTER_PARTITION_RETRY_MS
from broker.partition.assignment import Assignment
from broker.partition.follower import FollowerState
from broker.partition.leader import CommittedIsr, IsrProposal, LeaderState
from quorum.protocol.errors import ErrorCode
from statemachine.vocabulary import NO_EPOCH

LAG_MS = 30_000
LIVE: Mapping[int, int] = {1: 11, 2: 12, 3: 13}
"""Broker n is registered with broker epoch 10 + n."""


def assignment(
    replicas: tuple[int, ...] = (1, 2, 3),
    isr: tuple[int, ...] = (1, 2, 3),
    *,
    leader_epoch: int = 5,
    partition_epoch: int = 8,
    min_isr: int = 1,
) -> Assignment:
    return Assignment(
        replicas=replicas,
        isr=isr,
        leader=1,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        min_isr=min_isr,
    )


def leading(
    of: Assignment | None = None, *, log_end: int = 100, high_watermark: int = 0
) -> LeaderState:
    """Broker 1 becomes leader at time 0; all of its log is written."""
    return LeaderState(
        1,
        of or assignment(),
        log_end=log_end,
        written=log_end,
        high_watermark=high_watermark,
        now_ms=0,
        lag_ms_max=LAG_MS,
    )


def fetch(
    leader: LeaderState,
    follower: int,
    offset: int,
    *,
    epoch: int | None = None,
    now_ms: int = 1,
    live: Mapping[int, int] = LIVE,
) -> ErrorCode | None:
    broker_epoch = 10 + follower if epoch is None else epoch
    return leader.fetched(
        follower, broker_epoch=broker_epoch, offset=offset, now_ms=now_ms, live=live
    )


def grow(leader: LeaderState, log_end: int) -> None:
    leader.appended(log_end)
    leader.wrote(log_end)


def propose(
    leader: LeaderState, *, now_ms: int = 1, live: Mapping[int, int] = LIVE
) -> IsrProposal | None:
    return leader.propose(11, now_ms, live)


# --- high watermark ------------------------------------------------------------------------------


def test_the_high_watermark_is_the_lowest_end_in_the_isr() -> None:
    leader = leading()
    fetch(leader, 2, 90)
    fetch(leader, 3, 80)
    assert leader.advance(1, LIVE)
    assert leader.high_watermark == 80


def test_nothing_is_committed_before_every_member_of_the_isr_has_fetched() -> None:
    leader = leading()
    fetch(leader, 2, 100)
    assert not leader.advance(1, LIVE)


def test_a_replica_outside_the_isr_that_lags_holds_nothing_up() -> None:
    leader = leading(assignment(isr=(1, 2)))
    grow(leader, 200)
    fetch(leader, 2, 200)
    fetch(leader, 3, 10)
    assert leader.advance(1, LIVE)
    assert leader.high_watermark == 200


def test_a_follower_that_is_about_to_join_is_waited_for() -> None:
    leader = leading(assignment(isr=(1, 2)))
    fetch(leader, 3, 100)
    grow(leader, 120)
    fetch(leader, 2, 120)
    assert leader.advance(2, LIVE)
    assert leader.high_watermark == 100


def test_a_leader_alone_commits_what_it_has_written_and_no_more() -> None:
    leader = leading(assignment((1,), (1,)), log_end=0)
    leader.appended(10)
    assert not leader.advance(1, LIVE)
    leader.wrote(10)
    assert leader.advance(1, LIVE)
    assert leader.high_watermark == 10


def test_the_high_watermark_stands_still_below_min_isr() -> None:
    """KIP-966: who left the ISR then may still be elected, so it must not miss anything."""
    leader = leading(assignment(isr=(1,), min_isr=2))
    assert leader.under_min_isr
    assert not leader.advance(1, LIVE)


def test_the_high_watermark_never_falls_when_a_member_comes_back_with_less() -> None:
    leader = leading(assignment((1, 2), (1, 2)))
    fetch(leader, 2, 90)
    leader.advance(1, LIVE)
    fetch(leader, 2, 10)
    assert not leader.advance(1, LIVE)
    assert leader.high_watermark == 90


def test_a_new_leader_does_not_know_what_is_committed_until_its_own_start_is() -> None:
    """KIP-207: a consumer must not be told an end that lies before one it was told earlier."""
    leader = leading(assignment((1, 2), (1, 2)), log_end=100, high_watermark=60)
    assert not leader.knows_committed
    fetch(leader, 2, 100)
    leader.advance(1, LIVE)
    assert leader.knows_committed


# --- joining the ISR -----------------------------------------------------------------------------


def test_a_follower_that_has_caught_up_is_proposed_with_the_epoch_of_its_fetch() -> None:
    leader = leading(assignment(isr=(1, 2)))
    fetch(leader, 2, 100)
    fetch(leader, 3, 100)
    assert propose(leader) == IsrProposal((1, 2, 3), (11, 12, 13), 5, 8)


def test_a_follower_behind_the_high_watermark_is_not_proposed() -> None:
    leader = leading(assignment(isr=(1, 2)), high_watermark=100)
    fetch(leader, 2, 100)
    fetch(leader, 3, 99)
    assert propose(leader) is None


def test_a_follower_behind_the_start_of_the_leader_epoch_is_not_proposed() -> None:
    """KAFKA-7128: what the leader before committed may lie between the two."""
    first = assignment(isr=(1, 2))
    leader = leading(first, log_end=100, high_watermark=60)
    fetch(leader, 3, 100)
    grow(leader, 120)
    epoch, partition_epoch = first.leader_epoch + 1, first.partition_epoch + 1
    leader.update(
        assignment(isr=(1, 2), leader_epoch=epoch, partition_epoch=partition_epoch), now_ms=2
    )
    # It had caught up, and its records end before the new epoch.
    assert propose(leader, now_ms=2) is None
    fetch(leader, 3, 120, now_ms=3)
    assert propose(leader, now_ms=3) is not None


@pytest.mark.parametrize(
    "live",
    [
        pytest.param({1: 11, 2: 12}, id="fenced or stopping"),
        pytest.param({1: 11, 2: 12, 3: 99}, id="registered anew since its fetch"),
    ],
)
def test_a_follower_is_not_proposed_unless_the_metadata_knows_its_incarnation(
    live: Mapping[int, int],
) -> None:
    """KIP-903, leader: epochs from the fetch and from the metadata must be the same."""
    leader = leading(assignment(isr=(1, 2)))
    fetch(leader, 2, 100)
    assert fetch(leader, 3, 100) is None
    assert propose(leader, live=live) is None


def test_a_follower_whose_epoch_the_metadata_has_not_caught_up_with_is_not_proposed() -> None:
    leader = leading(assignment(isr=(1, 2)))
    assert fetch(leader, 3, 100, epoch=14) is None
    assert propose(leader) is None
    assert propose(leader, live={**LIVE, 3: 14}) is not None


def test_a_fetch_without_a_broker_epoch_never_leads_into_the_isr() -> None:
    leader = leading(assignment(isr=(1, 2)))
    assert fetch(leader, 3, 100, epoch=NO_EPOCH, live={1: 11, 2: 12}) is None
    assert propose(leader) is None


def test_the_fetch_of_an_incarnation_that_is_over_is_refused() -> None:
    leader = leading()
    live = {**LIVE, 3: 20}
    assert fetch(leader, 3, 100, epoch=13, live=live) is ErrorCode.STALE_BROKER_EPOCH


def test_an_incarnation_that_fetched_first_fences_the_one_before_it() -> None:
    leader = leading()
    assert fetch(leader, 3, 0, epoch=20) is None
    assert fetch(leader, 3, 100, epoch=13) is ErrorCode.STALE_BROKER_EPOCH


def test_a_new_incarnation_has_not_kept_up_because_the_one_before_it_had() -> None:
    leader = leading(assignment(isr=(1, 2)))
    fetch(leader, 3, 100, now_ms=1)
    fetch(leader, 3, 0, epoch=20, now_ms=2)
    fetch(leader, 2, 100, now_ms=2)
    assert leader.advance(2, {**LIVE, 3: 20})
    assert leader.high_watermark == 100


def test_a_stranger_is_refused() -> None:
    assert fetch(leading(), 9, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_offset_beyond_the_log_is_refused() -> None:
    assert fetch(leading(), 2, 101) is ErrorCode.OFFSET_OUT_OF_RANGE


# --- leaving the ISR -----------------------------------------------------------------------------


def test_a_follower_that_is_silent_for_the_lag_time_is_proposed_out() -> None:
    leader = leading()
    fetch(leader, 2, 100, now_ms=1)
    grow(leader, 110)
    fetch(leader, 2, 110, now_ms=LAG_MS)
    assert propose(leader, now_ms=LAG_MS) is None
    proposal = propose(leader, now_ms=LAG_MS + 1)
    assert proposal is not None
    assert proposal.isr == (1, 2)


def test_a_follower_with_everything_stays_in_however_long_nothing_is_written() -> None:
    leader = leading(assignment((1, 2), (1, 2)))
    fetch(leader, 2, 100, now_ms=1)
    assert propose(leader, now_ms=10 * LAG_MS) is None


def test_a_follower_that_fetches_but_falls_behind_is_proposed_out() -> None:
    leader = leading(assignment((1, 2), (1, 2)))
    fetch(leader, 2, 100, now_ms=1)
    for now_ms in range(1_000, LAG_MS + 2_000, 1_000):
        grow(leader, 100 + now_ms)
        fetch(leader, 2, 101, now_ms=now_ms)
    proposal = propose(leader, now_ms=LAG_MS + 2_000)
    assert proposal is not None
    assert proposal.isr == (1,)


def test_a_member_that_has_not_fetched_yet_is_proposed_without_an_epoch() -> None:
    """It is in the committed ISR; the controller takes it out itself when its incarnation ends."""
    leader = leading(assignment((1, 2, 3), (1, 2)))
    fetch(leader, 3, 100)
    proposal = propose(leader)
    assert proposal is not None
    assert proposal.broker_epochs == (11, NO_EPOCH, 13)


def test_shrinking_goes_before_expanding() -> None:
    leader = leading(assignment(isr=(1, 2)))
    fetch(leader, 3, 100, now_ms=LAG_MS + 1)
    proposal = propose(leader, now_ms=LAG_MS + 1)
    assert proposal is not None
    assert proposal.isr == (1,)


# --- a proposal under way ------------------------------------------------------------------------


def expanding() -> tuple[LeaderState, IsrProposal]:
    """Broker 3 is about to join (1, 2)."""
    leader = leading(assignment(isr=(1, 2)), log_end=100)
    fetch(leader, 2, 100)
    fetch(leader, 3, 100)
    proposal = propose(leader)
    assert proposal is not None
    return leader, proposal


def shrinking() -> tuple[LeaderState, IsrProposal]:
    """Broker 3 is about to leave (1, 2, 3)."""
    leader = leading()
    fetch(leader, 2, 100, now_ms=LAG_MS)
    proposal = propose(leader, now_ms=LAG_MS + 1)
    assert proposal is not None
    assert proposal.isr == (1, 2)
    return leader, proposal


def test_one_proposal_is_under_way_at_a_time() -> None:
    leader, _ = expanding()
    assert propose(leader) is None


def test_a_follower_that_may_have_joined_holds_the_high_watermark() -> None:
    leader, _ = expanding()
    grow(leader, 120)
    fetch(leader, 2, 120)
    # Even one that the metadata no longer shows as alive: the controller may have committed it.
    leader.advance(2, {1: 11, 2: 12})
    assert leader.high_watermark == 100


def test_a_follower_that_may_not_have_left_holds_the_high_watermark() -> None:
    leader, proposal = shrinking()
    assert not leader.advance(LAG_MS + 1, LIVE)
    leader.on_committed(proposal, CommittedIsr((1, 2), 5, 9))
    assert leader.pending is None
    assert leader.advance(LAG_MS + 1, LIVE)
    assert leader.high_watermark == 100


def test_a_committed_proposal_is_the_isr_from_then_on() -> None:
    leader, proposal = expanding()
    leader.on_committed(proposal, CommittedIsr((1, 2, 3), 5, 9))
    assert leader.assignment.isr == (1, 2, 3)
    assert leader.assignment.partition_epoch == 9
    assert leader.pending is None


@pytest.mark.parametrize("error", [107, 55])
def test_a_proposal_that_was_surely_not_committed_is_reverted_and_tried_again_later(
    error: int,
) -> None:
    """KIP-903: on INELIGIBLE_REPLICA the leader goes back to the committed ISR."""
    leader, proposal = expanding()
    assert not leader.on_refused(proposal, error, now_ms=10)
    assert leader.pending is None
    assert leader.maximal_isr == {1, 2}
    assert propose(leader, now_ms=10) is None
    assert propose(leader, now_ms=10 + ALTER_PARTITION_RETRY_MS) is not None


@pytest.mark.parametrize("error", [3, 100, 74, 95, 42, 108])
def test_a_proposal_on_old_ground_waits_for_the_metadata(error: int) -> None:
    leader, proposal = expanding()
    assert not leader.on_refused(proposal, error, now_ms=10)
    assert leader.pending is proposal
    assert leader.maximal_isr == {1, 2, 3}
    assert propose(leader, now_ms=10_000) is None


@pytest.mark.parametrize("error", [-1, 41, 7, 77])
def test_a_proposal_that_nobody_decided_is_asked_again(error: int) -> None:
    leader, proposal = expanding()
    assert leader.on_refused(proposal, error, now_ms=10)
    assert leader.pending is proposal


def test_the_metadata_overtakes_a_proposal() -> None:
    leader, proposal = expanding()
    leader.update(assignment(isr=(1,), partition_epoch=9), now_ms=2)
    assert leader.pending is None
    leader.on_committed(proposal, CommittedIsr((1, 2, 3), 5, 9))
    assert leader.assignment.isr == (1,)


def test_metadata_older_than_the_answer_to_a_proposal_is_no_news() -> None:
    leader, proposal = expanding()
    leader.on_committed(proposal, CommittedIsr((1, 2, 3), 5, 9))
    leader.update(assignment(isr=(1, 2), partition_epoch=8), now_ms=2)
    assert leader.assignment.isr == (1, 2, 3)


def test_an_answer_of_another_leader_epoch_waits_for_the_metadata() -> None:
    leader, proposal = expanding()
    leader.on_committed(proposal, CommittedIsr((1, 2, 3), 6, 9))
    assert leader.pending is proposal
    assert leader.assignment.isr == (1, 2)


# --- a new replica set ---------------------------------------------------------------------------


def test_a_removed_replica_is_forgotten() -> None:
    """Seed 000 §4.3: the leader clears the state that it keeps of removed replicas."""
    leader = leading()
    fetch(leader, 3, 100)
    leader.update(assignment((1, 2), (1, 2), leader_epoch=6, partition_epoch=9), now_ms=2)
    assert leader.followers.get(3) is None
    assert fetch(leader, 3, 100) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader.update(assignment((1, 2, 3), (1, 2), leader_epoch=6, partition_epoch=10), now_ms=3)
    progress = leader.followers.get(3)
    assert progress is not None
    assert progress.log_end is None


def test_an_added_replica_is_known_at_once_and_holds_nothing_up() -> None:
    leader = leading(assignment((1, 2), (1, 2)))
    leader.update(assignment((1, 2, 4), (1, 2), partition_epoch=9), now_ms=2)
    fetch(leader, 2, 100)
    assert leader.advance(2, LIVE)
    assert leader.followers.get(4) is not None


def test_an_answer_of_an_older_state_leaves_the_proposal_in_flight() -> None:
    leader = leading(assignment(isr=(1, 2)))
    fetch(leader, 3, 100)
    proposal = propose(leader)
    assert proposal is not None
    leader.on_committed(proposal, CommittedIsr((1, 2, 3), 5, 7))
    assert leader.pending is proposal
    assert leader.assignment.isr == (1, 2)


def test_a_truncation_lowers_the_high_watermark_of_a_follower() -> None:
    """An unclean election may cut what was committed; nobody reads beyond the log."""
    follower = FollowerState(assignment(), high_watermark=10)
    follower.truncated(12)
    assert follower.high_watermark == 10
    follower.truncated(4)
    assert follower.high_watermark == 4
