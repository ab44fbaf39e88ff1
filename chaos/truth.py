"""What is really on a disk, read without the product's help: the durable log, the durable vote.

The judges compare what a node says with this. Its parser is its own, a few lines for each format,
so that a mistake of the product's parser cannot hide itself. It follows a log as it grows; after
a truncation or a crash it reads everything anew.
"""

import json
from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from chaos.disk import VirtualDisk
from chaos.electorates import Assigned, assigned_by
from chaos.platter import File, Folder
from chaos.violation import Violation
from quorum.core.vocabulary import Epoch, LogEnd, Offset

_OPENING: Final = Struct(">qii")
_LAST_DELTA: Final = Struct(">i")
_CRC: Final = Struct(">I")
_LENGTH_END: Final = 12
_CRC_AT: Final = 17
_LAST_DELTA_AT: Final = 23
_ATTRIBUTES_END: Final = 23
_CONTROL_BIT: Final = 0x20
_HEADER_BYTES: Final = 61


class Stored(NamedTuple):
    """One batch, byte for byte."""

    base: int
    end: int
    epoch: int
    data: bytes

    @property
    def is_control(self) -> bool:
        """Whether its records are the quorum's own."""
        return bool(self.data[_ATTRIBUTES_END - 1] & _CONTROL_BIT)

    def __repr__(self) -> str:
        return f"[{self.base}, {self.end})@{self.epoch} {crc32c(self.data):08x}"


class Ballot(NamedTuple):
    """What a replica has promised, as its file says."""

    epoch: int = 0
    voted_for: int | None = None
    leader: int | None = None


def batches(data: bytes | bytearray, position: int = 0, *, checked: bool = False) -> list[Stored]:
    """The whole batches from here on, up to the first that is none; `checked` looks at each CRC."""
    found: list[Stored] = []
    while position + _HEADER_BYTES <= len(data):
        base, length, epoch = _OPENING.unpack_from(data, position)
        end = position + _LENGTH_END + length
        if length <= 0 or end > len(data):
            break
        batch = bytes(data[position:end])
        if checked and crc32c(batch[_CRC_AT + 4 :]) != _CRC.unpack_from(batch, _CRC_AT)[0]:
            break
        (delta,) = _LAST_DELTA.unpack_from(batch, _LAST_DELTA_AT)
        found.append(Stored(base, base + delta + 1, epoch, batch))
        position = end
    return found


@dataclass(slots=True)
class _Place:
    """How far a segment has been read."""

    name: str
    file: File
    position: int


class DiskTruth:
    """The durable log and the durable vote in one folder of one disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.batches: list[Stored] = []
        self.ends: list[int] = []
        """Of each batch; for finding one by its offset."""
        self.assigned: list[Assigned] = []
        """What the log says of the voters, the last one in force."""
        self.ballot = Ballot()
        self._place: _Place | None = None
        self._ballot_bytes = b""

    def __str__(self) -> str:
        epochs = {each.epoch: each.base for each in reversed(self.batches)}
        starts = ", ".join(f"{epoch} from {epochs[epoch]}" for epoch in sorted(epochs))
        return f"{self.ballot}; log up to {self.end}; epochs {starts or 'none'}"

    @property
    def end(self) -> int:
        """Up to where the log is durable."""
        return self.ends[-1] if self.ends else 0

    def end_at(self, offset: int) -> LogEnd:
        """The end of the log if it were cut there; the epoch is -1 where no batch ends."""
        if offset == 0:
            return LogEnd(Epoch(0), Offset(0))
        at = bisect_left(self.ends, offset)
        found = at < len(self.ends) and self.ends[at] == offset
        return LogEnd(Epoch(self.batches[at].epoch if found else -1), Offset(offset))

    def between(self, start: int, end: int) -> list[Stored]:
        """The batches from `start` to `end`, both of them boundaries or beyond the log."""
        return self.batches[bisect_left(self.ends, start + 1) : bisect_left(self.ends, end + 1)]

    def place_of(self, batch: Stored, disk: VirtualDisk) -> tuple[Path, int]:
        """The file that holds a batch, and where in it."""
        folder = disk.kept(self.folder)
        assert isinstance(folder, Folder)
        for name in sorted(folder.durable):
            file = folder.durable[name]
            at = file.durable.find(batch.data) if isinstance(file, File) else -1
            if at >= 0:
                return self.folder / name, at
        raise AssertionError(f"{batch} is in no file")

    def reread(self, disk: VirtualDisk) -> None:
        """Read everything anew, and believe only what is whole."""
        self.batches, self.ends, self._place, self.assigned = [], [], None, []
        self._read_on(disk, checked=True)
        self.look_at_ballot(disk)

    def read_on(self, disk: VirtualDisk) -> list[Stored]:
        """Read what has become durable behind what was there; return that."""
        return self._read_on(disk, checked=False)

    def is_shorter(self, disk: VirtualDisk) -> bool:
        """Whether something is gone that was read before."""
        place, folder = self._place, disk.kept(self.folder)
        if place is None or not isinstance(folder, Folder):
            return place is not None
        there = folder.durable.get(place.name) is place.file
        return not there or len(place.file.durable) < place.position

    def look_at_ballot(self, disk: VirtualDisk) -> bool:
        """Read the vote again; whether it is another one."""
        file = disk.kept(self.folder / "quorum-state")
        content = bytes(file.durable) if isinstance(file, File) else b""
        if content == self._ballot_bytes:
            return False
        self._ballot_bytes = content
        if not content:
            self.ballot = Ballot()
            return True
        try:
            state = json.loads(content)
        except ValueError as error:
            raise Violation("R2", f"a vote is lost: {content!r} is on disk") from error
        voted, leader = state["votedId"], state["leaderId"]
        self.ballot = Ballot(
            state["leaderEpoch"], None if voted < 0 else voted, None if leader < 0 else leader
        )
        return True

    def _read_on(self, disk: VirtualDisk, *, checked: bool) -> list[Stored]:
        found: list[Stored] = []
        place = self._place
        if place is not None:
            found += self._read_file(place, checked=checked)
        for name, file in self._later_segments(disk):
            if place is not None and place.position < len(place.file.durable):
                break  # The segment before is torn: nothing behind it belongs to the log.
            place = self._place = _Place(name, file, 0)
            found += self._read_file(place, checked=checked)
        return found

    def _later_segments(self, disk: VirtualDisk) -> list[tuple[str, File]]:
        folder = disk.kept(self.folder)
        if not isinstance(folder, Folder):
            return []
        last = "" if self._place is None else self._place.name
        names = sorted(
            name
            for name in folder.durable
            if name > last and name.endswith(".log") and len(name) == 24
        )
        files = [(name, folder.durable[name]) for name in names]
        return [(name, file) for name, file in files if isinstance(file, File)]

    def _read_file(self, place: _Place, *, checked: bool) -> list[Stored]:
        found: list[Stored] = []
        for batch in batches(place.file.durable, place.position, checked=checked):
            if batch.base != self.end:
                break
            place.position += len(batch.data)
            self.batches.append(batch)
            self.ends.append(batch.end)
            found.append(batch)
            if batch.is_control:
                assigned = assigned_by(*batch)
                self.assigned += [] if assigned is None else [assigned]
        return found
