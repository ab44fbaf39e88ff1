"""The time of a report, and its division into windows and samples.

A window is (begin, end]: an event at its end belongs to it. Windows are multiples of their length
since 1970, so that those of two reports match; the first one begins with a requested start, and the
last one ends with the report. Plain values, no Spark.
"""

from typing import Final, NamedTuple

SAMPLES_OF_WINDOW: Final = 100
WINDOWS_WANTED: Final = 60
"""The most windows of a report without an explicit window length."""
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
    end_offset: int | None = None
    """The end of the quorum's log at `end_ms`; None if the logs end no later."""
    begins_as_asked: bool = False
    """True if the start was requested, false if it is that of the logs."""
    ends_as_asked: bool = False
    """The same for the end."""

    def holds(self, offset: int) -> bool:
        """True if the record at this offset was appended by the end of the report."""
        return self.end_offset is None or offset < self.end_offset

    @property
    def grid_ms(self) -> int:
        """The start of the first window, exclusive."""
        return (self.start_ms - 1) // self.window_ms * self.window_ms

    @property
    def least_ms(self) -> int:
        """The first moment of the first window: nothing before a requested start counts."""
        return self.start_ms if self.begins_as_asked else self.grid_ms + 1

    @property
    def step_ms(self) -> int:
        """The distance between two samples."""
        return max(1, self.window_ms // SAMPLES_OF_WINDOW)

    @property
    def windows(self) -> int:
        """The number of windows."""
        return -(-(self.end_ms - self.grid_ms) // self.window_ms)

    @property
    def samples(self) -> int:
        """The number of samples: the first at the end of the first step, the last at the end."""
        return -(-(self.end_ms - self.grid_ms) // self.step_ms)

    def sample_at(self, number: int) -> int:
        """The time of a sample."""
        return min(self.end_ms, self.grid_ms + number * self.step_ms)

    def window_at(self, time_ms: int) -> int:
        """The number of the window that contains a moment, from 0."""
        return (time_ms - self.grid_ms - 1) // self.window_ms

    def bounds_of(self, window: int) -> dict[str, int]:
        """The two columns that identify a window."""
        start = self.grid_ms + window * self.window_ms
        return {
            "window_start_ms": max(start, self.least_ms - 1),
            "window_end_ms": min(self.end_ms, start + self.window_ms),
        }

    def length_ms(self, window: int) -> int:
        """The length of a window, without what was cut off on request.

        If the logs begin or end within a window, the rest of it holds nothing.
        """
        begins = self.grid_ms + window * self.window_ms
        ends = begins + self.window_ms
        begins = max(begins, self.least_ms - 1)
        return (min(ends, self.end_ms) if self.ends_as_asked else ends) - begins


def window_for(duration_ms: int) -> int:
    """A round window length that gives at most `WINDOWS_WANTED` windows."""
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
    """The range from `start_ms` to `end_ms` of the logs, or the requested part of it."""
    start = start_ms if since_ms is None else since_ms
    end = max(start, end_ms if until_ms is None else until_ms)
    return Scope(
        start,
        end,
        window_for(end - start) if window_ms is None else window_ms,
        begins_as_asked=since_ms is not None,
        ends_as_asked=until_ms is not None,
    )
