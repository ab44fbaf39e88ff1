"""One partition on this broker: its log, its producer state and its role as leader or follower.

`Partition` joins the pure rules with a log and tells its host what happened: records appended,
high watermark advanced, an ISR to propose, role changed. It belongs to the event loop and never
waits; only the log is written in another thread.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import NamedTuple, Protocol, TypeAlias

from broker.partition.assignment import (
    Assignment,
    LiveEpochs,
    PartitionKey,
    TopicSettings,
)
from broker.partition.follower import FollowerState, divergence, epoch_refusal
from broker.partition.leader import CommittedIsr, IsrProposal, LeaderState
from broker.storage.batch_validation import (
    InvalidBatch,
    TimestampBounds,
    stamp_append_time,
    validate_batch,
)
from broker.storage.partition_log import OpenedLog, producers_of
from quorum.core.raft_log import LeaderEpochCache
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch
from quorum.log.segmented_log import SegmentedLog
from quorum.protocol.errors import ErrorCode
from quorum.records.batch import CorruptBatch, Header, check, headers
from quorum.records.encode import stamp
from statemachine.vocabulary import BrokerId


class PartitionListener(Protocol):
    """A listener for events of the partitions, called at once in the event loop.

    It ignores an event whose method it inherits.
    """

    def on_append(self, partition: "Partition") -> None:
        """Records were appended, which followers may fetch."""
        return

    def on_high_watermark(self, partition: "Partition") -> None:
        """The high watermark advanced: consumers may read more."""
        return

    def on_role_change(self, partition: "Partition") -> None:
        """The role changed, or the partition is about to be removed."""
        return

    def on_isr_proposal(self, partition: "Partition") -> None:
        """The leader has a new ISR to propose to the controller: `LeaderState.pending`."""
        return


class PartitionHost(PartitionListener, Protocol):
    """The broker that hosts a partition; it also writes what is appended."""

    broker_id: BrokerId
    replica_lag_time_max_ms: int

    @property
    def broker_epoch(self) -> int | None:
        """The broker epoch of the current registration; None before the first one."""
        ...

    @property
    def live(self) -> LiveEpochs: ...

    def now_ms(self) -> int: ...


DelayedProduce: TypeAlias = Callable[[ErrorCode | None], None]
"""The callback of a waiting Produce, called once: with None, or the reason for its failure."""


class Appended(NamedTuple):
    """The offsets of an appended batch."""

    base_offset: int
    end_offset: int
    append_time_ms: int = -1


class ProducePurgatory:
    """Produce requests that wait for an offset of one partition, lowest offset first.

    Invariant: each waiter is called once, by `complete`, `expire` or `fail`.
    """

    __slots__ = ("_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, DelayedProduce]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, end_offset: int, deadline_ms: int, waiter: DelayedProduce) -> None:
        """Add a waiter for everything below `end_offset`."""
        # The count keeps equal offsets in order, and waiters from being compared.
        self._count += 1
        heappush(self._heap, (end_offset, self._count, deadline_ms, waiter))

    def complete(self, end_offset: int) -> None:
        """Complete the requests at or below this offset, in the order of their offsets."""
        while self._heap and self._heap[0][0] <= end_offset:
            heappop(self._heap)[3](None)

    def expire(self, now_ms: int) -> None:
        """Fail the requests whose deadline has passed."""
        if any(entry[2] <= now_ms for entry in self._heap):
            overdue = [entry for entry in self._heap if entry[2] <= now_ms]
            # A sorted list is a heap.
            self._heap = sorted(entry for entry in self._heap if entry[2] > now_ms)
            for entry in sorted(overdue):
                entry[3](ErrorCode.REQUEST_TIMED_OUT)

    def fail(self, error: ErrorCode) -> None:
        """Fail all requests: this replica can no longer confirm their records."""
        waiting, self._heap = sorted(self._heap), []
        for entry in waiting:
            entry[3](error)


class Partition:
    """One replica: its log and its role. Only the disk thread writes to `log`."""

    def __init__(
        self,
        key: PartitionKey,
        topic: str,
        opened: OpenedLog,
        assignment: Assignment,
        settings: TopicSettings,
        host: PartitionHost,
    ) -> None:
        self.key = key
        self.topic = topic
        self.settings = settings
        self.log: SegmentedLog = opened.log
        self.producers = opened.producers
        self.history = LeaderEpochCache(opened.log.epochs)
        self.written: int = opened.log.end.offset
        """The end of what is written; the rest is only in memory."""
        self.is_open = True
        self.is_truncating = False
        self._host = host
        self._waits_for_write = ProducePurgatory()
        self._waits_for_commit = ProducePurgatory()
        self._next_assignment: Assignment | None = None
        self.role: LeaderState | FollowerState = FollowerState(assignment, opened.high_watermark)
        self.assign(assignment)

    def __str__(self) -> str:
        return f"{self.topic}-{self.key.number}"

    # --- what it is ------------------------------------------------------------------------

    @property
    def log_end(self) -> int:
        return self.log.end.offset

    @property
    def high_watermark(self) -> int:
        return self.role.high_watermark

    @property
    def leader_epoch(self) -> int:
        return self.role.assignment.leader_epoch

    @property
    def leading(self) -> LeaderState | None:
        """The leader's state, or None if this replica does not lead."""
        return self.role if isinstance(self.role, LeaderState) else None

    @property
    def following(self) -> FollowerState | None:
        """The follower's state, or None; without a leader every replica is a follower."""
        return self.role if isinstance(self.role, FollowerState) else None

    @property
    def is_throttled(self) -> bool:
        """Return whether replicas that are not in sync copy it at a limited rate."""
        settings, number = self.settings, self.key.number
        return number in settings.leader_throttled or number in settings.follower_throttled

    def assign(self, assignment: Assignment) -> None:
        """Apply an assignment from the metadata."""
        if self.is_truncating:
            self._next_assignment = assignment
            return
        if assignment.leader != self._host.broker_id:
            self._follow(assignment)
        elif isinstance(self.role, LeaderState):
            self.role.update(assignment, self._host.now_ms())
        else:
            self._lead(assignment)
        self._fail_below_min_isr()
        self.review()

    def _lead(self, assignment: Assignment) -> None:
        self.role = LeaderState(
            self._host.broker_id,
            assignment,
            log_end=self.log_end,
            written=self.written,
            high_watermark=min(self.high_watermark, self.written),
            now_ms=self._host.now_ms(),
            lag_ms_max=self._host.replica_lag_time_max_ms,
        )
        self._host.on_role_change(self)

    def _follow(self, assignment: Assignment) -> None:
        before, is_same_epoch = self.role, self.leader_epoch == assignment.leader_epoch
        self.role = FollowerState(assignment, before.high_watermark)
        if isinstance(before, LeaderState):
            self._fail_waiting()
        elif is_same_epoch:
            self.role.lag = before.lag
            return
        self._host.on_role_change(self)

    def close(self) -> None:
        """Stop writing and fail all waiting requests: the partition is about to be removed."""
        self.is_open = False
        self._fail_waiting()
        self._host.on_role_change(self)

    # --- the leader and its producers -----------------------------------------------------------

    def produce(
        self, records: bytes | None, *, for_all: bool, wall_ms: int
    ) -> Appended | ErrorCode | InvalidBatch:
        """Append a producer's batch; return its offsets, also if it is a duplicate, or the refusal.

        `for_all` means acks=all. The batch is neither written nor committed yet: see `when_written`
        and `when_committed`.
        """
        leading = self.role
        if not isinstance(leading, LeaderState):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if for_all and leading.under_min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        settings = self.settings
        times = None
        if not settings.is_append_time:
            times = TimestampBounds(
                wall_ms - settings.before_ms_max, wall_ms + settings.after_ms_max
            )
        header = validate_batch(records, message_bytes_max=settings.message_bytes_max, times=times)
        if isinstance(header, InvalidBatch):
            return header
        assert records is not None
        known = self.producers.check(header)
        if isinstance(known, ErrorCode):
            return known
        if known is not None:
            return Appended(known.base_offset, known.end_offset)
        return self._append(leading, bytearray(records), header, wall_ms)

    def _append(
        self, leading: LeaderState, batch: bytearray, header: Header, wall_ms: int
    ) -> Appended:
        base = self.log.end.offset
        epoch = Epoch(self.leader_epoch)
        append_time_ms = -1
        if self.settings.is_append_time:
            stamp_append_time(batch, wall_ms)
            append_time_ms = wall_ms
        stamp(batch, base, epoch)
        self.log.append(batch)
        self.history.begin(epoch, base)
        self.producers.record(header._replace(base_offset=base))
        leading.appended(self.log_end)
        self._host.on_append(self)
        return Appended(base, self.log_end, append_time_ms)

    def when_written(self, end_offset: int, deadline_ms: int, waiter: DelayedProduce) -> None:
        """Call `waiter` when this broker has written everything below `end_offset`."""
        if self.written >= end_offset:
            waiter(None)
        else:
            self._waits_for_write.add(end_offset, deadline_ms, waiter)

    def when_committed(self, end_offset: int, deadline_ms: int, waiter: DelayedProduce) -> None:
        """Call `waiter` when every in-sync replica has everything below `end_offset`."""
        if self.high_watermark >= end_offset:
            waiter(None)
        else:
            self._waits_for_commit.add(end_offset, deadline_ms, waiter)

    @property
    def waiting(self) -> int:
        """The number of outstanding acknowledgements."""
        return len(self._waits_for_commit) + len(self._waits_for_write)

    def sweep(self, now_ms: int) -> None:
        """Fail the requests whose deadline has passed."""
        self._waits_for_write.expire(now_ms)
        self._waits_for_commit.expire(now_ms)

    # --- the leader and its followers ---------------------------------------------------------

    def fetch_refusal(self, current_leader_epoch: int) -> ErrorCode | None:
        """The reason to refuse a fetch, or None."""
        refusal = epoch_refusal(current_leader_epoch, self.leader_epoch)
        if refusal is None and not isinstance(self.role, LeaderState):
            refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return refusal

    def fetched_by(
        self,
        follower: BrokerId,
        *,
        broker_epoch: int,
        current_leader_epoch: int,
        offset: int,
        last_fetched_epoch: int,
    ) -> OffsetAndEpoch | ErrorCode | None:
        """Note a follower's fetch from `offset`, which confirms everything below it.

        Return the point where the logs diverge, the reason to refuse the fetch, or None; see
        `LeaderState.fetched`.
        """
        refusal = self.fetch_refusal(current_leader_epoch)
        if refusal is not None:
            return refusal
        leading = self.role
        assert isinstance(leading, LeaderState)
        if offset < self.log.start:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        now_ms = self._host.now_ms()
        parted = divergence(
            self.history,
            self.log_end,
            last_fetched_epoch=last_fetched_epoch,
            fetch_offset=offset,
        )
        if parted is not None:
            leading.heard(follower, now_ms)
            return parted
        refusal = leading.fetched(
            follower,
            broker_epoch=broker_epoch,
            offset=offset,
            now_ms=now_ms,
            live=self._host.live,
        )
        if refusal is not None:
            return refusal
        if not leading.is_settled:
            self.review()
        return None

    def review(self) -> None:
        """Propose an ISR change and advance the high watermark, as far as the state allows."""
        leading = self.role
        if not isinstance(leading, LeaderState):
            return
        now_ms, live = self._host.now_ms(), self._host.live
        epoch = self._host.broker_epoch
        if epoch is not None and leading.propose(epoch, now_ms, live) is not None:
            self._host.on_isr_proposal(self)
        if leading.advance(now_ms, live):
            self._committed()

    def on_committed(self, proposal: IsrProposal, answer: CommittedIsr) -> None:
        """Apply the controller's answer that `proposal` is committed."""
        leading = self.role
        if isinstance(leading, LeaderState):
            leading.on_committed(proposal, answer)
            self._fail_below_min_isr()
            self.review()

    def on_refused(self, proposal: IsrProposal, error_code: int) -> bool:
        """Apply an error of the controller (-1: no answer); return whether to propose it again."""
        leading = self.role
        if not isinstance(leading, LeaderState):
            return False
        return leading.on_refused(proposal, error_code, self._host.now_ms())

    # --- the follower and its leader ----------------------------------------------------------

    def copy(self, records: bytes | memoryview) -> None:
        """Append records from the leader unchanged.

        Raises `CorruptBatch`, and appends nothing, unless they are whole, valid and next in the
        log.
        """
        outlines = check(records, self.log.end.offset)
        newest = outlines[-1].epoch
        if not self.history.last <= outlines[0].epoch <= newest <= self.leader_epoch:
            reason = (
                f"epochs {outlines[0].epoch} to {newest}, where only {self.history.last} to "
                f"{self.leader_epoch} can follow"
            )
            raise CorruptBatch(0, reason)
        self.log.append(records)
        for outline in outlines:
            self.history.begin(outline.epoch, outline.base)
        for _, header in headers(records):
            self.producers.record(header)
        self._host.on_append(self)

    def begin_truncation(self) -> None:
        """Start a truncation: until `truncated` the disk thread owns the log."""
        assert not self.is_truncating
        self.is_truncating = True

    def truncate_log(self, end: int) -> None:
        """Truncate the log at `end` or at the batch boundary before it; runs in the disk thread."""
        log = self.log
        end = max(log.start, min(end, log.end.offset))
        if end < log.end.offset:
            first = next(headers(log.read(Offset(end), log.end.offset, 1)))[1]
            log.truncate_to(Offset(first.base_offset))
        if self.producers.truncate(log.end.offset):
            self.producers = producers_of(log)

    def truncated(self) -> None:
        """Finish a truncation."""
        end = self.log_end
        self.history.truncate(Offset(end))
        self.written = min(self.written, end)
        assert isinstance(self.role, FollowerState)
        self.role.truncated(end)
        self.is_truncating = False
        pending, self._next_assignment = self._next_assignment, None
        if pending is not None:
            self.assign(pending)

    # --- the disk ------------------------------------------------------------------------------

    def wrote(self, end: int) -> None:
        """Note that everything below `end` was handed to the operating system."""
        if self.is_truncating:
            return
        self.written = end
        self._waits_for_write.complete(end)
        leading = self.role
        if isinstance(leading, LeaderState):
            leading.wrote(end)
            if leading.advance(self._host.now_ms(), self._host.live):
                self._committed()

    # --- inside --------------------------------------------------------------------------------

    def _committed(self) -> None:
        self._waits_for_commit.complete(self.high_watermark)
        self._host.on_high_watermark(self)

    def _fail_below_min_isr(self) -> None:
        """Fail waiting acks=all requests below min ISR, where the high watermark stands still."""
        if isinstance(self.role, LeaderState) and self.role.under_min_isr:
            self._waits_for_commit.fail(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def _fail_waiting(self) -> None:
        self._waits_for_write.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._waits_for_commit.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
