"""Leader election: pre-votes, votes, back-off, and the announcements of leaders to voters.

A voter without a leader becomes prospective first: it asks, in its own epoch, whether it would win
(KIP-996, Raft's dissertation §9.6). It raises its epoch and stands only if a majority would grant
its vote. So a voter that was cut off does not depose a working leader when it returns.

Functions over `State`. `votes` has the rules for granting a vote; this module applies them.
"""

from quorum.core import leader_discovery, slow_disk
from quorum.core.effects import Warn
from quorum.core.events import Asker, Correlation
from quorum.core.leader import take_lead
from quorum.core.limits import EPOCH_MAX, FAILOVER_WAIT_MS_MAX
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Error,
    VoteRequest,
    VoteResponse,
)
from quorum.core.roles import (
    Candidate,
    Cause,
    Follower,
    Leader,
    NotLeader,
    Poll,
    Prospective,
    Resigned,
    Unattached,
)
from quorum.core.state import State
from quorum.core.vocabulary import NO_REPLICA, ElectionState, Epoch, ReplicaId, ReplicaKey
from quorum.core.voter_set import is_meant
from quorum.core.votes import Tally, is_behind, tally, vote_refusal


def prospect(state: State, cause: Cause, now_ms: int, *, is_searching: bool = False) -> None:
    """Ask the other voters whether they would vote for this node; keep the epoch."""
    if not is_held_back(state, now_ms):
        _poll(state, Prospective(is_searching=is_searching), cause, now_ms)


def campaign(state: State, cause: Cause, now_ms: int) -> None:
    """Stand in the next epoch: vote for this node and ask the other voters."""
    if not is_held_back(state, now_ms):
        state.election = ElectionState(Epoch(state.election.epoch + 1), voted_for=state.me)
        _poll(state, Candidate(), cause, now_ms)


def on_tick(state: State, role: NotLeader, now_ms: int) -> None:
    """Stand at the deadline of the role; before it, repeat unanswered vote requests."""
    if role.deadline_ms is None or now_ms < role.deadline_ms:
        if isinstance(role, Poll) and role.ask_again_ms is not None and now_ms >= role.ask_again_ms:
            role.ask_again_ms = None
            _ask_for_votes(state, role)
        return
    match role:
        case Follower() if state.is_promotable:
            prospect(state, role.cause_to_stand, now_ms)
        case Follower():
            state.become(Unattached(None), role.cause_to_stand)
        case Unattached(named=True):
            campaign(state, Cause.SUCCESSION, now_ms)
        case _:
            is_searching = isinstance(role, Poll)
            prospect(state, Cause.ELECTION_TIMEOUT, now_ms, is_searching=is_searching)


def step_down_and_campaign(state: State, replica: ReplicaKey, epoch: Epoch, now_ms: int) -> None:
    """Enter `epoch`, which another replica has reached, and poll to lead above it.

    That replica follows nobody in a lower epoch. It may be a removed voter, which gets no
    announcement, so no refusal would show its epoch. If this leader has been replaced, its poll
    fails: the followers of a later leader refuse (stickiness). A reader without a replica id has no
    epoch of its own.
    """
    if epoch <= state.election.epoch or not isinstance(state.role, Leader):
        return
    if replica.id == NO_REPLICA:
        return
    if not state.may_enter(epoch, now_ms, is_known=state.knows(replica)):
        return
    state.enter_epoch(epoch, now_ms)
    if state.is_promotable:
        prospect(state, Cause.STEPPED_DOWN, now_ms)


def on_vote_request(state: State, asker: Asker, request: VoteRequest, now_ms: int) -> None:
    """Answer a vote request from any replica, voter or not by our log.

    The voter sets of either log may be out of date. A new voter's vote can be
    needed before it knows that it is one; the candidate decides whether a vote counts (Raft
    dissertation §4.2.2, "without consulting their current configuration"). A candidate that our log
    does not name cannot raise the epoch while this node hears its leader (`epoch_allowance`).
    """
    if request.candidate.id == state.me.id:
        # Nobody asks itself, so this is no candidate: a vote in our own name would elect nobody.
        state.answer(asker, _response(state, error=Error.INVALID_REQUEST))
    elif not is_meant(request.voter, state.me):
        state.answer(asker, _response(state, error=Error.INVALID_VOTER_KEY))
    elif request.epoch < state.election.epoch:
        state.answer(asker, _response(state, error=Error.FENCED_LEADER_EPOCH))
    elif request.pre_vote:
        state.answer(asker, _pre_vote(state, request, now_ms))
        step_down_and_campaign(state, request.candidate, request.epoch, now_ms)
    else:
        state.answer(asker, _vote(state, request, now_ms))


