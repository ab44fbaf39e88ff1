"""Leadership transfer: on request, a leader hands its lead over to another voter.

Functions over `State`. From the request on the leader accepts no proposals (`QuorumNode.accepts`)
and begins no change of the voters, so the log stops growing. Once the successor has the whole log
and all of it is committed, the leader resigns, and the successor stands at once without a pre-vote
(EndQuorumEpoch). So every earlier proposal has a known outcome. After an election time-out the
leader gives up the transfer, answers with the reason, and keeps the lead. It serves reads until it
resigns.

The successor still has to win an ordinary election.
"""

from collections.abc import Mapping

from quorum.core.effects import AnswerChange
from quorum.core.events import Asker
from quorum.core.leader import resign
from quorum.core.messages import ChangeResponse, Error, TransferRequest
from quorum.core.reconfiguration import Refusal
from quorum.core.replica_progress import ReplicaProgress
from quorum.core.roles import Cause, Leader, Transfer
from quorum.core.state import State
from quorum.core.vocabulary import Offset, ReplicaId


def on_requested(state: State, asker: Asker, request: TransferRequest, now_ms: int) -> None:
    """Begin a transfer, join the one under way to the same voter, or refuse."""
    leader = state.role
    if not isinstance(leader, Leader):
        state.answer_change(asker, Error.NOT_LEADER_OR_FOLLOWER, "this node does not lead")
    elif leader.transfer is not None:
        _join(state, leader.transfer, asker, request)
    elif state.shown_high_watermark(leader) is None:
        text = "this node has just been elected, and has not committed a record of its epoch yet"
        state.answer_change(asker, Error.NOT_LEADER_OR_FOLLOWER, text)
    else:
        _begin(state, leader, asker, request, now_ms)


def go_on(state: State, leader: Leader, now_ms: int) -> None:
    """Resign if the successor has the whole log and all of it is committed."""
    transfer, end = leader.transfer, state.log.end.offset
    if transfer is None or state.high_watermark != end or _reached(leader, transfer) < end:
        return
    leader.transfer = None
    resign(state, leader, Cause.TRANSFER, now_ms, first=transfer.successor)
    response = ChangeResponse(epoch=leader.epoch, successor=transfer.successor)
    for asker in transfer.askers:
        state.effects.append(AnswerChange(asker, response))


def on_tick(state: State, leader: Leader, now_ms: int) -> None:
    """Give up the transfer and keep the lead if it takes too long."""
    transfer = leader.transfer
    if transfer is None or now_ms < transfer.deadline_ms:
        return
    leader.transfer = None
    for asker in transfer.askers:
        text = _reason(state, leader, transfer)
        state.answer_change(asker, Error.ELIGIBLE_LEADERS_NOT_AVAILABLE, text)


def _begin(
    state: State, leader: Leader, asker: Asker, request: TransferRequest, now_ms: int
) -> None:
    found = successor(
        request.to,
        me=state.me.id,
        others=leader.tracker.voters,
        live_since_ms=now_ms - state.timeouts.fetch_timeout_ms,
    )
    if isinstance(found, Refusal):
        state.answer_change(asker, found.error, found.text)
        return
    deadline_ms = now_ms + state.timeouts.election_timeout_ms
    leader.transfer = Transfer(found, deadline_ms, [asker])
    go_on(state, leader, now_ms)


def _join(state: State, transfer: Transfer, asker: Asker, request: TransferRequest) -> None:
    if request.to not in (None, transfer.successor):
        text = f"a transfer of the lead to {transfer.successor} is under way: wait for its end"
        state.answer_change(asker, Error.INVALID_REQUEST, text)
    elif len(transfer.askers) >= state.bounds.transfer_askers:
        text = f"{state.bounds.transfer_askers} requests for the same wait already"
        state.answer_change(asker, Error.INVALID_REQUEST, text)
    else:
        transfer.askers.append(asker)


def _reached(leader: Leader, transfer: Transfer) -> Offset:
    return leader.tracker.voters[transfer.successor].log_end or Offset(0)


def _reason(state: State, leader: Leader, transfer: Transfer) -> str:
    """Return the reason why the lead was not handed over in time."""
    end, within_ms = state.log.end.offset, state.timeouts.election_timeout_ms
    reached = _reached(leader, transfer)
    if reached < end:
        what = f"voter {transfer.successor} has the log up to offset {reached} of {end}"
    else:
        what = f"the log is committed up to offset {state.high_watermark} of {end}"
    return f"{what} after {within_ms} ms: {state.me.id} leads on"


def successor(
    wanted: ReplicaId | None,
    *,
    me: ReplicaId,
    others: Mapping[ReplicaId, ReplicaProgress],
    live_since_ms: int,
) -> ReplicaId | Refusal:
    """Return the voter to lead next, by default the most advanced live one, or a refusal.

    `others` are the voters except this leader.
    """
    live = [each for each, progress in others.items() if progress.is_live(live_since_ms)]
    if wanted is None:
        if live:
            return min(live, key=lambda each: (-(others[each].log_end or 0), each))
        return Refusal(
            Error.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            f"no voter but {me} fetches, so nobody could lead instead",
        )
    if wanted == me:
        return Refusal(Error.ELECTION_NOT_NEEDED, f"{me} leads already")
    if wanted not in others:
        voters = ", ".join(map(str, sorted({me, *others})))
        return Refusal(Error.VOTER_NOT_FOUND, f"{wanted} is no voter; voters are {voters}")
    if wanted not in live:
        able = ", ".join(map(str, sorted(live))) or "nobody"
        return Refusal(
            Error.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            f"voter {wanted} does not fetch from the leader; {able} could lead instead",
        )
    return wanted
