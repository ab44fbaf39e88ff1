"""One replica of the quorum: the pure, deterministic core.

`QuorumNode` owns no socket, file, clock or source of randomness. It changes only inside
`step(event, now_ms=...)`, which returns the effects to perform, in order. `deadline_ms` is the next
time at which the driver must call `step`, even without an event. The same events at the same times
give the same effects: production, unit tests and simulation run this class.

`step` passes each event to its handler in `HANDLERS`, at the end of this module; most handlers are
in `elections`, `leader` and `follower`. They check their guards first and then change the one
`State`. The critical rules are pure functions in `votes`, `high_watermark` and `raft_log`.
"""

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, assert_never

from quorum.core import (
    elections,
    follower,
    leader,
    leader_discovery,
    leadership_transfer,
    reconfiguration,
    slow_disk,
    snapshots,
)
from quorum.core.effects import Effect, PersistElection
from quorum.core.events import (
    ChangeRequested,
    DiscoveryDone,
    DiskSpaceChanged,
    EndpointsUpdated,
    Event,
    Flushed,
    LeaderUnreachable,
    Proposed,
    ReadIndex,
    RequestReceived,
    RequestTimedOut,
    ResponseReceived,
    SnapshotInstalled,
    SnapshotRefused,
    SnapshotTaken,
    Stopping,
    Tick,
)
from quorum.core.limits import BATCH_RECORDS_MAX, Bounds, Timeouts
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    TransferRequest,
    VoteRequest,
    VoteResponse,
)
from quorum.core.raft_log import RaftLog
from quorum.core.replica_progress import ReplicaProgress
from quorum.core.roles import (
    Candidate,
    Cause,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
)
from quorum.core.state import DiscoveryState, FetchState, SnapshotDownload, State
from quorum.core.vocabulary import (
    ElectionState,
    Epoch,
    Offset,
    OffsetAndEpoch,
    ReplicaId,
    ReplicaKey,
)
from quorum.core.voter_set import VoterAssignment, VoterSet, Wait


