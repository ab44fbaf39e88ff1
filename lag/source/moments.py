"""Moments as people write them: a time of ISO 8601, or milliseconds since 1970."""

from datetime import UTC, datetime
from typing import Final

from lag.source.invalid_input import InvalidInput

TIME_IS: Final = "write 2026-11-22T14:30:00Z (UTC without a zone), or milliseconds since 1970"
LEAST_MS: Final = 10**11
"""In 1973. A smaller number is in seconds by mistake; 0 is allowed."""
BEYOND_MS: Final = 10**14
"""In 5138. This or a greater number is in microseconds or nanoseconds by mistake."""


def parse_time_ms(text: str) -> int:
    """Parse a time to milliseconds since 1970; raises `InvalidInput`."""
    if text.isascii() and text.isdecimal():
        return _checked(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"{text!r} is not a time: {TIME_IS}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return round(moment.timestamp() * 1_000)
    except (OverflowError, ValueError):
        raise InvalidInput(f"{text!r} is out of range: {TIME_IS}") from None


def _checked(text: str) -> int:
    at_ms = int(text) if len(text) < 20 else BEYOND_MS
    if 0 < at_ms < LEAST_MS:
        hint = ""
        if at_ms >= LEAST_MS // 1_000:
            meant = datetime.fromtimestamp(at_ms, UTC).isoformat()
            hint = f" (in seconds it is {meant}: write {at_ms * 1_000})"
        raise InvalidInput(f"{text} milliseconds since 1970 is before 1973{hint}: {TIME_IS}")
    if at_ms >= BEYOND_MS:
        raise InvalidInput(f"{text} milliseconds since 1970 is beyond the year 5000: {TIME_IS}")
    return at_ms
