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
    Offset,
    OffsetAndEpoch,
    ReplicaId,
    Snapshot,
)
from quorum.core.voter_set import VoterAssignment

T = TypeVar("T")

Done = Callable[[Response | None, bytes], None]


class LogFailure(Exception):
    """The disk did not keep what it was given, or does not give it back: the process must end.

    Nothing is tried again: after a failed fsync nobody knows which pages are still to come.
    """


class DiskFull(LogFailure):
    """There is no room for what was to be written. Nothing that was kept is lost, and the same may
    be asked again: once there is room it succeeds."""


class OffsetOutOfRange(ValueError):
    """Someone asked for an offset outside [log start, log end]."""

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
        """Each epoch that has records here, with the offset of its first one, rising.

        If the log was cut at its start, the first offset is the log start.
        """
        ...

    def bytes_from(self, offset: Offset) -> int:
        """About how many bytes the batches from `offset` on take; all of them if it is before."""
        ...

    def append(self, batches: bytes | bytearray | memoryview) -> Sequence[Batch]:
        """Append whole batches that begin at the log end offset; return their outlines.

        At once visible to `read`, but on disk only after `commit`. The bytes are kept as they
        are and must not change afterwards; the caller has checked their CRCs, and that the
        epochs do not fall.
        """
        ...

    def read(self, start: Offset, end: Offset, max_bytes: int) -> bytes:
        """Whole batches from the one that holds `start` to the last that ends at or below `end`.

        At most `max_bytes`, but at least one batch where there is one (KIP-74); empty when
        there is none, or none that ends at or below `end`. Raises `OffsetOutOfRange` when `start`
        is outside [log start, log end]; an `end` beyond the log end means the log end. The bytes
        are as they were appended; what an old disk returns is not checked anew.
        """
        ...

    def truncate_to(self, end: Offset) -> None:
        """Forget every batch that reaches beyond `end`; durable when it returns.

        Must not overlap a `commit` in another thread. `end` lies at a batch's boundary, in
        [log start, log end]. What lies below it and was not committed is still not.
        """
        ...

    def advance_start(self, start: Offset) -> None:
        """Hold nothing below `start` any more, which lies at a batch's boundary in the log.

        Called by the owner, once a snapshot that ends there is durable. Nothing is waited for, and
        nothing is written: a restarted process may find some of what was below.
        """
        ...

    def remove_obsolete(self) -> bool:
        """Remove some of what lies below the log start, durably; whether there is more.

        To be called from the thread that commits, and again: no call takes long.
        """
        ...

    def begin_anew(self, start: Offset) -> None:
        """Forget every batch and begin at `start`; durable when it returns. Then `remove_obsolete`.

        For a replica that was given a snapshot that ends there. Must not overlap a `commit`, and
        the owner neither reads nor appends meanwhile. A process that dies within it leaves the
        front of the old log, or an empty one: whoever opens a log that ends before the newest
        snapshot asks for this again.
        """
        ...

    def commit(self, *, sync: bool = True) -> OffsetAndEpoch:
        """Write everything appended so far, and return the end offset that has been written.

        With `sync` it has survived any loss of power when this returns. An error of the disk is
        raised as `LogFailure`; the log is then unusable, and the process must end. After `DiskFull`
        alone it is as usable as before, and what could not be written waits for the next commit.
        """
        ...

    def close(self) -> None:
        """Write what is left and release the files."""
        ...


@dataclass(frozen=True, slots=True)
class ReceivedSnapshot:
    """A snapshot that the leader has sent, whole and durable."""

    id: OffsetAndEpoch
    size_bytes: int
    voters: VoterAssignment | None
    """The voters at its end; None if the log does not name any."""
    records: Callable[[], Iterable[bytes]]
    """The records for the state machine; `ValueError` if they cannot be read back."""