def on_vote_response(
    state: State, correlation: Correlation, response: VoteResponse, now_ms: int
) -> None:
    poll = state.role
    if not isinstance(poll, Poll) or state.stopping:
        return
    voter = poll.asked.pop(correlation, None)
    is_vote = isinstance(poll, Candidate)
    if voter is None or (is_vote and response.epoch != state.election.epoch):
        return  # The response belongs to an earlier poll.
    if not is_vote and response.error is Error.UNSUPPORTED_VERSION:
        campaign(state, Cause.PRE_VOTE_UNKNOWN, now_ms)
        return
    poll.votes.setdefault(voter, response.granted and not response.error)
    _conclude(state, poll, now_ms)


def on_vote_unanswered(state: State, correlation: Correlation, now_ms: int) -> None:
    poll = state.role
    if not isinstance(poll, Poll) or poll.asked.pop(correlation, None) is None:
        return
    poll.ask_again_ms = now_ms + state.timeouts.election_timeout_ms // 8
    _conclude(state, poll, now_ms)


def _vote(state: State, request: VoteRequest, now_ms: int) -> VoteResponse:
    if request.epoch > state.election.epoch:
        is_known = state.knows(request.candidate)
        if not state.may_enter(request.epoch, now_ms, is_known=is_known):
            return _response(state)
        state.enter_epoch(request.epoch, now_ms)
    refusal = vote_refusal(
        state.election,
        candidate=request.candidate,
        candidate_end=request.log_end,
        own_end=state.log.end,
    )
    if refusal is None and state.election.voted_for is None:
        state.election = ElectionState(state.election.epoch, voted_for=request.candidate)
        state.become(Unattached(state.next_election_ms(now_ms)), Cause.VOTE_GRANTED)
    return _response(state, granted=refusal is None)


def _pre_vote(state: State, request: VoteRequest, now_ms: int) -> VoteResponse:
    """Answer whether this node would vote for the asker if it stood now.

    The answer is no promise, and only a leader enters the asker's epoch: the asker may never
    stand. This node's vote in the epoch does not matter: the asker would stand in a later one.
    """
    if _leader_lives(state, now_ms) or is_behind(request.log_end, state.log.end):
        return _response(state)
    if state.knows(request.candidate):
        _let_go_first(state, request, now_ms)
    return _response(state, granted=True)


def _leader_lives(state: State, now_ms: int) -> bool:
    return isinstance(state.role, Leader) or state.hears_leader(now_ms)


def _let_go_first(state: State, request: VoteRequest, now_ms: int) -> None:
    """Wait a moment before standing, so that two voters without a leader do not split the votes."""
    until_ms = now_ms + FAILOVER_WAIT_MS_MAX
    match state.role:
        case Follower() | Unattached(named=False) | Resigned() as role:
            if role.deadline_ms is not None:
                role.deadline_ms = max(role.deadline_ms, until_ms)
        case Prospective() as poll if (request.log_end, request.candidate) > (
            state.log.end,
            state.me,
        ):
            # Both poll at once; only the one with the lesser log (or id) gives way.
            poll.lost = True
            poll.deadline_ms = until_ms
        case _:
            pass


def _poll(state: State, poll: Prospective | Candidate, cause: Cause, now_ms: int) -> None:
    deadline_ms = state.next_election_ms(now_ms)
    assert deadline_ms is not None, "only a node that may be needed stands, and not while it stops"
    poll.deadline_ms = deadline_ms
    if state.is_voter:
        # A node that stands to commit its own removal is no voter and has no vote.
        poll.votes[state.me.id] = True
    state.become(poll, cause)
    _ask_for_votes(state, poll)
    _conclude(state, poll, now_ms)


def _ask_for_votes(state: State, poll: Poll) -> None:
    waiting = set(poll.asked.values())
    for voter in state.voters:
        if voter.id == state.me.id or voter.id in poll.votes or voter.id in waiting:
            continue
        request = VoteRequest(
            epoch=state.election.epoch,
            candidate=state.me,
            log_end=state.log.end,
            voter=voter.key,
            pre_vote=isinstance(poll, Prospective),
        )
        poll.asked[state.send(voter.id, request)] = voter.id


def _conclude(state: State, poll: Poll, now_ms: int) -> None:
    match tally(state.voters, poll.votes):
        case Tally.WON if isinstance(poll, Prospective):
            if not poll.lost:
                campaign(state, Cause.MAJORITY_WOULD_GRANT, now_ms)
        case Tally.WON:
            granting = tuple(sorted(v for v, granted in poll.votes.items() if granted))
            take_lead(state, granting, now_ms)
        case Tally.LOST:
            _lose(state, poll, now_ms)
        case Tally.PENDING if not poll.asked and not all(poll.votes.values()):
            # All reachable voters have answered: the votes were split or too few.
            _lose(state, poll, now_ms)
        case Tally.PENDING:
            pass


