"""One file of batches read from its front, on its own: a segment, a checkpoint, a copy of one.

For those who look into a log that is not open. Nothing here writes, locks or repairs: the first
batch that is not sound ends the reading, by an error that says where it is.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from quorum.log.files import opened
from quorum.log.filesystem import OS, FileSystem
from quorum.log.scan import ScannedFile, scan
from quorum.records.batch import HEADER_BYTES, CorruptBatch, Header, header_at


class StoredBatch(NamedTuple):
    """A batch of a file, whole and sound."""

    position: int
    header: Header
    data: bytes


def batches_of(
    path: Path, *, base: int | None = None, fs: FileSystem = OS
) -> Iterator[StoredBatch]:
    """The batches of the file, in order; the first begins at offset `base` where that is given.

    Raises `CorruptBatch` at the first that is not whole, sound and in its place, `OSError` where
    the file cannot be read.
    """
    with opened(path, os.O_RDONLY, fs) as fd:
        file = ScannedFile(fd, fs)
        if file.size_bytes == 0:
            return
        first = _first_offset(file) if base is None else base
        for position, header in scan(file, base=first, epoch_min=0, crc=True):
            yield StoredBatch(position, header, bytes(file.at(position, header.size_bytes)))


def _first_offset(file: ScannedFile) -> int:
    opening = file.at(0, HEADER_BYTES)
    if len(opening) < HEADER_BYTES:
        raise CorruptBatch(0, f"only {len(opening)} of the {HEADER_BYTES} bytes of its header")
    return header_at(opening).base_offset
