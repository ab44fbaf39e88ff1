"""How an epoch gets its leader: candidacies, votes, and the announcements at both ends.

Functions over `State`. What may be granted is decided in `votes`; here it is carried out.
"""

from quorum.core import leading, own_disk
from quorum.core.events import Asker, Correlation
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Error,
    VoteRequest,
    VoteResponse,
)
from quorum.core.roles import Candidate, Cause, Follower, Unattached
from quorum.core.state import State
from quorum.core.vocabulary import Election, Epoch, ReplicaId
from quorum.core.voters import is_meant
from quorum.core.votes import Tally, tally, vote_refusal


def campaign(state: State, cause: Cause, now_ms: int) -> None:
    """Stand in the next epoch: vote for oneself, ask all others."""
    assert state.is_voter
    assert not state.stopping
    if own_disk.holds_back(state):
        own_disk.wait_for_it(state, now_ms)
        return
    state.election = Election(Epoch(state.election.epoch + 1), voted_for=state.me)
    deadline_ms = state.next_election_ms(now_ms)
    assert deadline_ms is not None
    candidate = Candidate(deadline_ms, votes={state.me.id: True})
    state.become(candidate, cause)
    _ask_for_votes(state, candidate)
    _conclude(state, candidate, now_ms)


def on_candidate_tick(state: State, candidate: Candidate, now_ms: int) -> None:
    if now_ms >= candidate.election_deadline_ms:
        campaign(state, Cause.ELECTION_TIMEOUT, now_ms)
    elif candidate.ask_again_ms is not None and now_ms >= candidate.ask_again_ms:
        candidate.ask_again_ms = None
        _ask_for_votes(state, candidate)


def on_vote_request(state: State, asker: Asker, request: VoteRequest, now_ms: int) -> None:
    """Whoever asks and whoever is asked: their logs may be behind in what they say of the voters.

    A new voter's vote can be needed before it knows that it is one; whether a vote counts is for
    the candidate to know (Raft §4.2.2 of the dissertation, "without consulting their current
    configuration").
    """
    if not is_meant(request.voter, state.me):
        state.answer(asker, _vote_error(state, Error.INVALID_VOTER_KEY))
        return
    if request.epoch < state.election.epoch:
        state.answer(asker, _vote_error(state, Error.FENCED_LEADER_EPOCH))
        return
    if request.epoch > state.election.epoch:
        state.enter_epoch(request.epoch, now_ms)
    refusal = vote_refusal(
        state.election,
        candidate=request.candidate,
        candidate_end=request.log_end,
        own_end=state.log.end,
    )
    if refusal is None and state.election.voted_for is None:
        state.election = Election(state.election.epoch, voted_for=request.candidate)
        state.become(Unattached(state.next_election_ms(now_ms)), Cause.VOTE_GRANTED)
    granted = refusal is None
    response = VoteResponse(epoch=state.election.epoch, leader=state.leader, granted=granted)
    state.answer(asker, response)


def on_vote_response(
    state: State, correlation: Correlation, response: VoteResponse, now_ms: int
) -> None:
    candidate = state.role
    if not isinstance(candidate, Candidate) or state.stopping:
        return
    voter = candidate.asked.pop(correlation, None)
    if voter is None or response.epoch != state.election.epoch:
        return  # The answer to a question of an earlier candidacy.
    candidate.votes.setdefault(voter, response.granted and not response.error)
    _conclude(state, candidate, now_ms)


def on_vote_unanswered(state: State, correlation: Correlation, now_ms: int) -> None:
    candidate = state.role
    if isinstance(candidate, Candidate) and candidate.asked.pop(correlation, None) is not None:
        candidate.ask_again_ms = now_ms + state.timeouts.election_timeout_ms // 8


def on_begin_quorum_epoch(
    state: State, asker: Asker, request: BeginQuorumEpochRequest, now_ms: int
) -> None:
    error = Error.NONE
    if not is_meant(request.voter, state.me):
        error = Error.INVALID_VOTER_KEY
    elif request.epoch < state.election.epoch:
        error = Error.FENCED_LEADER_EPOCH
    else:
        state.learn(request.epoch, request.leader, now_ms)
        if state.leader != request.leader:
            error = Error.INVALID_REQUEST  # We know another, or that this one has resigned.
    epoch = state.election.epoch
    state.answer(asker, BeginQuorumEpochResponse(error=error, epoch=epoch, leader=state.leader))


def on_end_quorum_epoch(
    state: State, asker: Asker, request: EndQuorumEpochRequest, now_ms: int
) -> None:
    error = Error.NONE
    if request.leader == state.me.id:
        error = Error.INCONSISTENT_VOTER_SET
    elif request.epoch < state.election.epoch:
        error = Error.FENCED_LEADER_EPOCH
    else:
        state.learn(request.epoch, request.leader, now_ms)
        if state.leader == request.leader:
            _succeed(state, request.preferred_successors, now_ms)
        else:
            error = Error.INVALID_REQUEST
    epoch = state.election.epoch
    state.answer(asker, EndQuorumEpochResponse(error=error, epoch=epoch, leader=state.leader))


def _succeed(state: State, successors: tuple[ReplicaId, ...], now_ms: int) -> None:
    """The leader resigned: the first successor stands at once, the others wait their turn."""
    assert isinstance(state.role, Follower)
    deadline_ms = state.next_election_ms(now_ms)
    if deadline_ms is not None and state.me.id in successors:
        place = successors.index(state.me.id)
        share_ms = state.timeouts.election_backoff_ms_max // len(successors)
        deadline_ms = now_ms + place * share_ms
    state.become(Unattached(deadline_ms), Cause.LEADER_RESIGNED)
    if deadline_ms is not None and deadline_ms <= now_ms:
        campaign(state, Cause.ELECTION_TIMEOUT, now_ms)


def _ask_for_votes(state: State, candidate: Candidate) -> None:
    waiting = set(candidate.asked.values())
    for voter in state.voters:
        if voter.id == state.me.id or voter.id in candidate.votes or voter.id in waiting:
            continue
        request = VoteRequest(
            epoch=state.election.epoch,
            candidate=state.me,
            log_end=state.log.end,
            voter=voter.key,
        )
        candidate.asked[state.send(voter.id, request)] = voter.id


def _conclude(state: State, candidate: Candidate, now_ms: int) -> None:
    match tally(state.voters, candidate.votes):
        case Tally.WON:
            granting = tuple(sorted(v for v, granted in candidate.votes.items() if granted))
            leading.take_lead(state, granting, now_ms)
        case Tally.LOST if not candidate.lost:
            candidate.lost = True
            candidate.election_deadline_ms = now_ms + _backoff_ms(state)
            state.lost_elections += 1
        case Tally.LOST | Tally.PENDING:
            pass


def _backoff_ms(state: State) -> int:
    """After a lost election: random, the range doubling each time, capped (KIP-595)."""
    cap_ms = state.timeouts.election_backoff_ms_max
    range_ms = min(cap_ms, max(1, cap_ms // 16) << min(state.lost_elections, 10))
    return 1 + state.rng.randrange(range_ms)


def _vote_error(state: State, error: Error) -> VoteResponse:
    return VoteResponse(error=error, epoch=state.election.epoch, leader=state.leader)
