"""Reconfiguration of the voters, one at a time towards a target (KIP-853, Raft §4.1).

Consecutive sets differ in at most one voter, so any majority of one and any majority of the other
share a voter, as long as at most one change is uncommitted. `next_step` depends only on the sets
and on the leader's view of the replicas, so a new leader continues where the old one stopped.

The module has three parts: the pure rules of a step (`next_step`), the pure decision of a request
(`outcome_of`: KIP-595's AlterQuorum, and KIP-853's add, remove and update), and the leader's
process, functions over `State`. A step is an assignment in the log, in force from its append. The
next step waits until it is committed, and the first step until the leader has committed a record
of its own epoch: the records of an earlier leader may still be undone.

Only a tick appends a step: an event that makes one possible sets `due_ms`, and the next tick takes
the step. So no control record appears between the proposals of the state machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, assert_never

from quorum.core.effects import AppendAssignment
from quorum.core.events import Asker
from quorum.core.leader import resign, take_voters, wake, wake_for_records
from quorum.core.limits import VOTERS_MAX
from quorum.core.messages import (
    AddVoterRequest,
    AlterQuorumRequest,
    Batch,
    Error,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterRequest,
)
from quorum.core.replica_progress import ReplicaProgress
from quorum.core.roles import Cause, Leader, LivenessRound, PendingVoterChanges, PendingVoterRequest
from quorum.core.state import State
from quorum.core.vocabulary import NOT_DONE, Offset, ReplicaId, ReplicaKey, uuid_to_text
from quorum.core.voter_set import Endpoint, Voter, VoterAssignment, VoterSet, Wait, WaitReason


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumView:
    """The input of a step: the voters, and the leader's knowledge of the replicas."""

    me: ReplicaKey
    """The leader."""
    assignment: VoterAssignment
    replicas: tuple[ReplicaProgress, ...] = ()
    """All replicas, the latest fetch first; the leader counts as having fetched now."""
    live_since_ms: int = 0
    """A replica is live if it has fetched after this time."""
    present: Mapping[ReplicaId, ReplicaKey] = field(default_factory=dict)
    """The replicas that have fetched since the liveness round of the step began."""
    high_watermark: Offset = Offset(0)
    located: Mapping[ReplicaKey, tuple[Endpoint, ...]] = field(default_factory=dict)
    """The latest endpoints of replicas; a directory id of zero stands for any directory."""

    def seen_as(self, voter: Voter) -> ReplicaProgress | None:
        """Return the progress of the replica that is, or may be, this voter.

        Of two directories under one id, take the one that fetched last: right after a disk was
        wiped, the old directory still counts as live.
        """
        return next((each for each in self.replicas if voter.is_(each.replica)), None)

    def live_as(self, voter: Voter) -> ReplicaProgress | None:
        """Return the same progress if the replica is live."""
        seen = self.seen_as(voter)
        return seen if seen is not None and seen.is_live(self.live_since_ms) else None

    def is_live(self, voter: Voter) -> bool:
        return self.live_as(voter) is not None

    def is_present(self, voter: Voter) -> bool:
        seen = self.seen_as(voter)
        return seen is not None and self.present.get(voter.id) == seen.replica

    def endpoints_of(self, key: ReplicaKey) -> tuple[Endpoint, ...]:
        return self.located.get(key) or self.located.get(ReplicaKey(key.id)) or ()


def next_step(view: QuorumView) -> VoterAssignment | Wait | None:
    """Return the next assignment, the reason to wait, or None if nothing is left to change.

    Corrections of the current voters come first: directory ids that the founders have presented
    since, and addresses that have changed.
    """
    assignment = view.assignment
    corrected = VoterSet(tuple(_learned(view, each) for each in assignment.current))
    if corrected != assignment.current:
        return replace(assignment, current=corrected)
    if assignment.target is None:
        return None
    surplus, missing = difference(assignment.current, assignment.target)
    lost = _lost(view, assignment.target)
    if lost is not None:
        return _checked(view, assignment.current.without(lost.id))
    if not surplus and not missing:
        return VoterAssignment(assignment.current)
    leaving = _leaving(view, surplus, missing)
    if leaving is not None:
        return _checked(view, assignment.current.without(leaving.id))
    addition = _addition(view, missing)
    if isinstance(addition, Wait):
        return addition
    return _checked(view, assignment.current.with_(addition))


