"""The writer of a log, for one thread at a time: files, groups of batches and their fsyncs.

Recovery relies on its order: batches are written in groups, and with `sync` a group is on disk
before the next one begins; a complete file is on disk before the next one is created, with or
without `sync`.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from quorum.core.vocabulary import Epoch, Offset
from quorum.histogram import DISK_SECONDS, NativeHistogram
from quorum.log.filesystem import (
    FileSystem,
    cut_files,
    failed_sync,
    is_full,
    remove_files,
    sync_folder,
    take_name_away,
    write_all,
)
from quorum.log.segment import GROUP_BYTES_MAX, Bytes, Segment


class Write(NamedTuple):
    """A batch that waits to be written."""

    base: Offset
    segment: Segment
    position: int
    batch: Bytes
    end: Offset
    epoch: Epoch
    time_ms: int
    """The wall-clock time of the append; meaningless in a log without append times."""


class SegmentWriter:
    """Writes segments; it holds the newest one open from the first write on."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self.syncs = NativeHistogram(DISK_SECONDS)
        """The times of the fsyncs of its files."""
        self._path: Path | None = None
        self._fd = -1
        self._unsynced = False
        self._name_unsynced = False
        self._found: Path | None = None

    def found(self, newest: Path) -> None:
        """Note the newest file, which an earlier process wrote and may not have synced."""
        self._found = newest

    def write(self, writes: Sequence[Write], *, sync: bool) -> int:
        """Write these consecutive batches; return the number for which there was room. With `sync`,
        everything written before is then on disk too.

        Batches without room leave no bytes behind. After an `OSError` the state of the files is
        unknown.
        """
        done = 0
        for group in _groups(writes) if len(writes) != 1 else (writes,):
            if not self._write_group(group):
                break
            done += len(group)
            if sync:
                self._sync()
        if sync and (self._unsynced or self._name_unsynced):
            self._sync()
        return done

    def _write_group(self, group: Sequence[Write]) -> bool:
        """Write a group of batches to one segment; return True if there was room for it."""
        path, position = group[0].segment.path, group[0].position
        if path is not self._path and path != self._path:
            self._sync()
            self.close()
        batches = [write.batch for write in group]
        data = batches[0] if len(batches) == 1 else b"".join(batches)
        try:
            self._go_to(path)
            self._unsynced = True
            write_all(self._fd, data, position, self._fs)
        except OSError as error:
            if not is_full(error):
                raise
            self._take_back(path, position)
            return False
        return True

    def _take_back(self, path: Path, position: int) -> None:
        """Remove the bytes of a group that did not fit: other batches may follow instead."""
        if self._path is None:
            return  # The file was not created.
        if position == 0 and self._name_unsynced:
            self.close()
            self._unsynced = self._name_unsynced = False
            remove_files([path], self._fs)
        else:
            self._fs.ftruncate(self._fd, position)

    def begin_anew(self, path: Path, old: Sequence[Path]) -> list[Path]:
        """Replace segments by an empty one, durably, the last of them first; return those whose
        bytes are left for `remove_some`."""
        self.close()
        self._unsynced = self._name_unsynced = False
        self._found = None
        left = [each for each in reversed(old) if take_name_away(each, self._fs)]
        self._go_to(path)
        self._sync()
        return left

    def truncate(self, path: Path, size_bytes: int, later: Sequence[Path]) -> None:
        """Shorten one file and remove those that follow it, durably."""
        self._sync()
        self.close()
        cut_files(path, size_bytes, later, self._fs)
        if self._found is not None:
            self._found = path

    def close(self) -> None:
        """Close the file, without a sync."""
        if self._path is not None:
            self._fs.close(self._fd)
            self._path, self._fd = None, -1

    def _go_to(self, path: Path) -> None:
        if path is self._path or path == self._path:
            return
        assert self._path is None
        if self._found is not None and self._found != path:
            self._open(self._found)
            self._sync()
            self.close()
        self._open(path)

    def _open(self, path: Path) -> None:
        is_found, self._found = path == self._found, None
        is_new = not self._fs.exists(path)
        self._fd = self._fs.open(path, os.O_WRONLY | os.O_CREAT)
        self._path = path
        self._unsynced |= is_found
        self._name_unsynced = is_found or is_new

    def _sync(self) -> None:
        if self._path is None:
            return
        if self._unsynced:
            # Also the length of the file, without which it is not read.
            begun = perf_counter()
            try:
                self._fs.fdatasync(self._fd)
            except OSError as error:
                raise failed_sync(error) from error
            self.syncs.observe(perf_counter() - begun)
            self._unsynced = False
        if self._name_unsynced:
            sync_folder(self._path.parent, self._fs)
            self._name_unsynced = False


def _groups(writes: Sequence[Write]) -> Iterator[list[Write]]:
    """Yield runs of writes to one segment, of at most `GROUP_BYTES_MAX` or a single larger one."""
    group: list[Write] = []
    size_bytes = 0
    for write in writes:
        full = size_bytes + len(write.batch) > GROUP_BYTES_MAX
        if group and (full or write.segment is not group[0].segment):
            yield group
            group, size_bytes = [], 0
        group.append(write)
        size_bytes += len(write.batch)
    if group:
        yield group
