"""The ports of the quorum: log, snapshots, election state, disk, clock, calls and state machine.

Each port has a contract in its docstrings and tests in `tests/contracts` that every
implementation passes: files in production, memory in tests and simulation.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from quorum.core.events import Asker
from quorum.core.messages import Batch, Request, Response
from quorum.core.vocabulary import (
    ElectionState,
    Epoch,
    HostPort,
    Offset,
    OffsetAndEpoch,
    ReplicaId,
    Snapshot,
)
from quorum.core.voter_set import VoterAssignment

T = TypeVar("T")

Done = Callable[[Response | None, bytes], None]


class LogFailure(Exception):
    """The disk failed to store or return data: the process must end.

    There is no retry: after a failed fsync nobody knows which pages are still unwritten.
    """


class DiskFull(LogFailure):
    """The disk has no room for a write. Nothing stored is lost, and the write may be repeated: it
    succeeds once there is room."""


class OffsetOutOfRange(ValueError):
    """A requested offset is outside [log start, log end]."""

    def __init__(self, asked: Offset, start: Offset, end: Offset) -> None:
        super().__init__(f"offset {asked} is outside the log, which is [{start}, {end}]")
        self.asked = asked
        self.start = start
        self.end = end


class Log(Protocol):
    """One replica's copy of an append-only log of Kafka record batches (magic 2).

    One owner appends and reads (the event loop). Only `commit`, `remove_obsolete`, `truncate_to`
    and `begin_anew` may be called from another thread, one at a time: the first two while the owner
    appends and reads, `truncate_to` while it reads below the new end and appends nothing,
    `begin_anew` while it does neither.
    """

    @property
    def start(self) -> Offset:
        """The first offset still held."""
        ...

    @property
    def end(self) -> OffsetAndEpoch:
        """The epoch of the last batch (0 if there is none) and the log end offset."""
        ...

    @property
    def epochs(self) -> Sequence[tuple[Epoch, Offset]]:
        """Each epoch with records, in ascending order, with the offset of its first record.

        If the log was cut at its start, the first offset is the log start.
        """
        ...

    def bytes_from(self, offset: Offset) -> int:
        """Estimate the bytes of the batches from `offset` on; of all if it precedes the log."""
        ...

    def append(self, batches: bytes | bytearray | memoryview) -> Sequence[Batch]:
        """Append whole batches that begin at the log end offset; return their outlines.

        They are visible to `read` at once, but on disk only after `commit`. The bytes are kept, not
        copied, and must not change afterwards. The caller has checked their CRCs, and that the
        epochs do not fall.
        """
        ...

    def read(self, start: Offset, end: Offset, max_bytes: int) -> bytes:
        """Read whole batches: from the one that holds `start` to the last one that ends by `end`.

        At most `max_bytes`, but at least one batch if there is one (KIP-74). Raises
        `OffsetOutOfRange` if `start` is outside [log start, log end]; an `end` beyond the log end
        means the log end. The bytes are as appended; their checksums are not verified again.
        """
        ...

    def truncate_to(self, end: Offset) -> None:
        """Remove every batch that reaches beyond `end`; durable on return.

        Must not overlap a `commit` in another thread. `end` is a batch boundary in [log start, log
        end]. Uncommitted batches below it stay uncommitted.
        """
        ...

    def advance_start(self, start: Offset) -> None:
        """Advance the log start to `start`, a batch boundary in the log.

        Called by the owner once a snapshot that ends there is durable. It writes nothing: a
        restarted process may find records below it again.
        """
        ...

    def remove_obsolete(self) -> bool:
        """Remove a part of what lies below the log start, durably; return True if there is more.

        Called repeatedly, in the thread that commits: no call takes long.
        """
        ...

    def begin_anew(self, start: Offset) -> None:
        """Replace the log by an empty one at `start`, durably. Then `remove_obsolete` is due.

        For a replica with a new snapshot that ends there. Must not overlap a `commit`, and the
        owner neither reads nor appends meanwhile. A crash leaves the front of the old log, or an
        empty log: if the log ends before the newest snapshot, the next start repeats the call.
        """
        ...

    def commit(self, *, sync: bool = True) -> OffsetAndEpoch:
        """Write everything appended so far, and return the end offset that has been written.

        With `sync` it survives a power failure on return. Raises `LogFailure` for an error of the
        disk: the log is then unusable, and the process must end. After `DiskFull` the log stays
        usable, and the next commit writes the rest.
        """
        ...

    def close(self) -> None:
        """Write everything appended and release the files."""
        ...


@dataclass(frozen=True, slots=True)
class ReceivedSnapshot:
    """A complete and durable snapshot from the leader."""

    id: OffsetAndEpoch
    size_bytes: int
    voters: VoterAssignment | None
    """The voters at its end; None if the log does not record any."""
    records: Callable[[], Iterable[bytes]]
    """Returns the records for the state machine; raises `ValueError` if they are unreadable."""


class SnapshotStore(Protocol):
    """The snapshots of one replica's log, named by their id (KIP-630): the offset at which they
    end, exclusive, and the epoch of the last record before that.

    Methods marked "Disk" block and run in the disk thread; the owner calls the others.
    """

    partial: tuple[OffsetAndEpoch, int] | None
    """The snapshot that an earlier process received in part, and the number of its bytes."""

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """The complete and durable snapshots, the oldest first."""
        ...

    def read(self, id_: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        """Read at most `max_bytes` of a stored snapshot from `position` on."""
        ...

    def note(self, id_: OffsetAndEpoch, size_bytes: int) -> None:
        """Add the snapshot to `snapshots`: `finish` or `install` has returned."""
        ...

    def forget(self, id_: OffsetAndEpoch) -> None:
        """Take the snapshot out of `snapshots`; `remove` follows."""
        ...

    def write(self, id_: OffsetAndEpoch, data: bytes | bytearray, position: int) -> None:
        """Disk: write the next bytes of a snapshot made here; raises `OSError`.

        Raises `LogFailure` if a sync fails, here and where names change: a replica can do without a
        snapshot for a while, but not trust a disk that fails to sync.
        """
        ...

    def finish(self, id_: OffsetAndEpoch) -> None:
        """Disk: publish a completely written snapshot, durably; raises `OSError`."""
        ...

    def abandon(self, id_: OffsetAndEpoch) -> None:
        """Disk: remove a snapshot that will not be finished."""
        ...

    def receive(self, id_: OffsetAndEpoch, data: bytes, position: int) -> None:
        """Disk: store the next bytes of a snapshot from the leader; position 0 starts again."""
        ...

    def install(self, id_: OffsetAndEpoch, *, is_mixed: bool) -> ReceivedSnapshot | str:
        """Disk: publish a completely received snapshot, durably, or remove it and return the error.

        `is_mixed` says that its parts may come from more than one replica.
        """
        ...

    def remove(self, id_: OffsetAndEpoch) -> bool:
        """Disk: remove a part of a snapshot; return True if there is more of it.

        Called repeatedly, so that commits come between the parts of a large file.
        """
        ...


class ElectionStore(Protocol):
    """The durable store of a replica's election state."""

    def read(self) -> ElectionState:
        """Return the value last written, or `ElectionState()` if there is none."""
        ...

    def write(self, election: ElectionState) -> None:
        """Replace the stored value atomically; the new one survives a power failure on return.

        Raises `LogFailure` for an error of the disk; `DiskFull` leaves the old value.
        """
        ...


