"""Where a log starts and ends and which epochs it holds, apart from its bytes."""

from collections.abc import Iterable

from quorum.core.messages import Batch
from quorum.core.vocabulary import Epoch, LogEnd, Offset


class Extent:
    """The outline of a log, kept in step with its batches by whoever keeps those.

    Invariant: `end.epoch` is the last of `epochs`, or if there is none that of the last batch
    that was dropped at the start, 0 if there was none; epochs and offsets rise.
    """

    __slots__ = ("_epoch_before", "end", "epochs", "start")

    def __init__(self, start: Offset) -> None:
        self.start = start
        self._epoch_before = Epoch(0)
        self.end = LogEnd(Epoch(0), start)
        self.epochs: list[tuple[Epoch, Offset]] = []

    def assert_continued_by(self, batches: Iterable[Batch]) -> None:
        """Nothing of a run of batches is taken in unless all of it can be."""
        end, epoch = self.end.offset, self.end.epoch
        for batch in batches:
            assert batch.base == end, f"{batch} does not begin at offset {end}"
            assert batch.end > end, f"{batch} is empty"
            assert batch.epoch >= epoch, f"{batch} follows epoch {epoch}"
            end, epoch = batch.end, batch.epoch

    def append(self, batch: Batch) -> None:
        """Take in a batch for which `assert_continued_by` holds."""
        if not self.epochs or self.epochs[-1][0] != batch.epoch:
            self.epochs.append((batch.epoch, batch.base))
        self.end = LogEnd(batch.epoch, batch.end)

    def truncate(self, end: Offset) -> None:
        """Let the log end at `end`, which is the boundary of a batch."""
        assert self.start <= end <= self.end.offset
        while self.epochs and self.epochs[-1][1] >= end:
            self.epochs.pop()
        self.end = LogEnd(self.epochs[-1][0] if self.epochs else self._epoch_before, end)

    def advance(self, start: Offset) -> None:
        """Let the log begin at `start`, which is the boundary of a batch."""
        assert self.start <= start <= self.end.offset
        while self.epochs and self.epochs[0][1] < start:
            epoch, _ = self.epochs.pop(0)
            self._epoch_before = epoch
        following = self.epochs[0][1] if self.epochs else self.end.offset
        if following > start:
            self.epochs.insert(0, (self._epoch_before, start))
        self.start = start