def _lose(state: State, poll: Poll, now_ms: int) -> None:
    poll.ask_again_ms = None
    if not poll.lost:
        poll.lost = True
        poll.deadline_ms = now_ms + _backoff_ms(state)
        state.lost_elections += 1


def _backoff_ms(state: State) -> int:
    """Return the random back-off after a lost election; its range doubles up to a cap (KIP-595)."""
    cap_ms = state.timeouts.election_backoff_ms_max
    range_ms = min(cap_ms, max(1, cap_ms // 16) << min(state.lost_elections, 10))
    return 1 + state.rng.randrange(range_ms)


def _response(state: State, *, error: Error = Error.NONE, granted: bool = False) -> VoteResponse:
    # A voter that grants has given up its leader: naming it would make the asker follow it.
    leader = None if granted else state.leader
    return VoteResponse(error=error, epoch=state.election.epoch, leader=leader, granted=granted)


def on_begin_quorum_epoch(
    state: State, asker: Asker, request: BeginQuorumEpochRequest, now_ms: int
) -> None:
    if is_meant(request.voter, state.me):
        error = _obey(state, request, now_ms)
    else:
        error = Error.INVALID_VOTER_KEY
    epoch = state.election.epoch
    state.answer(asker, BeginQuorumEpochResponse(error=error, epoch=epoch, leader=state.leader))


def on_end_quorum_epoch(
    state: State, asker: Asker, request: EndQuorumEpochRequest, now_ms: int
) -> None:
    if request.leader == state.me.id:
        error = Error.INCONSISTENT_VOTER_SET
    else:
        error = _obey(state, request, now_ms)
        if not error:
            _succeed(state, request.preferred_successors, now_ms)
    epoch = state.election.epoch
    state.answer(asker, EndQuorumEpochResponse(error=error, epoch=epoch, leader=state.leader))


def _obey(
    state: State, request: BeginQuorumEpochRequest | EndQuorumEpochRequest, now_ms: int
) -> Error:
    """Follow the leader that sent the request, or return the reason why not."""
    if request.epoch < state.election.epoch:
        return Error.FENCED_LEADER_EPOCH
    is_known = _knows_leader(state, request)
    if not _knows_us(state, request.voter) or (not is_known and state.hears_leader(now_ms)):
        return Error.INVALID_REQUEST
    state.learn(request.epoch, request.leader, now_ms, request.leader, is_known=is_known)
    # Otherwise this node knows another leader, or that this one has resigned.
    return Error.NONE if state.follows(request.leader) else Error.INVALID_REQUEST


def _knows_leader(state: State, request: BeginQuorumEpochRequest | EndQuorumEpochRequest) -> bool:
    """Return True if the leader is a voter by the log, or has got this node's vote."""
    leader, voted_for = request.leader, state.election.voted_for
    if voted_for is not None and (voted_for.id, state.election.epoch) == (leader, request.epoch):
        return True
    named = (*state.voters, *state.log.assignments.named())
    return any(each.id == leader for each in named)


def _knows_us(state: State, addressed: ReplicaKey | None) -> bool:
    """Return True if the sender names this directory, or if the log has no directory of this voter.

    The log of a leader has it, if this node is a voter there. If an election has undone that
    record, the leader is refused here, and this node finds it by its own search.
    """
    own = state.voters.get(state.me.id)
    if own is not None and not own.directory_id_is_known:
        return True
    return addressed == state.me


def _succeed(state: State, successors: tuple[ReplicaId, ...], now_ms: int) -> None:
    """Set the time to stand after the leader has resigned.

    The first of n successors stands at once, the next one after 1/n of the back-off, a voter that
    is not named after all of it. A named successor needs no pre-vote.
    """
    state.resigned_epoch = state.election.epoch
    if state.stopping or not state.is_promotable:
        state.become(Unattached(None), Cause.LEADER_RESIGNED)
        return
    backoff_ms = state.timeouts.election_backoff_ms_max
    named = state.me.id in successors
    if named:
        backoff_ms = successors.index(state.me.id) * (backoff_ms // len(successors))
    state.become(Unattached(now_ms + backoff_ms, named=named), Cause.LEADER_RESIGNED)
    if backoff_ms == 0:
        campaign(state, Cause.SUCCESSION, now_ms)


def is_held_back(state: State, now_ms: int) -> bool:
    """Return True, and postpone the deadline, if this voter may not stand now."""
    if state.election.epoch >= EPOCH_MAX:
        used_up = f"epoch {EPOCH_MAX} is the last one: nobody can be elected any more"
        state.effects.append(Warn(used_up))
        leader_discovery.postpone_election(state, now_ms)
        return True
    if not leader_discovery.may_stand(state):
        leader_discovery.postpone_election(state, now_ms)
        return True
    if slow_disk.holds_back(state):
        slow_disk.postpone_election(state, now_ms)
        return True
    return False