def difference(
    current: VoterSet, target: tuple[ReplicaKey, ...]
) -> tuple[tuple[Voter, ...], tuple[ReplicaKey, ...]]:
    """Return the voters that the target does not name, and the targets that are not voters."""
    wanted = [Voter(key) for key in target]
    surplus = tuple(voter for voter in current if not any(each.is_(voter.key) for each in wanted))
    missing = tuple(
        each.key for each in wanted if not any(each.is_(voter.key) for voter in current)
    )
    return surplus, missing


def _lost(view: QuorumView, target: tuple[ReplicaKey, ...]) -> Voter | None:
    """Return a dead voter that the target names only by id while a live replica has that id.

    The target means the live directory, which can join only after the old one is removed.
    """
    for voter in view.assignment.current:
        if ReplicaKey(voter.id) in target and not view.is_live(voter):
            wanted = Voter(ReplicaKey(voter.id))
            if voter.directory_id_is_known and view.is_live(wanted):
                return voter
    return None


def _leaving(
    view: QuorumView, surplus: tuple[Voter, ...], missing: tuple[ReplicaKey, ...]
) -> Voter | None:
    """Return the voter to remove before the next addition, or None: the set grows by one first.

    Dead voters go first, then the voter that is furthest behind; the leader itself goes last.
    """
    current, target = view.assignment.current, view.assignment.target
    assert target is not None
    if not surplus or len(current) == 1:
        return None
    if all(key.id in current for key in missing):
        # Another directory of the same id can join only after the first one is removed.
        blocking = [each for each in surplus if any(key.id == each.id for key in missing)]
        return min(blocking or surplus, key=lambda each: _order_of_leaving(view, each))
    if len(target) < len(current) > len(surplus):
        return min(surplus, key=lambda each: _order_of_leaving(view, each))
    return None


def _order_of_leaving(view: QuorumView, voter: Voter) -> tuple[bool, bool, Offset, ReplicaKey]:
    seen = view.seen_as(voter)
    reached = Offset(0) if seen is None else seen.log_end or Offset(0)
    return voter.is_(view.me), view.is_live(voter), reached, voter.key


def _addition(view: QuorumView, missing: tuple[ReplicaKey, ...]) -> Voter | Wait:
    """Return the next voter to add, or the wait of the candidates that are closest to joining."""
    current = view.assignment.current
    waits: dict[WaitReason, list[ReplicaId]] = {}
    for key in missing:
        if key.id in current:
            continue
        found = candidate(view, Voter(key))
        if isinstance(found, Voter):
            return found
        waits.setdefault(found, []).append(key.id)
    closest = (WaitReason.CATCHING_UP, WaitReason.ADDRESS_UNKNOWN, WaitReason.NOT_SEEN)
    reason = next((each for each in closest if each in waits), WaitReason.NO_MAJORITY)
    return Wait(reason, tuple(waits.get(reason, ())))


def candidate(view: QuorumView, wanted: Voter) -> Voter | WaitReason:
    """Return `wanted` with its directory and address, or the reason why it cannot vote yet.

    It must have reached the high watermark now or within the fetch time-out: then it delays commits
    no longer than any other follower. Now alone would not do: under a steady load the high
    watermark has always moved on before the next fetch acknowledges it.
    """
    seen = view.live_as(wanted)
    if seen is None:
        return WaitReason.NOT_SEEN
    endpoints = wanted.endpoints or view.endpoints_of(seen.replica)
    if not endpoints:
        return WaitReason.ADDRESS_UNKNOWN
    level_ms, is_behind = seen.last_caught_up_ms, (seen.log_end or 0) < view.high_watermark
    if is_behind and (level_ms is None or level_ms <= view.live_since_ms):
        return WaitReason.CATCHING_UP
    return replace(wanted, key=seen.replica, endpoints=endpoints)


