"""Values as people write and read them: times, sizes, errors of JSON. Pure functions."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final

_DURATIONS_MS: Final[Mapping[str, int]] = MappingProxyType(
    {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
)
_SIZES_BYTES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "B": 1,
        "kB": 1_000,
        "MB": 1_000_000,
        "GB": 1_000_000_000,
        "KiB": 1 << 10,
        "MiB": 1 << 20,
        "GiB": 1 << 30,
    }
)
_QUANTITY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)")


def parse_duration_ms(text: str) -> int:
    """Milliseconds of `500ms`, `5s`, `2min`, or of a bare number, which is in milliseconds."""
    return _parse(text, _DURATIONS_MS, "ms", "a time, like 500ms or 5s")


def parse_size_bytes(text: str) -> int:
    """Bytes of `8MiB`, `64KiB`, `1GB`, or of a bare number."""
    return _parse(text, _SIZES_BYTES, "B", "a size, like 64KiB or 8MiB")


def _parse(text: str, factors: Mapping[str, int], bare: str, right: str) -> int:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not {right}")
    number, unit = match[1], match[2] or bare
    if unit not in factors:
        raise ValueError(f"{text!r} has no unit that is known: write {', '.join(factors)}")
    exact = float(number) * factors[unit] if "." in number else int(number) * factors[unit]
    if exact != int(exact):
        raise ValueError(f"{text!r} is not a whole number of {bare}")
    return int(exact)


def whole_number(text: str, highest: int) -> int | None:
    """The number in a text of digits, or None if it is no number from 0 to `highest`."""
    # Checked first: `int` takes long for a long text.
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(highest))
    return int(text) if is_number and int(text) <= highest else None


def show_duration(duration_ms: int) -> str:
    """`duration_ms` for a reader: two or three digits that matter, and the unit."""
    if duration_ms < 1_000:
        return f"{duration_ms} ms"
    if duration_ms < 60_000:
        return f"{duration_ms / 1_000:.1f} s"
    minutes, rest_ms = divmod(duration_ms, 60_000)
    return f"{minutes} min {rest_ms // 1_000} s"


def show_size(size_bytes: int) -> str:
    """`size_bytes` for a reader, in binary units."""
    for unit in ("GiB", "MiB", "KiB"):
        if size_bytes >= _SIZES_BYTES[unit]:
            return f"{size_bytes / _SIZES_BYTES[unit]:.1f} {unit}"
    return f"{size_bytes} B"


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_MS_MAX: Final = 253_402_300_799_999
"""The last millisecond of the year 9999."""


def parse_time_ms(text: str) -> int:
    """Milliseconds since 1970 of `2026-01-01T00:00:00Z`, or of a bare number of them."""
    number = whole_number(text, _TIME_MS_MAX)
    if number is not None:
        return number
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is no time: write 2026-01-01T00:00:00Z, or milliseconds since 1970"
        ) from None
    if time.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone: write {text}Z for UTC, or {text}+01:00")
    # The whole milliseconds from this time on: a record of an earlier one is not wanted.
    return max(0, -((_EPOCH - time) // timedelta(milliseconds=1)))


def show_time(time_ms: int, timespec: str = "seconds") -> str:
    """A wall-clock time in UTC; one that no calendar has is shown in milliseconds."""
    try:
        shown = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return f"{time_ms} ms"
    return f"{shown.replace(tzinfo=None).isoformat(timespec=timespec)}Z"


def invalid_field(error: Exception) -> str:
    """msgspec's message with the field in front: "priority: expected `int`, got `str`"."""
    text, _, path = str(error).partition(" - at `$.")
    return f"{path[:-1]}: {text[0].lower()}{text[1:]}" if path else text
