"""Scales and ticks of axes, and tables of text.

Pure functions. Times are milliseconds since 1970, shown in UTC.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

_SECOND_MS: Final = 1_000
_MINUTE_MS: Final = 60 * _SECOND_MS
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS

TIME_STEPS_MS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(seconds * _SECOND_MS for seconds in (1, 2, 5, 10, 15, 30)),
    *(minutes * _MINUTE_MS for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * _HOUR_MS for hours in (1, 2, 3, 6, 12)),
    *(days * _DAY_MS for days in (1, 2, 7, 14, 28, 91, 182, 364)),
)
"""The distances between the ticks of a time axis."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A map from `low..high` to `start..end`; a value outside goes to the nearer end."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False
    """Logarithmic, with 0 at 0; `low` has to be 0."""

    def at(self, value: float) -> float:
        """The position of `value` in pixels, to a tenth."""
        if self.high <= self.low:
            return self.start
        share = (value - self.low) / (self.high - self.low)
        if self.is_log:
            share = math.log10(1 + max(0.0, value)) / math.log10(1 + self.high)
        return round(self.start + min(1.0, max(0.0, share)) * (self.end - self.start), 1)


def time_step_ms(span_ms: int, count_max: int) -> int:
    """The smallest round step of which at most `count_max` fit into `span_ms`."""
    assert count_max > 0
    for step_ms in TIME_STEPS_MS:
        if step_ms * count_max >= span_ms:
            return step_ms
    years = -(-span_ms // (count_max * TIME_STEPS_MS[-1]))
    return years * TIME_STEPS_MS[-1]


def time_ticks(low_ms: int, high_ms: int, count_max: int) -> list[tuple[int, str]]:
    """At most `count_max` + 1 round moments in a range, with labels."""
    step_ms = time_step_ms(max(1, high_ms - low_ms), count_max)
    first = -(-low_ms // step_ms) * step_ms
    return [(at, time_label(at, step_ms)) for at in range(first, high_ms + 1, step_ms)]


def time_label(at_ms: int, step_ms: int) -> str:
    """The label of a tick, as precise as the distance between ticks requires."""
    at = datetime.fromtimestamp(at_ms / 1_000, UTC)
    if step_ms >= _DAY_MS:
        return at.strftime("%m-%d" if step_ms < 182 * _DAY_MS else "%Y-%m")
    if step_ms >= _MINUTE_MS:
        return at.strftime("%H:%M" if at_ms % _DAY_MS else "%m-%d")
    if step_ms >= _SECOND_MS:
        return at.strftime("%H:%M:%S")
    return at.strftime("%S.") + f"{at_ms % 1_000:03d}"


def number_ticks(high: float, count_max: int) -> list[float]:
    """Round numbers from 0 to the first that is at least `high`, at most `count_max` + 2."""
    if high <= 0:
        return [0.0, 1.0]
    rough, power = high / count_max, 1.0
    while power * 10 <= rough:
        power *= 10
    while power > rough:
        power /= 10
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    # Counts are whole numbers, so a step is at least 1.
    step = max(1.0, step)
    ticks = [0.0]
    while ticks[-1] < high:
        ticks.append(ticks[-1] + step)
    return ticks


def decade_ticks(high: float) -> list[float]:
    """0, 1, 10 and so on, to the first power of ten that is at least `high`."""
    ticks = [0.0, 1.0]
    while ticks[-1] < high:
        ticks.append(ticks[-1] * 10)
    return ticks


def columns(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """`rows` under `titles` as text, each column as wide as its widest cell."""
    lines = [list(titles), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def merged(spans: Sequence[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """Join ranges of time with a gap smaller than `gap`; return them in order."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start - joined[-1][1] < gap:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
