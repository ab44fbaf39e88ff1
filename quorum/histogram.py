"""Histograms of durations that cost a few additions an observation.

Whoever reads a clock observes: the driver, the disk thread and the listeners. The core has no
clock, and a scrape reads the counts as they are.
"""

from bisect import bisect_left
from collections.abc import Sequence
from math import frexp
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


SCHEMA: Final = 3
"""The resolution of native histograms: 2^3 buckets from each power of two to the next, so that a
bucket is 9 % wide."""
_PER_POWER: Final = 1 << SCHEMA
_FRACTIONS: Final[Sequence[float]] = tuple(
    [2.0 ** (at / _PER_POWER - 1) for at in range(_PER_POWER)]
)
"""The upper bounds of the buckets from 0.5 on, without that of 1."""


class NativeHistogram(Histogram):
    """A histogram that counts by the buckets of Prometheus's native histograms as well.

    Bucket i is for values above 2^((i-1)/8) and up to 2^(i/8).
    """

    __slots__ = ("native",)

    def __init__(self, bounds: Sequence[float]) -> None:
        super().__init__(bounds)
        self.native: dict[int, int] = {}
        """The observations above 0, by bucket; at most a few hundred buckets."""

    def observe(self, value: float) -> None:
        """Count one observation."""
        super().observe(value)
        if value > 0.0:
            fraction, power = frexp(value)
            at = bisect_left(_FRACTIONS, fraction) + (power - 1) * _PER_POWER
            self.native[at] = self.native.get(at, 0) + 1
