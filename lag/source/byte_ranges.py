"""Read a range of bytes of a file of batches: the valid batches that begin in it, and damage.

A range may begin anywhere. The reader finds the first valid batch at or after its first byte, by
plausible header fields and the checksum. A batch belongs to the range in which it begins, and is
read to its end. Invalid bytes belong to the range of the batch before them, or to the range at the
start of the file. So any division of a file into ranges gives the same result. (If the value of a
record contains complete batches, a range that begins inside it can be misled; it then reports
damage and never accepts wrong data.)

Files are read by windows and not mapped, so that memory does not grow with the file, and a file
that shrinks ends early instead of raising a signal.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from struct import Struct
from typing import Any, Final

import numpy as np
from crc32c import crc32c

from lag.source.files import OpenFile, read_up_to
from quorum.records.batch import CRC_START, HEADER_BYTES, LENGTH_END, MAGIC

WINDOW_BYTES: Final = 4 * 1024 * 1024
"""Bytes per read; a larger batch enlarges its own window."""
BATCH_BYTES_MAX: Final = 128 * 1024 * 1024
"""The largest batch that is accepted. Kafka's own limit is 1 MiB, ours 8 MiB by default."""

HEADS_MAX: Final = 10_000
"""The headers that are read of damaged batches in a row."""

OFFSETS_END: Final = 1 << 56
"""No offset is as high. No checksum covers the base offset: a flipped bit in its highest byte can
be found only so."""

_UP_TO_CRC: Final = Struct(">qiibI")
_COUNT: Final = Struct(">i")
_LENGTH_AT: Final = 8
_LAST_AT: Final = 23
_TIMES_AT: Final = 27
_COUNT_AT: Final = 57
_MAGIC_AT: Final = 16
_CRC_AT: Final = 17


@dataclass(frozen=True, slots=True)
class ValidBatches:
    """Consecutive complete batches with correct checksums."""

    data: bytes
    """A part of the file that contains them."""
    origin: int
    """The position of `data` in the file."""
    starts: Any
    """The position of each batch in the file (`numpy.ndarray` of int64)."""
    end: int
    """The position after the last of them."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are not a valid batch, where one was expected."""

    position: int
    reason: str
    is_format: bool
    """True if it looks like a batch in another format."""
    next_sound: int | None
    """The position of the next valid batch; None if there is none."""
    is_cut_off: bool
    """True if the file ends before the batch does."""
    heads: tuple[tuple[int, bytes], ...] = ()
    """Position and bytes of the headers in it, as far as each leads to the next one; of a batch
    that is cut off only its own."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of a range."""

    position: int
    """The position after the last batch of the range, or after damage."""
    following: bytes
    """The header of the valid batch there, which belongs to the next range; may be empty."""


Found = ValidBatches | Damage | End


