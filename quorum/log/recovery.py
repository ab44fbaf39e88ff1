"""Recovery of a log: which batches are kept, cut off, or refused as damaged.

Recovery checks the name of every segment, that it continues the one before, and the header of each
batch: magic, length, count, offset, epoch. In the last segment with batches, or in all with
`check_all`, it checks the checksum of each batch too. A segment is synced before the next one is
created, so a crash can only have damaged the last.

Batches are written in groups, and a group is synced before the next is written. A crash can leave
only the last group incomplete: some of its sectors were written, in any order, the others read as
zeros or lie behind the end of the file. None of it was ever acknowledged.

    synced ............................|first batch.|second.....|third...|
                                        written 0000 000 written written     <- after the crash

So the first bad batch of the last segment is one of these:

- no sound batch after it, and no more bytes than one write can have: a torn tail, cut off;
- sound batches after it, but all within one group, and a sector of the bad one is missing: a torn
  group, cut off, as drawn above;
- anything else is damage to acknowledged records, and refused. Cutting would drop them.

A torn write of the newest batch and later damage to it by a faulty disk look alike. In the second
case the other replicas still have the batch.

A log that is not `synced` (a partition's, which relies on its other replicas) is cut at the first
bad batch, and the report says so.

An earlier process may have died before a sync, or because a sync failed; after a failed sync the
operating system may show bytes that never reached the disk. So recovery writes the end of the last
segment again, sets its length again, and syncs it and the folder.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from quorum.core.vocabulary import Epoch, Offset
from quorum.log.errors import FolderUnusable, FormatUnknown, LogDamaged
from quorum.log.filesystem import (
    REMOVED_SUFFIX,
    FileSystem,
    cut_files,
    opened,
    read_up_to,
    sync_file,
    sync_folder,
    usable,
    write_all,
)
from quorum.log.segment import GROUP_BYTES_MAX, TORN_BYTES_MAX, Extent, Segment, segment_base
from quorum.log.segment_reader import ScannedFile, StoredBatch, next_sound_batch, scan
from quorum.records.batch import CONTROL_BIT, HEADER_BYTES, MAGIC, CorruptBatch, header_at

SECTOR_BYTES: Final = 512
"""The smallest unit that a disk writes atomically."""

_OPENING_BYTES: Final = 12
"""The base offset and the length of a batch; a length is never 0."""


OnControl: TypeAlias = Callable[[Path, StoredBatch], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The bytes that recovery removed from the end of a log."""

    file: Path
    position: int
    offset: Offset
    bytes_cut: int
    reason: str

    def __str__(self) -> str:
        return (
            f"cut {self.bytes_cut} bytes from {self.file} at byte {self.position}, "
            f"offset {self.offset}: {self.reason}"
        )


@dataclass(frozen=True, slots=True)
class Recovered:
    """The result of recovery; without segments the folder held none."""

    segments: list[Segment]
    extent: Extent
    cut: Cut | None


def recover(
    fs: FileSystem,
    folder: Path,
    *,
    synced: bool,
    check_all: bool,
    on_control: OnControl | None = None,
) -> Recovered:
    """Recover the log in `folder`, so that it can be appended to.

    `on_control` gets each control batch in order, with its file; an exception of it passes on.
    Raises `LogDamaged`, without any change, if acknowledged records are damaged or missing, and
    `FolderUnusable` for an error of the operating system.
    """
    segments = _find_segments(fs, folder)
    if not segments:
        _clear(fs, folder)
        return Recovered([], Extent(Offset(0)), None)
    with usable(folder):
        # A crash may have left the newest segment empty: then the last batch is in the one before.
        filled = [at for at, segment in enumerate(segments) if fs.size(segment.path)]
        crc_from = 0 if check_all or not filled else filled[-1]
        extent = Extent(segments[0].base)
        recovered = _Recovery(fs, segments, extent, synced, crc_from, on_control).run()
        if synced:
            with opened(recovered.segments[-1].path, os.O_RDWR, fs) as fd:
                _write_again(fd, fs)
                sync_file(fd, fs)
            sync_folder(folder, fs)
    _clear(fs, folder)
    return recovered


def _clear(fs: FileSystem, folder: Path) -> None:
    """Remove the rest of segments that were being removed."""
    with usable(folder):
        for name in fs.names(folder):
            is_removed = name.endswith(REMOVED_SUFFIX)
            if is_removed and segment_base(name.removesuffix(REMOVED_SUFFIX)) is not None:
                fs.remove(folder / name)


def _write_again(fd: int, fs: FileSystem) -> None:
    """Write the end of the file again, so that the next sync includes it after a failed one.

    The same bytes go to the same position, and the length stays, so an interruption loses nothing.
    """
    size_bytes = fs.size(fd)
    start = max(0, size_bytes - TORN_BYTES_MAX)
    last = read_up_to(fd, size_bytes - start, start, fs)
    if last:
        write_all(fd, last, start, fs)
    fs.ftruncate(fd, size_bytes)


def _find_segments(fs: FileSystem, folder: Path) -> list[Segment]:
    with usable(folder):
        names = sorted(fs.names(folder))
    segments: list[Segment] = []
    for name in names:
        base = segment_base(name)
        if base is None:
            continue
        if fs.is_folder(folder / name):
            raise FolderUnusable(folder / name, "has the name of a segment, but is no file")
        segments.append(Segment(folder, base))
    return segments


