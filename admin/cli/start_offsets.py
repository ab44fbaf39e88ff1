"""The offsets that `metaquorum consume --offset` begins to read at. Pure functions.

| `--offset` | begins with |
| --- | --- |
| `earliest` | the oldest record |
| `latest` | the next record that is written |
| `100` | offset 100 |
| `-100` | the last 100 records of each partition |
| `s@1767225600000`, `s@2026-01-01T00:00:00Z` | the first record of this time or later |
"""

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final, NamedTuple

from admin.units import parse_time_ms, whole_number

OFFSET_MAX: Final = 2**63 - 1


class Kind(Enum):
    """The meaning of the number of a start offset."""

    EARLIEST = auto()
    LATEST = auto()
    OFFSET = auto()
    NEWEST = auto()
    TIME = auto()


class StartOffset(NamedTuple):
    """The value of `--offset`."""

    kind: Kind
    number: int = 0
    """An offset, a number of records, or a time in milliseconds."""


_NAMED: Final[Mapping[str, StartOffset]] = MappingProxyType(
    {"earliest": StartOffset(Kind.EARLIEST), "latest": StartOffset(Kind.LATEST)}
)
_TIME: Final = "s@"
"""In the words of kcat."""


def parse_start_offset(text: str) -> StartOffset:
    """Return the value of an option; raises `ValueError`."""
    if text in _NAMED:
        return _NAMED[text]
    if text.startswith(_TIME):
        return StartOffset(Kind.TIME, parse_time_ms(text.removeprefix(_TIME)))
    kind = Kind.NEWEST if text.startswith("-") else Kind.OFFSET
    number = whole_number(text.removeprefix("-"), OFFSET_MAX)
    if number is None:
        raise ValueError(
            f"{text!r} is no offset: write earliest, latest, 100, -100 for the last 100 records, "
            "or s@ and a time, as in s@2026-01-01T00:00:00Z"
        )
    return StartOffset(kind, number)


def offset_in(start: StartOffset, earliest: int, latest: int) -> int:
    """Return the offset to begin with in a partition from `earliest` up to `latest`.

    An offset outside of it becomes the nearest one inside. A time must be looked up.
    """
    assert start.kind is not Kind.TIME
    match start.kind:
        case Kind.EARLIEST:
            return earliest
        case Kind.LATEST:
            return latest
        case Kind.NEWEST:
            return max(earliest, latest - start.number)
        case Kind.OFFSET:
            return min(max(earliest, start.number), latest)
