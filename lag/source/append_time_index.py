"""The index of append times beside a segment, as two columns: end offsets and times.

`quorum.log.append_times` says what the file means. Here it is read by the block, checksums computed
column by column, and of a long one only what speaks of the records that are asked about: ends rise,
so its place is found as in any sorted file. However long a log is, a task reads and holds as much
of the index as it does of the log.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from quorum.log.append_times import (
    ENTRY_BYTES,
    HEADER_BYTES,
    UNKNOWN,
    check_header,
    decode_entry,
    is_begun,
)
from quorum.log.errors import FileDamaged
from quorum.log.filesystem import opened, read_up_to

_ENTRY: Final = np.dtype([("time", ">i8"), ("end", ">i8"), ("epoch", ">i4"), ("crc", ">u4")])
_FACTS_BYTES: Final = 20
_BLOCK: Final = 1 << 14
"""So many entries are read and checked at once: they stay in the processor's cache."""
_POLYNOMIAL: Final = 0x82F63B78
"""CRC-32C (RFC 3720), its bits reversed."""

assert _ENTRY.itemsize == ENTRY_BYTES


class AppendTimes(NamedTuple):
    """When some records of one segment were appended."""

    ends: Any
    """Rising end offsets, exclusive (`numpy.ndarray` of int64)."""
    times_ms: Any
    """Of each, when; `UNKNOWN` where nobody knows."""
    size_bytes: int = 0
    """Of the file, when it was looked at."""

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


NONE: Final = AppendTimes(np.zeros(0, np.int64), np.zeros(0, np.int64))


class Judged(NamedTuple):
    """What is to be said of a whole index."""

    end: int | None = None
    """Up to which offset it speaks; None where it has no sound entry."""
    unsound: int = 0
    """How many of its entries are damaged."""
    problem: str | None = None
    """Why it cannot be read at all."""


class _Block(NamedTuple):
    """The sound ones of some entries that follow each other."""

    ends: Any
    times_ms: Any
    unsound: int


def read_index(path: str, base: int, first: int, last: int) -> AppendTimes:
    """What the index of the segment that begins at `base` says of the records `first` to `last`.

    The file may be written to meanwhile. One that cannot be read says nothing, which is told of the
    whole of it (`judge_index`).
    """
    size_bytes = 0
    with suppress(OSError, FileDamaged):
        size_bytes = os.stat(path).st_size
        return _part(path, size_bytes, base, first, last)
    return NONE._replace(size_bytes=size_bytes)


def _part(path: str, size_bytes: int, base: int, first: int, last: int) -> AppendTimes:
    with opened(Path(path), os.O_RDONLY | os.O_CLOEXEC) as fd:
        at, below = _place(fd, size_bytes, base, first)
        blocks = []
        for block in _blocks(fd, path, at, below):
            wanted = block.ends > first
            blocks.append((block.ends[wanted], block.times_ms[wanted]))
            if len(block.ends) and block.ends[-1] > last:
                break
    ends, times = (np.concatenate(each) for each in zip(*blocks, strict=True))
    return AppendTimes(ends, times, size_bytes)


def judge_index(path: str, base: int) -> Judged:
    """What is wrong with an index, all of which is read for it, a block at a time."""
    end, unsound = None, 0
    try:
        with opened(Path(path), os.O_RDONLY | os.O_CLOEXEC) as fd:
            for block in _blocks(fd, path, 0, base):
                unsound += block.unsound
                if len(block.ends):
                    end = int(block.ends[-1])
    except OSError as error:
        return Judged(problem=f"it cannot be read: {error.strerror or error}")
    except FileDamaged as error:
        return Judged(problem=str(error))
    return Judged(end, unsound)


def _place(fd: int, size_bytes: int, base: int, first: int) -> tuple[int, int]:
    """The first entry that may speak of this record, and where what it says begins.

    An earlier one, where an entry on the way is damaged: among such nothing can be looked for.
    """
    low, high, below = 0, max(0, size_bytes - HEADER_BYTES) // ENTRY_BYTES, base
    while low < high:
        middle = (low + high) // 2
        entry = decode_entry(read_up_to(fd, ENTRY_BYTES, HEADER_BYTES + middle * ENTRY_BYTES))
        if entry is None or entry[1] <= below:
            break
        if entry[1] > first:
            high = middle
        else:
            low, below = middle + 1, entry[1]
    return low, below


def _blocks(fd: int, path: str, at: int, below: int) -> Iterator[_Block]:
    """The entries from the one numbered `at` on, the one before which is sound and ends at `below`.

    At least one block; raises `FileDamaged` where this is no index.
    """
    header = read_up_to(fd, HEADER_BYTES, 0)
    if not is_begun(header):
        yield _Block(NONE.ends, NONE.times_ms, 0)
        return
    check_header(Path(path), header)
    is_sound, is_over = True, False
    while not is_over:
        data = read_up_to(fd, _BLOCK * ENTRY_BYTES, HEADER_BYTES + at * ENTRY_BYTES)
        count = len(data) // ENTRY_BYTES
        is_over = count < _BLOCK
        accepted, block = _block(data, count, below, is_sound=is_sound)
        yield block
        if count:
            is_sound = bool(accepted[-1])
            below = int(block.ends[-1]) if len(block.ends) else below
        at += count


def _block(data: bytes, count: int, below: int, *, is_sound: bool) -> tuple[Any, _Block]:
    """Which of these entries are sound, and what they say; `is_sound` of the one before them.

    Ends have to rise. How far a damaged entry went, and where the one behind it began, only it
    could tell: nobody knows the time of that one either.
    """
    entries = np.frombuffer(data, _ENTRY, count=count)
    ends = entries["end"].astype(np.int64)
    whole = _checksums(data, count) == entries["crc"]
    highest = np.maximum.accumulate(np.concatenate(([below], np.where(whole, ends, below))))
    accepted = whole & (ends > highest[:-1])
    follows = np.concatenate(([is_sound], accepted[:-1]))[:count]
    times = np.where(follows, entries["time"], UNKNOWN).astype(np.int64)
    unsound = count - int(accepted.sum())
    return accepted, _Block(ends[accepted], times[accepted], unsound)


def _checksums(data: bytes, count: int) -> Any:
    """The CRC-32C of the facts of each entry, all of them byte by byte at once."""
    table = _table()
    raw = np.frombuffer(data, np.uint8, count=count * ENTRY_BYTES).reshape(count, ENTRY_BYTES)
    facts = np.ascontiguousarray(raw[:, :_FACTS_BYTES].T)
    crc = np.full(count, 0xFFFFFFFF, np.uint32)
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