class RangeReader:
    """One range [`low`, `high`) of an open file."""

    def __init__(
        self,
        file: OpenFile,
        low: int,
        high: int,
        *,
        planned_size: int | None = None,
        look_again: Callable[[int], bool] | None = None,
    ) -> None:
        """`planned_size` is the size of the file when it was divided; later data is ignored.
        `look_again` takes the size so far and returns whether an incomplete file has grown; it may
        wait."""
        self._file = file
        self._low = low
        self._high = high
        self._planned_size = high if planned_size is None else planned_size
        self._look_again = look_again or (lambda _size: False)
        self.size = file.size()

    def __iter__(self) -> Iterator[Found]:
        position: int | None = self._low
        if self._low > 0:
            position = self._next_sound(self._low, self._high)
        while position is not None and position < self._high:
            for sound in self._run(position):
                yield sound
                position = sound.end
            if position >= self._high:
                break
            if position >= self.size and not self._has_grown():
                break
            damage = self._damage(position)
            if damage is None:
                continue  # It is whole by now.
            yield damage
            position = damage.next_sound
        if position is None:
            return
        yield from self._last(position)

    def _last(self, position: int) -> Iterator[Found]:
        """Report damage at the end of the range; the next range cannot know that a batch was
        expected."""
        if position < self._high or position >= min(self.size, self._planned_size):
            yield End(position, b"")
            return
        damage = self._damage(position)
        if damage is not None:
            yield damage
            position = self.size if damage.next_sound is None else damage.next_sound
        yield End(position, self._read(position, HEADER_BYTES) if position < self.size else b"")

    def _run(self, position: int) -> Iterator[ValidBatches]:
        """The valid batches from here on, up to the end of the range or to damage."""
        while position < self._high:
            data = self._read(position, WINDOW_BYTES)
            starts, end, wanted = _walk(data, min(len(data), self._high - position))
            if not len(starts) and wanted > len(data):
                data = self._read(position, wanted)
                starts, end, wanted = _walk(data, 1)
            if not len(starts):
                return
            yield ValidBatches(data, position, starts + position, position + end)
            position += end

    def _read(self, position: int, size: int) -> bytes:
        return read_up_to(self._file, size, position)

    def _has_grown(self) -> bool:
        grown = self._look_again(self.size)
        self.size = self._file.size()
        return grown

    def _damage(self, position: int) -> Damage | None:
        """The damage here, or None. A file that ends here is checked for growth."""
        while True:
            reason, wanted, is_format = self._wrong(position)
            if reason is None:
                return None
            following = self._next_sound(position + 1, self.size)
            is_cut_off = (
                following is None
                and (wanted is None or position + wanted > self.size)
                and self._next_head(position, self.size) is None
            )
            if following is not None or not self._has_grown():
                end = self.size if following is None else following
                end = position + 1 if is_cut_off else end
                heads = tuple(self._heads(position, end))
                return Damage(position, reason, is_format, following, is_cut_off, heads)

    def _heads(self, low: int, high: int) -> Iterator[tuple[int, bytes]]:
        """The headers of the batches in [`low`, `high`), whatever their content is."""
        at = low
        for _ in range(HEADS_MAX):
            head = self._read(at, HEADER_BYTES)
            if len(head) < HEADER_BYTES or at >= high:
                return
            size = _UP_TO_CRC.unpack_from(head)[1] + LENGTH_END
            is_possible = HEADER_BYTES <= size <= min(high - at, BATCH_BYTES_MAX)
            following = at + size if is_possible else None
            if following is None or not (following == high or self._continues(at, following)):
                # The length may be wrong: no checksum covers it.
                following = self._next_head(at, high) or following
            if following is not None:
                yield at, self._mended(at, head, following - at)
                at = following
                continue
            is_sized = HEADER_BYTES <= high - at <= BATCH_BYTES_MAX
            if at == low or (is_sized and self._is_complete(at, head, high - at)):
                yield at, head
            return

    def _continues(self, at: int, following: int) -> bool:
        """True if the header at the one position has the next offset after that at the other."""
        data = self._read(following, _UP_TO_CRC.size)
        return data[:_LENGTH_AT] in _next_offsets(self._read(at, HEADER_BYTES))

    def _next_head(self, at: int, high: int) -> int | None:
        """The position before `high` of a header with the next offset after that at `at`."""
        wanted = _next_offsets(self._read(at, HEADER_BYTES))
        low, high = at + HEADER_BYTES, min(high, at + BATCH_BYTES_MAX)
        while wanted and low < high:
            data = self._read(low, WINDOW_BYTES + HEADER_BYTES)
            if len(data) < HEADER_BYTES:
                return None
            for candidate in _candidates(data):
                if low + candidate < high and data[candidate : candidate + _LENGTH_AT] in wanted:
                    return low + candidate
            low += len(data) - HEADER_BYTES + 1
        return None

    def _is_complete(self, at: int, head: bytes, size: int) -> bool:
        """True if a batch of this size has the checksum that `head`, its header, says."""
        found, end = crc32c(memoryview(head)[CRC_START:]), at + size
        at += HEADER_BYTES
        while at < end:
            data = self._read(at, min(WINDOW_BYTES, end - at))
            if not data:
                return False
            found = crc32c(data, found)
            at += len(data)
        crc: int = _UP_TO_CRC.unpack_from(head)[4]
        return found == crc

    def _mended(self, at: int, head: bytes, size: int) -> bytes:
        """The header of a damaged batch; if only one of its two numbers of records was damaged,
        with the right one, for which the checksum is right."""
        last, count = (_COUNT.unpack_from(head, field)[0] for field in (_LAST_AT, _COUNT_AT))
        if last + 1 == count:
            return head
        for field, value in ((_LAST_AT, count - 1), (_COUNT_AT, last + 1)):
            tried = bytearray(head)
            if value >= 0:
                _COUNT.pack_into(tried, field, value & 0x7FFFFFFF)
                if self._is_complete(at, bytes(tried), size):
                    return bytes(tried)
        return head

    def _wrong(self, position: int) -> tuple[str | None, int | None, bool]:
        """The reason that no valid batch begins here, its size by its header, and whether it is
        another format."""
        head = self._read(position, HEADER_BYTES)
        if len(head) < HEADER_BYTES:
            reason = f"only {len(head)} of the {HEADER_BYTES} bytes of a header"
            return reason, None, False
        base_offset, length, _, magic, crc = _UP_TO_CRC.unpack_from(head)
        size = length + LENGTH_END
        if not any(head):
            return "zeros, where a batch ought to begin", None, False
        if not HEADER_BYTES <= size <= BATCH_BYTES_MAX:
            return f"a batch of {size} bytes is impossible", HEADER_BYTES, False
        if magic != MAGIC:
            is_format = 0 <= magic < MAGIC or self._is_followed(position + size, magic)
            return f"magic {magic}, only {MAGIC} is known", size, is_format
        if not 0 <= base_offset < OFFSETS_END:
            return f"a base offset of {base_offset} is impossible", size, False
        data = self._read(position, size)
        found = crc32c(memoryview(data)[CRC_START:])
        if len(data) < size:
            reason = f"a batch of {size} bytes, of which {len(data)} are there"
            if found != crc:
                return reason, size, False
            # No checksum covers the length: the batch is complete, and its length is wrong.
            return f"{reason}, and they are complete by their checksum", len(data), False
        if found != crc:
            return f"its checksum is {crc:08x}, computed {found:08x}", size, False
        return None, size, False

    def _is_followed(self, position: int, magic: int) -> bool:
        """True if another batch in this format follows."""
        head = self._read(position, HEADER_BYTES)
        return len(head) == HEADER_BYTES and head[_MAGIC_AT] == magic & 0xFF

    def _next_sound(self, low: int, high: int) -> int | None:
        """The position in [low, high) of the first valid batch, or None."""
        while low < high:
            data = self._read(low, WINDOW_BYTES + HEADER_BYTES)
            if len(data) < HEADER_BYTES:
                return None
            for at in _candidates(data):
                if low + at >= high:
                    return None
                if self._wrong(low + at)[0] is None:
                    return int(low + at)
            low += len(data) - HEADER_BYTES + 1
        return None


