"""The asyncio shell around the core: it waits, steps the node, and does as the node says.

One task, `Quorum.run`, owns the node; nothing else in the process steps it. What arrives goes
into an inbox, and one wake-up takes all of it, so that whatever came in together shares one
append, one flush and one write per connection. Effects are performed strictly in order; only two
of them wait for the disk (an election, a truncation), because what follows rests on them. Records
do not wait: the disk thread flushes one group while the next one gathers, and reports back as an
event like any other.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from quorum.core.effects import (
    Answer,
    AppendFetched,
    AppendLeaderChange,
    AppendProposed,
    Commit,
    Lead,
    PersistElection,
    Prompt,
    Send,
    StopLeading,
    TruncateTo,
    Warn,
)
from quorum.core.events import (
    Answered,
    Asked,
    Asker,
    Correlation,
    Event,
    Flushed,
    Proposed,
    Stopping,
    Tick,
    Unanswered,
)
from quorum.core.limits import BATCH_BYTES_MAX, BATCH_RECORDS_MAX
from quorum.core.messages import EndQuorumEpochRequest, FetchResponse, Request, Response
from quorum.core.node import QuorumNode
from quorum.core.vocabulary import Epoch, LogEnd, Offset, ReplicaId
from quorum.log.disk_thread import DiskThread
from quorum.ports import Clock, ElectionStore, Log, Rpc, StateMachine
from quorum.records.control import LeaderChange, encode_leader_change
from quorum.records.encode import encode, stamp
from quorum.records.voters import Voter, encode_founding

logger = logging.getLogger("quorum")

FAREWELL_SECONDS_MAX: Final = 0.3
"""How long a stopping node waits for the others to have heard that it resigns."""


@dataclass(slots=True)
class _Proposal:
    """Records that become one batch, in the order in which they were proposed."""

    values: list[bytes]
    size_bytes: int


class Quorum:
    """One running replica of the quorum, and the door to it for the state machine above."""

    def __init__(
        self,
        node: QuorumNode,
        *,
        log: Log,
        elections: ElectionStore,
        disk: DiskThread,
        rpc: Rpc,
        state_machine: StateMachine,
        clock: Clock,
        wall_clock: Clock,
        founders: Sequence[Voter] = (),
    ) -> None:
        """`founders` are the voters as a new log names them, if it is to name any."""
        self.node = node
        self._founders = tuple(founders)
        self._log = log
        self._elections = elections
        self._disk = disk
        self._rpc = rpc
        self._state_machine = state_machine
        self._clock = clock
        self._wall_clock = wall_clock
        self._inbox: deque[Event] = deque()
        self._proposals: deque[_Proposal] = deque()
        self._proposed = 0  # Records in `_proposals`.
        self._fetched: dict[Correlation, bytes] = {}
        self._lead_pending: Epoch | None = None
        self._uncommitted_bytes = False
        self._wakeup: asyncio.Future[None] | None = None
        self._deadline_ms = node.deadline_ms
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._stopped = False
        self._failure: BaseException | None = None
        self._leader_watch: asyncio.Future[None] | None = None
        self._farewells = 0
        self._farewell: asyncio.Future[None] | None = None
        self._leader_known: ReplicaId | None = None

    # What the state machine above may ask.

    @property
    def leader(self) -> ReplicaId | None:
        return self.node.leader

    @property
    def high_watermark(self) -> Offset | None:
        return self.node.high_watermark

    @property
    def now_wall_ms(self) -> int:
        """The time of day, for people and for records; nothing is decided by it."""
        return self._wall_clock()

    def to_wall_ms(self, monotonic_ms: int | None) -> int:
        """The time of day at a moment of the node's own clock; -1 for one that is unknown."""
        if monotonic_ms is None:
            return -1
        return self._wall_clock() - self._clock() + monotonic_ms

    async def leader_changed(self, *, within_seconds: float) -> None:
        """Return when another leader is known, or none any more, or when the time is up."""
        if self._leader_watch is None or self._leader_watch.done():
            self._leader_watch = asyncio.get_running_loop().create_future()
        await asyncio.wait({self._leader_watch}, timeout=within_seconds)

    @property
    def next_offset(self) -> Offset:
        """The offset that the next proposed record will get."""
        return Offset(self.node.log_end.offset + self._proposed)

    def accepts(self, count: int, *, after: int = 0) -> bool:
        """Whether `propose` would take `count` records now, or once it has taken `after` others."""
        return not self._stopped and self.node.accepts(count, self._proposed + after)

    def propose(self, values: Sequence[bytes]) -> Offset:
        """Append these records, together in one batch; return the offset of the first one.

        They are committed when `StateMachine.on_commit` passes them, and lost if
        `on_stop_leading` comes before. The caller has asked `accepts`.
        """
        assert self.accepts(len(values)), "propose without asking `accepts` first"
        base = self.next_offset
        size_bytes = sum(map(len, values))
        last = self._proposals[-1] if self._proposals else None
        if (
            last is not None
            and len(last.values) + len(values) <= BATCH_RECORDS_MAX
            and last.size_bytes + size_bytes <= BATCH_BYTES_MAX // 2
        ):
            last.values.extend(values)
            last.size_bytes += size_bytes
        else:
            self._proposals.append(_Proposal(list(values), size_bytes))
        self._proposed += len(values)
        self._wake()
        return base

    def read_committed(self, start: Offset, max_bytes: int) -> bytes:
        """Whole batches from `start` up to the high watermark, or up to `max_bytes`."""
        return self._log.read(start, self.node.high_watermark or Offset(0), max_bytes)

    # What the network below hands in.

    def asked(self, asker: Asker, request: Request) -> None:
        self._put(Asked(asker, request))

    # The owner task.

    async def run(self) -> None:
        """Own the node until `stop`; an error of the disk or of our own logic ends it, loudly."""
        loop = asyncio.get_running_loop()
        try:
            while not self._stopped:
                await self._drain()
                if self._failure is not None:
                    raise self._failure
                self._arm(loop)
                self._wakeup = loop.create_future()
                if self._inbox or self._proposals or self._stopped or self._failure:
                    self._wake()
                await self._wakeup
                self._wakeup = None
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._rpc.close()

    async def stop(self) -> None:
        """Give the lead away, write out what was appended, and end `run`."""
        if self._stopped:
            return
        self._farewell = asyncio.get_running_loop().create_future()
        # Counted until it has been stepped: other events may lie before it in the inbox.
        self._farewells += 1
        self._put(Stopping())
        await asyncio.wait({self._farewell}, timeout=FAREWELL_SECONDS_MAX)
        await self._disk.drain()
        self._stopped = True
        self._wake()

    def fail(self, failure: BaseException) -> None:
        """End `run` with this error: the disk no longer keeps what it is given."""
        self._failure = failure
        self._wake()

    def _put(self, event: Event) -> None:
        self._inbox.append(event)
        self._wake()

    def _wake(self) -> None:
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the next deadline wake us. A timer that is early is cheap; re-arming is not."""
        deadline_ms = self._deadline_ms = self.node.deadline_ms
        if deadline_ms is None:
            return
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        delay_seconds = max(0, deadline_ms - self._clock()) / 1_000
        self._timer = loop.call_later(delay_seconds, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._wake()

    async def _drain(self) -> None:
        """Take everything that has arrived; then ask the disk once for all that was appended."""
        # Only a step changes the deadline, and there was none since it was armed.
        if self._deadline_ms is not None and self._deadline_ms <= self._clock():
            await self._step(Tick())
        while self._inbox or self._proposals:
            # Proposals first: their offsets were given when they came, before these events.
            if self._proposals:
                await self._step(Proposed(len(self._proposals[0].values)))
            else:
                await self._step(self._inbox.popleft())
        if self._uncommitted_bytes:
            self._uncommitted_bytes = False
            self._disk.request_commit(self._log, self._on_flushed)

    def _on_flushed(self, durable: LogEnd) -> None:
        self._put(Flushed(durable))

    async def _step(self, event: Event) -> None:
        for effect in self.node.step(event, now_ms=self._clock()):
            match effect:
                case PersistElection(election):
                    await self._disk.call(self._elections.write, election)
                case TruncateTo(end):
                    await self._truncate(end)
                case _:
                    self._perform(effect)
        if isinstance(event, Answered):
            # What no effect has asked for by now was fetched in vain.
            self._fetched.pop(event.correlation, None)
        self._farewells -= isinstance(event, Stopping)
        if self._farewell is not None and self._farewells == 0 and not self._farewell.done():
            self._farewell.set_result(None)
        if self.node.leader != self._leader_known:
            self._leader_known = self.node.leader
            logger.info("%s", self.node)
            if self._leader_watch is not None and not self._leader_watch.done():
                self._leader_watch.set_result(None)

    def _perform(self, effect: Prompt) -> None:
        match effect:
            case Answer(asker, response):
                self._rpc.answer(asker, response, self._records_for(response))
            case Send(to, correlation, request):
                self._rpc.send(to, request, self._done(to, correlation, request))
            case AppendProposed() | AppendLeaderChange() | AppendFetched():
                self._append(effect)
            case Commit(high_watermark):
                self._commit(high_watermark)
            case Lead(epoch):
                self._lead_pending = epoch
            case StopLeading(epoch):
                self._stop_leading(epoch)
            case Warn(text):
                logger.warning("%s", text)
            case _:
                assert_never(effect)

    def _append(self, effect: AppendProposed | AppendLeaderChange | AppendFetched) -> None:
        """Hand the bytes to the log; one flush follows for all that this wake-up appends."""
        self._uncommitted_bytes = True
        match effect:
            case AppendProposed(batch):
                proposal = self._proposals.popleft()
                self._proposed -= len(proposal.values)
                assert len(proposal.values) == batch.end - batch.base
                encoded = encode(proposal.values, timestamp_ms=self._wall_clock())
            case AppendLeaderChange(batch=batch):
                encoded = self._encode_opening(effect)
            case AppendFetched(correlation, batches):
                appended = self._log.append(self._fetched.pop(correlation))
                assert tuple(appended) == batches
                return
        stamp(encoded, batch.base, batch.epoch)
        self._log.append(encoded)

    def _encode_opening(self, opening: AppendLeaderChange) -> bytearray:
        now_ms = self._wall_clock()
        change = LeaderChange(
            leader=opening.leader, voters=opening.voters, granting=opening.granting
        )
        if opening.founding:
            return encode_founding(change, self._founders, timestamp_ms=now_ms)
        return encode_leader_change(change, timestamp_ms=now_ms)

    def _records_for(self, response: Response) -> bytes:
        if not isinstance(response, FetchResponse) or response.span is None:
            return b""
        span = response.span
        return self._log.read(span.start, span.end, span.max_bytes)

    def _done(
        self, to: ReplicaId, correlation: Correlation, request: Request
    ) -> Callable[[Response | None, bytes], None]:
        is_farewell = isinstance(request, EndQuorumEpochRequest)
        self._farewells += is_farewell

        def done(response: Response | None, records: bytes) -> None:
            self._farewells -= is_farewell
            if response is None:
                self._put(Unanswered(to, correlation))
                return
            if records:
                self._fetched[correlation] = records
            self._put(Answered(to, correlation, response))

        return done

    async def _truncate(self, end: Offset) -> None:
        # Nothing of the old tail may be reported durable once the tail has been replaced.
        await self._disk.drain()
        self._inbox = deque(each for each in self._inbox if not isinstance(each, Flushed))
        await self._disk.call(self._log.truncate_to, end)
        self._state_machine.on_truncate(end)

    def _commit(self, high_watermark: Offset) -> None:
        self._state_machine.on_commit(high_watermark)
        start = self.node.epoch_start
        if self._lead_pending is not None and start is not None and high_watermark > start:
            epoch, self._lead_pending = self._lead_pending, None
            assert high_watermark == self.node.log_end.offset, "proposed before leading"
            self._state_machine.on_lead(epoch, high_watermark)

    def _stop_leading(self, epoch: Epoch) -> None:
        self._proposals.clear()
        self._proposed = 0
        if self._lead_pending == epoch:
            self._lead_pending = None
            return
        self._state_machine.on_stop_leading(epoch)
