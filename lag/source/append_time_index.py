"""The index of append times of a segment as arrays: end offsets, times and epochs.

`quorum.log.append_times` defines the file. This reader checks the checksums of a block of entries
at once. In a long index it reads only the entries for the requested records, found by binary search
over the rising end offsets, so that a task reads and holds as much of the index as of the log.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from lag.source import files
from lag.source.files import OpenFile, read_up_to
from quorum.log.append_times import (
    ENTRY_BYTES,
    HEADER_BYTES,
    UNKNOWN,
    check_header,
    decode_entry,
    is_begun,
)
from quorum.log.errors import FileDamaged

_ENTRY: Final = np.dtype([("time", ">i8"), ("end", ">i8"), ("epoch", ">i4"), ("crc", ">u4")])
_FACTS_BYTES: Final = 20
_BLOCK: Final = 1 << 14
"""Entries per read: a block stays in the processor's cache."""
_POLYNOMIAL: Final = 0x82F63B78
"""CRC-32C (RFC 3720), bits reversed."""

assert _ENTRY.itemsize == ENTRY_BYTES


class AppendTimes(NamedTuple):
    """The append times of some records of one segment."""

    ends: Any
    """Rising end offsets, exclusive (`numpy.ndarray` of int64)."""
    times_ms: Any
    """The append time of each; `UNKNOWN` if unknown."""
    epochs: Any
    """The epoch of each; `UNKNOWN` if unknown."""
    size_bytes: int = 0
    """Size of the file when it was read."""

    def reaches(self, offset: int) -> bool:
        """True if the index covers this record."""
        return len(self.ends) > 0 and bool(self.ends[-1] > offset)

    def at(self, offsets: Any) -> tuple[Any, Any]:
        """The append times of these records, and a mask of the known ones."""
        place = np.searchsorted(self.ends, offsets, side="right")
        known = place < len(self.ends)
        times = np.full(len(offsets), UNKNOWN, np.int64)
        times[known] = self.times_ms[place[known]]
        return times, times != UNKNOWN

    def says(self, first: int, end: int, epoch: int) -> bool | None:
        """True if an entry is about exactly these records, false if their epoch was another one;
        None if the index does not tell."""
        place = int(np.searchsorted(self.ends, first, side="right"))
        if place >= len(self.ends) or self.epochs[place] == UNKNOWN:
            return None
        if self.epochs[place] != epoch:
            return False
        is_exact = self.ends[place] == end and (not place or self.ends[place - 1] == first)
        return True if is_exact else None


NONE: Final = AppendTimes(*(np.zeros(0, np.int64) for _ in range(3)))


class IndexCheck(NamedTuple):
    """The result of checking a whole index."""

    end: int | None = None
    """The offset up to which it reaches; None without a valid entry."""
    unsound: int = 0
    """The number of damaged entries."""
    problem: str | None = None
    """The reason that it cannot be read at all."""


class _Block(NamedTuple):
    """The valid entries of a block."""

    ends: Any
    times_ms: Any
    epochs: Any
    unsound: int


def read_index(path: str, base: int, first: int, last: int) -> AppendTimes:
    """The append times of the records `first` to `last`, from the index of the segment at `base`.

    The file may be written to meanwhile. An unreadable one has no times; `check_index` reports it.
    """
    size_bytes = 0
    with suppress(OSError, FileDamaged), files.opened(path) as file:
        size_bytes = file.size()
        return _part(file, path, size_bytes, base, first, last)
    return NONE._replace(size_bytes=size_bytes)


def _part(
    file: OpenFile, path: str, size_bytes: int, base: int, first: int, last: int
) -> AppendTimes:
    at, below = _place(file, size_bytes, base, first)
    blocks = []
    for block in _blocks(file, path, at, below):
        wanted = block.ends > first
        blocks.append((block.ends[wanted], block.times_ms[wanted], block.epochs[wanted]))
        if len(block.ends) and block.ends[-1] > last:
            break
    ends, times, epochs = (np.concatenate(each) for each in zip(*blocks, strict=True))
    return AppendTimes(ends, times, epochs, size_bytes)


class Entries(NamedTuple):
    """A range of an index, as it is in the file."""

    position: int
    data: bytes


def entries_of(path: str, base: int, first: int, last: int) -> Entries | None:
    """The entries of the records `first` to `last` as far as the index reaches, with damaged ones
    between them; None if there are none.

    The segment begins at `base`. An unreadable index has none; `check_index` reports it.
    """
    with suppress(OSError, FileDamaged), files.opened(path) as file:
        header = read_up_to(file, HEADER_BYTES, 0)
        if not is_begun(header):
            return None
        check_header(Path(path), header)
        at, below = _place(file, file.size(), base, first)
        begin, number = at, at
        kept: list[bytes] = []
        while True:
            data = read_up_to(file, _BLOCK * ENTRY_BYTES, HEADER_BYTES + number * ENTRY_BYTES)
            count = len(data) // ENTRY_BYTES
            if not count:
                found = b"".join(kept)
                return Entries(HEADER_BYTES + begin * ENTRY_BYTES, found) if found else None
            accepted, block = _block(data, count, below, is_sound=True)
            places = np.nonzero(accepted)[0]
            earlier = int(np.searchsorted(block.ends, first, side="right"))
            if earlier:
                # The search has stopped at a damaged entry, far from the wanted ones.
                kept.clear()
                begin = number + int(places[earlier - 1]) + 1
            low = max(0, begin - number)
            there = int(np.searchsorted(block.ends, last, side="right"))
            if there < len(places):
                kept.append(data[low * ENTRY_BYTES : (int(places[there]) + 1) * ENTRY_BYTES])
                return Entries(HEADER_BYTES + begin * ENTRY_BYTES, b"".join(kept))
            kept.append(data[low * ENTRY_BYTES : count * ENTRY_BYTES])
            below = int(block.ends[-1]) if len(block.ends) else below
            number += count
    return None


