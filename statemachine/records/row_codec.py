"""The row format of ordinary partitions, and the packing of many rows at once.

A row is a fixed-size block of bytes; `RowFormat` lists its fields. A *place* is the position of a
broker in the replica list of its partition.
"""

from array import array
from functools import lru_cache
from itertools import repeat
from struct import Struct, error
from typing import Any, Final, NamedTuple
from uuid import UUID

from pyroaring import BitMap

from statemachine.limits import DIRECTORIES_NUMBERED_MAX
from statemachine.records.shapes import ID_BYTES, UUID_BYTES, SameShapeRecords
from statemachine.vocabulary import NO_LEADER, BrokerId, Directories, Replicas

WIDTH_MAX: Final = 8
"""The most replicas that a row can hold."""

EPOCH_MAX: Final = (1 << 31) - 1
"""The highest epoch that a row has room for."""

NO_PLACE: Final = 0xFF
"""Fills up the places of an ISR that lacks some of the replicas."""

_FILLING: Final = bytes((NO_PLACE,))
_NUMBER_BYTES: Final = 2
_EPOCHS_AT: Final = 3
_PLACES_AT: Final = 11
_PLACES: Final = 5
FIRST_REPLICA: Final = 6
"""The index of the first replica among the fields of a row."""

DoesNotFit = error
"""Raised for a value that does not fit into a row."""

Fields = tuple[Any, ...]
"""The fields that `RowFormat.whole` unpacks."""

Split = tuple[bytes, int, int, bytes]
"""The fields that `RowFormat.split` unpacks."""


class RowFormat:
    """The format of a row for up to `width` replicas; big-endian, like records.

    The fields are: the number of replicas (0 if the partition is not a row), the place of the
    leader or -1, whether directories are known, the leader epoch, the partition epoch, the places
    of the ISR in its order, the replicas, the numbers of their directories.
    """

    __slots__ = (
        "first_number",
        "head",
        "in_order",
        "isr",
        "replicas_at",
        "size",
        "split",
        "tail",
        "whole",
        "width",
    )

    def __init__(self, width: int) -> None:
        self.width = width
        self.first_number = FIRST_REPLICA + width
        """The index of the first directory number among the fields."""
        self.whole = Struct(f">BbBii{width}s{width}i{width}H")
        self.size = self.whole.size
        self.head = Struct(f">BbBii{width}s")
        """The fields before the replicas."""
        self.tail = Struct(f">{width}i{width}H")
        """The replicas and the directory numbers, at `replicas_at`."""
        self.replicas_at = self.head.size
        self.isr = Struct(f">i{width}s")
        """The fields that a change of the ISR alone changes."""
        self.split = Struct(f">{_EPOCHS_AT}sii{self.size - _PLACES_AT}s")
        """The two epochs, and the bytes before and after them, which many rows share."""
        self.in_order = [bytes(range(count)).ljust(width, _FILLING) for count in range(width + 1)]
        """The places of a full ISR in replica order, by the number of replicas."""

    def places(self, replicas: Replicas, isr: Replicas) -> bytes | None:
        """Return the places of the ISR among the replicas, or None if it does not fit."""
        if isr is replicas or isr == replicas:
            return self.in_order[len(replicas)]
        if len(isr) > self.width:
            return None
        try:
            return bytes(map(replicas.index, isr)).ljust(self.width, _FILLING)
        except ValueError:
            return None

    def replicas_of(self, fields: Fields) -> Replicas:
        """Return the replicas of a row; none if it is void."""
        return fields[FIRST_REPLICA : FIRST_REPLICA + fields[0]]

    def isr_of(self, fields: Fields, replicas: Replicas) -> Replicas:
        """Return the ISR of a row."""
        places = fields[_PLACES]
        if places == self.in_order[len(replicas)]:
            return replicas
        return tuple([replicas[place] for place in places if place != NO_PLACE])

    def numbers_of(self, fields: Fields) -> Fields:
        """Return the directory numbers of a row; none if they are not known."""
        first = self.first_number
        return fields[first : first + fields[0]] if fields[2] else ()

    def isr_at(self, row_at: int) -> int:
        """Return the offset of `isr` in the row that begins there."""
        return row_at + _EPOCHS_AT + ID_BYTES

    @property
    def numbers_at(self) -> int:
        """Return the offset of the directory numbers in a row."""
        return self.replicas_at + ID_BYTES * self.width


