"""BeginQuorumEpoch and EndQuorumEpoch at the voters that get them (KIP-595).

Functions over `State`. When a leader sends them is in `leading`.
"""

from quorum.core import elections
from quorum.core.events import Asker
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Error,
)
from quorum.core.roles import Cause, Unattached
from quorum.core.state import State
from quorum.core.vocabulary import ReplicaId
from quorum.core.voters import is_meant


def on_begin_quorum_epoch(
    state: State, asker: Asker, request: BeginQuorumEpochRequest, now_ms: int
) -> None:
    error = Error.NONE
    if not is_meant(request.voter, state.me):
        error = Error.INVALID_VOTER_KEY
    elif request.epoch < state.election.epoch:
        error = Error.FENCED_LEADER_EPOCH
    else:
        state.learn(request.epoch, request.leader, now_ms, request.leader)
        if not state.follows(request.leader):
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
        state.learn(request.epoch, request.leader, now_ms, request.leader)
        if state.follows(request.leader):
            _succeed(state, request.preferred_successors, now_ms)
        else:
            error = Error.INVALID_REQUEST
    epoch = state.election.epoch
    state.answer(asker, EndQuorumEpochResponse(error=error, epoch=epoch, leader=state.leader))


def _succeed(state: State, successors: tuple[ReplicaId, ...], now_ms: int) -> None:
    """The leader resigned: the first successor stands at once, the p-th after its share of the
    back-off, those not named after all of it. Whoever is named needs no pre-vote."""
    state.resigned_epoch = state.election.epoch
    if state.stopping or not state.may_be_needed:
        state.become(Unattached(None), Cause.LEADER_RESIGNED)
        return
    backoff_ms = state.timeouts.election_backoff_ms_max
    named = state.me.id in successors
    if named:
        backoff_ms = successors.index(state.me.id) * (backoff_ms // len(successors))
    state.become(Unattached(now_ms + backoff_ms, named=named), Cause.LEADER_RESIGNED)
    if backoff_ms == 0:
        elections.campaign(state, Cause.SUCCESSION, now_ms)
