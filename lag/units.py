"""Times, durations, numbers and sizes as people read them.

Pure functions. Moments are milliseconds since 1970, shown in UTC. None is "unknown".
"""

from datetime import UTC, datetime
from typing import Final

_SECOND_MS: Final = 1_000
_MINUTE_MS: Final = 60 * _SECOND_MS
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS


def show_time(at_ms: int | None) -> str:
    """`2026-11-22 14:08:31.250`, in UTC; "unknown" for None."""
    if at_ms is None:
        return "unknown"
    at = datetime.fromtimestamp(at_ms // 1_000, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}.{at_ms % 1_000:03d}"


def show_clock(at_ms: int | None) -> str:
    """`14:08:31.250` without the day, in UTC; "unknown" for None."""
    return "unknown" if at_ms is None else show_time(at_ms).partition(" ")[2]


def show_span(span_ms: float | None) -> str:
    """A duration with two or three significant digits; "unknown" for None."""
    if span_ms is None:
        return "unknown"
    sign, size = ("-", -span_ms) if span_ms < 0 else ("", span_ms)
    for unit, unit_ms in (("d", _DAY_MS), ("h", _HOUR_MS), ("min", _MINUTE_MS), ("s", _SECOND_MS)):
        if size >= unit_ms:
            return f"{sign}{_digits(size / unit_ms)} {unit}"
    return f"{sign}{_digits(size)} ms"


def show_count(count: float | None) -> str:
    """A number, in thousands or millions if it is large; "unknown" for None."""
    if count is None:
        return "unknown"
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e4)):
        if abs(count) >= size:
            return f"{_digits(count / (1e3 if unit == 'k' else size))}{unit}"
    return _digits(count)


def show_bytes(count: float | None) -> str:
    """A size in binary units; "unknown" for None."""
    if count is None:
        return "unknown"
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{_digits(count / size)} {unit}"
    return f"{_digits(count)} B"


def numbered(count: int, name: str) -> str:
    """`1 record`, `2 records`."""
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def _digits(number: float) -> str:
    if number == int(number):
        return str(int(number))
    if abs(number) >= 100:
        return f"{number:.0f}"
    return f"{number:.2g}" if abs(number) < 1 else f"{number:.1f}"