def check_index(path: str, base: int) -> IndexCheck:
    """Check a whole index, a block at a time."""
    end, unsound = None, 0
    try:
        with files.opened(path) as file:
            for block in _blocks(file, path, 0, base):
                unsound += block.unsound
                if len(block.ends):
                    end = int(block.ends[-1])
    except OSError as error:
        return IndexCheck(problem=f"it cannot be read: {error.strerror or error}")
    except FileDamaged as error:
        return IndexCheck(problem=files.with_path(error, path))
    return IndexCheck(end, unsound)


def epochs_of(path: str, base: int) -> Iterator[tuple[int, int]]:
    """The known epochs of a whole index in order, each with the end of its last records.

    An index that cannot be read has none.
    """
    found: dict[int, int] = {}
    with suppress(OSError, FileDamaged), files.opened(path) as file:
        for block in _blocks(file, path, 0, base):
            is_known = block.epochs != UNKNOWN
            epochs, ends = block.epochs[is_known], block.ends[is_known]
            found |= dict(zip(epochs.tolist(), ends.tolist(), strict=True))
    yield from sorted(found.items())


def _place(file: OpenFile, size_bytes: int, base: int, first: int) -> tuple[int, int]:
    """The number of the first entry that may cover this record, and the end offset before it.

    If an entry on the way is damaged the search stops early, because it cannot continue there.
    """
    low, high, below = 0, max(0, size_bytes - HEADER_BYTES) // ENTRY_BYTES, base
    while low < high:
        middle = (low + high) // 2
        entry = decode_entry(read_up_to(file, ENTRY_BYTES, HEADER_BYTES + middle * ENTRY_BYTES))
        if entry is None or entry[1] <= below:
            break
        if entry[1] > first:
            high = middle
        else:
            low, below = middle + 1, entry[1]
    return low, below


def _blocks(file: OpenFile, path: str, at: int, below: int) -> Iterator[_Block]:
    """Blocks of entries from number `at` on; the entry before is valid and ends at `below`.

    Yields at least one block; raises `FileDamaged` if the file is not an index.
    """
    header = read_up_to(file, HEADER_BYTES, 0)
    if not is_begun(header):
        yield _Block(NONE.ends, NONE.times_ms, NONE.epochs, 0)
        return
    check_header(Path(path), header)
    is_sound, is_over = True, False
    while not is_over:
        data = read_up_to(file, _BLOCK * ENTRY_BYTES, HEADER_BYTES + at * ENTRY_BYTES)
        count = len(data) // ENTRY_BYTES
        is_over = count < _BLOCK
        accepted, block = _block(data, count, below, is_sound=is_sound)
        yield block
        if count:
            is_sound = bool(accepted[-1])
            below = int(block.ends[-1]) if len(block.ends) else below
        at += count


def _block(data: bytes, count: int, below: int, *, is_sound: bool) -> tuple[Any, _Block]:
    """A mask of the valid entries, and their content; `is_sound` says whether the entry before is
    valid.

    End offsets have to rise. The time of an entry after a damaged one is unknown, because the
    damaged entry said where its range began.
    """
    entries = np.frombuffer(data, _ENTRY, count=count)
    ends = entries["end"].astype(np.int64)
    whole = _checksums(data, count) == entries["crc"]
    highest = np.maximum.accumulate(np.concatenate(([below], np.where(whole, ends, below))))
    accepted = whole & (ends > highest[:-1])
    follows = np.concatenate(([is_sound], accepted[:-1]))[:count]
    times = np.where(follows, entries["time"], UNKNOWN).astype(np.int64)
    epochs = np.where(follows, entries["epoch"], UNKNOWN)
    unsound = count - int(accepted.sum())
    return accepted, _Block(ends[accepted], times[accepted], epochs[accepted], unsound)


def _checksums(data: bytes, count: int) -> Any:
    """The CRC-32C of every entry, two bytes at a time for all entries at once.

    A CRC is linear: that of an entry is the sum (exclusive or) of what each of its bytes adds at
    its place, whatever the others are.
    """
    constant, tables = _tables()
    raw = np.frombuffer(data, "<u2", count=count * ENTRY_BYTES // 2)
    facts = np.ascontiguousarray(raw.reshape(count, ENTRY_BYTES // 2)[:, : _FACTS_BYTES // 2].T)
    crc = np.full(count, constant, np.uint32)
    for table, pairs in zip(tables, facts, strict=True):
        crc ^= table.take(pairs)
    return crc


@lru_cache(maxsize=1)
def _tables() -> tuple[int, list[Any]]:
    """The CRC-32C of zeros, and what two bytes add to it at each place of an entry."""
    byte = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        byte = np.where(byte & 1, byte >> 1 ^ np.uint32(_POLYNOMIAL), byte >> 1)
    step = byte
    added = [step]
    for _ in range(_FACTS_BYTES - 1):
        # What a byte added, after another byte that is 0.
        added.append(step[added[-1] & 0xFF] ^ added[-1] >> 8)
    added.reverse()
    zeros = 0xFFFFFFFF
    for _ in range(_FACTS_BYTES):
        zeros = int(step[zeros & 0xFF]) ^ zeros >> 8
    pairs = np.arange(1 << 16)
    return zeros ^ 0xFFFFFFFF, [
        first[pairs & 0xFF] ^ second[pairs >> 8]
        for first, second in zip(added[::2], added[1::2], strict=True)
    ]
