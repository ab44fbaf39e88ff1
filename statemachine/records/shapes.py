"""Partition records of one shape: decode many together, or encode one, without values.

Most records of a snapshot are ordinary partitions. Those with the same numbers of replicas and of
ISR members have the same layout, so that one field of all of them is a strided slice of their
bytes. The layout is that of `codec`, which encodes any partition.
"""

from array import array
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from struct import Struct
from typing import Final, NamedTuple

from statemachine.records.codec import PARTITION_FRAMES
from statemachine.vocabulary import BrokerId, Replicas

ID_BYTES: Final = 4
UUID_BYTES: Final = 16

_NUMBER_AT: Final = 3
_TOPIC_AT: Final = 7
_REPLICAS_AT: Final = 23
_READ_AT_ONCE: Final = 32
"""Records whose directories one call unpacks."""
_NONE: Final = 1
"""The encoded length of an empty list; any length is encoded plus one."""
_SWAPS: Final = array("H", [1]).tobytes()[0] == 1
"""Whether the byte order of this machine differs from that of records."""


class Shape(NamedTuple):
    """The field offsets in records of ordinary partitions that have the same shape."""

    size: int
    replicas: int
    in_sync: int
    fixed: tuple[tuple[int, int], ...]
    """The offset and the value of each byte that all of them share."""
    isr_at: int
    """The offset of the first ISR member; the others follow."""
    leader_at: int
    """The offset of the leader; leader epoch and partition epoch follow."""
    directories_at: int | None
    """The offset of the first directory; None if directories are not known."""

    @property
    def replicas_at(self) -> int:
        """The offset of the first replica; the others follow."""
        return _REPLICAS_AT + 1


@lru_cache
def _shape(version: int, replicas: int, in_sync: int, *, has_directories: bool) -> Shape:
    isr_at = _REPLICAS_AT + 1 + ID_BYTES * replicas + 1
    moving_at = isr_at + ID_BYTES * in_sync
    leader_at = moving_at + 2
    end = leader_at + 3 * ID_BYTES
    fixed = [
        *enumerate(PARTITION_FRAMES[version]),
        (_REPLICAS_AT, replicas + 1),
        (isr_at - 1, in_sync + 1),
        (moving_at, _NONE),
        (moving_at + 1, _NONE),
    ]
    directories_at = None
    if version:
        fixed.append((end, replicas + 1 if has_directories else _NONE))
        end += 1
        if has_directories:
            directories_at, end = end, end + UUID_BYTES * replicas
    # It has no tags.
    fixed.append((end, 0))
    return Shape(end + 1, replicas, in_sync, tuple(fixed), isr_at, leader_at, directories_at)


def shape_of(value: bytes, replicas_max: int) -> Shape | None:
    """Return the shape of a record of an ordinary partition, or None for any other record."""
    if not value.startswith(PARTITION_FRAMES) or len(value) <= _REPLICAS_AT:
        return None
    version, replicas = value[2], value[_REPLICAS_AT] - 1
    at = _REPLICAS_AT + 1 + ID_BYTES * replicas
    if not 0 < replicas <= replicas_max or len(value) <= at:
        return None
    in_sync = value[at] - 1
    if not 0 <= in_sync <= replicas:
        return None
    for has_directories in (True, False):
        shape = _shape(version, replicas, in_sync, has_directories=has_directories)
        if len(value) == shape.size and all(value[at] == byte for at, byte in shape.fixed):
            return shape
    return None