def is_legible(head: bytes) -> bool:
    """False if a header is too short, or zeros are in place of its times and all behind them."""
    return len(head) == HEADER_BYTES and any(head[_TIMES_AT:])


def _next_offsets(head: bytes) -> set[bytes]:
    """The base offsets that the batch after this header may have, as they are in its header."""
    if not is_legible(head):
        return set()
    base = _UP_TO_CRC.unpack_from(head)[0]
    counts = {_COUNT.unpack_from(head, _LAST_AT)[0] + 1, _COUNT.unpack_from(head, _COUNT_AT)[0]}
    ends = {base + count for count in counts if count > 0}
    return {end.to_bytes(_LENGTH_AT, "big") for end in ends if 0 <= end < OFFSETS_END}


def _walk(data: bytes, high: int) -> tuple[Any, int, int]:
    """The starts, below `high`, of the valid batches at the front of `data` (`numpy.ndarray`); the
    end of the last; and the bytes needed to check the next.

    A batch costs one step of Python and one checksum; everything else is done for all at once.
    """
    listed, at, wanted = _chain(data, high)
    starts = np.array(listed, np.int64)
    raw, view = np.frombuffer(data, np.uint8), memoryview(data)
    checksums = [crc32c(view[start + CRC_START : end]) for start, end in pairwise((*listed, at))]
    is_valid = (raw[starts] == 0) & (raw[starts + _MAGIC_AT] == MAGIC)
    is_valid &= _numbers(raw, starts + _CRC_AT) == np.array(checksums, np.uint32).view(np.int32)
    invalid = np.nonzero(~is_valid)[0]
    if len(invalid):
        return starts[: invalid[0]], listed[invalid[0]], 0
    return starts, at, wanted


def _chain(data: bytes, high: int) -> tuple[list[int], int, int]:
    """The positions, below `high`, of batches that lie in `data` by their lengths; the position
    after them; and the bytes needed for the batch there, 0 if there is none."""
    starts: list[int] = []
    unpack, at, there = _COUNT.unpack_from, 0, len(data)
    while at < high:
        if at + HEADER_BYTES > there:
            return starts, at, HEADER_BYTES
        size = unpack(data, at + _LENGTH_AT)[0] + LENGTH_END
        if size < HEADER_BYTES:
            return starts, at, 0
        if at + size > there:
            is_header = data[at] == 0 and data[at + _MAGIC_AT] == MAGIC
            return starts, at, min(size, BATCH_BYTES_MAX) if is_header else 0
        starts.append(at)
        at += size
    return starts, at, 0


def _candidates(data: bytes) -> list[int]:
    """Positions in `data` that could be headers, by the bytes that every header has."""
    raw = np.frombuffer(data, np.uint8)
    last = len(raw) - HEADER_BYTES + 1
    at = np.nonzero(raw[_MAGIC_AT : _MAGIC_AT + last] == MAGIC)[0]
    # An offset is below `OFFSETS_END`, a length below 2**27, and of the attributes 7 bits have a
    # meaning.
    for ahead, mask in ((0, 0xFF), (_LENGTH_AT, 0xF8), (21, 0xFF), (22, 0x80)):
        at = at[(raw[at + ahead] & mask) == 0]
    # No more records than offsets; of a compacted log none may be left.
    delta = _numbers(raw, at + _LAST_AT)
    count = _numbers(raw, at + _COUNT_AT)
    fits = (delta >= 0) & (count >= 0) & (count <= delta + 1)
    return [int(each) for each in at[fits]]


def _numbers(raw: Any, at: Any) -> Any:
    """The 32-bit numbers at these positions."""
    number = np.zeros(len(at), np.int64)
    for ahead in range(4):
        number = number << 8 | raw[at + ahead]
    return np.where(number >= 1 << 31, number - (1 << 32), number)
