"""The outline of a log in memory: its segments, its extent, and the newest batches.

Kafka's layout: a segment is a file named by its first offset, in 20 digits, with consecutive whole
batches. Its index is sparse and only in memory: one entry for about 4 KiB; a reader steps from
header to header in between. The module touches no file.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from quorum.core.limits import BATCH_BYTES_MAX, FRAME_BYTES_MAX
from quorum.core.messages import Batch
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch
from quorum.records.batch import Header

Bytes: TypeAlias = bytes | bytearray

INDEX_INTERVAL_BYTES: Final = 4 * 1024
"""The distance between two index entries."""

TAIL_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of batches at the end of a log that stay in memory after they were written."""

GROUP_BYTES_MAX: Final = 1024 * 1024
"""The bytes written between two fdatasyncs: several batches up to this, or one larger batch."""

TORN_BYTES_MAX: Final = FRAME_BYTES_MAX
"""More than a power failure can leave half-written: no batch that arrived in a frame is larger."""

SCAN_BYTES: Final = 1024 * 1024
"""Bytes of one read during the scan of a segment."""

WALK_BYTES: Final = 8 * 1024
"""Bytes of one read while stepping through the headers between two index entries."""

# A group of several batches, or of a single large one, is no more than what may be torn.
assert max(GROUP_BYTES_MAX, BATCH_BYTES_MAX) < TORN_BYTES_MAX
# One read must reach from one index entry to the next where batches are small.
assert INDEX_INTERVAL_BYTES < WALK_BYTES

_BASE_DIGITS: Final = 20
_NO_TIMESTAMP_MS: Final = -1


class IndexEntry(NamedTuple):
    """An entry of the index: a batch begins at `position`, with `offset`."""

    offset: Offset
    position: int


class Segment:
    """One file of the log with all appended batches, written or not."""

    __slots__ = (
        "_offsets",
        "_positions",
        "_times_ms",
        "base",
        "max_timestamp_ms",
        "path",
        "size_bytes",
    )

    def __init__(self, folder: Path, base: Offset) -> None:
        self.base = base
        self.path = folder / f"{base:020}.log"
        self.size_bytes = 0
        # At least the largest timestamp here: a truncation does not lower it.
        self.max_timestamp_ms = _NO_TIMESTAMP_MS
        self._offsets = array("q")
        self._positions = array("q")
        self._times_ms = array("q")  # The largest timestamp before the entry.

    def append(self, header: Header) -> int:
        """Add the next batch and return its position."""
        position = self.size_bytes
        if not self._positions or position - self._positions[-1] >= INDEX_INTERVAL_BYTES:
            self._offsets.append(header.base_offset)
            self._positions.append(position)
            self._times_ms.append(self.max_timestamp_ms)
        self.size_bytes += header.size_bytes
        self.max_timestamp_ms = max(self.max_timestamp_ms, header.max_timestamp_ms)
        return position

    def truncate(self, size_bytes: int) -> None:
        """Remove the batches from this position on, a batch boundary."""
        kept = bisect_left(self._positions, size_bytes)
        del self._offsets[kept:]
        del self._positions[kept:]
        del self._times_ms[kept:]
        self.size_bytes = size_bytes

    def mark_at_or_before(self, offset: Offset) -> IndexEntry:
        """Return the last index entry at or before `offset`, which is in the segment."""
        return self._mark(bisect_right(self._offsets, offset) - 1)

    def mark_within(self, start: IndexEntry, end: Offset, max_bytes: int) -> IndexEntry:
        """Return the last index entry within `max_bytes` of `start` and at or before `end`."""
        by_offset = bisect_right(self._offsets, end) - 1
        by_size = bisect_right(self._positions, start.position + max_bytes) - 1
        return max(start, self._mark(min(by_offset, by_size)))

    def mark_before_time(self, timestamp_ms: int) -> IndexEntry:
        """Return an index entry before which every timestamp is below this one."""
        return self._mark(max(0, bisect_left(self._times_ms, timestamp_ms) - 1))

    def _mark(self, index: int) -> IndexEntry:
        return IndexEntry(Offset(self._offsets[index]), self._positions[index])


def segment_base(name: str, suffix: str = ".log") -> Offset | None:
    """Return the first offset in a file name of 20 digits and `suffix`; None for other names."""
    digits = name[:_BASE_DIGITS]
    return Offset(int(digits)) if name[_BASE_DIGITS:] == suffix and digits.isdecimal() else None


