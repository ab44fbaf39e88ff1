"""The rules of an election, as pure functions."""

from collections.abc import Mapping
from enum import StrEnum

from quorum.core.vocabulary import ElectionState, OffsetAndEpoch, ReplicaId, ReplicaKey
from quorum.core.voter_set import VoterSet


class VoteRefusal(StrEnum):
    LEADER_KNOWN = "this epoch has a leader"
    VOTED_FOR_ANOTHER = "already voted for another candidate"
    LOG_BEHIND = "the candidate's log is behind"


def vote_refusal(
    election: ElectionState,
    *,
    candidate: ReplicaKey,
    candidate_end: OffsetAndEpoch,
    own_end: OffsetAndEpoch,
) -> VoteRefusal | None:
    """Return the reason not to vote for `candidate` in the election's epoch, or None.

    A repeated request of the same candidate is granted again: the first answer may be lost.
    """
    if election.leader is not None:
        return VoteRefusal.LEADER_KNOWN
    if election.voted_for not in (None, candidate):
        return VoteRefusal.VOTED_FOR_ANOTHER
    if is_behind(candidate_end, own_end):
        return VoteRefusal.LOG_BEHIND
    return None


def is_behind(candidate_end: OffsetAndEpoch, own_end: OffsetAndEpoch) -> bool:
    """Return True if our log is more up to date than the candidate's (Raft §5.4.1)."""
    return candidate_end < own_end


class Tally(StrEnum):
    PENDING = "pending"
    WON = "won"
    LOST = "lost"


def tally(voters: VoterSet, votes: Mapping[ReplicaId, bool]) -> Tally:
    """Return the outcome so far; LOST if the missing votes cannot change it."""
    assert votes.keys() <= voters.ids
    granted = sum(votes.values())
    if granted >= voters.majority:
        return Tally.WON
    if len(voters) - (len(votes) - granted) < voters.majority:
        return Tally.LOST
    return Tally.PENDING