class SnapshotStore(Protocol):
    """The snapshots of one replica's log, named by their id (KIP-630): the offset at which they
    end, exclusive, and the epoch of the last record before that.

    What is marked so waits for the disk and is called through `Disk`; the rest is its owner's.
    """

    partial: tuple[OffsetAndEpoch, int] | None
    """The snapshot that an earlier process had received in part, and its bytes so far."""

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """Those that are whole and durable, the oldest first."""
        ...

    def read(self, id_: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        """At most this much of a snapshot that is here, from there on, as it is on disk."""
        ...

    def note(self, id_: OffsetAndEpoch, size_bytes: int) -> None:
        """`finish` or `install` has returned: it is one of `ids` from here on."""
        ...

    def forget(self, id_: OffsetAndEpoch) -> None:
        """It is none of `ids` any more; `remove` follows."""
        ...

    def write(self, id_: OffsetAndEpoch, data: bytes | bytearray, position: int) -> None:
        """Disk: the next bytes of one that is written here; `OSError` if they cannot be kept.

        `LogFailure` if they could not be synced, here and where names change: a snapshot can be
        done without for a while, a disk that fails to sync cannot be trusted any more.
        """
        ...

    def finish(self, id_: OffsetAndEpoch) -> None:
        """Disk: all of it has been written. It is whole and durable on return, or `OSError`."""
        ...

    def abandon(self, id_: OffsetAndEpoch) -> None:
        """Disk: it will not be finished."""
        ...

    def receive(self, id_: OffsetAndEpoch, data: bytes, position: int) -> None:
        """Disk: the next bytes of one that the leader sends; position 0 begins it anew."""
        ...

    def install(self, id_: OffsetAndEpoch, *, is_mixed: bool) -> ReceivedSnapshot | str:
        """Disk: all of it has been received. It is whole and durable on return, or nothing of it
        is left, and what is returned is what was wrong with it.

        `is_mixed` says that its parts may come from more than one replica.
        """
        ...

    def remove(self, id_: OffsetAndEpoch) -> bool:
        """Disk: take it away for good, or a part of it; whether there is more of it.

        A large file takes its time: to be called again, so that commits come between.
        """
        ...


class ElectionStore(Protocol):
    """The durable store of a replica's election state."""

    def read(self) -> ElectionState:
        """Return the value last written, or `ElectionState()` if there is none."""
        ...

    def write(self, election: ElectionState) -> None:
        """Replace what is stored, whole or not at all; survives power loss on return.

        An error of the disk is raised as `LogFailure`; `DiskFull` leaves what was stored.
        """
        ...


class Disk(Protocol):
    """Does what may block, one piece after the other, in the order in which it was asked.

    Reports come later, never from inside the call that asked, and in the same order. What fails
    is not reported as done but handed to the owner once, as `Replica.fail`; after a `LogFailure`
    nothing more is performed. Want of room (`DiskFull`, or an `OSError` that means it) is no
    failure: the piece of work is tried again, in its place, until there is room, and the owner is
    told when that begins and ends, as `Replica.room`.
    """

    def request_commit(
        self, log: Log, done: Callable[[OffsetAndEpoch], None], *, at_once: bool = False
    ) -> None:
        """Commit what `log` holds by the time of the commit, and call `done` with its end.

        Requests that come while one waits may share its commit, and its report. `at_once` says that
        nothing has to leave before: the disk may then do it, and report, before this returns.
        """
        ...

    def perform(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Run `work` once, and call `done` with what it returned."""
        ...


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """The state that all records below `end` give, as records that give it too."""

    end: Offset
    """The end of a batch in the log; everything below it is committed."""
    groups: Iterator[Sequence[bytes]]
    """Each is made when it is asked for, in a millisecond or two; an empty one is only a pause."""
    close: Callable[[], None]
    """Called once no more groups are wanted, whether or not all have been taken."""


class StateMachine(Protocol):
    """The state machine that the quorum replicates; called by the owner task only."""

    def snapshot(self) -> StateSnapshot | None:
        """The state as of the last `on_commit`, or a little earlier; None if it is not to be had.

        What is committed later, and what is not committed yet, must not show in it, although its
        groups are taken between other calls. There is one at a time. It is not to be had where no
        record has been taken in, or in the middle of a transaction (KIP-868).
        """
        ...

    def load_snapshot(self, records: Iterable[bytes], end: Offset, epoch: Epoch) -> None:
        """Be what these records say, and nothing else: the state below `end`, which is committed.

        Called before anything else where the log does not begin at 0, and again whenever the
        leader no longer has the records that this node would need next; never with a lower `end`
        than before. `epoch` is that of the last record before `end`. What takes longer than a few
        milliseconds is left to `catch_up`. What is wrong with a record is raised as `ValueError`,
        or there as `LogFailure`.
        """
        ...

    def on_commit(self, high_watermark: Offset) -> None:
        """Everything below `high_watermark` is decided for ever. Never called with less.

        What takes longer than a few milliseconds to take in is left to `catch_up`.
        """
        ...

    @property
    def is_behind(self) -> bool:
        """True if something is committed, or was given as a snapshot, and is not taken in yet."""
        ...

    def catch_up(self) -> None:
        """Take in some of it, for a few milliseconds; called again and again while `is_behind`.

        Meanwhile the quorum goes on, and everything else here may be called, but for `on_lead`.
        """
        ...

    def on_lead(self, epoch: Epoch, start: Offset) -> None:
        """This node leads `epoch` and every record below `start` is committed: it may propose.

        It has also been taken in: a state machine that is behind is told later.
        """
        ...

    def on_control(self, end: Offset) -> None:
        """The quorum has appended records of its own, while this node may propose.

        What is proposed next begins at `end`; what was proposed before lies below these records.
        """
        ...

    def on_stop_leading(self, epoch: Epoch) -> None:
        """The lead is lost; what was proposed and is not committed may or may not survive.

        Nothing more is said of such records: what the log loses was never committed.
        """
        ...


class Rpc(Protocol):
    """Requests and answers between replicas; the bytes of records travel beside the messages."""

    def send(self, to: ReplicaId, request: Request, done: Done) -> None:
        """Send, and call `done` exactly once, later: with the answer and the records it carries,
        checked and whole, or with None when there will be no answer."""
        ...

    def answer(self, asker: Asker, response: Response, records: bytes) -> None:
        """Answer a request that was handed in; one whose connection is gone is dropped."""
        ...

    def close(self) -> None:
        """Give up what is under way, without calling `done` any more."""
        ...


class PeerAddresses(Protocol):
    """The addresses of the replicas; looked up at every connection, for they may change."""

    def address_of(self, replica: ReplicaId) -> tuple[str, int] | None:
        """Host and port, or None while unknown."""
        ...


Clock = Callable[[], int]
"""Monotonic milliseconds."""
