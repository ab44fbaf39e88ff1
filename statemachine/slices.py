"""Sliced work: long work as a generator, so that other work can run in between.

It yields about once for each partition, with the cost since the last yield in microseconds. The
caller adds up the costs and ends the slice at a limit. Costs are constants, so that the same work
always stops at the same points. The data that the work reads must not change meanwhile.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")

Slices: TypeAlias = Generator[int, None, T]
"""Yields its cost since the last yield, in microseconds, and returns its result."""

# Measured on one core of a common server, rounded up.
CHANGED_US: Final = 20
"""The cost of deciding a change of a partition."""
REPEATED_US: Final = 8
"""The cost of repeating a change for a partition in the same state."""
CREATED_US: Final = 6
"""The cost of placing and recording a new partition."""
PLANNED_US: Final = 3
"""The cost of adding a partition to the plan of a move."""
LOOKED_AT_US: Final = 4
"""The cost of checking whether a partition must change."""
CONFIGURED_US: Final = 20
"""The cost of setting a configuration for a move."""
BYTES_LISTED_IN_US: Final = 10
"""The bytes of a replica list that are read and written in a microsecond."""
PASSED_US: Final = 1
"""The cost of skipping a partition."""
UNITED_US: Final = 20
"""The cost of adding the bitmap of a broker to another one."""
SORTED_US: Final = 2
"""The cost of taking an item out of a table, and of its place among others."""
SORTED_AT_ONCE_US: Final = 1_000
"""The cost of the items of a table that one slice takes and sorts."""


def whole(work: Generator[object, None, T]) -> T:
    """Run all slices now, and return the result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def pauses(work: Slices[T]) -> Generator[None, None, T]:
    """Yield None in place of each cost: for whoever measures the time of a slice."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        yield


def sort_in_slices(
    items: Iterable[T | None], key: Callable[[T], Any] | None = None
) -> Slices[Iterator[T]]:
    """Return the items in order; None stands for one that is left out.

    Slices of work sort parts of them, and the iterator merges these parts as far as it is read.
    """
    # Items can be compared, or have keys that can; their type does not tell.
    order: Any = key
    parts = []
    for part in _parts(items, SORTED_US):
        parts.append(sorted([each for each in part if each is not None], key=order))
        yield SORTED_US * len(part)
    return merge(*parts, key=order)


def first_in_slices(
    items: Iterable[T | None], count_max: int, cost_us: int = SORTED_US
) -> Slices[list[T]]:
    """Return the first items in order, at most `count_max`; None stands for one that is left out.

    No more than these are kept, of however many. `cost_us` is the cost of taking one item.
    """
    found: list[Any] = []
    for part in _parts(items, cost_us):
        kept = [each for each in part if each is not None]
        if len(found) == count_max:
            last = found[-1]
            kept = [each for each in kept if each < last]
        found = sorted(found + kept)[:count_max]
        yield cost_us * len(part)
    return found


def _parts(items: Iterable[T], cost_us: int) -> Iterator[list[T]]:
    """Yield the items in lists, each of which is the work of a slice."""
    left = iter(items)
    while part := list(islice(left, max(1, SORTED_AT_ONCE_US // cost_us))):
        yield part