ROW_FORMATS: Final = tuple(RowFormat(width) for width in range(WIDTH_MAX + 1))
_FORMATS_BY_SIZE: Final = {form.size: form for form in ROW_FORMATS}


def format_of(row: bytes) -> RowFormat:
    """Return the format of a row, by its size."""
    return _FORMATS_BY_SIZE[len(row)]


def place_of(leader: BrokerId, replicas: Replicas) -> int | None:
    """Return the place of the leader as a row has it, or None if it is not a replica."""
    if leader == replicas[0]:
        return 0
    if leader == NO_LEADER:
        return -1
    return replicas.index(leader) if leader in replicas else None


def widened(rows: bytearray, count: int, form: RowFormat, wider: RowFormat) -> bytearray:
    """Return `count` rows of one format in a format for more replicas."""
    head = _PLACES_AT + form.width
    filling = _FILLING * (wider.width - form.width)
    empty = (bytes(head) + filling).ljust(wider.size, b"\0")
    out = bytearray(empty * count)
    for at, to, length in (
        (0, 0, head),
        (form.replicas_at, wider.replicas_at, ID_BYTES * form.width),
        (form.numbers_at, wider.numbers_at, _NUMBER_BYTES * form.width),
    ):
        for byte in range(length):
            out[to + byte :: wider.size] = rows[at + byte :: form.size]
    return out


