"""A range of bytes of one file of batches: which sound batches begin in it, and what is no batch.

A range begins anywhere: the first sound batch at or behind its first byte is looked for, by what a
header may hold and by the checksum. A batch belongs to the range in which it begins, and is read to
its end; what is no sound batch belongs to the range of the batch before it, or to the range at the
start of the file. Any ranges that cover a file therefore say together what one alone would say. (A
record whose value holds whole batches of its own can mislead a range that begins within it. What
follows is then told as damage, and is never taken for sound in silence.)

Bytes are read with plain reads and by the window, so that memory does not grow with the file, and a
file that shrinks underneath is an end that comes early, and not a signal.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

import numpy as np
from crc32c import crc32c

from quorum.records.batch import CRC_START, HEADER_BYTES, LENGTH_END, MAGIC

WINDOW_BYTES: Final = 4 * 1024 * 1024
"""Read at once; a batch that is larger makes its own window larger."""
BATCH_BYTES_MAX: Final = 128 * 1024 * 1024
"""No batch is larger: Kafka's own limit of one is 1 MiB, ours 8 MiB, unless someone raises it."""

_LENGTH_TO_CRC: Final = Struct(">iibI")
_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16


@dataclass(frozen=True, slots=True)
class Sound:
    """Batches that follow each other, whole, with right checksums."""

    data: bytes
    """They lie in this stretch of the file,"""
    origin: int
    """which begins here."""
    starts: Any
    """Where each begins in the file (`numpy.ndarray` of int64)."""
    end: int
    """Where the last of them ends in the file."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are no sound batch, where one ought to begin."""

    position: int
    reason: str
    is_format: bool
    """Whether it looks like a batch of another format."""
    next_sound: int | None
    """Where the next sound batch begins; None if there is none."""
    is_cut_off: bool
    """Whether the file ends before it does."""


@dataclass(frozen=True, slots=True)
class End:
    """All that is in the range has been told."""

    position: int
    """Where the last batch of the range ends, or damage behind it."""
    following: bytes
    """The header of the sound batch there, which is another range's; empty if there is none."""


Found = Sound | Damage | End


