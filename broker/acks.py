"""Who waits for what to be committed: pure, one heap for each partition, no timer of its own.

A produce request with acks=all is answered when the high watermark reaches the end of what it
appended. Whoever owns this looks through the deadlines from time to time.
"""

from heapq import heappop, heappush
from typing import Generic, TypeVar

W = TypeVar("W")


class Waiters(Generic[W]):
    """What waits for the high watermark of one partition, lowest offset first.

    Invariant: `reached` gives each waiter once, and never one that `overdue` or `dismiss` gave.
    """

    __slots__ = ("_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, W]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, end_offset: int, deadline_ms: int, waiter: W) -> None:
        """`waiter` is released when everything below `end_offset` is committed."""
        # The count keeps two of one offset in order, and waiters from being compared.
        self._count += 1
        heappush(self._heap, (end_offset, self._count, deadline_ms, waiter))

    def reached(self, high_watermark: int) -> list[W]:
        """Take those that waited for `high_watermark` or less, in the order of their offsets."""
        found = []
        while self._heap and self._heap[0][0] <= high_watermark:
            found.append(heappop(self._heap)[3])
        return found

    def overdue(self, now_ms: int) -> list[W]:
        """Take those whose deadline has passed."""
        if not any(entry[2] <= now_ms for entry in self._heap):
            return []
        found = [entry[3] for entry in sorted(self._heap) if entry[2] <= now_ms]
        # A sorted list is a heap.
        self._heap = sorted(entry for entry in self._heap if entry[2] > now_ms)
        return found

    def dismiss(self) -> list[W]:
        """Take all: this replica can no longer say what becomes of what they wait for."""
        found = [entry[3] for entry in sorted(self._heap)]
        self._heap = []
        return found
