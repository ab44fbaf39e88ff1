"""Partition (3) and PartitionChange (5) as bytes, by hand: they come by the million.

The classes are the schema here too: their annotations give the tags. Lists of up to 31 ids, which
is all that occurs in practice, are packed and unpacked in one call.
"""

from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from struct import Struct
from typing import Any, Final, NamedTuple

from msgspec import Struct as Value
from msgspec.structs import astuple

from statemachine.limits import UUIDS_REMEMBERED_MAX
from statemachine.records import kafka_records
from statemachine.records.primitives import (
    DIRECTORIES,
    I8,
    I16,
    I32,
    I64,
    IDS,
    Field,
    MalformedRecord,
    Reader,
    put_uvarint,
    schema_of,
    uuid_of,
)
from statemachine.vocabulary import Directories, Replicas

FRAME_VERSION: Final = 1
NEWEST_VERSION: Final = 2
CHANGE_FRAMES: Final = tuple(
    bytes((FRAME_VERSION, kafka_records.PartitionChange.API_KEY, version))
    for version in range(NEWEST_VERSION + 1)
)
"""How the value of a PartitionChange begins, by the version of the record."""
PARTITION_FRAMES: Final = tuple(
    bytes((FRAME_VERSION, kafka_records.Partition.API_KEY, version))
    for version in range(NEWEST_VERSION + 1)
)
"""The same of a Partition."""

_UNCHANGED: Final = {"leader": -2, "recovery": -1}
"""Values by which a PartitionChange may say explicitly that a field is unchanged."""

_SHORT: Final = 32
"""Lists shorter than this fit, as a tagged field, into a size of one byte."""

_UVARINTS_REMEMBERED_MAX: Final = 256

_HEAD: Final = Struct(">i16s")
_IDS: Final = tuple(Struct(f">B{count}i") for count in range(_SHORT))
_TAGGED_IDS: Final = tuple(Struct(f">BBB{count}i") for count in range(_SHORT))
_LEADERSHIP: Final = Struct(">iii")
_NUMBERS: Final = {I8: Struct(">b"), I16: Struct(">h"), I32: Struct(">i"), I64: Struct(">q")}

_ISR_END: Final = kafka_records.PartitionChange.__struct_fields__.index("isr") + 1
_NOTHING_ELSE: Final = (None,) * (len(kafka_records.PartitionChange.__struct_fields__) - _ISR_END)


def version_at(level: int) -> int:
    """The version of both records at a level of metadata.version: 1 has directories, 2 the ELR."""
    return 2 if level >= 23 else 1 if level >= 17 else 0


def encode_change(change: kafka_records.PartitionChange, version: int) -> bytes:
    """The value of a PartitionChange. A field that `version` lacks must not be set."""
    head = CHANGE_FRAMES[version] + _HEAD.pack(change.partition_id, change.topic_id.bytes)
    if change.isr is not None and astuple(change)[_ISR_END:] == _NOTHING_ELSE:
        # Most changes are of the ISR alone, and need not look for other fields.
        return head + b"\x01" + _tagged_ids(0, change.isr)
    return head + _CHANGE.packed(change, version)


def encode_partition(partition: kafka_records.Partition, version: int) -> bytes:
    """The value of a Partition. A field that `version` lacks must not be set."""
    directories = b""
    if version >= 1:
        directories = _packed_directories(partition.directories)
    else:
        assert not partition.directories, "version 0 of Partition cannot carry directories"
    parts = (
        PARTITION_FRAMES[version],
        _HEAD.pack(partition.partition_id, partition.topic_id.bytes),
        packed_ids(partition.replicas),
        packed_ids(partition.isr),
        packed_ids(partition.removing),
        packed_ids(partition.adding),
        _LEADERSHIP.pack(partition.leader, partition.leader_epoch, partition.partition_epoch),
        directories,
    )
    return b"".join((*parts, _PARTITION.packed(partition, version)))


