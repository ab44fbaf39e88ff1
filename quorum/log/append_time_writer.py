"""Writing the index of append times beside the segments of one log (`quorum.log.append_times`).

It belongs to the thread that commits, and comes after the log: an entry is written when its records
are on disk, and is not synced until its segment is complete. Where it cannot be written the log
goes on without it, and the index says that nobody knows. Where a log is truncated, the index is
cut first, durably, or removed where it cannot be read; and where it lost its end to its disk,
before anything is appended. It never speaks of records that were replaced.
"""

import logging
import os
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final

from quorum.core.vocabulary import Offset
from quorum.log.append_times import (
    ENTRY_BYTES,
    HEADER_BYTES,
    UNKNOWN,
    check_header,
    decode_entry,
    encode_entry,
    encode_header,
    index_base,
    index_of,
    is_begun,
)
from quorum.log.errors import FileDamaged
from quorum.log.files import read_up_to, remove_files, write_all
from quorum.log.filesystem import FileSystem
from quorum.log.segment import Segment
from quorum.log.writer import Write

logger = logging.getLogger("quorum")

_CLOSED: Final = -1
_SEGMENT: Final = attrgetter("segment")
_TIME_AND_EPOCH: Final = attrgetter("time_ms", "epoch")


class AppendTimeWriter:
    """The indexes of one log; it holds the newest one open. No method raises `OSError`."""

    def __init__(self, fs: FileSystem, folder: Path) -> None:
        self._fs = fs
        self._folder = folder
        self._segment: Segment | None = None
        self._fd = _CLOSED
        self._size_bytes = 0
        self._end = Offset(0)
        self._complained = False

    def begin(self, segments: Sequence[Segment], end: Offset) -> None:
        """Make what is there fit a log that was recovered and ends at `end`."""
        bases = {segment.base for segment in segments}
        try:
            for name in self._fs.names(self._folder):
                base = index_base(name)
                if base is not None and base not in bases:
                    self._fs.remove(self._folder / name)
            if self._fs.exists(index_of(segments[-1].path)):
                has_cut = self._go_to(segments[-1], end)
                if has_cut or end == segments[-1].base:
                    # What it spoke of is gone, and others are about to come in its place.
                    self._fs.fdatasync(self._fd)
        except (OSError, FileDamaged) as error:
            self._do_without(segments[-1], error)

    def write(self, writes: Iterable[Write]) -> None:
        """Note these batches, which have been written to the log."""
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
        """Forget what reaches beyond `end`, which lies in this segment, durably."""
        try:
            self.remove(later)
            if self._fs.exists(index_of(segment.path)):
                self._close()
                self._go_to(segment, end)
                self._fs.fdatasync(self._fd)
        except FileDamaged as damaged:
            self._do_without(segment, damaged)
            self._discard(segment)
        except OSError as error:
            self._do_without(segment, error)

    def _discard(self, segment: Segment) -> None:
        """Remove what cannot be cut, durably: the damage may be gone with the power, and what it
        hides would speak of records that were replaced."""
        try:
            remove_files((index_of(segment.path),), self._fs)
        except OSError as error:
            self._do_without(segment, error)

    def remove(self, segments: Sequence[Segment]) -> None:
        """Remove what belongs to segments that are about to go, the last of them first."""
        for segment in reversed(segments):
            path = index_of(segment.path)
            try:
                if segment is self._segment:
                    # Not synced: that could fail, and keep what follows from being cut.
                    self._let_go()
                if self._fs.exists(path):
                    self._fs.remove(path)
            except OSError as error:
                self._do_without(segment, error)

    def close(self) -> None:
        """Let go of the file."""
        try:
            self._close()
        except OSError as error:
            logger.warning("the append times in %s may be incomplete: %s", self._folder, error)

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
        """Have the index of this segment open, and nothing in it that reaches beyond `end`; whether
        something did."""
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
        """Keep the entries up to `end`, the last of them cut there if it has to be; whether any
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

    def _do_without(self, segment: Segment, error: OSError | FileDamaged) -> None:
        """Go on without the index; say so once, until it can be written again."""
        self.close()
        if not self._complained:
            self._complained = True
            why = str(error) if isinstance(error, FileDamaged) else error.strerror or str(error)
            path = index_of(segment.path)
            logger.warning("append times are not kept in %s: %s", path, why)