class Extent:
    """The outline of a log; the owner updates it with every batch.

    Invariant: `end.epoch` is the last of `epochs`; without any, that of the last batch dropped at
    the start, or 0. Epochs and offsets rise.
    """

    __slots__ = ("_epoch_before", "end", "epochs", "start")

    def __init__(self, start: Offset) -> None:
        self.start = start
        self._epoch_before = Epoch(0)
        self.end = OffsetAndEpoch(Epoch(0), start)
        self.epochs: list[tuple[Epoch, Offset]] = []

    def assert_continued_by(self, batches: Iterable[Batch]) -> None:
        """Assert that these batches continue the log, before any of them is appended."""
        end, epoch = self.end.offset, self.end.epoch
        for batch in batches:
            assert batch.base == end, f"{batch} does not begin at offset {end}"
            assert batch.end > end, f"{batch} is empty"
            assert batch.epoch >= epoch, f"{batch} follows epoch {epoch}"
            end, epoch = batch.end, batch.epoch

    def append(self, batch: Batch) -> None:
        """Add a batch that passed `assert_continued_by`."""
        if not self.epochs or self.epochs[-1][0] != batch.epoch:
            self.epochs.append((batch.epoch, batch.base))
        self.end = OffsetAndEpoch(batch.epoch, batch.end)

    def truncate(self, end: Offset) -> None:
        """Cut the log at `end`, a batch boundary."""
        assert self.start <= end <= self.end.offset
        while self.epochs and self.epochs[-1][1] >= end:
            self.epochs.pop()
        self.end = OffsetAndEpoch(self.epochs[-1][0] if self.epochs else self._epoch_before, end)

    def advance(self, start: Offset) -> None:
        """Advance the log start to `start`, a batch boundary."""
        assert self.start <= start <= self.end.offset
        while self.epochs and self.epochs[0][1] < start:
            epoch, _ = self.epochs.pop(0)
            self._epoch_before = epoch
        following = self.epochs[0][1] if self.epochs else self.end.offset
        if following > start:
            self.epochs.insert(0, (self._epoch_before, start))
        self.start = start


class Tail:
    """The newest batches of a log, without a gap, sliced by offset and size."""

    __slots__ = ("_bases", "_batches", "_sizes_before", "end")

    def __init__(self, start: Offset) -> None:
        self.end = start
        self._bases: list[Offset] = []
        self._batches: list[Bytes] = []
        # Prefix sums, one longer than the others: differences are the sizes of runs of batches.
        self._sizes_before: list[int] = [0]

    @property
    def start(self) -> Offset:
        """The base offset of the first batch, or the end if there is none."""
        return self._bases[0] if self._bases else self.end

    @property
    def size_bytes(self) -> int:
        """The bytes of all batches."""
        return self._sizes_before[-1] - self._sizes_before[0]

    def append(self, end: Offset, batch: Bytes) -> None:
        """Add the batch that begins at `self.end` and ends at `end`."""
        self._bases.append(self.end)
        self._batches.append(batch)
        self._sizes_before.append(self._sizes_before[-1] + len(batch))
        self.end = end

    def slice(
        self, start: Offset, end: Offset, max_bytes: int, *, at_least_one: bool
    ) -> list[Bytes]:
        """Return the batches from the one that holds `start` to the last one that ends by `end`.

        Together at most `max_bytes`, or with `at_least_one` a single larger batch.
        """
        assert self.start <= start < end <= self.end
        first = bisect_right(self._bases, start) - 1
        # The batch that begins at `end` is one too many, if there is one.
        by_offset = bisect_right(self._bases, end) - (end < self.end)
        if by_offset <= first:
            return []
        limit = self._sizes_before[first] + max_bytes
        by_size = bisect_right(self._sizes_before, limit) - 1
        return self._batches[first : min(by_offset, max(by_size, first + at_least_one))]

    def truncate(self, end: Offset) -> None:
        """Remove the batches from `end` on, a batch boundary, which may precede all of them."""
        kept = bisect_left(self._bases, end)
        del self._bases[kept:]
        del self._batches[kept:]
        del self._sizes_before[kept + 1 :]
        self.end = end

    def shrink(self, size_bytes: int, below: Offset) -> None:
        """Remove the oldest batches until `size_bytes` are left, but none from `below` on."""
        surplus = self._sizes_before[-1] - size_bytes
        gone = min(bisect_left(self._sizes_before, surplus), bisect_left(self._bases, below))
        del self._bases[:gone]
        del self._batches[:gone]
        del self._sizes_before[:gone]