def packed_ids(ids: Replicas) -> bytes:
    """A compact array of these ids."""
    count = len(ids)
    if count < _SHORT:
        return _IDS[count].pack(count + 1, *ids)
    return _uvarint(count + 1) + Struct(f">{count}i").pack(*ids)


def _tagged_ids(tag: int, ids: Replicas) -> bytes:
    count = len(ids)
    if count < _SHORT and tag < 0x80:
        return _TAGGED_IDS[count].pack(tag, 4 * count + 1, count + 1, *ids)
    return _tagged(tag, packed_ids(ids))


def _tagged_directories(tag: int, directories: Directories) -> bytes:
    return _tagged(tag, _packed_directories(directories))


def _tagged(tag: int, content: bytes) -> bytes:
    return _uvarint(tag) + _uvarint(len(content)) + content


def _packed_directories(directories: Directories) -> bytes:
    return _uvarint(len(directories) + 1) + b"".join([d.bytes for d in directories])


@lru_cache(maxsize=_UVARINTS_REMEMBERED_MAX)
def _uvarint(value: int) -> bytes:
    out = bytearray()
    put_uvarint(out, value)
    return bytes(out)


def _read_ids(data: bytes, at: int) -> tuple[Replicas | None, int]:
    """The ids from `at` on, None for null, and where they end."""
    first = data[at]
    if 0 < first <= _SHORT:
        form = _IDS[first - 1]
        return form.unpack_from(data, at)[1:], at + form.size
    reader = Reader(data, at)
    count = reader.uvarint() - 1
    if count < 0:
        return None, reader.at
    return Struct(f">{count}i").unpack(reader.take(4 * count)), reader.at


def _read_directories(data: bytes, at: int) -> tuple[Directories | None, int]:
    first = data[at]
    if 0 < first <= _SHORT:
        end = at + 1 + 16 * (first - 1)
        raw = data[at + 1 : end]
        if len(raw) != end - at - 1:
            raise MalformedRecord(f"{first - 1} directories do not fit after byte {at}")
        return _directories_of(raw), end
    reader = Reader(data, at)
    count = reader.uvarint() - 1
    if count < 0:
        return None, reader.at
    return _directories_of(reader.take(16 * count)), reader.at


@lru_cache(maxsize=UUIDS_REMEMBERED_MAX)
def _directories_of(raw: bytes) -> Directories:
    return tuple([uuid_of(raw[at : at + 16]) for at in range(0, len(raw), 16)])


def _read_uvarint(data: bytes, at: int) -> tuple[int, int]:
    low, high = data[at], data[at + 1]
    if low < 0x80:
        return low, at + 1
    if high < 0x80:
        return low & 0x7F | high << 7, at + 2
    reader = Reader(data, at)
    return reader.uvarint(), reader.at


class _TaggedField(NamedTuple):
    tag: int
    name: str
    since: int
    default: Any
    pack: Callable[[int, Any], bytes]
    """Returns the field with its tag and size."""
    read: Callable[[bytes, int], tuple[Any, int]]
    """Returns the value, None for "unchanged", and where it ends."""


def _tagged_field(field: Field, tag: int) -> _TaggedField:
    known = field.attribute, field.since, field.default
    if field.kind is IDS:
        return _TaggedField(tag, *known, _tagged_ids, _read_ids)
    if field.kind is DIRECTORIES:
        return _TaggedField(tag, *known, _tagged_directories, _read_directories)
    form = _NUMBERS[field.kind]
    unchanged = _UNCHANGED.get(field.attribute) if field.default is None else None

    def pack(tag: int, value: int) -> bytes:
        return _tagged(tag, form.pack(value))

    def read(data: bytes, at: int) -> tuple[int | None, int]:
        value = form.unpack_from(data, at)[0]
        return None if value == unchanged else value, at + form.size

    return _TaggedField(tag, *known, pack, read)


