"""Sliced work: long work as a generator, so that others get a turn in between.

It yields about once for each partition, with the cost since the last yield in microseconds. The
caller adds the costs up and stops when a turn is used up. Costs are constants, so that the same
work stops at the same places each time. What the work reads must not change meanwhile.
"""

from collections.abc import Generator
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T")

Slices: TypeAlias = Generator[int, None, T]
"""Yields its cost since the last yield, in microseconds, and returns its result."""

# As measured on one core of a common server, rounded up.
CHANGED_US: Final = 20
"""To decide a change of a partition."""
REPEATED_US: Final = 8
"""To repeat for a partition what was decided of one in the same state."""
CREATED_US: Final = 6
"""To place and record a new partition."""
PLANNED_US: Final = 3
"""To put a partition into the plan of a move."""
LOOKED_AT_US: Final = 4
"""To look at a partition that may have to change."""
CONFIGURED_US: Final = 20
"""To set a configuration for a move."""
BYTES_LISTED_IN_US: Final = 10
"""Bytes of a list of replicas that are read and written anew in a microsecond."""
PASSED_US: Final = 1
"""To skip a partition after a short look."""


def whole(work: Generator[object, None, T]) -> T:
    """Run all slices now, and return the result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