@dataclass(slots=True)
class _Recovery:
    """One pass over the segments of a log, front to end."""

    _fs: FileSystem
    _segments: list[Segment]
    _extent: Extent
    _synced: bool
    _crc_from: int
    """The first segment of which the checksums are verified."""
    _on_control: OnControl | None

    def run(self) -> Recovered:
        for index, segment in enumerate(self._segments):
            gap = self._gap(segment)
            if gap is not None:
                if self._synced:
                    raise self._damaged(segment, 0, gap)
                return self._cut(index - 1, self._segments[index - 1].size_bytes, gap)
            with opened(segment.path, os.O_RDONLY, self._fs) as fd:
                file = ScannedFile(fd, self._fs)
                try:
                    self._take(segment, file, crc=index >= self._crc_from)
                except CorruptBatch as bad:
                    is_last = index == len(self._segments) - 1
                    reason = self._why_cut(segment, file, bad, is_last=is_last)
                    return self._cut(index, bad.position, reason)
        return Recovered(self._segments, self._extent, None)

    def _gap(self, segment: Segment) -> str | None:
        """Return the reason why this segment does not continue the one before, or None."""
        end = self._extent.end.offset
        if segment.base == end:
            return None
        what = "records are missing" if segment.base > end else "the two overlap"
        return f"it begins at offset {segment.base}, the segment before ends at {end}: {what}"

    def _take(self, segment: Segment, file: ScannedFile, *, crc: bool) -> None:
        """Read one segment; raises `CorruptBatch` at its first error."""
        end, last = self._extent.end, None
        epoch = end.epoch if self._extent.epochs else None
        try:
            for at, header in scan(file, base=end.offset, epoch_min=end.epoch, crc=crc):
                segment.append(header)
                if header.epoch != epoch:
                    self._extent.append(header.outline)
                    epoch = Epoch(header.epoch)
                last = header
                if self._on_control is not None and header.attributes & CONTROL_BIT:
                    data = bytes(file.at(at, header.size_bytes))
                    self._on_control(segment.path, StoredBatch(at, header, data))
        finally:
            # The extent needs the start of each epoch, and the end of the last batch.
            if last is not None:
                self._extent.append(last.outline)

    def _why_cut(
        self, segment: Segment, file: ScannedFile, bad: CorruptBatch, *, is_last: bool
    ) -> str:
        """Return the reason to cut the log at the bad batch; raises `LogDamaged` if it must not be.

        Raises `FormatUnknown` for a batch of another format: no crash leaves that.
        """
        magic = foreign_magic(file, bad.position)
        if magic is not None:
            where = f"at byte {bad.position}, offset {self._extent.end.offset}"
            what = f"a record batch of format {magic} {where}; only {MAGIC} is known"
            raise FormatUnknown(segment.path, what)
        if not self._synced:
            return bad.reason
        if not is_last:
            raise self._damaged(segment, bad.position, bad.reason)
        end = self._extent.end
        sound = next_sound_batch(
            file, bad.position + 1, base_min=end.offset + 1, epoch_min=end.epoch
        )
        behind = file.size_bytes - bad.position
        if sound is None:
            if behind <= TORN_BYTES_MAX:
                return f"a write that did not complete; {bad.reason}"
            more = f"{behind} bytes follow, more than one write can leave"
        else:
            if behind <= GROUP_BYTES_MAX and misses_a_sector(file, bad.position, sound, end.offset):
                return f"a write that did not complete, a sector of it is missing; {bad.reason}"
            more = f"sound batches follow from byte {sound} on"
        raise self._damaged(segment, bad.position, f"{bad.reason}; {more}")

    def _damaged(self, segment: Segment, position: int, reason: str) -> LogDamaged:
        return LogDamaged(segment.path, position, self._extent.end.offset, reason)

    def _cut(self, index: int, position: int, reason: str) -> Recovered:
        """Cut the log at `position` of this segment, on disk as well."""
        segment, later = self._segments[index], self._segments[index + 1 :]
        paths = [segment.path, *(each.path for each in later)]
        gone = sum(self._fs.size(path) for path in paths) - position
        cut_files(segment.path, position, [each.path for each in later], self._fs)
        cut = Cut(
            file=segment.path,
            position=position,
            offset=self._extent.end.offset,
            bytes_cut=gone,
            reason=reason,
        )
        return Recovered(self._segments[: index + 1], self._extent, cut)


def foreign_magic(file: ScannedFile, position: int) -> int | None:
    """Return the unknown format of a real batch at `position`; None for noise.

    A power failure leaves zeros or written bytes, never another format number. A flipped bit may,
    but then a batch of our format follows at its end.
    """
    opening = file.at(position, HEADER_BYTES)
    if len(opening) < HEADER_BYTES:
        return None
    header = header_at(opening)
    if header.magic in (0, MAGIC):
        return None
    end = position + header.size_bytes
    following = file.at(end, HEADER_BYTES) if position < end < file.size_bytes else b""
    is_alike = len(following) == HEADER_BYTES and header_at(following).magic == header.magic
    return header.magic if end == file.size_bytes or is_alike else None


def misses_a_sector(file: ScannedFile, position: int, sound: int, base: Offset) -> bool:
    """Return True if an unwritten sector lies between the bad batch and the next sound one.

    Such a sector reads as zeros. The sector in which the bad batch begins may hold the end of the
    group before, which was synced; if it is missing, everything from `position` on is zero. That
    proves something only if the batch would begin with other bytes: its `base` or its length.
    """
    boundary = (position // SECTOR_BYTES + 1) * SECTOR_BYTES
    first = bytes(file.at(position, boundary - position))
    opening = base.to_bytes(8, "big") + b"\xff" * (_OPENING_BYTES - 8)
    if not any(first) and any(opening[: len(first)]):
        return True
    # The last sector may reach into the sound batch, whose base offset begins with zeros.
    return any(
        not any(file.at(sector, SECTOR_BYTES)) for sector in range(boundary, sound, SECTOR_BYTES)
    )
