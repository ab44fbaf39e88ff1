"""R27: the durable indexes of append times agree with the log; read without the product's code.

The entries of an index rise, each ends at a batch boundary of its segment, all batches of an entry
have its epoch, and its time is one that the machine's clock has shown. Entries may be missing after
a power loss, a full disk or a failed sync.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from chaos.disk.disk_state import File, Node
from chaos.disk.virtual_disk import VirtualDisk
from chaos.invariants.disk_format import StoredBatch
from chaos.violation import Violation
from quorum.log.append_times import append_times
from quorum.log.errors import FileDamaged

SUFFIX: Final = ".appendtime"
HEADER: Final = b"MQAT\0\1\0\0"
UNKNOWN: Final = (-1, -1)

_ENTRY: Final = Struct(">qqiI")
_CRC_AT: Final = 20


class Entry(NamedTuple):
    """The records up to `end` were appended at this time, in this epoch."""

    time_ms: int
    end: int
    epoch: int


class Clock(NamedTuple):
    """The range of times of day that a machine's clock has shown."""

    earliest_ms: int
    latest_ms: int


class _Read(NamedTuple):
    """The part of an index that was read, and the batches that it was compared with."""

    data: bytes
    batches: Sequence[StoredBatch]
    end: int
    """The end of the last record that an entry covers."""
    is_sound: bool
    """True if its last entry was sound."""


def entries(data: bytes, position: int = len(HEADER)) -> list[Entry | None]:
    """The entries of an index from `position`; None for an incomplete one. Raises `ValueError` if
    the data is not an index."""
    header = data[: len(HEADER)]
    if not HEADER.startswith(header) and not HEADER.startswith(header.rstrip(b"\0")):
        raise ValueError(f"it begins with {header!r}")
    found: list[Entry | None] = []
    for at in range(position, len(data) - _ENTRY.size + 1, _ENTRY.size):
        time_ms, end, epoch, crc = _ENTRY.unpack_from(data, at)
        is_sound = crc32c(data[at : at + _CRC_AT]) == crc
        found.append(Entry(time_ms, end, epoch) if is_sound else None)
    return found


class AppendTimes:
    """A cache of the indexes of one machine; unchanged parts are not read again."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[bytes, tuple[int, int]]] = {}
        self._read: dict[str, _Read] = {}

    def check(
        self,
        who: object,
        segments: Iterable[tuple[str, Sequence[StoredBatch]]],
        names: Mapping[str, Node],
        clock: Clock,
        spoiled: Collection[str] = (),
    ) -> None:
        """Check the durable part of the indexes of these segments against the log.

        In a `spoiled` index only the sound entries are checked.
        """
        for segment, batches in segments:
            name = segment.removesuffix(".log") + SUFFIX
            file = names.get(name)
            if not isinstance(file, File):
                continue
            last = (batches[-1].end, batches[-1].epoch) if batches else (0, 0)
            data = bytes(file.durable)
            if self._known.get(name) != (data, last):
                if name not in spoiled or _has_header(data):
                    nothing = _Read(HEADER, [], int(segment[:20]), True)
                    read = self._read.get(name, nothing)
                    if not _goes_on(read, data, batches):
                        read = nothing
                    self._read[name] = _check(f"{who}: {name}", read, data, batches, clock)
                self._known[name] = data, last


def _goes_on(read: _Read, data: bytes, batches: Sequence[StoredBatch]) -> bool:
    """True if the data extends what was compared before. That part stays correct, since the range
    of times that a clock has shown only grows."""
    return data.startswith(read.data) and batches[: len(read.batches)] == read.batches


def check_whole(who: object, index: bytes, last: StoredBatch) -> None:
    """Check that an index covers every batch. This holds while its writer lives, and always for a
    complete segment."""
    last_at = (len(index) - len(HEADER)) // _ENTRY.size * _ENTRY.size - _ENTRY.size
    found = entries(index, len(HEADER) + max(0, last_at))
    if not found or found[-1] is None or found[-1].end != last.end:
        raise Violation("R27", f"{who} reports {found[-1:]} last, but the log has {last}")


def check_read(who: object, path: Path, disk: VirtualDisk, batches: Sequence[StoredBatch]) -> None:
    """Check that the product reads no wrong entry from a damaged index. It may take entries as
    unknown, or reject the file."""
    try:
        found = [each for each in append_times(path, disk) if each.time_ms is not None]
    except FileDamaged:
        return
    for each in found:
        epochs = {b.epoch for b in batches if each.base <= b.base < each.end}
        if epochs != {each.epoch}:
            raise Violation("R27", f"{who} reads {each} in {path.name}, but the log has {epochs}")


def _has_header(data: bytes) -> bool:
    return data.startswith(HEADER)


def _check(
    where: str, read: _Read, data: bytes, batches: Sequence[StoredBatch], clock: Clock
) -> _Read:
    """Check the new part of an index; return everything read so far."""
    try:
        found = entries(data, len(read.data))
    except ValueError as error:
        raise Violation("R27", f"{where} is no index: {error}") from error
    at, start, is_sound = len(read.batches), read.end, read.is_sound
    for entry in found:
        if entry is None:
            is_sound = False
            continue
        first = at
        while at < len(batches) and batches[at].end <= entry.end:
            at += 1
        if entry.end <= start or at == 0 or batches[at - 1].end != entry.end:
            raise Violation("R27", f"{where} has {entry} after {start}, but there is no such batch")
        if is_sound and (entry.time_ms, entry.epoch) != UNKNOWN:
            _check_known(where, entry, batches[first:at], clock)
        start, is_sound = entry.end, True
    whole_bytes = len(read.data) + len(found) * _ENTRY.size
    return _Read(read.data + data[len(read.data) : whole_bytes], batches[:at], start, is_sound)


def _check_known(where: str, entry: Entry, batches: Sequence[StoredBatch], clock: Clock) -> None:
    for each in batches:
        if each.epoch != entry.epoch:
            raise Violation("R27", f"{where} has {entry}, which covers {each}")
    if not clock.earliest_ms <= entry.time_ms <= clock.latest_ms:
        raise Violation("R27", f"{where} has {entry}, a time outside {clock}")
