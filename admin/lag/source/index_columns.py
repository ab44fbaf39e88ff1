"""The index of append times beside a segment, as two columns: end offsets and times.

`quorum.log.append_times` says what the file means, and reads it where anything in it is not as it
should be; a whole and sound one is read at once, its checksums computed column by column.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from quorum.log.append_times import (
    ENTRY_BYTES,
    HEADER_BYTES,
    UNKNOWN,
    append_times,
    encode_header,
)
from quorum.log.errors import StorageError

_ENTRY: Final = np.dtype([("time", ">i8"), ("end", ">i8"), ("epoch", ">i4"), ("crc", ">u4")])
_FACTS_BYTES: Final = 20
_BLOCK: Final = 1 << 14
"""So many entries are checked at once."""
_POLYNOMIAL: Final = 0x82F63B78
"""CRC-32C (RFC 3720), its bits reversed."""

assert _ENTRY.itemsize == ENTRY_BYTES


class AppendTimes(NamedTuple):
    """When what was appended, of one segment."""

    ends: Any
    """Rising end offsets, exclusive (`numpy.ndarray` of int64)."""
    times_ms: Any
    """Of each, when; `UNKNOWN` where nobody knows."""
    unsound: int
    """How many entries are damaged."""
    problem: str | None = None
    """Why it cannot be read at all."""
    size_bytes: int = 0
    """Of the file, as far as it was read."""

    def reaches(self, offset: int) -> bool:
        """Whether it speaks of this record."""
        return len(self.ends) > 0 and bool(self.ends[-1] > offset)

    def at(self, offsets: Any) -> tuple[Any, Any]:
        """When these records were appended, and which of that is known."""
        place = np.searchsorted(self.ends, offsets, side="right")
        known = place < len(self.ends)
        times = np.full(len(offsets), UNKNOWN, np.int64)
        times[known] = self.times_ms[place[known]]
        return times, times != UNKNOWN


NONE: Final = AppendTimes(np.zeros(0, np.int64), np.zeros(0, np.int64), 0)


def read_index(path: str, base: int) -> AppendTimes:
    """What the index says; it may be written to meanwhile."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        return NONE._replace(problem=f"it cannot be read: {error.strerror or error}")
    if data[:HEADER_BYTES] == encode_header():
        count = (len(data) - HEADER_BYTES) // ENTRY_BYTES
        entries = np.frombuffer(data, _ENTRY, count=count, offset=HEADER_BYTES)
        ends = entries["end"].astype(np.int64)
        rising = count == 0 or (ends[0] > base and bool(np.all(ends[1:] > ends[:-1])))
        if rising and bool(np.all(_checksums(data, count) == entries["crc"])):
            times = entries["time"].astype(np.int64)
            return AppendTimes(ends, times, 0, size_bytes=len(data))
    return _one_by_one(path, data)


def _one_by_one(path: str, data: bytes) -> AppendTimes:
    """The same of an index in which something is wrong."""
    try:
        entries = list(append_times(Path(path)))
    except StorageError as error:
        return NONE._replace(problem=str(error))
    ends = np.array([entry.end for entry in entries], np.int64)
    times = [UNKNOWN if entry.time_ms is None else entry.time_ms for entry in entries]
    unsound = max(0, len(data) - HEADER_BYTES) // ENTRY_BYTES - len(entries)
    return AppendTimes(ends, np.array(times, np.int64), unsound, size_bytes=len(data))


def _checksums(data: bytes, count: int) -> Any:
    """The CRC-32C of the facts of each entry, all of them byte by byte at once."""
    raw = np.frombuffer(data, np.uint8, count=count * ENTRY_BYTES, offset=HEADER_BYTES)
    columns = raw.reshape(count, ENTRY_BYTES)
    # A block at a time: what is looked up and shifted stays in the processor's cache.
    blocks = [_checksums_of(columns[at : at + _BLOCK]) for at in range(0, count, _BLOCK)]
    return np.concatenate(blocks) if blocks else np.zeros(0, np.uint32)


def _checksums_of(columns: Any) -> Any:
    table = _table()
    facts = np.ascontiguousarray(columns[:, :_FACTS_BYTES].T)
    crc = np.full(len(columns), 0xFFFFFFFF, np.uint32)
    for byte in facts:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ np.uint32(0xFFFFFFFF)


@lru_cache(maxsize=1)
def _table() -> Any:
    values = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        values.append(value)
    return np.array(values, np.uint32)
