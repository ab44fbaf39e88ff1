"""A histogram of durations that costs two additions an observation.

Whoever reads a clock observes: the driver, the disk thread and the listeners. The core has no
clock, and a scrape reads the counts as they are.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

# A sequence to mypyc, which loses the value of a final tuple of floats.
DISK_SECONDS: Final[Sequence[float]] = (
    0.000_05,
    0.000_1,
    0.000_25,
    0.000_5,
    0.001,
    0.002_5,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
)
"""Upper bounds for commits, writes and syncs: from a fast disk to a stalled one."""

REQUEST_SECONDS: Final[Sequence[float]] = (
    0.000_5,
    0.001,
    0.002_5,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
)
"""Upper bounds for requests, from arrival to answer; a fetch may wait for long."""

ELECTION_SECONDS: Final[Sequence[float]] = (
    0.05,
    0.1,
    0.2,
    0.3,
    0.5,
    1.0,
    2.0,
    3.0,
    5.0,
    10.0,
    30.0,
    60.0,
)
"""Upper bounds for elections and fail-overs."""


class Histogram:
    """Counts of observations by upper bound, and their sum.

    One thread observes; another one may read at any time, and misses at most the latest.
    """

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds: Final[Sequence[float]] = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        """The observations up to each bound and above the one before; the last has no bound."""
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        """The number of observations."""
        return sum(self.counts)
