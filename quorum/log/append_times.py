"""Append times: an index beside each segment with the wall-clock time of each append.

The indexes of several replicas show afterwards how far each was behind, even for nodes that are
gone. The file has the name of its segment and the suffix `.appendtime`. All numbers are big-endian:

    header   8 bytes    "MQAT", version (16 bits, now 1), 16 bits of zero
    entry   24 bytes    time (64 bits), end offset (64), epoch (32), crc (32)
    entry   ...

An entry has the time at which the records from the previous entry's end offset (for the first
entry, the first offset of the segment) up to its own, exclusive, were appended: milliseconds of
this machine's wall clock, which may go backwards. Appends of one commit with the same time and
epoch share an entry. Time -1, epoch -1 stands for unknown: the disk was full, or a power failure
came before the index was written. The crc is the CRC-32C of the 20 bytes before it.

The index is optional: no promise depends on it.
"""

import logging
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from quorum.core.vocabulary import Epoch, Offset
from quorum.log.errors import FileDamaged
from quorum.log.filesystem import (
    OS,
    FileSystem,
    opened,
    read_up_to,
    remove_files,
    usable,
    write_all,
)
from quorum.log.segment import Segment, segment_base
from quorum.log.segment_writer import Write
from quorum.log_events import LogEvent

SUFFIX: Final = ".appendtime"
MAGIC: Final = b"MQAT"
VERSION: Final = 1
HEADER_BYTES: Final = 8
ENTRY_BYTES: Final = 24
UNKNOWN: Final = -1

_HEADER: Final = struct.Struct(">4sHH")
_FACTS: Final = struct.Struct(">qqi")
_CRC: Final = struct.Struct(">I")
_READ_BYTES: Final = ENTRY_BYTES * 4096
_FOREIGN_REMEDY: Final = "Read it with the version of the program that wrote it, or remove it"

assert _HEADER.size == HEADER_BYTES
assert _FACTS.size + _CRC.size == ENTRY_BYTES


class AppendTime(NamedTuple):
    """Records [`base`, `end`) were appended here, together."""

    base: Offset
    end: Offset
    epoch: Epoch | None
    time_ms: int | None
    """Wall-clock time; None, as the epoch, if unknown."""


def index_of(segment: Path) -> Path:
    """Return the path of a segment's append times."""
    return segment.with_suffix(SUFFIX)


def encode_header() -> bytes:
    """Encode the header of an index."""
    return _HEADER.pack(MAGIC, VERSION, 0)


def is_begun(header: bytes) -> bool:
    """Return True if the header has reached the disk; a crash may have left only a part of it, and
    zeros in place of the rest."""
    whole = encode_header()
    return header == whole or not whole.startswith(header.rstrip(b"\0"))


def check_header(path: Path, header: bytes) -> None:
    """Raise `FileDamaged` unless this is the header of an index of the known version."""
    if len(header) < HEADER_BYTES or header[:4] != MAGIC:
        raise FileDamaged(path, "not an index of append times", _FOREIGN_REMEDY)
    _, version, _ = _HEADER.unpack(header)
    if version != VERSION:
        reason = f"an index of version {version}, only version {VERSION} is known"
        raise FileDamaged(path, reason, _FOREIGN_REMEDY)


def encode_entry(time_ms: int, end: int, epoch: int) -> bytes:
    """Encode one entry; time and epoch are `UNKNOWN` if they were not stored."""
    facts = _FACTS.pack(time_ms, end, epoch)
    return facts + _CRC.pack(crc32c(facts))


def decode_entry(entry: bytes) -> tuple[int, int, int] | None:
    """Return time, end and epoch; None for an incomplete or damaged entry."""
    if len(entry) != ENTRY_BYTES:
        return None
    facts, (crc,) = entry[: _FACTS.size], _CRC.unpack_from(entry, _FACTS.size)
    if crc32c(facts) != crc:
        return None
    time_ms, end, epoch = _FACTS.unpack(facts)
    return time_ms, end, epoch


