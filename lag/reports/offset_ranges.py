"""Ranges of offsets: sorted, disjoint, each (first, end) with the end exclusive."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

Range = tuple[int, int]


def union(ranges: Iterable[Range]) -> list[Range]:
    """The offsets that are in any of these ranges, which may overlap and be in any order."""
    found: list[Range] = []
    for first, end in sorted(ranges):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        elif first < end:
            found.append((first, end))
    return found


def without(first: int, end: int, taken: Sequence[Range]) -> Iterator[Range]:
    """The parts of [`first`, `end`) that are in none of the taken ranges."""
    at = max(0, bisect_right(taken, first, key=lambda each: each[0]) - 1)
    for low, high in taken[at:]:
        if low >= end:
            break
        if first < low:
            yield first, low
        first = max(first, high)
    if first < end:
        yield first, end


def size(ranges: Iterable[Range]) -> int:
    """The number of offsets."""
    return sum(end - first for first, end in ranges)


def holds(ranges: Sequence[Range], offset: int) -> bool:
    """True if one of the ranges has the offset."""
    at = bisect_right(ranges, offset, key=lambda each: each[0]) - 1
    return at >= 0 and offset < ranges[at][1]


def begins(ranges: Sequence[Range], first: int, end: int) -> bool:
    """True if one of the ranges begins in [`first`, `end`)."""
    at = bisect_left(ranges, first, key=lambda each: each[0])
    return at < len(ranges) and ranges[at][0] < end


def mask(ranges: Sequence[Range], offsets: Any) -> Any:
    """A mask (`numpy.ndarray`) of the offsets that are in one of the ranges."""
    if not ranges:
        return np.zeros(len(offsets), np.bool_)
    firsts, ends = np.array(ranges, np.int64).T
    at = np.searchsorted(firsts, offsets, side="right") - 1
    return (at >= 0) & (offsets < ends[np.maximum(at, 0)])
