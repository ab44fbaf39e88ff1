"""The core's outline of its log: offsets, epochs, voters, snapshots and the durable end."""

from collections.abc import Iterable, Sequence

from quorum.core.leader_epochs import LeaderEpochCache, truncation_point
from quorum.core.messages import Batch
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch, Snapshot
from quorum.core.voter_set import VoterAssignment, VoterSetHistory


class RaftLog:
    """The outline of one log. The bytes are elsewhere; the driver keeps the two in step.

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
        """`epoch_before` is that of the last record before `start`, where there is a snapshot."""
        self.start = start
        self.snapshots = tuple(snapshots)
        """Those that are durable, the oldest first; everything in them is committed."""
        self.assignments = VoterSetHistory() if assignments is None else assignments
        self.history = LeaderEpochCache()
        if epoch_before is not None:
            # As if that record were still here: a log that ends with it agrees with this one.
            assert start > 0
            self.history.begin(epoch_before, Offset(start - 1))
        for epoch, first in epochs:
            self.history.begin(epoch, first)
        self.end = OffsetAndEpoch(self.history.last, end)
        self.durable = end
        """Everything below survives a loss of power: what recovery has read came from disk."""

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
        """Begin where this snapshot ends, which is durable: what precedes is in it."""
        assert snapshot in self.snapshots, f"a log from {snapshot.end} on, and nothing before it"
        assert self.start <= snapshot.end <= self.end.offset
        self.start = snapshot.end
        self.history.forget_below(snapshot.id)
        self.assignments.forget_below(snapshot.end)

    def begin_anew(self, snapshot: Snapshot, voters: VoterAssignment | None) -> None:
        """Hold nothing but this snapshot, which is durable; `voters` are those that it names."""
        self.snapshots = (snapshot,)
        self.start, self.end, self.durable = snapshot.end, snapshot.id, snapshot.end
        self.history = LeaderEpochCache([(snapshot.id.epoch, Offset(snapshot.end - 1))])
        self.assignments = VoterSetHistory(base=voters)

    def snapshot_instead_of(self, other_end: OffsetAndEpoch) -> Snapshot | None:
        """The snapshot to give to whose log ends there, where this one does not reach back so far.

        What was before the start of this log is gone, and with it what its epochs were: the two
        cannot be compared (KIP-630).
        """
        if self.start == 0 or self.reaches_back_to(other_end):
            return None
        assert self.snapshots, f"the log begins at {self.start}, and nothing says what came before"
        return self.newest_snapshot

    def flushed(self, durable: OffsetAndEpoch) -> None:
        assert durable.offset <= self.end.offset, f"{durable} is on disk, but the log ends before"
        self.durable = max(self.durable, durable.offset)

    def divergence(self, other_end: OffsetAndEpoch) -> OffsetAndEpoch | None:
        """The point at which a log that ends at `other_end` diverges from this one; None for a
        prefix."""
        here = self.history.end_of(other_end.epoch, self.end.offset)
        if here.epoch == other_end.epoch and here.offset >= other_end.offset:
            return None
        if other_end.offset == 0:
            return None  # An empty log agrees with every log, whatever epoch its owner names.
        return here

    def reaches_back_to(self, other_end: OffsetAndEpoch) -> bool:
        """Return True if this log can be compared with one that ends there, and go on from it
        (KIP-630).

        What was before the start of this log is gone, and with it what its epochs were.
        """
        if self.start == 0:
            return True
        return other_end.offset >= self.start and other_end.epoch >= self.history.first

    def truncation_point(self, diverging: OffsetAndEpoch) -> Offset:
        return truncation_point(self.history, self.end.offset, diverging)


def refusal_of_batches(
    batches: tuple[Batch, ...], log_end: OffsetAndEpoch, epoch: Epoch
) -> str | None:
    """Return the reason why fetched batches cannot follow `log_end` in a log of `epoch`, or None if
    they can."""
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