def append_times(path: Path, fs: FileSystem = OS) -> Iterator[AppendTime]:
    """Yield the entries of one index in order, even while it is being written.

    Raises `FileDamaged` for another kind of file, `FolderUnusable` if it cannot be read. The time
    of a damaged entry is unknown, and so is that of the next entry, which begins at its end.
    """
    base = segment_base(path.name, SUFFIX)
    assert base is not None, f"{path} does not have the name of an index of append times"
    with usable(path), opened(path, os.O_RDONLY, fs) as fd:
        header = read_up_to(fd, HEADER_BYTES, 0, fs)
        if not is_begun(header):
            return
        check_header(path, header)
        is_sound = True
        for entry in _entries(fd, fs):
            if entry is None or entry[1] <= base:
                is_sound = False
                continue
            time_ms, end, epoch = entry
            if is_sound and time_ms != UNKNOWN:
                yield AppendTime(base, Offset(end), Epoch(epoch), time_ms)
            else:
                yield AppendTime(base, Offset(end), None, None)
            base, is_sound = Offset(end), True


def _entries(fd: int, fs: FileSystem) -> Iterator[tuple[int, int, int] | None]:
    """Yield each entry of the file; None for a damaged one."""
    position = HEADER_BYTES
    while data := read_up_to(fd, _READ_BYTES, position, fs):
        for at in range(0, len(data), ENTRY_BYTES):
            yield decode_entry(data[at : at + ENTRY_BYTES])
        position += len(data)


logger = logging.getLogger("quorum")

_CLOSED: Final = -1
_SEGMENT: Final = attrgetter("segment")
_TIME_AND_EPOCH: Final = attrgetter("time_ms", "epoch")


