"""One replica of the quorum: the pure, deterministic core.

`QuorumNode` owns no socket, file, clock or source of randomness. It changes only inside
`step(event, now_ms=...)`, which returns the effects to perform, in order; and it names the next
moment at which it wants to be stepped, whatever happens, in `deadline_ms`. The same events at
the same times give the same effects: production, unit tests and simulation run this class.

How to read on: `step` hands each event to a function of `elections`, `leader` or `follower`.
These state their guards first and then change the one `State`. The rules that can be wrong live
in pure functions beside them: `votes`, `high_watermark`, `raft_log`.
"""

import random
from typing import assert_never

from quorum.core import (
    elections,
    leader_discovery,
    leadership_transfer,
    reconfiguration,
    slow_disk,
    snapshots,
)
from quorum.core import follower as following
from quorum.core import leader as check_quorum
from quorum.core import leader as leading
from quorum.core.effects import Effect, PersistElection
from quorum.core.events import (
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
    Stored,
    Tick,
    TransferLeadership,
    VoterChangeRequested,
)
from quorum.core.limits import BATCH_RECORDS_MAX, Bounds, Timeouts
from quorum.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    VoteRequest,
    VoteResponse,
)
from quorum.core.raft_log import RaftLog
from quorum.core.replica_progress import ReplicaProgress, ReplicaStatus
from quorum.core.roles import (
    Candidate,
    Cause,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
    VoterChangeStatus,
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
from quorum.core.voter_set import VoterAssignment, VoterSet


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
        beginning: DiscoveryState | None = None,
        received: tuple[OffsetAndEpoch, int] | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        """`voters` are those of a log that does not name any, `beginning` what there is to know
        of them before.

        With `records_voters`, an empty log does from its first leader on (kraft.version 1).
        `received` is what an earlier process has received of a snapshot, and how many bytes of it.
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
            beginning=beginning or DiscoveryState(),
        )
        state.receiving = None if received is None else SnapshotDownload(*received)
        if log.newest_snapshot is not None:
            state.high_watermark = log.newest_snapshot.end
        # A restart is no move of the table: the role follows from what was remembered.
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
        """The epoch of the record at `offset`, which the log holds."""
        return self._state.log.history.epoch_at(offset)

    def voters_at(self, end: Offset) -> VoterAssignment | None:
        """The voters when the log ended at `end`; None if it does not name them."""
        return self._state.log.assignments.at(end)

    @property
    def has_room(self) -> bool:
        """True if there is room on this node's disk, as far as it has tried."""
        return self._state.has_room

    @property
    def successor(self) -> ReplicaId | None:
        """To whom this node is handing over its lead; None where it is not."""
        return successor(self._state)

    @property
    def epoch_start(self) -> Offset | None:
        """The start offset of the epoch that this node leads; None unless it leads."""
        return self.role.epoch_start if isinstance(self.role, Leader) else None

    def accepts(self, count: int, waiting: int = 0) -> bool:
        """Return True if a leader has room for `count` records in one batch, after `waiting`
        others."""
        state = self._state
        leader, committed = state.role, state.high_watermark
        if not isinstance(leader, Leader) or not 0 < count <= BATCH_RECORDS_MAX:
            return False
        if not state.has_room or leader.transfer is not None:
            return False
        committed = leader.epoch_start if committed is None else committed
        # What the others have committed may still wait, in memory, for our own disk.
        held = state.log.end.offset - min(committed, state.log.durable)
        return held + waiting + count <= state.bounds.uncommitted_records

    @property
    def deadline_ms(self) -> int | None:
        """The next moment at which time alone may change something; None if none."""
        state = self._state
        moments: tuple[int | None, ...]
        match state.role:
            case Leader() as leader:
                parked_ms = leader.serving.deadline_ms
                reads_ms = leader.reads.deadline_ms
                change_ms = leader.changes.due_ms
                transfer_ms = None if leader.transfer is None else leader.transfer.deadline_ms
                periodic = (leader.check_quorum_ms, leader.announce_ms, leader.disk_look_ms)
                moments = (*periodic, parked_ms, reads_ms, change_ms, transfer_ms)
            case Prospective() | Candidate() as poll:
                moments = (poll.election_deadline_ms, poll.ask_again_ms, following.next_ms(state))
            case Follower(fetch_deadline_ms=deadline_ms):
                moments = (deadline_ms, following.next_ms(state))
            case Unattached() | Resigned() as waiting:
                moments = (waiting.election_deadline_ms, following.next_ms(state))
            case _:
                assert_never(state.role)
        named = [] if state.stopping else [each for each in moments if each is not None]
        return min(named) if named else None

    def step(self, event: Event, *, now_ms: int) -> list[Effect]:
        """Advance by one event and return what must be done about it, in order."""
        state, remembered = self._state, self._state.election
        self._dispatch(event, now_ms)
        following.fetch_if_due(state, now_ms)
        effects, state.effects = state.effects, []
        if state.election is not remembered and state.election != remembered:
            # First in the list, hence durable before anything that is said because of it.
            effects.insert(0, PersistElection(state.election))
        return effects

    def voter_change(self) -> VoterChangeStatus:
        """The target voters, and the reason for which a change waits, as the leader knows it."""
        return voter_change(self._state)

    def replicas(self) -> tuple[ReplicaStatus, ...]:
        """The status of every replica, voters first; empty unless this node leads."""
        return replicas(self._state)

    def _dispatch(self, event: Event, now_ms: int) -> None:
        state = self._state
        match event:
            case RequestReceived():
                self._on_asked(event, now_ms)
            case ResponseReceived() | RequestTimedOut():
                self._on_outcome(event, now_ms)
            case Tick():
                self._on_tick(now_ms)
            case Proposed(count):
                leading.on_proposed(state, count)
            case ReadIndex(token):
                leading.on_read(state, token, now_ms)
            case TransferLeadership():
                leadership_transfer.on_wanted(state, event, now_ms)
            case (
                LeaderUnreachable() | VoterChangeRequested() | EndpointsUpdated() | DiscoveryDone()
            ):
                self._on_heard(event, now_ms)
            case Stopping():
                self._on_stopping(now_ms)
            case _:
                self._on_stored(event, now_ms)

    def _on_stored(self, event: Stored, now_ms: int) -> None:
        state = self._state
        match event:
            case Flushed(durable):
                leading.on_flushed(state, durable, now_ms)
                if state.awaits_disk:
                    slow_disk.on_progress(state, now_ms)
                self._give_up_if_due(now_ms)
            case DiskSpaceChanged(exists):
                slow_disk.on_room(state, exists, now_ms)
            case SnapshotTaken(kept):
                snapshots.on_taken(state, kept)
            case SnapshotInstalled():
                snapshots.on_installed(state, event, now_ms)
            case SnapshotRefused(id_, reason):
                snapshots.on_refused(state, id_, reason, now_ms)
            case _:
                assert_never(event)

    def _on_outcome(self, event: ResponseReceived | RequestTimedOut, now_ms: int) -> None:
        if isinstance(event, ResponseReceived):
            self._on_answered(event, now_ms)
        else:
            self._on_unanswered(event, now_ms)

    def _on_heard(
        self,
        event: LeaderUnreachable | VoterChangeRequested | EndpointsUpdated | DiscoveryDone,
        now_ms: int,
    ) -> None:
        if isinstance(event, LeaderUnreachable):
            following.on_leader_unreachable(self._state, event.leader, now_ms)
            return
        if not isinstance(event, VoterChangeRequested):
            leader_discovery.on_news(self._state, event)
        if not isinstance(event, DiscoveryDone):
            reconfiguration.on_event(self._state, event, now_ms)

    def _on_stopping(self, now_ms: int) -> None:
        state = self._state
        state.stopping = True
        if isinstance(state.role, Leader):
            leading.resign(state, state.role, Cause.STOPPING, now_ms)

    def _on_tick(self, now_ms: int) -> None:
        state = self._state
        if state.stopping:
            return
        match state.role:
            case Leader() as leader:
                _on_leader_tick(state, leader, now_ms)
            case Prospective() | Candidate() as poll:
                following.on_search_tick(state, now_ms)
                elections.on_poll_tick(state, poll, now_ms)
            case Follower() as follower:
                elections.on_follower_tick(state, follower, now_ms)
            case Unattached() | Resigned() as waiting:
                following.on_search_tick(state, now_ms)
                elections.on_waiting_tick(state, waiting, now_ms)
            case _:
                assert_never(state.role)

    def _on_asked(self, event: RequestReceived, now_ms: int) -> None:
        state, asker = self._state, event.asker
        match event.request:
            case FetchRequest() as request:
                leading.on_fetch(state, asker, request, now_ms)
                elections.outgrow(state, request.epoch, now_ms)
                self._give_up_if_due(now_ms)
            case FetchSnapshotRequest() as request:
                snapshots.on_fetch_snapshot(state, asker, request, now_ms)
            case VoteRequest() as request:
                elections.on_vote_request(state, asker, request, now_ms)
            case BeginQuorumEpochRequest() as request:
                elections.on_begin_quorum_epoch(state, asker, request, now_ms)
            case EndQuorumEpochRequest() as request:
                elections.on_end_quorum_epoch(state, asker, request, now_ms)
            case _:
                assert_never(event.request)

    def _give_up_if_due(self, now_ms: int) -> None:
        """Others have come on, or our own disk has: it may be what a leader waits for to resign."""
        state, leader = self._state, self._state.role
        if not isinstance(leader, Leader):
            return
        if leader.transfer is not None:
            leadership_transfer.go_on(state, leader, now_ms)
        if not state.has_room and state.role is leader:
            slow_disk.give_up_if_full(state, leader, now_ms)

    def _on_answered(self, event: ResponseReceived, now_ms: int) -> None:
        state, response = self._state, event.response
        self._forget_announcement(event)
        # A leader that the answerer would itself replace is no news.
        granted = isinstance(response, VoteResponse) and response.granted
        state.learn(response.epoch, None if granted else response.leader, now_ms, event.peer)
        match response:
            case FetchResponse():
                following.on_fetch_response(state, event.correlation, response, now_ms)
            case FetchSnapshotResponse():
                following.on_fetch_snapshot_response(state, event.correlation, response, now_ms)
            case VoteResponse():
                elections.on_vote_response(state, event.correlation, response, now_ms)
            case BeginQuorumEpochResponse() | EndQuorumEpochResponse():
                pass  # All that they can say has been learned.
            case _:
                assert_never(response)

    def _on_unanswered(self, event: RequestTimedOut, now_ms: int) -> None:
        self._forget_announcement(event)
        elections.on_vote_unanswered(self._state, event.correlation, now_ms)
        following.on_fetch_unanswered(self._state, event.correlation, now_ms)

    def _forget_announcement(self, event: ResponseReceived | RequestTimedOut) -> None:
        leader = self.role
        if isinstance(leader, Leader) and leader.announcing.get(event.peer) == event.correlation:
            del leader.announcing[event.peer]


def _on_leader_tick(state: State, leader: Leader, now_ms: int) -> None:
    for on_tick in (
        reconfiguration.on_tick,
        check_quorum.check_quorum,
        leading.on_tick,
        leadership_transfer.on_tick,
        slow_disk.on_tick,
    ):
        if state.role is leader:
            on_tick(state, leader, now_ms)


def _role_after_restart(state: State, now_ms: int) -> Role:
    """KIP-595, "Bootstrapping" step 2: the role that the remembered election gives."""
    leader = state.election.leader
    if leader == state.me.id:
        # It led this epoch, and may have said so: never again in the same one.
        return Resigned(state.next_election_ms(now_ms))
    if leader is not None:
        return Follower(leader, state.next_fetch_timeout_ms(now_ms))
    return Unattached(state.next_election_ms(now_ms))


def voter_change(state: State) -> VoterChangeStatus:
    """The target voters, and the reason for which a change waits, as the leader knows it."""
    assignment = state.log.assignments.last
    wait = state.role.changes.first_wait if isinstance(state.role, Leader) else None
    target = None if assignment is None else assignment.target
    return VoterChangeStatus(target, wait)


def successor(state: State) -> ReplicaId | None:
    """To whom a leader is handing over its lead; None where it is not."""
    leader = state.role
    if not isinstance(leader, Leader) or leader.transfer is None:
        return None
    return leader.transfer.successor


def replicas(state: State) -> tuple[ReplicaStatus, ...]:
    """The status of every replica, voters first; empty unless this node leads."""
    if not isinstance(state.role, Leader):
        return ()
    serving = state.role.serving
    own = ReplicaStatus(
        replica=state.me,
        log_end=state.log.end.offset,
        last_fetch_ms=None,
        last_caught_up_ms=None,
        is_voter=state.is_voter,
        is_leader=True,
    )
    voters = [_status(each, is_voter=True) for each in serving.voters.values()]
    observers = [_status(each, is_voter=False) for each in serving.observers]
    (voters if own.is_voter else observers).append(own)
    return (
        *sorted(voters, key=lambda each: each.replica),
        *sorted(observers, key=lambda each: each.replica),
    )


def _status(progress: ReplicaProgress, *, is_voter: bool) -> ReplicaStatus:
    return ReplicaStatus(
        replica=progress.replica,
        log_end=progress.log_end,
        last_fetch_ms=progress.last_fetch_ms,
        last_caught_up_ms=progress.last_caught_up_ms,
        is_voter=is_voter,
        is_leader=False,
    )
