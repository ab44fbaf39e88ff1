"""A run of whole batches in memory, found by offset and cut by size without a look at the bytes.

It serves as the cache at the end of a log on disk, and as the whole of a log in memory.
"""

from bisect import bisect_left, bisect_right
from typing import TypeAlias

from quorum.core.vocabulary import Offset

Bytes: TypeAlias = bytes | bytearray


class Tail:
    """Batches that follow each other without a gap, from `start` to `end`."""

    __slots__ = ("_bases", "_batches", "_sizes_before", "end")

    def __init__(self, start: Offset) -> None:
        self.end = start
        self._bases: list[Offset] = []
        self._batches: list[Bytes] = []
        # One longer than the others: differences of its items are sizes of runs of batches.
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
        """From the batch that holds `start` to the last that ends at or below `end`.

        Together at most `max_bytes`, or with `at_least_one` a single batch that is larger.
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
        """Forget the batches from `end` on, the boundary of a batch; all, if that is before them.

        The run then ends at `end` in either case.
        """
        kept = bisect_left(self._bases, end)
        del self._bases[kept:]
        del self._batches[kept:]
        del self._sizes_before[kept + 1 :]
        self.end = end

    def shrink(self, size_bytes: int, below: Offset) -> None:
        """Forget the oldest batches until `size_bytes` are left, but none from `below` on."""
        surplus = self._sizes_before[-1] - size_bytes
        gone = min(bisect_left(self._sizes_before, surplus), bisect_left(self._bases, below))
        del self._bases[:gone]
        del self._batches[:gone]
        del self._sizes_before[:gone]
