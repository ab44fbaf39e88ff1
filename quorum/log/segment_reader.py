"""Reading batches back from a segment's file, by offset.

Each call opens the file, reads and closes it: a log holds no descriptor for what it only reads.
Whoever calls asks for written batches only. The owner's disk is trusted to return what it was
given as far as headers tell; what they contradict is a `LogFailure`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quorum.core.vocabulary import Offset
from quorum.log.files import opened, read_up_to
from quorum.log.filesystem import FileSystem
from quorum.log.limits import WALK_BYTES
from quorum.log.segment import Mark
from quorum.ports import LogFailure
from quorum.records.batch import HEADER_BYTES, CorruptBatch, Header, check_length, header_at


@contextmanager
def _reading(path: Path, fs: FileSystem) -> Iterator[int]:
    """A descriptor to read from; whatever goes wrong meanwhile is a `LogFailure`."""
    try:
        with opened(path, os.O_RDONLY, fs) as fd:
            yield fd
    except OSError as error:
        raise LogFailure(f"{path} cannot be read: {error.strerror or error}") from error
    except CorruptBatch as error:
        raise LogFailure(f"{path} does not hold what was written: {error}") from error


def _walk(fs: FileSystem, fd: int, position: int) -> Iterator[tuple[int, Header]]:
    """Position and header of each batch from `position` on; it ends only by an error."""
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


def position_of(fs: FileSystem, path: Path, offset: Offset, mark: Mark) -> int:
    """The position of the batch that begins at `offset`, at or behind `mark`."""
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
    before: Mark,
    within: Mark,
    at_least_one: bool,
) -> tuple[bytes, Offset]:
    """Batches from the one that holds `start` to the last that ends at or below `end`, and the
    offset where they end.

    At most `max_bytes`, or with `at_least_one` a single batch that is larger. `before` is a mark
    at or before `start`; what lies between it and `within` is known to be below `end`, and to fit.
    """
    with _reading(path, fs) as fd:
        position, header = _find(fs, fd, start, before)
        limit = position + max_bytes
        if at_least_one:
            limit = max(limit, position + header.size_bytes)
        stop = _last_before(fs, fd, max(within, Mark(start, position)), end, limit)
        data = read_up_to(fd, stop.position - position, position, fs)
        if len(data) < stop.position - position:
            raise CorruptBatch(position + len(data), "the file ends within it")
        return data, stop.offset


def _find(fs: FileSystem, fd: int, offset: Offset, mark: Mark) -> tuple[int, Header]:
    """The batch that holds `offset`."""
    for position, header in _walk(fs, fd, mark.position):
        if header.end_offset > offset:
            return position, header
    raise AssertionError("a walk has no end")


def _last_before(fs: FileSystem, fd: int, mark: Mark, end: Offset, limit: int) -> Mark:
    """Where the last batch stops that ends at or below `end`, and at or before `limit`."""
    if mark.offset >= end:
        return mark
    for position, header in _walk(fs, fd, mark.position):
        if header.end_offset > end or position + header.size_bytes > limit:
            break
        mark = Mark(Offset(header.end_offset), position + header.size_bytes)
        if mark.offset == end:
            break
    return mark
