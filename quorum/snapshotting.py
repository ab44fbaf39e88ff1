"""Snapshots of a running replica: taken in slices, retained by Kafka's limits, sent and installed.

A slice takes a millisecond or two, between turns of the replica. The bytes go to the disk thread a
megabyte at a time, so that a commit never waits long behind them. Snapshots from a leader are
assembled and installed here too; the core decides when.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias, TypeVar

from quorum.cluster_id import ClusterIdentity
from quorum.core.effects import InstallSnapshot, StoreChunk
from quorum.core.events import Event, SnapshotInstalled, SnapshotRefused, SnapshotTaken
from quorum.core.messages import FetchSnapshotResponse
from quorum.core.node import QuorumNode
from quorum.core.snapshots import KEPT_MIN
from quorum.core.vocabulary import Offset, OffsetAndEpoch, Snapshot
from quorum.log_events import LogEvent
from quorum.ports import (
    Clock,
    Disk,
    Log,
    LogFailure,
    ReceivedSnapshot,
    SnapshotStore,
    StateMachine,
    StateSnapshot,
)
from quorum.records.batch import HEADER_BYTES, header_at, headers
from quorum.records.control import SnapshotBatches

T = TypeVar("T")
SnapshotDone: TypeAlias = Callable[[Snapshot | str], None]
"""Takes the newest snapshot, or the reason why there is none of what was committed."""

logger = logging.getLogger("quorum")

SLICE_PAUSE_MS: Final = 2
"""The pause between two slices of about a millisecond: a snapshot takes at most half the time."""
WRITE_BYTES: Final = 1024 * 1024
"""The bytes handed to the disk at once."""
TRY_AGAIN_MS: Final = 1_000
"""The pause after the state machine had no snapshot to give, for example in a transaction."""
TRY_AGAIN_AFTER_FAILURE_MS: Final = 60_000
"""The pause after the disk could not store a snapshot."""
NOTHING_COMMITTED: Final = "nothing is committed yet"
NOT_NOW: Final = (
    "the node has not yet read the log, is in the middle of a transaction, or has too much that is "
    "not committed; retry"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLimits:
    """The limits that trigger a snapshot, and the retention; names and defaults are Kafka's."""

    bytes_between: int = 20 * 1024 * 1024
    """`metadata.log.max.record.bytes.between.snapshots`: batches since the last snapshot."""
    interval_ms: int = 3_600_000
    """`metadata.log.max.snapshot.interval.ms`: if there were commits since; 0 for never."""
    retention_bytes: int = 100 * 1024 * 1024
    """`metadata.max.retention.bytes`: log and snapshots; above it the oldest is removed."""
    retention_ms: int = 7 * 24 * 3_600_000
    """`metadata.max.retention.ms`: a snapshot of older records is removed."""


@dataclass(slots=True)
class _Taking:
    """A snapshot that is being taken."""

    id: OffsetAndEpoch
    state: StateSnapshot
    batches: SnapshotBatches
    buffer: bytearray
    position: int = 0
    is_complete: bool = False
    """True once the footer is in the buffer or written."""
    is_writing: bool = False
    """True while the disk writes a part of it."""
    awaited_by: list[SnapshotDone] = field(default_factory=list)


