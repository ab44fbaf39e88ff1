"""Sliced work: long work as a generator, so that other work can run in between.

It yields about once for each partition, with the cost since the last yield in microseconds. The
caller adds up the costs and ends the slice at a limit. Costs are constants, so that the same work
always stops at the same points. The data that the work reads must not change meanwhile.
"""

from collections.abc import Generator
from typing import Final, TypeAlias, TypeVar

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


def whole(work: Generator[object, None, T]) -> T:
    """Run all slices now, and return the result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