class SameShapeRecords:
    """Records of one shape, concatenated."""

    __slots__ = ("_columns", "count", "data", "shape")

    def __init__(self, shape: Shape, values: list[bytes]) -> None:
        """Take values of the size of the shape; nothing else is checked."""
        self.shape = shape
        self.data = b"".join(values)
        self.count = len(values)
        # Most bytes are read more than once, so their columns are extracted once.
        self._columns = [self._column(at) for at in range(shape.directories_at or shape.size)]

    def _column(self, at: int) -> bytes:
        """Return the byte at this offset of each record."""
        return self.data[at :: self.shape.size]

    def mismatches(self) -> set[int]:
        """Return the positions of the records that do not have the shape."""
        found: set[int] = set()
        for at, byte in self.shape.fixed:
            column = self._columns[at] if at < len(self._columns) else self._column(at)
            if column.count(byte) != self.count:
                found.update([place for place, each in enumerate(column) if each != byte])
        return found

    def ids(self, at: int, count: int) -> list["array[int]"]:
        """Return `count` columns of ids, the first one at this offset."""
        return [self._ids("i", at + ID_BYTES * place) for place in range(count)]

    def are_equal(self, at: int, other_at: int, count: int) -> bool:
        """Return True if each record has the same bytes at these two offsets."""
        columns = self._columns
        return columns[at : at + count] == columns[other_at : other_at + count]

    def numbers(self) -> "array[int]":
        """Return the partition numbers; a negative one becomes very large."""
        return self._ids("I", _NUMBER_AT)

    def topics(self) -> bytes:
        """Return the topic ids, concatenated."""
        out = bytearray(UUID_BYTES * self.count)
        self.copy(_TOPIC_AT, out, 0, UUID_BYTES, UUID_BYTES)
        return bytes(out)

    def directories(self) -> Iterator[bytes]:
        """Yield all directories of the first record, then those of the next, and so on."""
        at, size, count = self.shape.directories_at, self.shape.size, self.shape.replicas
        assert at is not None
        data = memoryview(self.data)
        # Many records at a time are twice as fast.
        rest = size * (self.count // _READ_AT_ONCE * _READ_AT_ONCE)
        return chain(
            chain.from_iterable(_reader(at, count, size, _READ_AT_ONCE).iter_unpack(data[:rest])),
            chain.from_iterable(_reader(at, count, size, 1).iter_unpack(data[rest:])),
        )

    def copy(self, at: int, out: bytearray, to: int, stride: int, count: int) -> None:
        """Copy `count` bytes at `at` of each record to `to` in each stride of `out`."""
        for byte, column in enumerate(self._columns[at : at + count], to):
            out[byte::stride] = column

    def _ids(self, typecode: str, at: int) -> "array[int]":
        raw = bytearray(ID_BYTES * self.count)
        self.copy(at, raw, 0, ID_BYTES, ID_BYTES)
        return from_wire(typecode, raw)


@lru_cache
def _reader(at: int, ids: int, size: int, records: int) -> Struct:
    """Return a struct that unpacks the ids at `at` of several records of this size."""
    form = f"{at}x" + f"{UUID_BYTES}s" * ids + f"{size - at - UUID_BYTES * ids}x"
    return Struct(form * records)


def from_wire(typecode: str, raw: bytearray) -> "array[int]":
    """Return the numbers in bytes of a record's byte order."""
    column = array(typecode)
    column.frombytes(raw)
    if _SWAPS:
        column.byteswap()
    return column


@lru_cache
def _writer(replicas: int, in_sync: int) -> Struct:
    return Struct(f">3si16sB{replicas}iB{in_sync}iBBiii")


def encode_ordinary(
    version: int,
    number: int,
    topic_id: bytes,
    replicas: Replicas,
    isr: Replicas,
    leadership: tuple[BrokerId, int, int],
    directories: bytes,
) -> bytes:
    """Encode an ordinary partition; `leadership` is leader, leader epoch and partition epoch.

    `directories` are as many ids as replicas, or none; version 0 cannot carry any.
    """
    count, in_sync = len(replicas), len(isr)
    packed = _writer(count, in_sync).pack(
        PARTITION_FRAMES[version],
        number,
        topic_id,
        count + 1,
        *replicas,
        in_sync + 1,
        *isr,
        _NONE,
        _NONE,
        *leadership,
    )
    if not version:
        assert not directories, "version 0 of Partition cannot carry directories"
        return packed + b"\0"
    return b"".join((packed, _SIZES[count if directories else 0], directories, b"\0"))


_SIZES: Final = tuple(bytes((count + 1,)) for count in range(0x7F))