class Snapshots:
    """The snapshots of one replica; it has the owner of the replica."""

    def __init__(
        self,
        store: SnapshotStore,
        *,
        node: QuorumNode,
        log: Log,
        disk: Disk,
        state_machine: StateMachine,
        clock: Clock,
        wall_clock: Clock,
        put: Callable[[Event], None],
        wake: Callable[[], None],
        cluster: ClusterIdentity,
        limits: SnapshotLimits,
    ) -> None:
        """`put` queues an event for the node; `wake` requests a `turn`."""
        self._store = store
        self._node = node
        self._log = log
        self._disk = disk
        self._state_machine = state_machine
        self._clock = clock
        self._wall_clock = wall_clock
        self._put = put
        self._wake = wake
        self._cluster = cluster
        self._limits = limits
        self._taking: _Taking | None = None
        self._requested_by: list[SnapshotDone] = []
        """The requests for a snapshot that has not begun."""
        self._not_before_ms = 0
        self._last_ms = clock()
        self.bytes_since = log.bytes_from(self._newest_end)
        """The bytes that were appended to the log since the last snapshot."""
        self._dropped: list[OffsetAndEpoch] = []

    # Taking a snapshot.

    @property
    def kept(self) -> Sequence[Snapshot]:
        """The complete snapshots, the oldest first."""
        return self._store.snapshots

    def request(self, done: SnapshotDone) -> None:
        """Take a snapshot of what is committed now, due or not; one under way ends before.

        `done` is called once it is durable, or with the newest one if that has all of it.
        """
        self._requested_by.append(done)
        self._wake()

    @property
    def _due_ms(self) -> int | None:
        if self._taking is not None:
            return None if self._taking.is_writing else self._not_before_ms
        if self._requested_by:
            return self._clock()
        if self.bytes_since >= self._limits.bytes_between:
            return self._not_before_ms
        if not self._limits.interval_ms:
            return None
        return max(self._not_before_ms, self._last_ms + self._limits.interval_ms)

    def turn(self) -> int | None:
        """Begin a snapshot if due, or take the next slice; return the time of the next turn."""
        for id_ in self._dropped:
            self._remove(partial(self._store.remove, id_))
        self._dropped.clear()
        due_ms = self._due_ms
        if due_ms is None:
            return None
        now_ms = self._clock()
        if now_ms < due_ms:
            return due_ms
        if self._taking is None:
            self._begin(now_ms)
        else:
            self._slice(self._taking)
            self._not_before_ms = now_ms + SLICE_PAUSE_MS
        return self._due_ms

    def _begin(self, now_ms: int) -> None:
        self._not_before_ms = now_ms + TRY_AGAIN_MS
        requested_by, self._requested_by = self._requested_by, []
        if (self._node.high_watermark or 0) <= self._newest_end:
            self._last_ms = now_ms
            _tell(requested_by, self.kept[-1] if self.kept else NOTHING_COMMITTED)
            return
        state = self._state_machine.snapshot()
        if state is None:
            _tell(requested_by, NOT_NOW)
            return
        if state.end <= self._newest_end:
            state.close()
            _tell(requested_by, self.kept[-1] if self.kept else NOTHING_COMMITTED)
            return
        self._not_before_ms = self._last_ms = now_ms
        self.bytes_since = self._log.bytes_from(state.end)
        id_ = OffsetAndEpoch(self._node.epoch_at(Offset(state.end - 1)), state.end)
        *_, (_, last) = headers(self._log.read(Offset(state.end - 1), state.end, 1))
        batches = SnapshotBatches(id_.epoch, last.max_timestamp_ms)
        opening = batches.opening(self._node.voters_at(state.end), self._cluster.id)
        self._taking = _Taking(id_, state, batches, opening, awaited_by=requested_by)

    def _slice(self, taking: _Taking) -> None:
        group = next(taking.state.groups, None)
        if group is None:
            taking.state.close()
            taking.buffer += taking.batches.closing()
            taking.is_complete = True
        elif group:
            taking.buffer += taking.batches.data(group)
        if taking.is_complete or len(taking.buffer) >= WRITE_BYTES:
            self._write(taking)

    def _write(self, taking: _Taking) -> None:
        data, taking.buffer = taking.buffer, bytearray()
        taking.is_writing = True
        work = partial(self._store.write, taking.id, data, taking.position)
        taking.position += len(data)
        self._disk.perform(partial(_attempt, work), partial(self._written, taking))

    def _written(self, taking: _Taking, problem: str | None) -> None:
        if self._taking is not taking:
            return  # It was abandoned meanwhile.
        if problem is not None:
            self._fail(taking, problem)
        elif taking.is_complete:
            # The log below it is committed by an earlier request, and the disk works in order.
            work = partial(self._store.finish, taking.id)
            self._disk.perform(partial(_attempt, work), partial(self._finished, taking))
        else:
            taking.is_writing = False
            self._wake()

    def _finished(self, taking: _Taking, problem: str | None) -> None:
        if self._taking is not taking:
            return
        if problem is not None:
            self._fail(taking, problem)
            return
        self._taking = None
        self._store.note(taking.id, taking.position)
        logger.info(
            "Snapshot %s taken: %d bytes",
            taking.id,
            taking.position,
            extra=LogEvent.SNAPSHOT_WRITTEN.extra,
        )
        self._retain()
        self._put(SnapshotTaken(self._store.snapshots))
        _tell(taking.awaited_by, Snapshot(taking.id, taking.position))

    def _fail(self, taking: _Taking, problem: str) -> None:
        logger.warning(
            "Snapshot %s could not be written: %s",
            taking.id,
            problem,
            extra=LogEvent.SNAPSHOT_FAILED.extra,
        )
        self._give_up(f"snapshot {taking.id} could not be written: {problem}")
        self._not_before_ms = self._clock() + TRY_AGAIN_AFTER_FAILURE_MS

    def _give_up(self, reason: str) -> None:
        taking, self._taking = self._taking, None
        if taking is not None:
            if not taking.is_complete:
                taking.state.close()
            work = partial(self._store.abandon, taking.id)
            self._disk.perform(partial(_attempt, work), _warn_of_rest)
            _tell(taking.awaited_by, reason)

    # Retention.

    @property
    def _newest_end(self) -> Offset:
        kept = self._store.snapshots
        return kept[-1].id.offset if kept else Offset(0)

    def _retain(self) -> None:
        """Drop the oldest snapshots that exceed the retention."""
        kept = list(self._store.snapshots)
        while len(kept) > KEPT_MIN and self._is_too_much(kept):
            self._drop(kept.pop(0).id)

    def _is_too_much(self, kept: Sequence[Snapshot]) -> bool:
        oldest = kept[0]
        size_bytes = sum(each.size_bytes for each in kept) + self._log.bytes_from(oldest.end)
        if size_bytes > self._limits.retention_bytes:
            return True
        written_ms = header_at(self._store.read(oldest.id, 0, HEADER_BYTES)).max_timestamp_ms
        return self._wall_clock() - written_ms > self._limits.retention_ms

    def _drop(self, id_: OffsetAndEpoch) -> None:
        # Removed in the next turn: until then the node may still send it to a follower.
        self._store.forget(id_)
        self._dropped.append(id_)

    def advance(self, start: Offset) -> None:
        """Advance the log start, and remove obsolete segments one by one."""
        self._log.advance_start(start)
        self._remove(self._log.remove_obsolete)

    def _remove(self, some: Callable[[], bool]) -> None:
        """Let the disk call `some`, which removes a part of a file, until nothing is left."""
        self._disk.perform(partial(_attempt, some), partial(self._removed, some))

    def _removed(self, some: Callable[[], bool], there_is_more: bool | str) -> None:
        if isinstance(there_is_more, str):
            _warn_of_rest(there_is_more)
        elif there_is_more:
            # A new request for each part, so that commits come in between.
            self._remove(some)

    # Sending and installing.

    def part_for(self, response: FetchSnapshotResponse) -> bytes:
        """Return the snapshot bytes for a response to FetchSnapshot."""
        if not response.length:
            return b""
        part = self._store.read(response.snapshot, response.position, response.length)
        if len(part) != response.length:
            raise LogFailure(f"snapshot {response.snapshot} ends before byte {response.size_bytes}")
        return part

    def storing(self, effect: StoreChunk, data: bytes) -> Callable[[], None]:
        """Return the disk's work for the effect; it waits for free space if there is none."""
        assert len(data) == effect.length
        return partial(self._store.receive, effect.snapshot, data, effect.position)

    def installing(self, effect: InstallSnapshot) -> Callable[[], ReceivedSnapshot | str]:
        """Return the disk's work for the effect, after which `installed` is called."""
        self._give_up(f"snapshot {effect.snapshot} of the leader replaces it")
        return partial(self._install, effect)

    def _install(self, effect: InstallSnapshot) -> ReceivedSnapshot | str:
        received = self._store.install(effect.snapshot, is_mixed=effect.is_mixed)
        if not isinstance(received, str):
            self._log.begin_anew(received.id.offset)
        return received

    def installed(self, effect: InstallSnapshot, outcome: ReceivedSnapshot | str) -> Event:
        """Load the installed snapshot into the state machine; return the event for the node."""
        if isinstance(outcome, str):
            return SnapshotRefused(effect.snapshot, outcome)
        for each in self._store.snapshots:
            self._drop(each.id)
        self._remove(self._log.remove_obsolete)
        self._store.note(outcome.id, outcome.size_bytes)
        self.bytes_since, self._last_ms = 0, self._clock()
        logger.info(
            "Snapshot %s installed: %d bytes",
            outcome.id,
            outcome.size_bytes,
            extra=LogEvent.SNAPSHOT_INSTALLED.extra,
        )
        try:
            self._state_machine.load_snapshot(
                outcome.records(), outcome.id.offset, outcome.id.epoch
            )
        except ValueError as error:
            raise LogFailure(f"snapshot {outcome.id} has an unreadable record: {error}") from error
        return SnapshotInstalled(Snapshot(outcome.id, outcome.size_bytes), outcome.voters)


def _tell(requested_by: Sequence[SnapshotDone], outcome: Snapshot | str) -> None:
    for each in requested_by:
        each(outcome)


def earliest(one: int | None, other: int | None) -> int | None:
    """Return the earlier of two times; None stands for never."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _attempt(work: Callable[[], T]) -> T | str:
    """Return the outcome, or the disk's error: a replica can do without a snapshot for a while."""
    try:
        return work()
    except OSError as error:
        return error.strerror or str(error)


def _warn_of_rest(problem: str | None) -> None:
    if problem is not None:
        logger.warning(
            "An obsolete snapshot could not be removed: %s",
            problem,
            extra=LogEvent.SNAPSHOT_NOT_REMOVED.extra,
        )