class AppendTimeWriter:
    """Writes the indexes of one log and holds the newest one open. No method raises `OSError`."""

    def __init__(self, fs: FileSystem, folder: Path) -> None:
        self._fs = fs
        self._folder = folder
        self._segment: Segment | None = None
        self._fd = _CLOSED
        self._size_bytes = 0
        self._end = Offset(0)
        self._complained = False

    def begin(self, segments: Sequence[Segment], end: Offset) -> None:
        """Adapt the existing indexes to a recovered log that ends at `end`."""
        bases = {segment.base for segment in segments}
        with self._optional(segments[-1]):
            for name in self._fs.names(self._folder):
                base = segment_base(name, SUFFIX)
                if base is not None and base not in bases:
                    self._fs.remove(self._folder / name)
            if self._fs.exists(index_of(segments[-1].path)):
                has_cut = self._go_to(segments[-1], end)
                if has_cut or end == segments[-1].base:
                    # Its records are gone, and others are about to replace them.
                    self._fs.fdatasync(self._fd)

    def write(self, writes: Iterable[Write]) -> None:
        """Add entries for these batches, which have been written to the log."""
        for segment, run in groupby(writes, key=_SEGMENT):
            batches = list(run)
            try:
                self._go_to(segment, batches[0].base)
                data = self._entries(batches)
                write_all(self._fd, data, self._size_bytes, self._fs)
            except (OSError, FileDamaged) as error:
                self._do_without(segment, error)
            else:
                self._complained = False
                self._size_bytes += len(data)
                self._end = batches[-1].end

    def truncate(self, segment: Segment, end: Offset, later: Sequence[Segment]) -> None:
        """Remove entries beyond `end`, which lies in this segment, durably."""
        with self._optional(segment):
            self.remove(later)
            path = index_of(segment.path)
            if self._fs.exists(path):
                self._close()
                try:
                    self._go_to(segment, end)
                except FileDamaged:
                    # A power failure may undo the damage; then old entries would describe the
                    # records that replaced theirs.
                    remove_files((path,), self._fs)
                    raise
                self._fs.fdatasync(self._fd)

    def remove(self, segments: Sequence[Segment]) -> None:
        """Remove the indexes of segments that are about to be removed, the last one first."""
        for segment in reversed(segments):
            path = index_of(segment.path)
            with self._optional(segment):
                if segment is self._segment:
                    # Not synced: that could fail, and stop the truncation.
                    self._let_go()
                if self._fs.exists(path):
                    self._fs.remove(path)

    def close(self) -> None:
        """Sync and close the file."""
        try:
            self._close()
        except OSError as error:
            logger.warning(
                "The append times in %s may be incomplete: %s",
                self._folder,
                error,
                extra=LogEvent.APPEND_TIMES_FAILED.extra,
            )

    def _close(self) -> None:
        if self._fd == _CLOSED:
            return
        try:
            self._fs.fdatasync(self._fd)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        fd, self._fd, self._segment = self._fd, _CLOSED, None
        self._fs.close(fd)

    def _go_to(self, segment: Segment, end: Offset) -> bool:
        """Open the index of this segment and remove entries beyond `end`; return True if there
        were any."""
        if segment is self._segment:
            return False
        self._close()
        path = index_of(segment.path)
        is_new = end == segment.base
        flags = os.O_RDWR | os.O_CREAT | (os.O_TRUNC if is_new else 0)
        fd = self._fs.open(path, flags)
        try:
            has_cut = self._fit(path, fd, segment.base, end)
        except BaseException:
            self._fs.close(fd)
            raise
        self._segment, self._fd = segment, fd
        return has_cut

    def _fit(self, path: Path, fd: int, base: Offset, end: Offset) -> bool:
        """Keep the entries up to `end`, the last of them shortened if necessary; return True if any
        reached beyond."""
        header = read_up_to(fd, HEADER_BYTES, 0, self._fs)
        if is_begun(header):
            check_header(path, header)
        else:
            write_all(fd, encode_header(), 0, self._fs)
        kept = max(0, self._fs.size(fd) - HEADER_BYTES) // ENTRY_BYTES
        beyond: tuple[int, int, int] | None = None
        last, has_cut = base, False
        while kept > 0:
            position = HEADER_BYTES + (kept - 1) * ENTRY_BYTES
            entry = decode_entry(read_up_to(fd, ENTRY_BYTES, position, self._fs))
            if entry is not None and entry[1] <= end:
                last = Offset(entry[1])
                break
            beyond, has_cut = entry, has_cut or entry is not None
            kept -= 1
        self._size_bytes, self._end = HEADER_BYTES + kept * ENTRY_BYTES, last
        if self._fs.size(fd) != self._size_bytes:
            self._fs.ftruncate(fd, self._size_bytes)
        if beyond is not None and last < end:
            clipped = encode_entry(beyond[0], end, beyond[2])
            write_all(fd, clipped, self._size_bytes, self._fs)
            self._size_bytes, self._end = self._size_bytes + ENTRY_BYTES, end
        return has_cut

    def _entries(self, batches: Sequence[Write]) -> bytes:
        parts = []
        if batches[0].base != self._end:
            parts.append(encode_entry(UNKNOWN, batches[0].base, UNKNOWN))
        for _, run in groupby(batches, key=_TIME_AND_EPOCH):
            *_, last = run
            parts.append(encode_entry(last.time_ms, last.end, last.epoch))
        return b"".join(parts)

    @contextmanager
    def _optional(self, segment: Segment) -> Iterator[None]:
        """Continue without the index if the block fails."""
        try:
            yield
        except (OSError, FileDamaged) as error:
            self._do_without(segment, error)

    def _do_without(self, segment: Segment, error: OSError | FileDamaged) -> None:
        """Continue without the index; log that once, until it can be written again."""
        self.close()
        if not self._complained:
            self._complained = True
            why = str(error) if isinstance(error, FileDamaged) else error.strerror or str(error)
            path = index_of(segment.path)
            logger.warning(
                "Append times cannot be stored in %s: %s",
                path,
                why,
                extra=LogEvent.APPEND_TIMES_FAILED.extra,
            )
