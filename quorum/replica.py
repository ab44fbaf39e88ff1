"""One replica without its waiting: it steps the node and does, in order, as the node says.

What arrives goes into an inbox, and one `turn` takes all of it, so that whatever came in together
shares one append, one flush and one write per connection. Effects are performed strictly in order;
only few of them wait for the disk (an election, a truncation, a snapshot), because what follows
rests on them: until the disk is done, no event is looked at. Records do not wait: the disk flushes
one group while the next one gathers, and reports back as an event like any other. Where nobody
waits for what a turn has said, a quick disk may flush and report within the turn.

Nothing here waits, sleeps, starts a thread or opens a file. Whoever owns a replica calls `turn`
when it was woken and when `deadline_ms` has come: the asyncio shell (`quorum.driver`) in
production, an event heap in the simulation.
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
from quorum.core.vocabulary import Offset, OffsetAndEpoch, ReplicaId
from quorum.ports import Clock, Disk, ElectionStore, Log, Rpc, SnapshotStore, StateMachine
from quorum.snapshotting import SnapshotLimits, Snapshots, earliest

logger = logging.getLogger("quorum")

_SILENT: Final = (AppendFetched, Commit)  # A follower says nothing by them.

_BEFORE_COMMITS: Final = (*_SILENT, Answer, Send, Warn)  # They rest on no earlier commit.


@dataclass(slots=True)
class Step:
    """A step whose effects have not all been performed: the disk holds them up."""

    event: Event
    remaining: Iterator[Effect]
    awaited: Durable | None = None
    """The effect that the remaining ones rest on."""
    is_kept: bool = False
    """True if the disk has done that."""
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
        """`wake` is called when there is something for `turn` to do; it must not call it itself.

        `cluster` is written down beside the voters, and read where it was not known.
        """
        self.node = node
        self.deadline_ms = node.deadline_ms
        """The deadline for the next `turn`; None while only events can wake it."""
        self.has_room = True  # On the disk of this node, as far as it has tried.
        self._log = log
        self._elections = elections
        self._disk = disk
        self._rpc = rpc
        self._state_machine = state_machine
        self._clock = clock
        self._wake = wake
        self._inbox: deque[Event] = deque()
        self._fetched: dict[Correlation, bytes] = {}
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

    # What the state machine above may ask.

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
        """Whole batches from `start` up to the high watermark, or up to `max_bytes`."""
        return self._log.read(start, self.node.high_watermark or Offset(0), max_bytes)

    def read_index(self, done: ReadDone) -> None:
        """Call `done`, later, when a read of the state machine cannot be stale (`core.read_index`).

        The state machine has then applied everything below the offset that `done` is called
        with, and the offset is at least that of every answer given anywhere before this call.
        """
        event = self._applier.read(done)
        if event is not None:
            self._put(event)

    def change(self, request: VoterRequest | TransferRequest, done: ChangeDone) -> None:
        """Ask for other voters or another leader.

        `done` is called, later, once the voters are committed, the lead is given up, or the
        request is refused.
        """
        self._put(self._applier.change(request, done))

    # What the owner hands in.

    def asked(self, asker: Asker, request: Request) -> None:
        """Another replica asks something of this node."""
        self._put(RequestReceived(asker, request))

    def heard(self, news: EndpointsUpdated | DiscoveryDone | LeaderUnreachable) -> None:
        """The gossip knows where a replica listens, or whether there is a quorum."""
        self._put(news)

    def fail(self, failure: BaseException) -> None:
        """Let the next `turn` raise this: the disk no longer keeps what it is given."""
        self._failure = failure
        self._wake()

    def room(self, exists: bool) -> None:
        """There is no room on the disk for what was to be written, or there is again."""
        self.has_room = exists  # The node may hear of it late: it waits for what finds none.
        self._put(DiskSpaceChanged(exists))

    def say_farewell(self) -> None:
        """Give the lead away, if this node has it; `farewell_is_said` tells when that is over."""
        # Counted until it has been stepped: other events may lie before it in the inbox.
        self._farewells += 1
        self._put(Stopping())

    @property
    def farewell_is_said(self) -> bool:
        """True if everyone has heard that this node resigns, or will not hear it any more."""
        return self._farewells == 0

    def stop(self) -> None:
        """Accept no more proposals: the owner will call `turn` no more."""
        self._stopped = True
        self._wake()

    @property
    def has_work(self) -> bool:
        """True if a `turn` now would do something, whatever the time."""
        if self._failure is not None:
            return True
        if self._held_up is not None:
            return self._held_up.is_kept
        return bool(self._inbox or self._accumulator.count or self._applier.has_work)

    def turn(self) -> None:
        """Take everything that has arrived; then ask the disk once for all that was appended.

        Raises what `fail` was given and what our own logic raises: the process must then end.
        """
        if self._failure is not None:
            raise self._failure
        self._is_silent = True
        if self._held_up is not None:
            if not self._held_up.is_kept:
                return
            self._resume(self._held_up)
        # Only a step changes the deadline, and there was none since it was looked up.
        elif self.deadline_ms is not None and self.deadline_ms <= self._clock():
            self._inbox.appendleft(Tick())
        if self._held_up is None and self._applier.is_time(busy=bool(self._inbox)):
            self._applier.go_on()
        self._take_all()
        while self._held_up is None and (appended_bytes := self._accumulator.take_bytes()):
            self._snapshots.bytes_since += appended_bytes
            self._disk.request_commit(self._log, self._on_flushed, at_once=self._is_silent)
            self._take_all()
        if self._held_up is not None:
            self.deadline_ms = None
            return
        self.deadline_ms = earliest(self.node.deadline_ms, self._applier.deadline_ms)
        self.deadline_ms = earliest(self.deadline_ms, self._snapshots.turn())

    def _take_all(self) -> None:
        while self._held_up is None:
            if self._accumulator.count:
                # Before all else: their offsets were given when they came.
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
        """Perform the effects in order, up to one that the disk has to keep before the next."""
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
            # What no effect has asked for by now was fetched in vain.
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
            # Before anything else: until then the node knows another log than there is.
            event = self._snapshots.installed(awaited, outcome)
            self._applier.on_installed()
            self._step(event)

    def _forget_flushes(self) -> None:
        # The disk works in order, so that every flush asked for before has been reported; and
        # nothing of the old tail may be taken for durable once the tail has been replaced.
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
                logger.warning("%s", text)
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
        return self._log.read(response.span.start, response.span.end, response.span.max_bytes)

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
