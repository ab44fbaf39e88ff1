"""Which time a report is about, and how it is divided into windows and samples.

A window is (begin, end]: what happens at its very end belongs to it. The windows are multiples of
their length since 1970, so that those of two reports fit. The last one ends with the report.
Plain values, no Spark.
"""

from typing import Final, NamedTuple

SAMPLES_OF_WINDOW: Final = 100
WINDOWS_WANTED: Final = 60
"""How many windows a report has at most, where nobody says how long one is to be."""
_SECOND_MS: Final = 1_000
_WINDOWS_MS: Final = tuple(
    _SECOND_MS * seconds
    for seconds in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400)
)
_DAY_MS: Final = 86_400_000


class Scope(NamedTuple):
    """The time of a report: from `start_ms` to `end_ms`, both included."""

    start_ms: int
    end_ms: int
    window_ms: int

    @property
    def grid_ms(self) -> int:
        """Where the first window begins, exclusive."""
        return (self.start_ms - 1) // self.window_ms * self.window_ms

    @property
    def step_ms(self) -> int:
        """How far two samples are apart."""
        return max(1, self.window_ms // SAMPLES_OF_WINDOW)

    @property
    def windows(self) -> int:
        """How many windows there are."""
        return -(-(self.end_ms - self.grid_ms) // self.window_ms)

    @property
    def samples(self) -> int:
        """How many samples: the first at the end of the first step, the last at the end."""
        return -(-(self.end_ms - self.grid_ms) // self.step_ms)

    def sample_at(self, number: int) -> int:
        """When that sample is."""
        return min(self.end_ms, self.grid_ms + number * self.step_ms)

    def window_at(self, time_ms: int) -> int:
        """The number of the window in which a moment is, from 0."""
        return (time_ms - self.grid_ms - 1) // self.window_ms

    def bounds_of(self, window: int) -> dict[str, int]:
        """The two columns that say which window it is."""
        start = self.grid_ms + window * self.window_ms
        return {
            "window_start_ms": start,
            "window_end_ms": min(self.end_ms, start + self.window_ms),
        }


def window_for(duration_ms: int) -> int:
    """How long a window is to be where nobody says it: a round time, so that they are not many."""
    for window_ms in _WINDOWS_MS:
        if duration_ms <= window_ms * WINDOWS_WANTED:
            return window_ms
    return -(-duration_ms // (_DAY_MS * WINDOWS_WANTED)) * _DAY_MS


def scope_of(
    start_ms: int,
    end_ms: int,
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
    window_ms: int | None = None,
) -> Scope:
    """The time from `start_ms` to `end_ms` of which the logs speak, or what is asked for of it."""
    start = start_ms if since_ms is None else since_ms
    end = max(start, end_ms if until_ms is None else until_ms)
    return Scope(start, end, window_for(end - start) if window_ms is None else window_ms)
