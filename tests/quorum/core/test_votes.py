import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.core.vocabulary import (
    ElectionState,
    Epoch,
    Offset,
    OffsetAndEpoch,
    ReplicaId,
    ReplicaKey,
)
from quorum.core.voter_set import VoterSet
from quorum.core.votes import Tally, VoteRefusal, tally, vote_refusal

ONE, TWO = ReplicaKey(ReplicaId(1)), ReplicaKey(ReplicaId(2))
LOG_ENDS = st.builds(OffsetAndEpoch, st.integers(0, 3).map(Epoch), st.integers(0, 4).map(Offset))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6])
def test_a_tally_is_final_exactly_when_no_missing_vote_could_change_it(size: int) -> None:
    voters = VoterSet.of(*range(size))
    for cast in itertools.product([True, False, None], repeat=size):
        votes = {ReplicaId(voter): vote for voter, vote in enumerate(cast) if vote is not None}
        missing = itertools.product([True, False], repeat=size - len(votes))
        outcomes = {2 * (sum(votes.values()) + sum(future)) > size for future in missing}
        match outcomes:
            case s if s == {True}:
                wanted = Tally.WON
            case s if s == {False}:
                wanted = Tally.LOST
            case _:
                wanted = Tally.PENDING
        assert tally(voters, votes) is wanted


@pytest.mark.parametrize("size", range(1, 8))
def test_any_two_majorities_share_a_voter_and_no_smaller_number_does(size: int) -> None:
    voters = VoterSet.of(*range(size))
    assert 2 * voters.majority > size
    assert 2 * (voters.majority - 1) <= size


def test_the_votes_of_strangers_are_not_counted() -> None:
    with pytest.raises(AssertionError):
        tally(VoterSet.of(1, 2, 3), {ReplicaId(9): True})


@given(candidate_end=LOG_ENDS, own_end=LOG_ENDS)
def test_a_candidate_is_granted_when_its_log_is_at_least_as_up_to_date(
    candidate_end: OffsetAndEpoch, own_end: OffsetAndEpoch
) -> None:
    """Raft §5.4.1: the later epoch of the last record wins, and of equal ones the longer log."""
    up_to_date = candidate_end.epoch > own_end.epoch or (
        candidate_end.epoch == own_end.epoch and candidate_end.offset >= own_end.offset
    )
    refusal = vote_refusal(
        ElectionState(Epoch(4)), candidate=ONE, candidate_end=candidate_end, own_end=own_end
    )
    assert refusal is (None if up_to_date else VoteRefusal.LOG_BEHIND)


def refusal_in(election: ElectionState) -> VoteRefusal | None:
    end = OffsetAndEpoch(Epoch(1), Offset(1))
    return vote_refusal(election, candidate=ONE, candidate_end=end, own_end=end)


def test_a_vote_once_given_is_given_to_the_same_candidate_only() -> None:
    assert refusal_in(ElectionState(Epoch(2), voted_for=TWO)) is VoteRefusal.VOTED_FOR_ANOTHER
    assert refusal_in(ElectionState(Epoch(2), voted_for=ONE)) is None


def test_no_vote_is_given_in_an_epoch_that_has_a_leader() -> None:
    led = ElectionState(Epoch(2), voted_for=ONE, leader=ONE.id)
    assert refusal_in(led) is VoteRefusal.LEADER_KNOWN