class _TaggedFields:
    """The tagged fields of one kind of record."""

    def __init__(self, shape: type[Value]) -> None:
        self._name = shape.__name__
        found = [(field, field.tag) for field in schema_of(shape)]
        self._fields = [_tagged_field(field, tag) for field, tag in found if tag is not None]
        self._packers = [(field.tag, field.pack, field.default) for field in self._fields]
        self._values = attrgetter(*(field.name for field in self._fields))
        self._by_tag = {field.tag: field for field in self._fields}
        self._last: tuple[Any, int, bytes] = None, 0, b""

    def packed(self, record: Any, version: int) -> bytes:
        """Return the number of the fields that are set, and each of them."""
        values = self._values(record)
        last_values, last_version, last = self._last
        # The changes of one command share their values, which are then equal by identity.
        if values == last_values and version == last_version:
            return last
        packed = self._packed(values, version)
        self._last = values, version, packed
        return packed

    def _packed(self, values: tuple[Any, ...], version: int) -> bytes:
        if version < NEWEST_VERSION:
            for field, value in zip(self._fields, values, strict=True):
                assert field.since <= version or value == field.default, (
                    f"version {version} of {self._name} cannot carry {field.name}"
                )
        found = [
            pack(tag, value)
            for (tag, pack, default), value in zip(self._packers, values, strict=True)
            if value != default
        ]
        return b"".join((bytes((len(found),)), *found))

    def read(self, data: bytes, at: int, values: dict[str, Any]) -> int:
        """Put the fields from `at` on into `values`, skip unknown ones; return where they end."""
        count = data[at]
        at += 1
        if count >= 0x80:
            raise MalformedRecord(f"at least {count} tagged fields are announced before byte {at}")
        for _ in range(count):
            tag, size = data[at], data[at + 1]
            at += 2
            if tag >= 0x80 or size >= 0x80:
                tag, at = _read_uvarint(data, at - 2)
                size, at = _read_uvarint(data, at)
            end = at + size
            field = self._by_tag.get(tag)
            if field is not None:
                value, at = field.read(data, at)
                if value is not None:
                    values[field.name] = value
                if at != end:
                    raise MalformedRecord(f"tag {tag} ({field.name}) is not as long as its value")
            at = end
        return at


_CHANGE: Final = _TaggedFields(kafka_records.PartitionChange)
_PARTITION: Final = _TaggedFields(kafka_records.Partition)


def decode_change(data: bytes, at: int) -> tuple[kafka_records.PartitionChange, int]:
    """The PartitionChange whose body begins at `at`, and where it ends."""
    partition_id, topic_id = _HEAD.unpack_from(data, at)
    values: dict[str, Any] = {}
    end = _CHANGE.read(data, at + _HEAD.size, values)
    topic = uuid_of(topic_id)
    return kafka_records.PartitionChange(partition_id=partition_id, topic_id=topic, **values), end


def decode_partition(data: bytes, at: int, version: int) -> tuple[kafka_records.Partition, int]:
    """The Partition whose body begins at `at`, and where it ends."""
    partition_id, topic_id = _HEAD.unpack_from(data, at)
    replicas, at = _read_ids(data, at + _HEAD.size)
    isr, at = _read_ids(data, at)
    removing, at = _read_ids(data, at)
    adding, at = _read_ids(data, at)
    if replicas is None or isr is None or removing is None or adding is None:
        raise MalformedRecord(f"a null list before byte {at}, where the schema has no null")
    leader, leader_epoch, partition_epoch = _LEADERSHIP.unpack_from(data, at)
    values: dict[str, Any] = {}
    at += _LEADERSHIP.size
    if version >= 1:
        directories, at = _read_directories(data, at)
        values["directories"] = directories or ()
    end = _PARTITION.read(data, at, values)
    partition = kafka_records.Partition(
        partition_id=partition_id,
        topic_id=uuid_of(topic_id),
        replicas=replicas,
        isr=isr,
        removing=removing,
        adding=adding,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        **values,
    )
    return partition, end
