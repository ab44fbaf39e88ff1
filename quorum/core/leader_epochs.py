"""The leader epochs of a log and their start offsets, to find where two logs diverge."""

from bisect import bisect_right
from collections.abc import Iterable

from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch


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
        """Note that records from `start` on are of `epoch`; the epoch under way changes nothing."""
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
        """Forget all below the snapshot's end, but keep the epoch of its last record."""
        while self._starts and self._starts[0] < snapshot.offset:
            self._epochs.pop(0)
            self._starts.pop(0)
        self._epochs.insert(0, snapshot.epoch)
        self._starts.insert(0, Offset(snapshot.offset - 1))

    def epoch_at(self, offset: Offset) -> Epoch:
        """The epoch of the record at `offset`, which is held."""
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


def truncation_point(
    history: LeaderEpochCache, log_end: Offset, diverging: OffsetAndEpoch
) -> Offset:
    """The offset at which a follower truncates its log after the leader has answered `diverging`.

    The leader's log ends that epoch, or the next lower one it has, at `diverging`. Nothing of
    ours beyond that point can be the leader's; below it, our own end of that epoch decides.
    """
    own = history.end_of(diverging.epoch, log_end)
    if own.epoch == diverging.epoch:
        return min(own.offset, diverging.offset)
    return own.offset