class RangeReader:
    """One range [`low`, `high`) of an open file."""

    def __init__(
        self,
        fd: int,
        low: int,
        high: int,
        *,
        planned_size: int | None = None,
        look_again: Callable[[int], bool] | None = None,
    ) -> None:
        """`planned_size` is how long the file was when it was divided: what has come since is
        nobody's. `look_again` is asked, with the size so far, whether a file that ends within a
        batch has grown; it may wait for that."""
        self._fd = fd
        self._low = low
        self._high = high
        self._planned_size = high if planned_size is None else planned_size
        self._look_again = look_again or (lambda _size: False)
        self.size = os.fstat(fd).st_size

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
        """What stands where the range's last batch ends: damage is told here, for the range behind
        cannot know that anything ought to begin there."""
        if position < self._high or position >= min(self.size, self._planned_size):
            yield End(position, b"")
            return
        damage = self._damage(position)
        if damage is not None:
            yield damage
            position = self.size if damage.next_sound is None else damage.next_sound
        yield End(position, self._read(position, HEADER_BYTES) if position < self.size else b"")

    def _run(self, position: int) -> Iterator[Sound]:
        """The sound batches from here on, up to the end of the range or to what is none."""
        while position < self._high:
            data = self._read(position, WINDOW_BYTES)
            starts, end, wanted = _walk(data, min(len(data), self._high - position))
            if not starts and wanted > len(data):
                data = self._read(position, wanted)
                starts, end, wanted = _walk(data, 1)
            if not starts:
                return
            yield Sound(data, position, np.array(starts, np.int64) + position, position + end)
            position += end

    def _read(self, position: int, size: int) -> bytes:
        data = os.pread(self._fd, size, position)
        while len(data) < size:
            more = os.pread(self._fd, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def _has_grown(self) -> bool:
        grown = self._look_again(self.size)
        self.size = os.fstat(self._fd).st_size
        return grown

    def _damage(self, position: int) -> Damage | None:
        """What is wrong here; None if nothing is. A file that ends here is looked at again."""
        while True:
            reason, wanted, is_format = self._wrong(position)
            if reason is None:
                return None
            following = self._next_sound(position + 1, self.size)
            is_cut_off = following is None and (wanted is None or position + wanted > self.size)
            if following is not None or not self._has_grown():
                return Damage(position, reason, is_format, following, is_cut_off)

    def _wrong(self, position: int) -> tuple[str | None, int | None, bool]:
        """Why no sound batch begins here, how long it says it is, and whether that is a format."""
        head = self._read(position, HEADER_BYTES)
        if len(head) < HEADER_BYTES:
            reason = f"only {len(head)} of the {HEADER_BYTES} bytes of a header"
            return reason, None, False
        length, _, magic, crc = _LENGTH_TO_CRC.unpack_from(head, _LENGTH_AT)
        size = length + LENGTH_END
        if not any(head):
            return "zeros, where a batch ought to begin", None, False
        if not HEADER_BYTES <= size <= BATCH_BYTES_MAX:
            return f"a batch of {size} bytes is impossible", HEADER_BYTES, False
        if magic != MAGIC:
            is_format = 0 <= magic < MAGIC or self._is_followed(position + size, magic)
            return f"magic {magic}, only {MAGIC} is known", size, is_format
        data = self._read(position, size)
        if len(data) < size:
            reason = f"a batch of {size} bytes, of which {len(data)} are there"
            return reason, size, False
        found = crc32c(memoryview(data)[CRC_START:])
        if found != crc:
            return f"its checksum is {crc:08x}, computed {found:08x}", size, False
        return None, size, False

    def _is_followed(self, position: int, magic: int) -> bool:
        """Whether a batch of this same other format follows."""
        head = self._read(position, HEADER_BYTES)
        return len(head) == HEADER_BYTES and head[_MAGIC_AT] == magic & 0xFF

    def _next_sound(self, low: int, high: int) -> int | None:
        """Where in [low, high) the first sound batch begins; None if none does."""
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


def _walk(data: bytes, high: int) -> tuple[list[int], int, int]:
    """Where the sound batches from the front of `data` on begin, those below `high`; where the last
    of them ends; and how many bytes the one behind would need to be judged.

    This loop runs once a batch: it asks for as little as makes a batch sound.
    """
    starts: list[int] = []
    unpack, checksum = _LENGTH_TO_CRC.unpack_from, crc32c
    view, at, there = memoryview(data), 0, len(data)
    while at < high:
        if at + HEADER_BYTES > there:
            return starts, at, HEADER_BYTES
        length, _, magic, crc = unpack(data, at + _LENGTH_AT)
        end = at + length + LENGTH_END
        if length < HEADER_BYTES - LENGTH_END or magic != MAGIC:
            return starts, at, 0
        if end > there:
            return starts, at, min(length + LENGTH_END, BATCH_BYTES_MAX)
        if checksum(view[at + CRC_START : end]) != crc:
            return starts, at, 0
        starts.append(at)
        at = end
    return starts, at, 0


def _candidates(data: bytes) -> list[int]:
    """Where in `data` a header could stand, by what cannot be otherwise in one."""
    raw = np.frombuffer(data, np.uint8)
    last = len(raw) - HEADER_BYTES + 1
    at = np.nonzero(raw[_MAGIC_AT : _MAGIC_AT + last] == MAGIC)[0]
    # An offset is below 2**55, a length below 2**27, and of the attributes 7 bits have a meaning.
    for ahead, mask in ((0, 0xFF), (_LENGTH_AT, 0xF8), (21, 0xFF), (22, 0x80)):
        at = at[(raw[at + ahead] & mask) == 0]
    # No more records than offsets; of a compacted log none may be left.
    delta = _numbers(raw, at + 23)
    count = _numbers(raw, at + 57)
    fits = (delta >= 0) & (count >= 0) & (count <= delta + 1)
    return [int(each) for each in at[fits]]


def _numbers(raw: Any, at: Any) -> Any:
    """The 32-bit numbers at these places."""
    number = np.zeros(len(at), np.int64)
    for ahead in range(4):
        number = number << 8 | raw[at + ahead]
    return np.where(number >= 1 << 31, number - (1 << 32), number)
