"""One replica without its waiting: it steps the node and performs the effects in order.

Events go into an inbox, and one `turn` takes all of them, so that events that arrive together share
one append, one flush and one write per connection. A few effects wait for the disk (an election, a
truncation, a snapshot), because the following ones depend on them; until then no event is taken.
Records do not wait: the disk flushes one group while the next one gathers, and reports back by an
event. If a turn has sent nothing, a quick disk may flush and report within it.

The module never waits, sleeps, starts a thread or opens a file. The owner calls `turn` when woken
and at `deadline_ms`: the asyncio shell (`quorum.driver`) in production, an event heap in the
simulation.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, assert_never

from quorum.accumulator import BatchAccumulator
from quorum.applier import Applier, ChangeDone, ReadDone
from quorum.cluster_id import ClusterIdentity
from quorum.core.effects import (
    AdvanceLogStart,
    Answer,
    AnswerChange,
    AnswerReads,
    AppendAssignment,
    AppendFetched,
    AppendLeaderChange,
    AppendProposed,
    Commit,
    Durable,
    Effect,
    InstallSnapshot,
    Lead,
    PersistElection,
    Prompt,
    Send,
    StopLeading,
    StoreChunk,
    TruncateTo,
    Warn,
)
from quorum.core.events import (
    Asker,
    Correlation,
    DiscoveryDone,
    DiskSpaceChanged,
    EndpointsUpdated,
    Event,
    Flushed,
    LeaderUnreachable,
    Proposed,
    RequestReceived,
    RequestTimedOut,
    ResponseReceived,
    Stopping,
    Tick,
)
from quorum.core.messages import (
    EndQuorumEpochRequest,
    FetchResponse,
    FetchSnapshotResponse,
    Request,
    Response,
    TransferRequest,
    VoterRequest,
)
from quorum.core.node import QuorumNode
from quorum.core.vocabulary import Offset, OffsetAndEpoch, ReplicaId, Snapshot
from quorum.log_events import LogEvent
from quorum.ports import Clock, Disk, ElectionStore, Log, Rpc, SnapshotStore, StateMachine
from quorum.snapshotting import SnapshotDone, SnapshotLimits, Snapshots, earliest

logger = logging.getLogger("quorum")

_SILENT: Final = (AppendFetched, Commit)  # A follower says nothing by them.

_BEFORE_COMMITS: Final = (*_SILENT, Answer, Send, Warn)  # They rest on no earlier commit.


@dataclass(slots=True)
class Step:
    """A step whose remaining effects wait for the disk."""

    event: Event
    remaining: Iterator[Effect]
    awaited: Durable | None = None
    """The effect that the remaining ones wait for."""
    is_kept: bool = False
    """True once the disk has performed it."""
    outcome: Any = None
    """The result of the disk's work."""


