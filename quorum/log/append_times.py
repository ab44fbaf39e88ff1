"""When what was appended here: the index beside each segment, and how it is read.

From the indexes of several replicas one can tell afterwards how far each was behind, even of nodes
that are gone. The file has the name of its segment and the suffix `.appendtime`. All numbers are
big-endian:

    header   8 bytes    "MQAT", version (16 bits, now 1), 16 bits of zero
    entry   24 bytes    time (64 bits), end offset (64), epoch (32), crc (32)
    entry   ...

The records from the end offset of the entry before (the first offset of the segment, where there
is none) up to this one, exclusive, were appended at this time: milliseconds of this machine's wall
clock, which may go backwards. Appends of one commit that have the time and the epoch in common
share an entry. Time -1, epoch -1 says that nobody knows: the disk was full, or power was lost
before the index reached it. The crc is the CRC-32C of the 20 bytes before it.

Nothing rests on these files, and nothing else is lost with one. Nothing here writes.
"""

import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from quorum.core.vocabulary import Epoch, Offset
from quorum.log.errors import FileDamaged
from quorum.log.files import opened, read_up_to, usable
from quorum.log.filesystem import OS, FileSystem
from quorum.log.segment import segment_base

SUFFIX: Final = ".appendtime"
MAGIC: Final = b"MQAT"
VERSION: Final = 1
HEADER_BYTES: Final = 8
ENTRY_BYTES: Final = 24
UNKNOWN: Final = -1

_HEADER: Final = struct.Struct(">4sHH")
_FACTS: Final = struct.Struct(">qqi")
_CRC: Final = struct.Struct(">I")
_NAME: Final = re.compile(r"(\d{20})" + re.escape(SUFFIX))
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
    """Wall clock; None, and no epoch either, where it was not kept."""


def index_base(name: str) -> Offset | None:
    """The first offset of the index of this file name; None if it is another kind of file."""
    match = _NAME.fullmatch(name)
    return None if match is None else Offset(int(match[1]))


def index_of(segment: Path) -> Path:
    """Where the append times of a segment are."""
    return segment.with_suffix(SUFFIX)


def encode_header() -> bytes:
    """What every index begins with."""
    return _HEADER.pack(MAGIC, VERSION, 0)


def is_begun(header: bytes) -> bool:
    """Whether these first bytes have reached the disk; a crash may have left only some of them, and
    zeros in the place of the others."""
    whole = encode_header()
    return header == whole or not whole.startswith(header.rstrip(b"\0"))


def check_header(path: Path, header: bytes) -> None:
    """Raises `FileDamaged` where these are not the first bytes of an index that we know."""
    if len(header) < HEADER_BYTES or header[:4] != MAGIC:
        raise FileDamaged(path, "not an index of append times", _FOREIGN_REMEDY)
    _, version, _ = _HEADER.unpack(header)
    if version != VERSION:
        reason = f"an index of version {version}, only version {VERSION} is known"
        raise FileDamaged(path, reason, _FOREIGN_REMEDY)


def encode_entry(time_ms: int, end: int, epoch: int) -> bytes:
    """One entry; `UNKNOWN` for both time and epoch where nobody knows."""
    facts = _FACTS.pack(time_ms, end, epoch)
    return facts + _CRC.pack(crc32c(facts))


def decode_entry(entry: bytes) -> tuple[int, int, int] | None:
    """Time, end and epoch; None where these bytes are no whole and sound entry."""
    if len(entry) != ENTRY_BYTES:
        return None
    facts, (crc,) = entry[: _FACTS.size], _CRC.unpack_from(entry, _FACTS.size)
    if crc32c(facts) != crc:
        return None
    time_ms, end, epoch = _FACTS.unpack(facts)
    return time_ms, end, epoch


def append_times(path: Path, fs: FileSystem = OS) -> Iterator[AppendTime]:
    """What one index says, in order; also of a log that is being written to.

    Raises `FileDamaged` where it is not an index that we know, `FolderUnusable` where it cannot be
    read. Entries that are not sound leave a stretch of which nobody knows the time: how far they
    went, and where the one behind them began, only they could tell.
    """
    base = index_base(path.name)
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
    """Each entry of the file; None for one that is not sound."""
    position = HEADER_BYTES
    while data := read_up_to(fd, _READ_BYTES, position, fs):
        for at in range(0, len(data), ENTRY_BYTES):
            yield decode_entry(data[at : at + ENTRY_BYTES])
        position += len(data)


def all_append_times(folder: Path, fs: FileSystem = OS) -> Iterator[AppendTime]:
    """What the indexes of all segments of a log say, in order; raises as `append_times` does."""
    with usable(folder):
        names = set(fs.names(folder))
    end: Offset | None = None
    for name in sorted(names):
        base = segment_base(name)
        index = index_of(folder / name)
        if base is None or index.name not in names:
            continue
        if end is not None and end < base:
            yield AppendTime(end, base, None, None)
        end = base
        for each in append_times(index, fs):
            yield each
            end = each.end