class DirectoryNumbers(dict[bytes, bytes]):
    """The numbers of directory ids in rows, by the bytes of the id; they are never released.

    A number is stored as its bytes in a row, because most numbers are only copied there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[UUID] = []
        """The ids by number."""
        self.raw: list[bytes] = []
        """The same ids as bytes."""
        self._by_value: dict[int, int] = {}

    def __missing__(self, raw: bytes) -> bytes:
        """Assign a number to the id with these bytes. Raises LookupError if none is left."""
        number = len(self.ids)
        if number >= DIRECTORIES_NUMBERED_MAX:
            raise LookupError(f"all {DIRECTORIES_NUMBERED_MAX} directory numbers are in use")
        id_ = UUID(bytes=raw)
        self.ids.append(id_)
        self.raw.append(raw)
        self._by_value[id_.int] = number
        said = self[raw] = number.to_bytes(_NUMBER_BYTES, "big")
        return said

    def of(self, directories: Directories) -> list[int] | None:
        """Return the numbers of these directories, or None if one can get none."""
        known = self._by_value
        try:
            # By their integers: the hash of a UUID is computed in Python.
            return [known[each.int] for each in directories]
        except KeyError:
            return self._given(directories)

    def _given(self, directories: Directories) -> list[int] | None:
        """Assign numbers where they are missing; otherwise like `of`."""
        try:
            return [int.from_bytes(self[each.bytes], "big") for each in directories]
        except LookupError:
            return None


class Rows(NamedTuple):
    """Rows of records of one shape, in their order."""

    form: RowFormat
    topics: bytes
    """The ids of their topics, concatenated."""
    numbers: "array[int]"
    rows: bytearray
    replicas: list["array[int]"]
    """The first replicas of all rows, then the second ones, and so on."""
    isr: list["array[int]"]
    leaders: "array[int]"
    are_whole: bool
    """Whether all have a full ISR in replica order and are led by the first replica."""

    def topic(self, at: int) -> bytes:
        """Return the topic id of the row at this position."""
        return self.topics[UUID_BYTES * at : UUID_BYTES * (at + 1)]

    def end_of_topic(self, at: int, end: int) -> int:
        """Return the first row from `at` on of another topic, and `end` at the latest."""
        topic = self.topic(at)
        if self.topics[UUID_BYTES * at : UUID_BYTES * end] == topic * (end - at):
            return end
        while self.topic(at) == topic:
            at += 1
        return at

    def are_numbered(self, begin: int, end: int, first: int) -> bool:
        """Return True if these rows are partitions with consecutive numbers from `first` on."""
        return self.numbers[begin:end] == rising(first, end - begin)


def rows_of(records: SameShapeRecords, directories: DirectoryNumbers) -> Rows | None:
    """Return the rows of records of one shape; None if one of them does not fit into a row."""
    shape = records.shape
    form = ROW_FORMATS[shape.replicas]
    replicas = records.ids(shape.replicas_at, shape.replicas)
    are_whole = _are_whole(records)
    isr = replicas if are_whole else records.ids(shape.isr_at, shape.in_sync)
    leaders = replicas[0] if are_whole else records.ids(shape.leader_at, 1)[0]
    rows = _blank(form, records)
    records.copy(shape.leader_at + ID_BYTES, rows, _EPOCHS_AT, form.size, 2 * ID_BYTES)
    records.copy(shape.replicas_at, rows, form.replicas_at, form.size, ID_BYTES * shape.replicas)
    if shape.directories_at is not None and not _number(rows, form, records, directories):
        return None
    if not are_whole and not _say_isr(rows, form, replicas, isr, leaders):
        return None
    return Rows(
        form,
        records.topics(),
        records.numbers(),
        rows,
        replicas,
        isr,
        leaders,
        are_whole,
    )


def _are_whole(records: SameShapeRecords) -> bool:
    """Return True if all have a full ISR in replica order and are led by the first replica."""
    shape = records.shape
    return (
        shape.in_sync == shape.replicas
        and records.are_equal(shape.replicas_at, shape.isr_at, ID_BYTES * shape.replicas)
        and records.are_equal(shape.replicas_at, shape.leader_at, ID_BYTES)
    )


def _blank(form: RowFormat, records: SameShapeRecords) -> bytearray:
    """Return as many rows with full ISRs and the first replica as leader."""
    has_directories = records.shape.directories_at is not None
    head = form.head.pack(form.width, 0, has_directories, 0, 0, form.in_order[form.width])
    return bytearray(head.ljust(form.size, b"\0") * records.count)


def _number(
    rows: bytearray, form: RowFormat, records: SameShapeRecords, directories: DirectoryNumbers
) -> bool:
    """Write the directories of the records; return False if one has no number."""
    try:
        raw = b"".join(map(directories.__getitem__, records.directories()))
    except LookupError:
        return False
    stride = _NUMBER_BYTES * form.width
    for byte in range(stride):
        rows[form.numbers_at + byte :: form.size] = raw[byte::stride]
    return True


def _say_isr(
    rows: bytearray,
    form: RowFormat,
    replicas: list["array[int]"],
    isr: list["array[int]"],
    leaders: "array[int]",
) -> bool:
    """Write the ISRs and leaders of the records; return False if one does not fit."""
    isrs = zip(*isr, strict=True) if isr else repeat((), len(leaders))
    for at, (members, in_sync, leader) in enumerate(
        zip(zip(*replicas, strict=True), isrs, leaders, strict=True)
    ):
        if in_sync == members and leader == members[0]:
            continue
        places, place = form.places(members, in_sync), place_of(leader, members)
        if places is None or place is None:
            return False
        row_at = at * form.size
        rows[row_at + 1] = place & 0xFF
        rows[row_at + _PLACES_AT : row_at + _PLACES_AT + form.width] = places
    return True


_BLOCK: Final = 1 << 16
_BLOCKS_REMEMBERED_MAX: Final = 4
"""A quarter of a megabyte each; the blocks of the last keys and the lowest numbers are in use."""


def rising(first: int, count: int) -> "array[int]":
    """Return the `count` numbers from `first` on."""
    block, at = divmod(first, _BLOCK)
    if at + count > _BLOCK:
        return array("I", range(first, first + count))
    return _block(block)[at : at + count]


@lru_cache(maxsize=_BLOCKS_REMEMBERED_MAX)
def _block(number: int) -> "array[int]":
    # A bitmap lists numbers in a hundredth of the time that `range` takes.
    return BitMap(range(number * _BLOCK, (number + 1) * _BLOCK)).to_array()
