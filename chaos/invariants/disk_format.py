"""A parser of batches, records and snapshots as they lie in files.

It shares no code with the product, so that a bug in the product's parser cannot hide itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from chaos.disk.disk_state import File, Node
from chaos.invariants.voter_sets import VoterSet, voter_set_in

_OPENING: Final = Struct(">qii")
_INT: Final = Struct(">I")
_LENGTH_END: Final = 12
_MAGIC_AT: Final = 16
_MAGIC: Final = 2
_CRC_AT: Final = 17
_LAST_DELTA_AT: Final = 23
_ATTRIBUTES_END: Final = 23
_CONTROL_BIT: Final = 0x20
_COUNT_AT: Final = 57
_HEADER_BYTES: Final = 61
_KEY_OF_CONTROL: Final = Struct(">hh")


class StoredBatch(NamedTuple):
    """One batch, byte for byte."""

    base: int
    end: int
    epoch: int
    data: bytes

    @property
    def is_control(self) -> bool:
        """True if its records are control records."""
        return bool(self.data[_ATTRIBUTES_END - 1] & _CONTROL_BIT)

    def __repr__(self) -> str:
        return f"[{self.base}, {self.end})@{self.epoch} {crc32c(self.data):08x}"


def batches(
    data: bytes | bytearray, position: int = 0, *, checked: bool = False
) -> list[StoredBatch]:
    """The complete batches from here to the first invalid one; `checked` verifies CRCs."""
    found: list[StoredBatch] = []
    while position + _HEADER_BYTES <= len(data):
        base, length, epoch = _OPENING.unpack_from(data, position)
        end = position + _LENGTH_END + length
        if not position + _HEADER_BYTES <= end <= len(data):
            break  # Its length is damaged or not written yet.
        batch = bytes(data[position:end])
        if checked and not _is_sound(batch):
            break
        (delta,) = _INT.unpack_from(batch, _LAST_DELTA_AT)
        found.append(StoredBatch(base, base + delta + 1, epoch, batch))
        position = end
    return found


def same_front(data: bytes | bytearray, known: Sequence[StoredBatch]) -> list[StoredBatch]:
    """The known batches with which the data begins, byte for byte."""
    found: list[StoredBatch] = []
    position = 0
    for batch in known:
        end = position + len(batch.data)
        if data[position:end] != batch.data:
            break
        found.append(batch)
        position = end
    return found


def _is_sound(batch: bytes) -> bool:
    crc = int(_INT.unpack_from(batch, _CRC_AT)[0])
    return batch[_MAGIC_AT] == _MAGIC and crc32c(batch[_CRC_AT + 4 :]) == crc


def records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The key and the value of each record of one batch; an absent one is empty."""
    (count,) = _INT.unpack_from(data, _COUNT_AT)
    at = _HEADER_BYTES
    for _ in range(count):
        length, at = _varint(data, at)
        end = at + length
        at += 1  # Skip the attributes, which are unused.
        _, at = _varint(data, at)
        _, at = _varint(data, at)
        size, at = _varint(data, at)
        key, at = data[at : at + max(0, size)], at + max(0, size)
        size, at = _varint(data, at)
        yield key, data[at : at + max(0, size)]
        at = end


def control_type(key: bytes) -> int:
    """The type of the control record with this key."""
    return int(_KEY_OF_CONTROL.unpack_from(key)[1])


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint, and the position after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


SUFFIX: Final = ".checkpoint"
HEADER: Final = 3
FOOTER: Final = 4


class Content(NamedTuple):
    """The contents of a complete snapshot."""

    assigned: VoterSet | None
    values: list[bytes]


class Checkpoint(NamedTuple):
    """A durable snapshot file."""

    name: str
    end: int
    epoch: int
    file: File
    content: Content | None
    """None if the file is incomplete."""

    def __str__(self) -> str:
        return f"snapshot {self.end}@{self.epoch}"


def checkpoints(
    names: Mapping[str, Node], known: Mapping[str, Checkpoint]
) -> tuple[dict[str, Checkpoint], list[Checkpoint]]:
    """All snapshots in a folder, and the new ones; only these are read."""
    found: dict[str, Checkpoint] = {}
    new: list[Checkpoint] = []
    for name in sorted([each for each in names if each.endswith(SUFFIX)]):
        file = names[name]
        if not isinstance(file, File):
            continue
        before = known.get(name)
        if before is not None and before.file is file:
            found[name] = before
            continue
        end, epoch = map(int, name.removesuffix(SUFFIX).split("-"))
        found[name] = Checkpoint(name, end, epoch, file, content_of(bytes(file.durable), epoch))
        new.append(found[name])
    return found, new


def content_of(data: bytes, epoch: int) -> Content | None:
    """The contents of a snapshot; None unless the data is one complete snapshot of this epoch."""
    found = batches(data, checked=True)
    if len(found) < 2 or sum(len(each.data) for each in found) != len(data):
        return None
    bases = [0, *(each.end for each in found)]
    if any(
        (each.base, each.epoch) != (base, epoch) for each, base in zip(found, bases, strict=False)
    ):
        return None
    first, *between, last = found
    kinds = [[control_type(key) for key, _ in records(each.data)] for each in (first, last)]
    if kinds[0][:1] != [HEADER] or kinds[1] != [FOOTER]:
        return None
    values = [value for each in between for _, value in records(each.data)]
    return Content(voter_set_in(*first), values)
