"""One file of a log: its name, and where in it the batches lie.

Kafka's layout: the file is called after its first offset, in 20 digits, and holds whole batches
one behind the other. The index is in memory only and sparse: one entry for some 4 KiB, the rest
is found by stepping from header to header. Nothing here touches a file.
"""

import re
from array import array
from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import Final, NamedTuple

from quorum.core.vocabulary import Offset
from quorum.log.limits import INDEX_INTERVAL_BYTES
from quorum.records.batch import Header

_NAME: Final = re.compile(r"(\d{20})\.log")
_NO_TIMESTAMP_MS: Final = -1


class Mark(NamedTuple):
    """An entry of the index: a batch begins at `position`, with `offset`."""

    offset: Offset
    position: int


class Segment:
    """One file of the log, as far as it has been appended to: it may not be written yet."""

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
        """Take in the next batch and return its position."""
        position = self.size_bytes
        if not self._positions or position - self._positions[-1] >= INDEX_INTERVAL_BYTES:
            self._offsets.append(header.base_offset)
            self._positions.append(position)
            self._times_ms.append(self.max_timestamp_ms)
        self.size_bytes += header.size_bytes
        self.max_timestamp_ms = max(self.max_timestamp_ms, header.max_timestamp_ms)
        return position

    def truncate(self, size_bytes: int) -> None:
        """Forget what lies at or behind this position, the boundary of a batch."""
        kept = bisect_left(self._positions, size_bytes)
        del self._offsets[kept:]
        del self._positions[kept:]
        del self._times_ms[kept:]
        self.size_bytes = size_bytes

    def mark_at_or_before(self, offset: Offset) -> Mark:
        """The last mark that is not behind `offset`; the segment is not empty and holds it."""
        return self._mark(bisect_right(self._offsets, offset) - 1)

    def mark_within(self, start: Mark, end: Offset, max_bytes: int) -> Mark:
        """The last mark up to which everything from `start` on is below `end` and fits."""
        by_offset = bisect_right(self._offsets, end) - 1
        by_size = bisect_right(self._positions, start.position + max_bytes) - 1
        return max(start, self._mark(min(by_offset, by_size)))

    def mark_before_time(self, timestamp_ms: int) -> Mark:
        """A mark before which every timestamp is below this one; the segment is not empty."""
        return self._mark(max(0, bisect_left(self._times_ms, timestamp_ms) - 1))

    def _mark(self, index: int) -> Mark:
        return Mark(Offset(self._offsets[index]), self._positions[index])


def segment_base(name: str) -> Offset | None:
    """The first offset of the segment of this file name; None if it is another kind of file."""
    match = _NAME.fullmatch(name)
    return None if match is None else Offset(int(match[1]))
