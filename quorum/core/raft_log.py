"""The core's outline of its log: offsets, leader epochs, voters, snapshots and the durable end."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from quorum.core.messages import Batch
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch, Snapshot
from quorum.core.voter_set import VoterAssignment, VoterSetHistory


class LeaderEpochCache:
    """The epochs that have records in one log, each with the offset of its first record.

    Invariant: epochs and offsets both rise strictly. An epoch without a record is not listed.
    """

    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[tuple[Epoch, Offset]] = ()) -> None:
        self._epochs: list[Epoch] = []
        self._starts: list[Offset] = []
        for epoch, start in entries:
            self.begin(epoch, start)

    def __str__(self) -> str:
        pairs = zip(self._epochs, self._starts, strict=True)
        return " ".join(f"{epoch} from {start}" for epoch, start in pairs) or "empty"

    @property
    def first(self) -> Epoch:
        """The oldest epoch that is known here; 0 for an empty log."""
        return self._epochs[0] if self._epochs else Epoch(0)

    @property
    def last(self) -> Epoch:
        """The epoch of the last record; 0 for an empty log, as in every Kafka log."""
        return self._epochs[-1] if self._epochs else Epoch(0)

    def begin(self, epoch: Epoch, start: Offset) -> None:
        """Note that `epoch` begins at `start`; no effect if it is already the last epoch."""
        if self._epochs:
            if self._epochs[-1] == epoch:
                return
            assert epoch > self._epochs[-1], f"epoch {epoch} after epoch {self._epochs[-1]}"
            assert start > self._starts[-1], f"epoch {epoch} at {start}, not after the last one"
        self._epochs.append(epoch)
        self._starts.append(start)

    def truncate(self, end: Offset) -> None:
        """Forget the epochs whose first record lies at or after `end`."""
        while self._starts and self._starts[-1] >= end:
            self._epochs.pop()
            self._starts.pop()

    def forget_below(self, snapshot: OffsetAndEpoch) -> None:
        """Forget everything below the snapshot's end, but keep the epoch of its last record."""
        while self._starts and self._starts[0] < snapshot.offset:
            self._epochs.pop(0)
            self._starts.pop(0)
        self._epochs.insert(0, snapshot.epoch)
        self._starts.insert(0, Offset(snapshot.offset - 1))

    def epoch_at(self, offset: Offset) -> Epoch:
        """The epoch of the record at `offset`, which must be in the log."""
        at = bisect_right(self._starts, offset)
        assert at > 0, f"offset {offset} is before {self}"
        return self._epochs[at - 1]

    def end_of(self, epoch: Epoch, log_end: Offset) -> OffsetAndEpoch:
        """The largest epoch here that is not above `epoch`, and the offset at which it ends.

        This is Kafka's OffsetsForLeaderEpoch (KIP-101, KIP-279). A log that holds (epoch, offset)
        as its end agrees with this one up to there iff the result has the same epoch and an
        offset at least as large (log matching, Raft §5.3).
        """
        at = bisect_right(self._epochs, epoch)
        if at == len(self._epochs):
            return OffsetAndEpoch(self.last, log_end)
        if at == 0:
            return OffsetAndEpoch(Epoch(0), self._starts[0])
        return OffsetAndEpoch(self._epochs[at - 1], self._starts[at])