def _checked(view: QuorumView, current: VoterSet) -> VoterAssignment | Wait:
    """Return the assignment with these voters, or the wait if they lack a live majority."""
    wait = _lacking(view, current)
    if wait is not None:
        return wait
    target = view.assignment.target
    reached = target is not None and difference(current, target) == ((), ())
    return VoterAssignment(current, None if reached else target)


def _lacking(view: QuorumView, current: VoterSet) -> Wait | None:
    """Return the voters that this set lacks for a live majority, or None.

    A set is in force from its append, so without a live majority it could not commit its own
    record, nor be undone. A voter that has just died is still live, but not present.
    """
    for reason, counts in (
        (WaitReason.NO_MAJORITY, view.is_live),
        (WaitReason.NOT_HEARD, view.is_present),
    ):
        missing = tuple(voter.id for voter in current if not counts(voter))
        if len(current) - len(missing) < current.majority:
            return Wait(reason, missing)
    return None


def _learned(view: QuorumView, voter: Voter) -> Voter:
    """Return a current voter with the directory id and endpoints learned since."""
    key = voter.key
    if not voter.directory_id_is_known:
        seen = view.live_as(voter)
        key = key if seen is None else seen.replica
    endpoints = voter.endpoints
    if voter.directory_id_is_known:
        # Only the endpoints of this very directory: another one is another replica.
        endpoints = view.located.get(key) or endpoints
    return replace(voter, key=key, endpoints=endpoints)


