"""Read batches from a segment's file, by offset.

Each call opens the file, reads and closes it: a log holds no descriptors for reading. The caller
reads written batches only. A header that contradicts that is a `LogFailure` of the disk.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from quorum.core.vocabulary import Offset
from quorum.log.filesystem import OS, FileSystem, opened, read_up_to
from quorum.log.segment import SCAN_BYTES, WALK_BYTES, IndexEntry
from quorum.ports import Log, LogFailure
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
    headers,
)
from quorum.records.decode import UnsupportedCodec, decode

_MAGIC_POSITION: Final = 16

_OFFSETS_AHEAD_MAX: Final = 1 << 40
"""A batch that claims to be further ahead than this is taken for noise."""

_READ_BYTES: Final = 64 * 1024


class ScannedFile:
    """An open file and the window of it that is in memory."""

    def __init__(self, fd: int, fs: FileSystem = OS) -> None:
        self._fd = fd
        self._fs = fs
        self.size_bytes = fs.size(fd)
        self._window = memoryview(b"")
        self._origin = 0

    def at(self, position: int, length: int) -> memoryview:
        """Return `length` bytes at `position`, or fewer if the file ends first."""
        start = position - self._origin
        if start < 0 or start + length > len(self._window):
            size = max(length, min(SCAN_BYTES, self.size_bytes - position))
            self._window = memoryview(read_up_to(self._fd, size, position, self._fs))
            self._origin, start = position, 0
        return self._window[start : start + length]


@contextmanager
def _reading(path: Path, fs: FileSystem) -> Iterator[int]:
    """Open a file for reading; turn errors of the block into `LogFailure`."""
    try:
        with opened(path, os.O_RDONLY, fs) as fd:
            yield fd
    except OSError as error:
        raise LogFailure(f"{path} cannot be read: {error.strerror or error}") from error
    except CorruptBatch as error:
        raise LogFailure(f"{path} does not hold what was written: {error}") from error


def _walk(fs: FileSystem, fd: int, position: int) -> Iterator[tuple[int, Header]]:
    """Yield position and header of each batch from `position` on, until an error."""
    window, origin = b"", position
    while True:
        if position + HEADER_BYTES > origin + len(window):
            window, origin = read_up_to(fd, WALK_BYTES, position, fs), position
        if position + HEADER_BYTES > origin + len(window):
            raise CorruptBatch(position, "the file ends before it")
        header = header_at(window, position - origin)
        check_length(header, position, position + header.size_bytes)
        yield position, header
        position += header.size_bytes


def position_of(fs: FileSystem, path: Path, offset: Offset, mark: IndexEntry) -> int:
    """Return the position of the batch that begins at `offset`, at or after `mark`."""
    with _reading(path, fs) as fd:
        position, header = _find(fs, fd, offset, mark)
    assert header.base_offset == offset, f"{offset} is not the boundary of a batch"
    return position


def read_batches(
    fs: FileSystem,
    path: Path,
    start: Offset,
    end: Offset,
    max_bytes: int,
    *,
    before: IndexEntry,
    within: IndexEntry,
    at_least_one: bool,
) -> tuple[bytes, Offset]:
    """Read the batches from the one that holds `start` to the last one that ends by `end`; return
    them and their end offset.

    At most `max_bytes`, or with `at_least_one` a single larger batch. `before` is an index entry at
    or before `start`; the batches from it to `within` end by `end` and fit.
    """
    with _reading(path, fs) as fd:
        position, header = _find(fs, fd, start, before)
        limit = position + max_bytes
        if at_least_one:
            limit = max(limit, position + header.size_bytes)
        stop = _last_before(fs, fd, max(within, IndexEntry(start, position)), end, limit)
        data = read_up_to(fd, stop.position - position, position, fs)
        if len(data) < stop.position - position:
            raise CorruptBatch(position + len(data), "the file ends within it")
        return data, stop.offset


def _find(fs: FileSystem, fd: int, offset: Offset, mark: IndexEntry) -> tuple[int, Header]:
    """Return position and header of the batch that holds `offset`."""
    for position, header in _walk(fs, fd, mark.position):
        if header.end_offset > offset:
            return position, header
    raise AssertionError("a walk has no end")


def _last_before(fs: FileSystem, fd: int, mark: IndexEntry, end: Offset, limit: int) -> IndexEntry:
    """Return the end of the last batch that ends by offset `end` and position `limit`."""
    if mark.offset >= end:
        return mark
    for position, header in _walk(fs, fd, mark.position):
        if header.end_offset > end or position + header.size_bytes > limit:
            break
        mark = IndexEntry(Offset(header.end_offset), position + header.size_bytes)
        if mark.offset == end:
            break
    return mark


class StoredBatch(NamedTuple):
    """A complete and valid batch of a file."""

    position: int
    header: Header
    data: bytes


def batches_of(
    path: Path, *, base: int | None = None, fs: FileSystem = OS
) -> Iterator[StoredBatch]:
    """Yield the batches of the file, in order; the first begins at offset `base`, if given.

    Raises `CorruptBatch` at the first invalid or misplaced batch, `OSError` if the file cannot be
    read.
    """
    with opened(path, os.O_RDONLY, fs) as fd:
        file = ScannedFile(fd, fs)
        if file.size_bytes == 0:
            return
        first = _header(file, 0).base_offset if base is None else base
        for position, header in scan(file, base=first, epoch_min=0, crc=True):
            yield StoredBatch(position, header, bytes(file.at(position, header.size_bytes)))


def scan(
    file: ScannedFile, *, base: int, epoch_min: int, crc: bool
) -> Iterator[tuple[int, Header]]:
    """Yield position and header of each batch of the file, which must begin at offset `base`.

    Raises `CorruptBatch` at the first invalid or misplaced batch. Checksums are verified only with
    `crc`, because that reads the whole file.
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
    """Return the position of the first valid batch at or after `position`, or None.

    The search goes byte by byte, because damage may have changed a length. The checksum excludes
    false matches; the other fields exclude nearly all of them before it is computed.
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


def first_record_from(
    log: Log, start: Offset, end: Offset, timestamp_ms: int
) -> tuple[Offset, int] | None:
    """Return offset and time of the first record in [start, end) not older than `timestamp_ms`.

    Only batches whose header allows it are decoded. If one cannot be decompressed, its first record
    is returned: a reader that begins there misses nothing.
    """
    while start < end:
        data = log.read(start, end, _READ_BYTES)
        assert data, f"[{start}, {end}) does not end at the end of a batch"
        for position, header in headers(data):
            start = Offset(header.end_offset)
            if header.max_timestamp_ms >= timestamp_ms:
                batch = data[position : position + header.size_bytes]
                found = _first_in_batch(batch, header, timestamp_ms)
                if found is not None:
                    return found
    return None


def _first_in_batch(batch: bytes, header: Header, timestamp_ms: int) -> tuple[Offset, int] | None:
    try:
        for record in decode(batch):
            if record.timestamp_ms >= timestamp_ms:
                return Offset(record.offset), record.timestamp_ms
    except UnsupportedCodec:
        return Offset(header.base_offset), header.base_timestamp_ms
    return None