class Disk(Protocol):
    """Performs blocking work, one piece after the other, in the order of the calls.

    Reports come later, never from inside the call, and in the same order. A failure goes to the
    owner once, as `Replica.fail`, in place of the report; after a `LogFailure` no further work is
    performed. A full disk (`DiskFull`, or an `OSError` that means it) is no failure: the work is
    repeated, in its place, until there is room, and the owner hears when that begins and ends, as
    `Replica.room`.
    """

    def request_commit(
        self, log: Log, done: Callable[[OffsetAndEpoch], None], *, at_once: bool = False
    ) -> None:
        """Commit everything in `log` at the time of the commit, and call `done` with its end.

        Requests may share a commit, and its report, until it begins. `at_once` says that no message
        has to leave first: the disk may then commit, and report, before this returns.
        """
        ...

    def perform(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Run `work` once, and call `done` with its result."""
        ...


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """The state after all records below `end`, as records that restore it."""

    end: Offset
    """The end of a batch in the log; everything below it is committed."""
    groups: Iterator[Sequence[bytes]]
    """Groups of records, each made on demand in a millisecond or two; an empty one is a pause."""
    close: Callable[[], None]
    """Called once, after the last group or earlier."""


class StateMachine(Protocol):
    """The state machine that the quorum replicates; called by the owner task only."""

    def snapshot(self) -> StateSnapshot | None:
        """Return the state as of the last `on_commit`, or a little earlier; None if unavailable.

        Its groups are taken between other calls and must not include later or uncommitted records.
        There is one snapshot at a time. None is available before the first record, or in the middle
        of a transaction (KIP-868).
        """
        ...

    def load_snapshot(self, records: Iterable[bytes], end: Offset, epoch: Epoch) -> None:
        """Replace the state by that of these records: the committed state below `end`.

        Called before any other method if the log does not begin at 0, and again when the leader no
        longer has the records that this node needs next; `end` never falls. `epoch` is that of the
        last record before `end`. Work of more than a few milliseconds is left to `catch_up`. An
        invalid record raises `ValueError`, or `LogFailure` in `catch_up`.
        """
        ...

    def on_commit(self, high_watermark: Offset) -> None:
        """Apply the records below `high_watermark`, which is committed and never falls.

        Work of more than a few milliseconds is left to `catch_up`.
        """
        ...

    @property
    def is_behind(self) -> bool:
        """True while committed records, or a snapshot, are not applied yet."""
        ...

    def catch_up(self) -> None:
        """Apply some of them, for a few milliseconds; called repeatedly while `is_behind`.

        Between the calls the quorum goes on and may call every other method except `on_lead`.
        """
        ...

    def on_lead(self, epoch: Epoch, start: Offset) -> None:
        """Begin to propose: this node leads `epoch`.

        Every record below `start` is committed and applied: for a state machine that is behind, the
        call comes later.
        """
        ...

    def on_control(self, end: Offset) -> None:
        """Note that the quorum has appended control records, while this node may propose.

        The next proposal begins at `end`; earlier ones lie below these records.
        """
        ...

    def on_stop_leading(self, epoch: Epoch) -> None:
        """Stop proposing: the lead is lost, and uncommitted records may or may not survive.

        No call reports the fate of those records: they count once `on_commit` passes them.
        """
        ...


class Rpc(Protocol):
    """Requests and responses between replicas; record bytes travel beside the messages."""

    def send(self, to: ReplicaId, request: Request, done: Done) -> None:
        """Send, and call `done` exactly once, later: with the response and its records, complete
        and checked, or with None if there will be no response."""
        ...

    def answer(self, asker: Asker, response: Response, records: bytes) -> None:
        """Answer a received request; the answer is dropped if the connection is gone."""
        ...

    def close(self) -> None:
        """Abandon the requests under way; `done` is not called any more."""
        ...


class PeerAddresses(Protocol):
    """The addresses of the replicas; looked up at every connection, because they may change."""

    def address_of(self, replica: ReplicaId) -> HostPort | None:
        """Return the address, or None while it is unknown."""
        ...


Clock = Callable[[], int]
"""Monotonic milliseconds."""