NOT_RECORDED = (
    "the log does not say who votes: it was founded by quorum.voters with kraft.version 0; "
    "a cluster founded at metadata.version 21 or later has kraft.version 1, whose voters can "
    "be changed"
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The refusal of a request: the error, and the reason in words."""

    error: Error
    text: str


Outcome: TypeAlias = VoterAssignment | Wait | Refusal | None
"""The next assignment to record, a wait, a refusal, or None if nothing has to change."""


def outcome_of(request: VoterRequest, view: QuorumView) -> Outcome:
    """Decide `request` while no other change is under way."""
    match request:
        case AlterQuorumRequest(target=target):
            return _alter(target, view)
        case AddVoterRequest():
            return _under_way(view) or _add(request, view)
        case RemoveVoterRequest(voter=key):
            return _under_way(view) or _remove(key, view)
        case UpdateVoterRequest():
            return _update(request, view)
        case _:
            assert_never(request)


def _alter(target: tuple[ReplicaKey, ...] | None, view: QuorumView) -> Outcome:
    assignment = view.assignment
    if target is None:
        return None if assignment.target is None else VoterAssignment(assignment.current)
    wrong = _impossible(target)
    if wrong is not None:
        return Refusal(Error.INVALID_REQUEST, wrong)
    surplus, missing = difference(assignment.current, target)
    if not surplus and not missing:
        return None if assignment.target is None else VoterAssignment(assignment.current)
    if len(assignment.current) == 1 and all(key.id in assignment.current for key in missing):
        # Between the removal and the addition no voter would hold the log.
        (voter,) = assignment.current
        return Refusal(
            Error.INVALID_REQUEST,
            f"{voter.id} is the only voter and would give way to another directory of its own: "
            "name a second voter first",
        )
    wanted = VoterAssignment(assignment.current, target)
    return None if wanted == assignment else wanted


def _impossible(target: tuple[ReplicaKey, ...]) -> str | None:
    """Return the error in the target voters themselves, or None."""
    if not target:
        return "no voter is named: a quorum has at least one; null cancels"
    if len(target) > VOTERS_MAX:
        return f"{len(target)} voters are named, at most {VOTERS_MAX} can be"
    ids = [each.id for each in target]
    twice = next((each for each in ids if ids.count(each) > 1), None)
    if twice is not None:
        return f"voter {twice} is named twice"
    negative = next((each for each in ids if each < 0), None)
    return None if negative is None else f"{negative} is no id of a voter"


def _under_way(view: QuorumView) -> Refusal | None:
    target = view.assignment.target
    if target is None:
        return None
    return Refusal(
        Error.INVALID_REQUEST,
        f"a change to voters {', '.join(str(each.id) for each in target)} is under way: wait for "
        "its end, cancel it, or name other target voters",
    )


def _add(request: AddVoterRequest, view: QuorumView) -> Outcome:
    current, voter = view.assignment.current, request.voter
    known = current.get(voter.id)
    if known is not None:
        return Refusal(
            Error.DUPLICATE_VOTER,
            f"voter {voter.id} is one already, with directory "
            f"{uuid_to_text(known.key.directory_id)}: remove it first if another directory is to "
            "take its place",
        )
    found = candidate(view, voter)
    if isinstance(found, WaitReason):
        return Wait(found, (voter.id,))
    return _checked(view, current.with_(found))


def _remove(key: ReplicaKey, view: QuorumView) -> Outcome:
    current = view.assignment.current
    if not current.has(key):
        return _no_voter(key, current)
    if len(current) == 1:
        return Refusal(Error.INVALID_REQUEST, f"{key.id} is the only voter: add another one first")
    return _checked(view, current.without(key.id))


def _no_voter(key: ReplicaKey, current: VoterSet) -> Refusal:
    return Refusal(Error.VOTER_NOT_FOUND, f"{key.text} is no voter; voters are {current.text}")


def _update(request: UpdateVoterRequest, view: QuorumView) -> Outcome:
    assignment, voter = view.assignment, request.voter
    if not assignment.current.has(voter.key):
        return _no_voter(voter.key, assignment.current)
    if not voter.endpoints:
        return Refusal(Error.INVALID_REQUEST, f"{voter.key.text} names no listener")
    if assignment.current.get(voter.id) == voter:
        return None
    return replace(assignment, current=assignment.current.with_(voter))


def on_requested(state: State, asker: Asker, request: VoterRequest, now_ms: int) -> None:
    """Queue or refuse a request for other voters; the answer follows the commit of its record."""
    leader = state.role
    if not isinstance(leader, Leader):
        state.answer_change(asker, Error.NOT_LEADER_OR_FOLLOWER, "this node does not lead")
    elif state.log.assignments.last is None:
        state.answer_change(asker, Error.UNSUPPORTED_VERSION, NOT_RECORDED)
    elif isinstance(request, UpdateVoterRequest) and request.epoch != leader.epoch:
        newer = request.epoch > leader.epoch
        error = Error.UNKNOWN_LEADER_EPOCH if newer else Error.FENCED_LEADER_EPOCH
        state.answer_change(asker, error, f"this node leads epoch {leader.epoch}")
    elif len(leader.changes.requests) >= state.bounds.voter_requests:
        text = f"{NOT_DONE}: {state.bounds.voter_requests} requests for other voters wait already"
        state.answer_change(asker, Error.REQUEST_TIMED_OUT, text)
    else:
        leader.changes.requests.append(
            PendingVoterRequest(asker, request, now_ms + request.timeout_ms)
        )
        leader.changes.liveness_round = None
        leader.changes.check_soon(now_ms)


def on_tick(state: State, leader: Leader, now_ms: int) -> None:
    """Take the next step if it is due; no other function appends assignments."""
    changes = leader.changes
    if changes.due_ms is None or now_ms < changes.due_ms:
        return
    changes.checked_ms = now_ms
    while changes.recorded and changes.recorded[0][0] <= (state.high_watermark or 0):
        _, asker = changes.recorded.popleft()
        state.answer_change(asker)
    changes.wait = _hindrance(state, leader)
    round_ = changes.liveness_round
    if changes.wait is not None or (round_ is not None and now_ms >= round_.until_ms):
        changes.liveness_round = None
    if changes.wait is None and not state.is_voter:
        # The removal of this leader is committed, so the others can go on without it.
        resign(state, leader, Cause.REMOVED, now_ms)
        return
    if changes.wait is None:
        _take_step(state, leader, now_ms)
    _give_up_due(state, leader, now_ms)
    _wait_for_more(state, leader, now_ms)


def _hindrance(state: State, leader: Leader) -> Wait | None:
    """Return the reason why no assignment at all may be appended now, or None."""
    committed = state.shown_high_watermark(leader)
    if committed is None:
        return Wait(WaitReason.NO_COMMIT_IN_EPOCH)
    if state.log.assignments.last_end > committed:
        return Wait(WaitReason.UNCOMMITTED)
    if leader.transfer is not None:
        return Wait(WaitReason.TRANSFER)
    return None


def _take_step(state: State, leader: Leader, now_ms: int) -> None:
    view = _view(state, leader, now_ms)
    for wanted in tuple(leader.changes.requests):
        outcome = outcome_of(wanted.request, view)
        if isinstance(outcome, Wait):
            wanted.wait = outcome
            continue
        leader.changes.requests.remove(wanted)
        match outcome:
            case Refusal(error, text):
                state.answer_change(wanted.asker, error, text)
            case None:
                state.answer_change(wanted.asker)
            case _:
                _append(state, leader, outcome, now_ms)
                _answer_when_due(state, leader, wanted)
                return
    step = next_step(view)
    if isinstance(step, VoterAssignment):
        _append(state, leader, step, now_ms)
    else:
        leader.changes.wait = step
        _begin_liveness_round(state, leader, now_ms)


def _begin_liveness_round(state: State, leader: Leader, now_ms: int) -> None:
    """Begin a liveness round if a step waits only for fresh fetches of its replicas.

    Their parked fetches are answered at once. The round ends after a fetch time-out, by which every
    live replica has fetched again.
    """
    changes = leader.changes
    waits = [changes.wait, *(each.wait for each in changes.requests)]
    if not any(each is not None and each.reason is WaitReason.NOT_HEARD for each in waits):
        changes.liveness_round = None
    elif changes.liveness_round is None:
        awaited = _countable(state, changes)
        changes.liveness_round = LivenessRound(awaited, now_ms + state.timeouts.fetch_timeout_ms)
        wake(state, leader, awaited)


def _countable(state: State, changes: PendingVoterChanges) -> frozenset[ReplicaId]:
    """The ids of current, target and requested voters."""
    assignment = state.log.assignments.last
    assert assignment is not None
    ids = {each.id for each in (*state.voters, *(assignment.target or ()))}
    requests = (each.request for each in changes.requests)
    return frozenset(ids | {r.voter.id for r in requests if isinstance(r, AddVoterRequest)})


def _append(state: State, leader: Leader, assignment: VoterAssignment, now_ms: int) -> None:
    base = state.log.end.offset
    batch = Batch(base, Offset(base + 1), leader.epoch, assignment)
    state.append(batch)
    take_voters(state, leader, now_ms)
    state.effects.append(AppendAssignment(batch, assignment))
    leader.changes.wait, leader.changes.liveness_round = Wait(WaitReason.UNCOMMITTED), None
    wake_for_records(state, leader)


def _answer_when_due(state: State, leader: Leader, wanted: PendingVoterRequest) -> None:
    request = wanted.request
    if isinstance(request, AddVoterRequest) and not request.ack_when_committed:
        state.answer_change(wanted.asker)
    else:
        leader.changes.recorded.append((state.log.end.offset, wanted.asker))


def _give_up_due(state: State, leader: Leader, now_ms: int) -> None:
    changes = leader.changes
    for wanted in tuple(changes.requests):
        if now_ms >= wanted.deadline_ms:
            changes.requests.remove(wanted)
            reason = changes.wait or wanted.wait
            text = f"{NOT_DONE} in time: {reason}"
            state.answer_change(wanted.asker, Error.REQUEST_TIMED_OUT, text)


def _wait_for_more(state: State, leader: Leader, now_ms: int) -> None:
    """Set the time of the next check for a step."""
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


def _view(state: State, leader: Leader, now_ms: int) -> QuorumView:
    assignment = state.log.assignments.last
    assert assignment is not None
    own = ReplicaProgress(state.me, log_end=state.log.end.offset, last_fetch_ms=now_ms)
    round_ = leader.changes.liveness_round
    return QuorumView(
        me=state.me,
        assignment=assignment,
        replicas=(own, *leader.tracker.last_fetched_first()),
        live_since_ms=now_ms - state.timeouts.fetch_timeout_ms,
        present={state.me.id: state.me} | ({} if round_ is None else round_.present),
        high_watermark=state.high_watermark or Offset(0),
        located=state.located,
    )