class QuorumNode:
    def __init__(
        self,
        me: ReplicaKey,
        voters: VoterSet,
        *,
        election: ElectionState,
        log: RaftLog,
        timeouts: Timeouts,
        rng: random.Random,
        now_ms: int,
        records_voters: bool = False,
        discovery: DiscoveryState | None = None,
        received: tuple[OffsetAndEpoch, int] | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        """`voters` are the founders: they count as long as the log does not record voters.

        With `records_voters` the first leader of an empty log records them (kraft.version 1).
        `discovery` is the state of discovery, `received` the id of a snapshot that an earlier
        process has received in part, and the number of its bytes.
        """
        self.bounds = bounds or Bounds()
        self._state = state = State(
            me=me,
            founders=voters,
            records_voters=records_voters,
            timeouts=timeouts,
            bounds=self.bounds,
            rng=rng,
            election=election,
            role=Unattached(None),
            log=log,
            fetching=FetchState(timeouts),
            discovery=discovery or DiscoveryState(),
        )
        state.receiving = None if received is None else SnapshotDownload(*received)
        if log.newest_snapshot is not None:
            state.high_watermark = log.newest_snapshot.end
        # A restart is no transition of the table: the role follows from the stored election.
        state.role = _role_after_restart(state, now_ms)

    def __str__(self) -> str:
        watermark = "" if self.high_watermark is None else f", high watermark {self.high_watermark}"
        return (
            f"{self.me.id} is {self.role} ({self._state.election}; log {self.log_end}{watermark})"
        )

    @property
    def me(self) -> ReplicaKey:
        return self._state.me

    @property
    def voters(self) -> VoterSet:
        return self._state.voters

    @property
    def role(self) -> Role:
        return self._state.role

    @property
    def epoch(self) -> Epoch:
        return self._state.election.epoch

    @property
    def voted_for(self) -> ReplicaKey | None:
        """The candidate that has this node's vote in the epoch."""
        return self._state.election.voted_for

    @property
    def leader(self) -> ReplicaId | None:
        """The leader of the epoch, as far as this node knows."""
        return self._state.leader

    @property
    def log_end(self) -> OffsetAndEpoch:
        return self._state.log.end

    @property
    def high_watermark(self) -> Offset | None:
        return self._state.high_watermark

    def epoch_at(self, offset: Offset) -> Epoch:
        """The epoch of the record at `offset`, which must be in the log."""
        return self._state.log.history.epoch_at(offset)

    def voters_at(self, end: Offset) -> VoterAssignment | None:
        """The voters when the log ended at `end`; None if it does not record voters."""
        return self._state.log.assignments.at(end)

    @property
    def has_room(self) -> bool:
        """True unless the last write found this node's disk full."""
        return self._state.has_room

    @property
    def successor(self) -> ReplicaId | None:
        """The voter to which this node transfers its lead; None without a transfer."""
        transfer = self.role.transfer if isinstance(self.role, Leader) else None
        return None if transfer is None else transfer.successor

    @property
    def epoch_start(self) -> Offset | None:
        """The start offset of the epoch that this node leads; None unless it leads."""
        return self.role.epoch_start if isinstance(self.role, Leader) else None

    def accepts(self, count: int, waiting: int = 0) -> bool:
        """Return True if there is room for a batch of `count` records after `waiting` others."""
        state = self._state
        role, committed = state.role, state.high_watermark
        if not isinstance(role, Leader) or not 0 < count <= BATCH_RECORDS_MAX:
            return False
        if not state.has_room or role.transfer is not None:
            return False
        committed = role.epoch_start if committed is None else committed
        # Committed records may still wait in memory for our own disk.
        held = state.log.end.offset - min(committed, state.log.durable)
        return held + waiting + count <= state.bounds.uncommitted_records

    @property
    def deadline_ms(self) -> int | None:
        """The next time at which `step` is due without an event; None if there is none."""
        state = self._state
        moments: tuple[int | None, ...]
        match state.role:
            case Leader() as led:
                moments = (
                    led.check_quorum_ms,
                    led.announce_ms,
                    led.disk_check_ms,
                    led.tracker.deadline_ms,
                    led.reads[0].deadline_ms if led.reads else None,
                    led.changes.due_ms,
                    None if led.transfer is None else led.transfer.deadline_ms,
                )
            case Prospective() | Candidate() as poll:
                moments = (poll.deadline_ms, poll.ask_again_ms, follower.next_ms(state))
            case Follower() | Unattached() | Resigned() as waiting:
                moments = (waiting.deadline_ms, follower.next_ms(state))
            case _:
                assert_never(state.role)
        named = [] if state.stopping else [each for each in moments if each is not None]
        return min(named) if named else None

    def answers_observers(self, now_ms: int) -> bool:
        """Return True if a tick would answer observers: everything else should come before it."""
        due_ms = self.role.tracker.observers_due_ms if isinstance(self.role, Leader) else None
        return due_ms is not None and due_ms <= now_ms

    def step(self, event: Event, *, now_ms: int) -> list[Effect]:
        """Advance by one event and return the effects to perform, in order."""
        state, remembered = self._state, self._state.election
        # The events of every commit: compiled, a direct call is much faster than the table.
        match event:
            case RequestReceived():
                _on_request(state, event, now_ms)
            case Flushed():
                _on_flushed(state, event, now_ms)
            case Proposed():
                leader.on_proposed(state, event, now_ms)
            case ResponseReceived():
                _on_response(state, event, now_ms)
            case _:
                HANDLERS[type(event)](state, event, now_ms)
        follower.fetch_if_due(state, now_ms)
        effects, state.effects = state.effects, []
        if state.election is not remembered and state.election != remembered:
            # First in the list, so durable before any answer that depends on it.
            effects.insert(0, PersistElection(state.election))
        return effects

    @property
    def target_voters(self) -> tuple[ReplicaKey, ...] | None:
        """The target voters of the change under way; None without a change."""
        assignment = self._state.log.assignments.last
        return None if assignment is None else assignment.target

    @property
    def voter_change_wait(self) -> Wait | None:
        """The reason why a change of the voters waits; None unless this node leads."""
        return self.role.changes.first_wait if isinstance(self.role, Leader) else None

    def replicas(self) -> tuple[ReplicaProgress, ...]:
        """The progress of every replica, voters first; empty unless this node leads."""
        state = self._state
        if not isinstance(state.role, Leader):
            return ()
        own_vote = state.voters.get(state.me.id) if state.is_voter else None
        own = ReplicaProgress(state.me, own_vote, log_end=self.log_end.offset)
        known = (own, *state.role.tracker.last_fetched_first())
        return tuple(sorted(known, key=lambda each: (each.voter is None, each.replica)))


def _role_after_restart(state: State, now_ms: int) -> Role:
    """Return the role for the stored election (KIP-595, "Bootstrapping" step 2)."""
    leader = state.election.leader
    if leader not in (None, state.me.id):
        return Follower(leader, state.next_fetch_timeout_ms(now_ms))
    election_ms = state.next_election_ms(now_ms)
    if election_ms is not None and state.voters.sorted() == (state.me.id,):
        # The only voter needs nobody's vote, and nobody else can lead.
        election_ms = now_ms
    # If it led this epoch, it must never lead in it again.
    return Unattached(election_ms) if leader is None else Resigned(election_ms)


def _on_request(state: State, event: RequestReceived, now_ms: int) -> None:
    asker, request = event.asker, event.request
    match request:
        case FetchRequest():
            leader.on_fetch(state, asker, request, now_ms)
            elections.step_down_and_campaign(state, request.replica, request.epoch, now_ms)
            _resign_if_due(state, now_ms)
        case FetchSnapshotRequest():
            snapshots.on_fetch_snapshot(state, asker, request, now_ms)
        case VoteRequest():
            elections.on_vote_request(state, asker, request, now_ms)
        case BeginQuorumEpochRequest():
            elections.on_begin_quorum_epoch(state, asker, request, now_ms)
        case EndQuorumEpochRequest():
            elections.on_end_quorum_epoch(state, asker, request, now_ms)
        case _:
            assert_never(request)


def _on_response(state: State, event: ResponseReceived, now_ms: int) -> None:
    response = event.response
    leader.forget_announcement(state, event.peer, event.correlation)
    # A voter that grants its vote would itself replace the leader that it names.
    granted = isinstance(response, VoteResponse) and response.granted
    leader_named = None if granted else response.leader
    is_known = leader_discovery.is_likely(state, event.peer)
    state.learn(response.epoch, leader_named, now_ms, event.peer, is_known=is_known)
    match response:
        case FetchResponse():
            follower.on_fetch_response(state, event.correlation, response, now_ms)
        case FetchSnapshotResponse():
            follower.on_fetch_snapshot_response(state, event.correlation, response, now_ms)
        case VoteResponse():
            elections.on_vote_response(state, event.correlation, response, now_ms)
        case _:
            pass  # Other responses hold no more than the epoch and the leader.


def _on_request_timed_out(state: State, event: RequestTimedOut, now_ms: int) -> None:
    leader.forget_announcement(state, event.peer, event.correlation)
    elections.on_vote_unanswered(state, event.correlation, now_ms)
    follower.on_fetch_unanswered(state, event.correlation, now_ms)


def _on_change_requested(state: State, event: ChangeRequested, now_ms: int) -> None:
    if isinstance(event.request, TransferRequest):
        leadership_transfer.on_requested(state, event.asker, event.request, now_ms)
    else:
        reconfiguration.on_requested(state, event.asker, event.request, now_ms)


def _on_flushed(state: State, event: Flushed, now_ms: int) -> None:
    leader.on_flushed(state, event.durable, now_ms)
    if state.awaits_disk:
        slow_disk.on_progress(state, now_ms)
    _resign_if_due(state, now_ms)


def _resign_if_due(state: State, now_ms: int) -> None:
    """Resign if a transfer is complete, or if the disk is full and another voter's is not."""
    role = state.role
    if not isinstance(role, Leader):
        return
    if role.transfer is not None:
        leadership_transfer.go_on(state, role, now_ms)
    if not state.has_room and state.role is role:
        slow_disk.give_up_if_full(state, role, now_ms)


def _on_tick(state: State, _: Tick, now_ms: int) -> None:
    role = state.role
    if state.stopping:
        return
    if not isinstance(role, Leader):
        follower.on_search_tick(state, now_ms)
        elections.on_tick(state, role, now_ms)
        return
    for on_tick in LEADER_TICKS:
        if state.role is role:
            on_tick(state, role, now_ms)


def _on_stopping(state: State, _: Stopping, now_ms: int) -> None:
    state.stopping = True
    if isinstance(state.role, Leader):
        leader.resign(state, state.role, Cause.STOPPING, now_ms)


HANDLERS: Final[Mapping[type[Event], Callable[[State, Any, int], None]]] = MappingProxyType(
    {
        Tick: _on_tick,
        RequestReceived: _on_request,
        ResponseReceived: _on_response,
        RequestTimedOut: _on_request_timed_out,
        LeaderUnreachable: follower.on_leader_unreachable,
        Proposed: leader.on_proposed,
        ReadIndex: leader.on_read,
        ChangeRequested: _on_change_requested,
        Flushed: _on_flushed,
        DiskSpaceChanged: slow_disk.on_disk_space_changed,
        SnapshotTaken: snapshots.on_taken,
        SnapshotInstalled: snapshots.on_installed,
        SnapshotRefused: snapshots.on_refused,
        EndpointsUpdated: leader_discovery.on_endpoints_updated,
        DiscoveryDone: leader_discovery.on_discovery_done,
        Stopping: _on_stopping,
    }
)
"""The handler of each event; a test checks that the table is complete."""

LEADER_TICKS: Final = (
    reconfiguration.on_tick,
    leader.check_quorum,
    leader.on_tick,
    leadership_transfer.on_tick,
    slow_disk.on_tick,
)
"""The tick handlers of a leader, in order; they stop once it no longer leads."""