class RaftLog:
    """The outline of one log. The driver stores the bytes and keeps both in step.

    Invariant: start <= durable <= end.offset, and end.epoch is the last epoch of the history.
    """

    __slots__ = ("assignments", "durable", "end", "history", "snapshots", "start")

    def __init__(
        self,
        start: Offset,
        end: Offset,
        epochs: Iterable[tuple[Epoch, Offset]],
        *,
        epoch_before: Epoch | None = None,
        assignments: VoterSetHistory | None = None,
        snapshots: Sequence[Snapshot] = (),
    ) -> None:
        """`epoch_before` is the epoch of the last record before `start`, if there is a snapshot."""
        self.start = start
        self.snapshots = tuple(snapshots)
        """The durable snapshots, the oldest first; everything in them is committed."""
        self.assignments = VoterSetHistory() if assignments is None else assignments
        self.history = LeaderEpochCache()
        if epoch_before is not None:
            # As if that record were still here: a log that ends with it agrees with ours.
            assert start > 0
            self.history.begin(epoch_before, Offset(start - 1))
        for epoch, first in epochs:
            self.history.begin(epoch, first)
        self.end = OffsetAndEpoch(self.history.last, end)
        self.durable = end
        """Everything below it survives a power failure; recovery has read the log from disk."""

    def append(self, batch: Batch) -> None:
        assert batch.base == self.end.offset, f"{batch} does not continue a log ending {self.end}"
        assert batch.end > batch.base
        self.history.begin(batch.epoch, batch.base)
        self.end = OffsetAndEpoch(batch.epoch, batch.end)
        if batch.assignment is not None:
            self.assignments.append(batch.end, batch.assignment)

    def truncate(self, end: Offset) -> None:
        assert self.start <= end <= self.end.offset
        self.history.truncate(end)
        self.assignments.truncate(end)
        self.end = OffsetAndEpoch(self.history.last, end)
        self.durable = min(self.durable, end)

    @property
    def newest_snapshot(self) -> Snapshot | None:
        return self.snapshots[-1] if self.snapshots else None

    def advance(self, snapshot: Snapshot) -> None:
        """Move the log start to the end of this durable snapshot, which has what precedes."""
        assert snapshot in self.snapshots, f"a log from {snapshot.end} on, and nothing before it"
        assert self.start <= snapshot.end <= self.end.offset
        self.start = snapshot.end
        self.history.forget_below(snapshot.id)
        self.assignments.forget_below(snapshot.end)

    def begin_anew(self, snapshot: Snapshot, voters: VoterAssignment | None) -> None:
        """Replace everything by this durable snapshot; `voters` are those that it records."""
        self.snapshots = (snapshot,)
        self.start, self.end, self.durable = snapshot.end, snapshot.id, snapshot.end
        self.history = LeaderEpochCache([(snapshot.id.epoch, Offset(snapshot.end - 1))])
        self.assignments = VoterSetHistory(base=voters)

    def flushed(self, durable: OffsetAndEpoch) -> None:
        assert durable.offset <= self.end.offset, f"{durable} is on disk, but the log ends before"
        self.durable = max(self.durable, durable.offset)

    def divergence(self, other_end: OffsetAndEpoch) -> OffsetAndEpoch | None:
        """Return the point at which a log ending at `other_end` diverges; None for a prefix."""
        here = self.history.end_of(other_end.epoch, self.end.offset)
        if here.epoch == other_end.epoch and here.offset >= other_end.offset:
            return None
        if other_end.offset == 0:
            return None  # An empty log agrees with every log, whatever the epoch.
        return here

    def reaches_back_to(self, other_end: OffsetAndEpoch) -> bool:
        """Return True if this log can be compared with one that ends there (KIP-630).

        The records before the start of this log are gone, and their epochs with them.
        """
        if self.start == 0:
            return True
        return other_end.offset >= self.start and other_end.epoch >= self.history.first


def truncation_point(
    history: LeaderEpochCache, log_end: Offset, diverging: OffsetAndEpoch
) -> Offset:
    """Return the offset to truncate a follower's log at, after the leader's answer `diverging`.

    That is the end, in the leader's log, of our last epoch or of the next lower one it has. Our
    records beyond it are not in the leader's log; below it, our own end of that epoch decides.
    """
    own = history.end_of(diverging.epoch, log_end)
    if own.epoch == diverging.epoch:
        return min(own.offset, diverging.offset)
    return own.offset


def refusal_of_batches(
    batches: tuple[Batch, ...], log_end: OffsetAndEpoch, epoch: Epoch
) -> str | None:
    """Return the reason why fetched batches cannot follow `log_end` in `epoch`, or None."""
    at = log_end
    for batch in batches:
        if batch.base != at.offset:
            return f"batch {batch} does not begin at the log end offset {at.offset}"
        if batch.end <= batch.base:
            return f"batch {batch} is empty"
        if not at.epoch <= batch.epoch <= epoch:
            return f"batch {batch} is not of an epoch from {at.epoch} to {epoch}"
        at = OffsetAndEpoch(batch.epoch, batch.end)
    return None
