"""Reading a whole segment from its front, believing nothing: for recovery.

It reads the file in large windows with plain reads, not by a mapping: an unreadable sector is
then an error that can be named, and not a signal that ends the process. Nothing here writes.
"""

from collections.abc import Iterator
from typing import Final

from quorum.log.files import read_up_to
from quorum.log.filesystem import OS, FileSystem
from quorum.log.limits import SCAN_BYTES
from quorum.records.batch import (
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    CorruptBatch,
    Header,
    check_crc,
    check_header,
    check_length,
    header_at,
)

_MAGIC_POSITION: Final = 16
_OFFSETS_AHEAD_MAX: Final = 1 << 40
"""A batch that claims to be further ahead than this is taken for noise."""


class ScannedFile:
    """An open file and the window of it that is in memory."""

    def __init__(self, fd: int, fs: FileSystem = OS) -> None:
        self._fd = fd
        self._fs = fs
        self.size_bytes = fs.size(fd)
        self._window = memoryview(b"")
        self._origin = 0

    def at(self, position: int, length: int) -> memoryview:
        """`length` bytes at `position`, or fewer where the file ends first."""
        start = position - self._origin
        if start < 0 or start + length > len(self._window):
            size = max(length, min(SCAN_BYTES, self.size_bytes - position))
            self._window = memoryview(read_up_to(self._fd, size, position, self._fs))
            self._origin, start = position, 0
        return self._window[start : start + length]


def scan(
    file: ScannedFile, *, base: int, epoch_min: int, crc: bool
) -> Iterator[tuple[int, Header]]:
    """Position and header of each batch of the file, which is to begin at offset `base`.

    Raises `CorruptBatch` at the first that is not whole, sound and in its place; checksums are
    computed only with `crc`, for that is what makes the whole file be read.
    """
    position = 0
    while position < file.size_bytes:
        header = _header(file, position)
        size_bytes = header.length + LENGTH_END
        # All that `check_length` and `check_header` ask, at once; only they say what is wrong.
        if not (
            header.magic == MAGIC
            and size_bytes >= HEADER_BYTES
            and position + size_bytes <= file.size_bytes
            and 0 < header.record_count == header.last_offset_delta + 1
            and header.base_offset == base
            and header.epoch >= epoch_min
        ):
            check_length(header, position, file.size_bytes)
            check_header(header, position, expected_base=base, epoch_min=epoch_min)
            raise AssertionError(f"{header} is refused without a reason")
        if crc:
            check_crc(header, position, file.at(position, size_bytes))
        yield position, header
        base, epoch_min = base + header.record_count, header.epoch
        position += size_bytes


def next_sound_batch(
    file: ScannedFile, position: int, *, base_min: int, epoch_min: int
) -> int | None:
    """Where at or behind `position` a batch begins that is whole and sound; None if nowhere.

    Looked for byte by byte, for damage may have changed a length. The checksum makes a false
    find as good as impossible; the other fields rule out nearly everything before it is computed.
    """
    while position + HEADER_BYTES <= file.size_bytes:
        window = bytes(file.at(position, min(SCAN_BYTES, file.size_bytes - position)))
        at = window.find(MAGIC, _MAGIC_POSITION)
        while at != -1:
            start = position + at - _MAGIC_POSITION
            if _is_sound(file, start, base_min=base_min, epoch_min=epoch_min):
                return start
            at = window.find(MAGIC, at + 1)
        position += len(window) - _MAGIC_POSITION
    return None


def _is_sound(file: ScannedFile, position: int, *, base_min: int, epoch_min: int) -> bool:
    try:
        header = _header(file, position)
        check_length(header, position, file.size_bytes)
        check_header(header, position, expected_base=None, epoch_min=epoch_min)
        if not base_min <= header.base_offset < base_min + _OFFSETS_AHEAD_MAX:
            return False
        check_crc(header, position, file.at(position, header.size_bytes))
    except CorruptBatch:
        return False
    return True


def _header(file: ScannedFile, position: int) -> Header:
    view = file.at(position, HEADER_BYTES)
    if len(view) < HEADER_BYTES:
        raise CorruptBatch(position, f"only {len(view)} of the {HEADER_BYTES} bytes of its header")
    return header_at(view)
