"""The leader: open the epoch, serve fetches, commit, check the quorum, resign.

Functions over `State`. `replica_progress` tracks the other replicas, `high_watermark` computes
what their progress commits. A leader also resigns in `slow_disk`, `reconfiguration` and
`leadership_transfer`.

A voter's fetch offset is what its disk holds, so it never falls. If it does (a durability
regression), the disk has lost records that may have been counted for a commit: an older copy was
put back, or the disk reports writes as durable that are not. Nothing can be undone then, but
nothing is lost while the other voters hold those records; the leader warns the operator.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from quorum.core import read_index
from quorum.core.effects import AppendLeaderChange, AppendProposed, Commit, Lead, Warn
from quorum.core.events import Asker, Correlation, Proposed, ReadIndex
from quorum.core.high_watermark import high_watermark
from quorum.core.leader_discovery import sources
from quorum.core.limits import FETCH_BYTES_MAX
from quorum.core.messages import (
    Batch,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
)
from quorum.core.replica_progress import LogBounds, ProgressTracker, ReplicaProgress
from quorum.core.roles import Cause, Leader, Resigned
from quorum.core.state import State
from quorum.core.vocabulary import ElectionState, Epoch, Offset, OffsetAndEpoch, ReplicaId
from quorum.core.voter_set import VoterAssignment

FOUNDING_RECORDS: Final = 3
"""LeaderChange, KRaftVersion and Voters open a log that records its voters."""


def take_lead(state: State, granting: tuple[ReplicaId, ...], now_ms: int) -> None:
    """Open the epoch with a LeaderChange record and announce it to every voter."""
    epoch, batch = state.election.epoch, _opening(state)
    state.election = ElectionState(epoch, state.election.voted_for, leader=state.me.id)
    state.lost_elections = 0
    leader = Leader(
        epoch=epoch,
        since_ms=now_ms,
        epoch_start=batch.base,
        tracker=ProgressTracker(
            state.voters, state.me.id, state.bounds, state.timeouts.observer_linger_ms
        ),
        check_quorum_ms=None,
        announce_ms=None,
        disk_checked_end=batch.base,
    )
    state.become(leader, Cause.MAJORITY_GRANTED)
    state.append(batch)
    take_voters(state, leader, now_ms)
    state.effects.append(
        AppendLeaderChange(
            batch=batch, leader=state.me.id, voters=state.voters.sorted(), granting=granting
        )
    )
    state.effects.append(Lead(epoch))
    if leader.announce_ms is not None:
        _announce(state, leader, now_ms)


def take_voters(state: State, leader: Leader, now_ms: int) -> None:
    """Apply a changed voter set to progress, commits and announcements."""
    leader.tracker.take_voters(state.voters)
    if state.log.assignments.last is not None:
        without_directory = (each.id for each in state.voters if not each.directory_id_is_known)
        leader.changes.without_directory = frozenset(without_directory)
        leader.changes.is_wanted = True
    if not leader.tracker.voters:
        leader.check_quorum_ms = leader.announce_ms = leader.disk_check_ms = None
    elif leader.announce_ms is None:
        leader.check_quorum_ms = now_ms + state.timeouts.fetch_timeout_ms
        leader.disk_check_ms = now_ms + state.timeouts.fetch_timeout_ms
        leader.announce_ms = now_ms


def on_tick(state: State, leader: Leader, now_ms: int) -> None:
    if leader.announce_ms is not None and now_ms >= leader.announce_ms:
        _announce(state, leader, now_ms)
    read_index.give_up_due(state, leader, now_ms)
    _answer(state, leader.tracker.wake_due(_view(state, leader), now_ms))


def on_fetch(state: State, asker: Asker, request: FetchRequest, now_ms: int) -> None:
    refusal = refusal_of_fetch(state, request)
    if refusal is not None:
        response = FetchResponse(error=refusal, epoch=state.election.epoch, leader=state.leader)
        state.answer(asker, response)
        return
    leader = state.role
    assert isinstance(leader, Leader)
    reaches_back = state.log.reaches_back_to(request.log_end)
    diverging = state.log.divergence(request.log_end) if reaches_back else None
    if not reaches_back or diverging is not None:
        snapshot = None if reaches_back else state.log.newest_snapshot
        assert reaches_back or snapshot is not None, "nothing says what came before the log start"
        progress = leader.tracker.progress_of(request.replica)
        _report_regression(state, progress, request)
        goal = _goal(state, leader, progress)
        progress.seen(request.replica, request.log_end.offset, goal, now_ms)
        response = FetchResponse(
            epoch=state.election.epoch,
            leader=state.me.id,
            log_start=state.log.start,
            diverging=diverging,
            snapshot=None if snapshot is None else snapshot.id,
        )
        state.answer(asker, response)
        return
    _acknowledge(state, leader, request, now_ms)
    _answer(state, leader.tracker.serve(asker, request, _view(state, leader), now_ms))


def on_proposed(state: State, event: Proposed, now_ms: int) -> None:
    leader = state.role
    assert isinstance(leader, Leader), f"only a leader appends, and this node is {leader}"
    assert event.count > 0
    base = state.log.end.offset
    batch = Batch(base, Offset(base + event.count), state.election.epoch)
    state.append(batch)
    state.effects.append(AppendProposed(batch))
    wake_for_records(state, leader)


def wake_for_records(state: State, leader: Leader) -> None:
    """Answer the voters that wait for records; their disks need not wait for ours."""
    _answer(state, leader.tracker.wake_for_records(_view(state, leader)))


def wake(state: State, leader: Leader, replicas: Collection[ReplicaId]) -> None:
    """Answer the parked fetches of these replicas, so that they fetch again at once."""
    _answer(state, leader.tracker.wake(_view(state, leader), replicas))


def on_read(state: State, event: ReadIndex, now_ms: int) -> None:
    if read_index.begin(state, event.token, now_ms):
        leader = state.role
        assert isinstance(leader, Leader)
        wake(state, leader, leader.tracker.voters)


def on_flushed(state: State, durable: OffsetAndEpoch, now_ms: int) -> None:
    state.log.flushed(durable)
    if isinstance(state.role, Leader):
        _advance_high_watermark(state, state.role, now_ms)
        read_index.settle(state, state.role)


def forget_announcement(state: State, to: ReplicaId, correlation: Correlation) -> None:
    """Allow another announcement to this voter: the last one has ended."""
    leader = state.role
    if isinstance(leader, Leader) and leader.announcing.get(to) == correlation:
        del leader.announcing[to]


def resign(
    state: State, leader: Leader, cause: Cause, now_ms: int, *, first: ReplicaId | None = None
) -> None:
    """Resign; the successors are `first`, then the most advanced voters."""
    successors = _by_progress(leader, first)
    state.become(Resigned(state.next_election_ms(now_ms)), cause)
    for voter in state.voters:
        if voter.id != state.me.id:
            request = EndQuorumEpochRequest(
                epoch=leader.epoch,
                leader=state.me.id,
                preferred_successors=successors,
                voter=voter.key,
            )
            state.send(voter.id, request)


def _opening(state: State) -> Batch:
    """Return the batch that opens the epoch; in an empty log that records voters, it names them.

    This node, as a voter, knows its own directory id; those of the others only if its folder was
    formatted with them.
    """
    start, epoch = state.log.end.offset, state.election.epoch
    if start > 0 or not state.records_voters:
        return Batch(start, Offset(start + 1), epoch)
    me = state.voters.get(state.me.id)
    assert me is not None
    founders = VoterAssignment(state.voters.with_(replace(me, key=state.me)))
    return Batch(start, Offset(start + FOUNDING_RECORDS), epoch, founders)


def refusal_of_fetch(state: State, request: FetchRequest | FetchSnapshotRequest) -> Error | None:
    """Return the error for a fetch, or None; the epoch is checked first, so that the asker learns
    it."""
    if request.epoch < state.election.epoch:
        return Error.FENCED_LEADER_EPOCH
    if request.epoch > state.election.epoch:
        return Error.UNKNOWN_LEADER_EPOCH
    if not isinstance(state.role, Leader):
        return Error.NOT_LEADER_OR_FOLLOWER
    if request.replica.id == state.me.id:
        return Error.INVALID_REQUEST
    return None


def _acknowledge(state: State, leader: Leader, request: FetchRequest, now_ms: int) -> None:
    progress = leader.tracker.progress_of(request.replica)
    _report_regression(state, progress, request)
    goal = _goal(state, leader, progress)
    progress.fetched(request.replica, request.log_end.offset, goal, now_ms)
    leader.changes.on_fetch(request.replica, now_ms)
    if progress.voter is not None:
        read_index.echoed(leader, progress, request)
        _advance_high_watermark(state, leader, now_ms)
        read_index.settle(state, leader)


def _goal(state: State, leader: Leader, progress: ReplicaProgress) -> Offset:
    """Return the offset that the replica has to reach to be caught up now."""
    if progress.voter is not None:
        return state.log.end.offset
    # An observer gets committed records only.
    return state.shown_high_watermark(leader) or Offset(0)


def _advance_high_watermark(state: State, leader: Leader, now_ms: int) -> None:
    ends = [each.log_end or Offset(0) for each in leader.tracker.voters.values()]
    if state.is_voter:
        # The leader counts itself like any other voter: up to what its own disk has confirmed.
        ends.append(state.log.durable)
    risen = high_watermark(ends, epoch_start=leader.epoch_start, current=state.high_watermark)
    if risen is None or risen == state.high_watermark:
        return
    assert risen <= state.log.end.offset
    state.high_watermark = risen
    state.effects.append(Commit(risen))
    leader.changes.on_commit(now_ms)
    leader.tracker.on_commit(now_ms)


def _announce(state: State, leader: Leader, now_ms: int) -> None:
    """Announce the leader to every voter that does not fetch."""
    silent_since_ms = now_ms - state.timeouts.fetch_timeout_ms // 2
    for voter, progress in leader.tracker.voters.items():
        fetched_ms = progress.last_fetch_ms
        silent = fetched_ms is None or fetched_ms < silent_since_ms
        if silent and voter not in leader.announcing:
            addressed = None if progress.voter is None else progress.voter.key
            request = BeginQuorumEpochRequest(
                epoch=leader.epoch, leader=state.me.id, voter=addressed
            )
            leader.announcing[voter] = state.send(voter, request)
    leader.announce_ms = now_ms + state.timeouts.fetch_timeout_ms // 4


def _by_progress(leader: Leader, first: ReplicaId | None) -> tuple[ReplicaId, ...]:
    progress = leader.tracker.voters

    def rank(voter: ReplicaId) -> tuple[bool, int, ReplicaId]:
        return voter != first, -(progress[voter].log_end or 0), voter

    return tuple(sorted(progress, key=rank))


def _answer(state: State, answers: Iterable[tuple[Asker, FetchResponse]]) -> None:
    for asker, response in answers:
        state.answer(asker, response)


def _view(state: State, leader: Leader) -> LogBounds:
    log = state.log
    shown = state.shown_high_watermark(leader)
    return LogBounds(leader.epoch, state.me.id, log.start, log.end.offset, shown)


def _report_regression(state: State, progress: ReplicaProgress, request: FetchRequest) -> None:
    forgotten = durability_regression(progress, request)
    if forgotten is not None:
        state.effects.append(Warn(forgotten))


def durability_regression(progress: ReplicaProgress, request: FetchRequest) -> str | None:
    """Return a warning about a voter that fetches from below what it has acknowledged, or None."""
    known, asked = progress.log_end, request.log_end.offset
    if known is None or asked >= known or progress.voter is None:
        return None
    return (
        f"voter {request.replica} fetches from offset {asked}, but had acknowledged everything "
        f"below {known}: its disk has lost that, or an older copy of its folder was put back. "
        "Stop none of the other voters before it has caught up. If nobody has put a copy back, "
        "do not trust its disk: let it come back with an empty folder"
    )


def check_quorum(state: State, leader: Leader, now_ms: int) -> None:
    """Ask other nodes for a newer epoch, or resign, if a majority has not fetched (KIP-595).

    The leader may have been replaced without knowing it. After a fetch time-out without a majority
    it asks one node after the other, voters first, and obeys a newer epoch. After one and a half
    fetch time-outs it resigns: it can commit nothing, and its clients wait in vain.
    """
    if leader.check_quorum_ms is None or now_ms < leader.check_quorum_ms:
        return
    others_needed = state.voters.majority - state.is_voter
    if not others_needed:
        leader.check_quorum_ms = None
        return
    heard_ms = _majority_heard_ms(leader, others_needed)
    doubt_ms = heard_ms + state.timeouts.fetch_timeout_ms
    resign_ms = heard_ms + state.timeouts.check_quorum_ms
    if now_ms >= resign_ms:
        resign(state, leader, Cause.QUORUM_LOST, now_ms)
    elif now_ms >= doubt_ms:
        _ask_around(state, leader)
        leader.check_quorum_ms = min(resign_ms, now_ms + state.timeouts.doubt_interval_ms)
    else:
        leader.doubts = None
        leader.check_quorum_ms = doubt_ms


def _majority_heard_ms(leader: Leader, others_needed: int) -> int:
    """Return the latest time since which a majority has fetched."""
    last_fetches = sorted(
        (
            leader.since_ms if each.last_fetch_ms is None else each.last_fetch_ms
            for each in leader.tracker.voters.values()
        ),
        reverse=True,
    )
    return last_fetches[others_needed - 1]


def _ask_around(state: State, leader: Leader) -> None:
    """Fetch from the next node (the first one at random) only to learn its epoch.

    The fetch starts at offset 0, so it acknowledges nothing.
    """
    others = sources(state)
    if not others:
        return
    leader.doubts = state.rng.randrange(len(others)) if leader.doubts is None else leader.doubts + 1
    request = FetchRequest(
        replica=state.me,
        epoch=leader.epoch,
        log_end=OffsetAndEpoch(Epoch(0), Offset(0)),
        max_wait_ms=0,
        max_bytes=FETCH_BYTES_MAX,
    )
    state.send(others[leader.doubts % len(others)], request)
