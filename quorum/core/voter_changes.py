"""How a leader carries out a change of the voters: when a step may be taken, and who hears of it.

Functions over `State`. A step is an assignment in the log. It is in force from its append, so the
next one waits until it is committed, and the first until the leader has committed a record of its
own epoch: what an earlier leader appended may still be undone (Raft §4.1, KIP-853). The steps
themselves are decided in `changing`, what becomes of a request in `voter_requests`.

Nothing is appended beside other work: what makes a step possible sets `due_ms`, and the step is
taken by the tick that follows. So the state machine above is never surprised by a record of ours
in the middle of its own.
"""

from collections.abc import Mapping
from typing import assert_never

from quorum.core import leading
from quorum.core.changing import Seen, Situation, Wait, Waiting, next_step
from quorum.core.effects import AnswerVoters, AppendAssignment
from quorum.core.events import Asker, Located, VotersWanted
from quorum.core.messages import (
    AddVoterRequest,
    Batch,
    Error,
    UpdateVoterRequest,
    VoterRequest,
    VotersResponse,
)
from quorum.core.progress import ReplicaProgress
from quorum.core.roles import Cause, Leader
from quorum.core.state import State
from quorum.core.vocabulary import Offset, ReplicaId, ReplicaKey
from quorum.core.voter_requests import NOT_DONE, NOT_RECORDED, Nothing, Refusal, outcome_of
from quorum.core.voters import VoterAssignment
from quorum.core.voters_wanted import RollCall, VoterChanges, Wanted


def on_event(state: State, event: VotersWanted | Located, now_ms: int) -> None:
    """Take a request for other voters, or where a replica listens, which it may wait for."""
    match event:
        case VotersWanted(asker, request):
            _on_request(state, asker, request, now_ms)
        case Located(replica, endpoints):
            state.locate(replica, endpoints)
            # A log that does not name its voters does not say where they are either.
            if isinstance(state.role, Leader) and state.log.assignments.last is not None:
                state.role.changes.look_soon(now_ms)
        case _:
            assert_never(event)


def _on_request(state: State, asker: Asker, request: VoterRequest, now_ms: int) -> None:
    """It is answered once its record is committed."""
    leader = state.role
    if not isinstance(leader, Leader):
        _answer(state, asker, Error.NOT_LEADER_OR_FOLLOWER, "this node does not lead")
    elif state.log.assignments.last is None:
        _answer(state, asker, Error.UNSUPPORTED_VERSION, NOT_RECORDED)
    elif isinstance(request, UpdateVoterRequest) and request.epoch != leader.epoch:
        newer = request.epoch > leader.epoch
        error = Error.UNKNOWN_LEADER_EPOCH if newer else Error.FENCED_LEADER_EPOCH
        _answer(state, asker, error, f"this node leads epoch {leader.epoch}")
    elif len(leader.changes.requests) >= state.bounds.voter_requests:
        text = f"{NOT_DONE}: {state.bounds.voter_requests} requests for other voters wait already"
        _answer(state, asker, Error.REQUEST_TIMED_OUT, text)
    else:
        leader.changes.requests.append(Wanted(asker, request, now_ms + request.timeout_ms))
        leader.changes.roll = None
        leader.changes.look_soon(now_ms)


def on_tick(state: State, leader: Leader, now_ms: int) -> None:
    """Look for the next step, if it is time to; the one place where assignments are appended."""
    changes = leader.changes
    if changes.due_ms is None or now_ms < changes.due_ms:
        return
    changes.looked_ms = now_ms
    _answer_recorded(state, leader)
    changes.wait = _hindrance(state, leader)
    if changes.wait is not None or (changes.roll is not None and now_ms >= changes.roll.until_ms):
        changes.roll = None
    if changes.wait is None and not state.is_voter:
        # What removed it is committed, so the others can go on without it.
        leading.resign(state, leader, Cause.REMOVED, now_ms)
        return
    if changes.wait is None:
        _take_step(state, leader, now_ms)
    _give_up_due(state, leader, now_ms)
    _wait_for_more(state, leader, now_ms)


def _answer_recorded(state: State, leader: Leader) -> None:
    recorded, reached = leader.changes.recorded, state.high_watermark or Offset(0)
    while recorded and recorded[0][0] <= reached:
        _, asker = recorded.popleft()
        _answer(state, asker, Error.NONE, "")


def _hindrance(state: State, leader: Leader) -> Wait | None:
    """Why no assignment may be appended now, whatever it is."""
    committed = state.high_watermark
    if committed is None or committed <= leader.epoch_start:
        return Wait(Waiting.NO_COMMIT_IN_EPOCH)
    if state.log.assignments.last_end > committed:
        return Wait(Waiting.UNCOMMITTED)
    if leader.transfer is not None:
        return Wait(Waiting.TRANSFER)
    return None