class Replica:
    """The inbox, the proposals and the effects of one node; owned by one caller of `turn`."""

    def __init__(
        self,
        node: QuorumNode,
        *,
        log: Log,
        elections: ElectionStore,
        disk: Disk,
        rpc: Rpc,
        state_machine: StateMachine,
        clock: Clock,
        wall_clock: Clock,
        wake: Callable[[], None],
        cluster: ClusterIdentity,
        store: SnapshotStore,
        snapshot_limits: SnapshotLimits,
    ) -> None:
        """`wake` is called when `turn` has something to do, and must not call it directly.

        `cluster` is recorded with the voters, and learned from that record.
        """
        self.node = node
        self.deadline_ms = node.deadline_ms
        """The deadline for the next `turn`; None while only events can wake it."""
        self.has_room = True  # False once a write has found this node's disk full.
        self._log = log
        self._elections = elections
        self._disk = disk
        self._rpc = rpc
        self._state_machine = state_machine
        self._clock = clock
        self._wake = wake
        self._inbox: deque[Event] = deque()
        self._fetched: dict[Correlation, bytes] = {}
        self._last_read: FetchResponse | None = None
        self._records_read = b""
        """The records of that response."""
        self._applier = Applier(node, log, state_machine, cluster, clock)
        self._accumulator = BatchAccumulator(log, cluster, wall_clock)
        self._is_silent = True
        self._held_up: Step | None = None
        self._failure: BaseException | None = None
        self._farewells = 0
        self._stopped = False
        self._snapshots = Snapshots(
            store,
            node=node,
            log=log,
            disk=disk,
            state_machine=state_machine,
            clock=clock,
            wall_clock=wall_clock,
            put=self._put,
            wake=wake,
            cluster=cluster,
            limits=snapshot_limits,
        )

    # For the state machine.

    @property
    def next_offset(self) -> Offset:
        """The offset that the next proposed record will get."""
        return Offset(self.node.log_end.offset + self._accumulator.count)

    def accepts(self, count: int, *, after: int = 0) -> bool:
        """Return True if `propose` would take `count` records, now or after `after` others."""
        return not self._stopped and self._accumulator.accepts(self.node, count, after=after)

    def propose(self, values: Sequence[bytes]) -> Offset:
        """Append these records, together in one batch; return the offset of the first one.

        They are committed when `StateMachine.on_commit` passes them, and lost if
        `on_stop_leading` comes before. The caller has asked `accepts`.
        """
        assert self.accepts(len(values)), "propose without asking `accepts` first"
        base = self.next_offset
        self._accumulator.add(values)
        self._wake()
        return base

    def read_committed(self, start: Offset, max_bytes: int) -> bytes:
        """Read whole batches from `start` up to the high watermark, or up to `max_bytes`."""
        return self._log.read(start, self.node.high_watermark or Offset(0), max_bytes)

    def read_index(self, done: ReadDone) -> None:
        """Call `done`, later, with the offset of a linearizable read (`core.read_index`).

        The state machine has then applied everything below that offset, which includes every answer
        given anywhere before this call.
        """
        event = self._applier.read(done)
        if event is not None:
            self._put(event)

    def change(self, request: VoterRequest | TransferRequest, done: ChangeDone) -> None:
        """Change the voters or the leader.

        `done` is called, later, once the voters are committed, the lead is given up, or the
        request is refused.
        """
        self._put(self._applier.change(request, done))

    @property
    def log_start(self) -> Offset:
        """The offset of the first record that the log still has."""
        return self._log.start

    @property
    def snapshots(self) -> Sequence[Snapshot]:
        """The complete snapshots, the oldest first."""
        return self._snapshots.kept

    def take_snapshot(self, done: SnapshotDone) -> None:
        """Take a snapshot now; `done` is called, later, once it is durable or refused."""
        self._snapshots.request(done)

    # For the owner.

    def asked(self, asker: Asker, request: Request) -> None:
        """Take a request of another replica."""
        self._put(RequestReceived(asker, request))

    def heard(self, news: EndpointsUpdated | DiscoveryDone | LeaderUnreachable) -> None:
        """Take news of discovery, or of a lost connection to the leader."""
        self._put(news)

    def fail(self, failure: BaseException) -> None:
        """Let the next `turn` raise this failure of the disk."""
        self._failure = failure
        self._wake()

    def room(self, exists: bool) -> None:
        """Report that the disk is full, or has space again."""
        self.has_room = exists  # The node may hear of it late: it may be waiting for that write.
        self._put(DiskSpaceChanged(exists))

    def say_farewell(self) -> None:
        """Resign, if this node leads; `farewell_is_said` becomes True at the end of that."""
        # Counted until it has been stepped: other events may precede it in the inbox.
        self._farewells += 1
        self._put(Stopping())

    @property
    def farewell_is_said(self) -> bool:
        """True if every voter has been told that this node resigns, or cannot be reached."""
        return self._farewells == 0

    def stop(self) -> None:
        """Accept no more proposals; the owner no longer calls `turn`."""
        self._stopped = True
        self._wake()

    @property
    def has_work(self) -> bool:
        """True if a `turn` has something to do before `deadline_ms`."""
        if self._failure is not None:
            return True
        if self._held_up is not None:
            return self._held_up.is_kept
        return bool(self._inbox or self._accumulator.count or self._applier.has_work)

    def turn(self) -> None:
        """Take all events; then request one commit of everything appended.

        Raises the failure passed to `fail` and errors of our own logic: the process must then end.
        """
        if self._failure is not None:
            raise self._failure
        self._is_silent = True
        if self._held_up is not None:
            if not self._held_up.is_kept:
                return
            self._resume(self._held_up)
        # Only a step changes the deadline, and there was none since the last turn.
        elif self.deadline_ms is not None and self.deadline_ms <= (now_ms := self._clock()):
            if self.node.answers_observers(now_ms):
                self._inbox.append(Tick())  # Voters come first.
            else:
                self._inbox.appendleft(Tick())
        if self._held_up is None and self._applier.is_time(busy=bool(self._inbox)):
            self._applier.go_on()
        self._take_all()
        while self._held_up is None and (appended_bytes := self._accumulator.take_bytes()):
            self._snapshots.bytes_since += appended_bytes
            self._disk.request_commit(self._log, self._on_flushed, at_once=self._is_silent)
            self._take_all()
        self._last_read, self._records_read = None, b""
        if self._held_up is not None:
            self.deadline_ms = None
            return
        self.deadline_ms = earliest(self.node.deadline_ms, self._applier.deadline_ms)
        self.deadline_ms = earliest(self.deadline_ms, self._snapshots.turn())

    def _take_all(self) -> None:
        while self._held_up is None:
            if self._accumulator.count:
                # Before all events: proposed records have their offsets already.
                self._step(Proposed(self._accumulator.next_count))
            elif self._inbox:
                self._step(self._inbox.popleft())
            else:
                return

    def _put(self, event: Event) -> None:
        self._inbox.append(event)
        self._wake()

    def _on_flushed(self, durable: OffsetAndEpoch) -> None:
        self._accumulator.durable = durable.offset
        self._put(Flushed(durable))

    def _step(self, event: Event) -> None:
        self._go_on(Step(event, iter(self.node.step(event, now_ms=self._clock()))))

    def _go_on(self, step: Step) -> None:
        """Perform the effects in order, up to one that waits for the disk."""
        for effect in step.remaining:
            if not isinstance(effect, _SILENT):
                self._is_silent = False
                if not isinstance(effect, _BEFORE_COMMITS):
                    self._applier.tell()
            match effect:
                case PersistElection(election):
                    self._hold_up(step, effect, partial(self._elections.write, election))
                    return
                case TruncateTo(end):
                    self._hold_up(step, effect, partial(self._log.truncate_to, end))
                    return
                case StoreChunk(correlation):
                    data = self._fetched.pop(correlation)
                    self._hold_up(step, effect, self._snapshots.storing(effect, data))
                    return
                case InstallSnapshot():
                    self._hold_up(step, effect, self._snapshots.installing(effect))
                    return
                case _:
                    self._perform(effect)
        if isinstance(step.event, ResponseReceived):
            # No effect of the step has used these records.
            self._fetched.pop(step.event.correlation, None)
        self._farewells -= isinstance(step.event, Stopping)

    def _hold_up(self, step: Step, awaited: Durable, work: Callable[[], Any]) -> None:
        step.awaited, step.is_kept = awaited, False
        self._held_up = step
        self._disk.perform(work, partial(self._keep, step))

    def _keep(self, step: Step, outcome: Any) -> None:
        step.is_kept, step.outcome = True, outcome
        self._wake()

    def _resume(self, step: Step) -> None:
        self._held_up = None
        awaited, outcome = step.awaited, step.outcome
        if isinstance(awaited, TruncateTo):
            self._forget_flushes()
        self._go_on(step)
        if isinstance(awaited, InstallSnapshot):
            self._forget_flushes()
            # Before any other event: until then the node's log differs from the one on disk.
            event = self._snapshots.installed(awaited, outcome)
            self._applier.on_installed()
            self._step(event)

    def _forget_flushes(self) -> None:
        # The disk works in order, so every earlier flush has been reported. None of those reports
        # may count for the records that replace the old tail.
        self._inbox = deque(each for each in self._inbox if not isinstance(each, Flushed))

    def _perform(self, effect: Prompt) -> None:
        match effect:
            case Answer(asker, response):
                self._rpc.answer(asker, response, self._records_for(response))
            case Send(to, correlation, request):
                self._rpc.send(to, request, self._done(to, correlation, request))
            case AppendProposed() | AppendFetched() | AppendLeaderChange() | AppendAssignment():
                self._append(effect)
            case AdvanceLogStart(start):
                self._snapshots.advance(start)
            case Commit(high_watermark):
                self._applier.on_commit(high_watermark)
            case Lead(epoch):
                self._applier.on_lead(epoch)
            case StopLeading(epoch):
                assert not self._accumulator, "proposals come before the event that ends the lead"
                self._applier.on_stop_leading(epoch)
            case AnswerReads() | AnswerChange():
                self._applier.answer(effect)
            case Warn(text):
                logger.warning("%s", text, extra=LogEvent.QUORUM_WARNING.extra)
            case _:
                assert_never(effect)

    def _append(
        self, effect: AppendProposed | AppendFetched | AppendLeaderChange | AppendAssignment
    ) -> None:
        match effect:
            case AppendProposed(batch):
                self._accumulator.append_proposed(batch)
            case AppendFetched(correlation, batches):
                self._accumulator.append_fetched(self._fetched.pop(correlation), batches)
            case AppendLeaderChange():
                self._accumulator.append_control(effect)
            case AppendAssignment(batch):
                self._accumulator.append_control(effect)
                self._applier.on_control(batch.end)

    def _records_for(self, response: Response) -> bytes:
        if isinstance(response, FetchSnapshotResponse):
            return self._snapshots.part_for(response)
        if not isinstance(response, FetchResponse) or response.span is None:
            return b""
        if response is not self._last_read:
            # The next answers may be the same response, to observers at the same offset.
            span, self._last_read = response.span, response
            self._records_read = self._log.read(span.start, span.end, span.max_bytes)
        return self._records_read

    def _done(
        self, to: ReplicaId, correlation: Correlation, request: Request
    ) -> Callable[[Response | None, bytes], None]:
        is_farewell = isinstance(request, EndQuorumEpochRequest)
        self._farewells += is_farewell

        def done(response: Response | None, records: bytes) -> None:
            self._farewells -= is_farewell
            if response is None:
                self._put(RequestTimedOut(to, correlation))
                return
            if records:
                self._fetched[correlation] = records
            self._put(ResponseReceived(to, correlation, response))

        return done