def _take_step(state: State, leader: Leader, now_ms: int) -> None:
    situation = _situation(state, leader, now_ms)
    for wanted in tuple(leader.changes.requests):
        outcome = outcome_of(wanted.request, situation)
        if isinstance(outcome, Wait):
            wanted.wait = outcome
            continue
        leader.changes.requests.remove(wanted)
        match outcome:
            case Refusal(error, text):
                _answer(state, wanted.asker, error, text)
            case Nothing():
                _answer(state, wanted.asker, Error.NONE, "")
            case _:
                _append(state, leader, outcome, now_ms)
                _answer_when_due(state, leader, wanted)
                return
    step = next_step(situation)
    if isinstance(step, VoterAssignment):
        _append(state, leader, step, now_ms)
    else:
        leader.changes.wait = step
        _call_roll(state, leader, now_ms)


def _call_roll(state: State, leader: Leader, now_ms: int) -> None:
    """Let all fetch at once who could be counted on for a step, if one waits for that alone.

    The fetch time-out is how long who lives may take for it: each of them has been heard then, and
    nobody counts for longer.
    """
    changes = leader.changes
    waits = [changes.wait, *(each.wait for each in changes.requests)]
    if not any(each is not None and each.reason is Waiting.NOT_HEARD for each in waits):
        changes.roll = None
    elif changes.roll is None:
        called = _countable(state, changes)
        changes.roll = RollCall(called, now_ms + state.timeouts.fetch_timeout_ms)
        leading.wake_for_roll(state, leader, called)


def _countable(state: State, changes: VoterChanges) -> frozenset[ReplicaId]:
    """Who votes, or is to."""
    assignment = state.log.assignments.last
    assert assignment is not None
    ids = {each.id for each in (*state.voters, *(assignment.target or ()))}
    requests = (each.request for each in changes.requests)
    return frozenset(ids | {r.voter.id for r in requests if isinstance(r, AddVoterRequest)})


def _append(state: State, leader: Leader, assignment: VoterAssignment, now_ms: int) -> None:
    base = state.log.end.offset
    batch = Batch(base, Offset(base + 1), leader.epoch, assignment)
    state.append(batch)
    leading.take_voters(state, leader, now_ms)
    state.effects.append(AppendAssignment(batch, assignment))
    leader.changes.wait, leader.changes.roll = Wait(Waiting.UNCOMMITTED), None
    leading.wake_for_records(state, leader)


def _answer_when_due(state: State, leader: Leader, wanted: Wanted) -> None:
    request = wanted.request
    if isinstance(request, AddVoterRequest) and not request.ack_when_committed:
        _answer(state, wanted.asker, Error.NONE, "")
    else:
        leader.changes.recorded.append((state.log.end.offset, wanted.asker))


def _give_up_due(state: State, leader: Leader, now_ms: int) -> None:
    changes = leader.changes
    for wanted in tuple(changes.requests):
        if now_ms >= wanted.deadline_ms:
            changes.requests.remove(wanted)
            reason = changes.wait or wanted.wait
            text = f"{NOT_DONE} in time: {reason}"
            _answer(state, wanted.asker, Error.REQUEST_TIMED_OUT, text)


def _wait_for_more(state: State, leader: Leader, now_ms: int) -> None:
    """Look again when time alone may have changed something."""
    changes, assignment = leader.changes, state.log.assignments.last
    changes.is_wanted = assignment is not None and (
        bool(changes.requests) or assignment.target is not None or changes.wait is not None
    )
    if not (changes.requests or changes.wait or not state.is_voter):
        changes.due_ms = None
        return
    moments = [now_ms + state.timeouts.fetch_timeout_ms // 4]
    moments += [each.deadline_ms for each in changes.requests]
    changes.due_ms = max(now_ms + 1, min(moments))


def _situation(state: State, leader: Leader, now_ms: int) -> Situation:
    assignment = state.log.assignments.last
    assert assignment is not None
    live_since_ms = now_ms - state.timeouts.fetch_timeout_ms
    serving, roll = leader.serving, leader.changes.roll
    present = {} if roll is None else roll.present
    return Situation(
        me=state.me,
        assignment=assignment,
        others=tuple(_seen(each, live_since_ms, present) for each in serving.last_fetched_first()),
        high_watermark=state.high_watermark or Offset(0),
        located=state.located,
    )


def _seen(
    progress: ReplicaProgress, live_since_ms: int, present: Mapping[ReplicaId, ReplicaKey]
) -> Seen:
    fetched_ms, level_ms = progress.last_fetch_ms, progress.last_caught_up_ms
    return Seen(
        progress.replica,
        progress.log_end or Offset(0),
        is_live=fetched_ms is not None and fetched_ms > live_since_ms,
        is_present=present.get(progress.replica.id) == progress.replica,
        was_level=level_ms is not None and level_ms > live_since_ms,
    )


def _answer(state: State, asker: Asker, error: Error, text: str) -> None:
    response = VotersResponse(
        error=error, text=text, epoch=state.election.epoch, leader=state.leader
    )
    state.effects.append(AnswerVoters(asker, response))
