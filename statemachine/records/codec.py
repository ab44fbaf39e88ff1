"""Metadata records as bytes and back: Kafka's value frame around Kafka's schemas.

A value is: frame version 1, record type and record version as unsigned varints, then the body.
Nothing here knows what a record means. Reading is total but for bytes that are no record at all:
unknown types become `Unknown`, unknown tags are skipped. Source: `AbstractApiMessageSerde` and
`MetadataRecordSerde` of Kafka, KIP-482 for the flexible form.

A record that Kafka does not have is a NoOp with one tagged field, which Kafka's readers skip. The
field begins with the version of its body, which has Kafka's flexible form. An unknown version is
refused: ignoring it would let images diverge in silence.
"""

import struct
from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, TypeAlias, get_args
from uuid import UUID

from msgspec import Struct

from statemachine.limits import CHANGES_REMEMBERED_MAX
from statemachine.records import kafka_records, own_records
from statemachine.records.partition_codec import (
    CHANGE_FRAMES,
    FRAME_VERSION,
    PARTITION_FRAMES,
    decode_change,
    decode_partition,
    encode_change,
    encode_partition,
    packed_ids,
    version_at,
)
from statemachine.records.primitives import (
    MalformedRecord,
    Reader,
    kind_of,
    put_uvarint,
    read_fields,
    schema_of,
    uuid_of,
    write_fields,
)

OWN_RECORDS: Final[dict[int, type[Struct]]] = {
    shape.TAG: shape for shape in get_args(own_records.OurRecord)
}
"""By the tag of the field of a NoOp."""
KAFKA_RECORDS: Final[dict[int, type[Struct]]] = {
    shape.API_KEY: shape
    for shape in get_args(kafka_records.Record)
    if shape not in OWN_RECORDS.values() and shape is not kafka_records.Unknown
}
"""By the type of the record."""
_NEWEST_VERSIONS: Final = {
    api_key: max((field.since for field in schema_of(shape)), default=0)
    for api_key, shape in KAFKA_RECORDS.items()
}
PAYLOAD_VERSION: Final = 0
"""The only version so far of each record of ours."""

TOPIC_ID_BYTES: Final = 16
_FRAME_BYTES: Final = 3
_TOPIC_FRAME: Final = bytes((FRAME_VERSION, kafka_records.Topic.API_KEY, 0))
_NUMBER: Final = struct.Struct(">i")
CHANGE_HEAD_BYTES: Final = _FRAME_BYTES + _NUMBER.size + TOPIC_ID_BYTES
"""Of a PartitionChange: its frame, and the number and the topic of the partition it is about."""
_REMEMBERED_BYTES_MAX: Final = 384
"""A change of six replicas with their directories, that begins a step of a move, has 180."""
_NO_PARTITION: Final = bytes(CHANGE_HEAD_BYTES - _FRAME_BYTES)
_NO_TAGS: Final = b"\x00"


def encode(record: kafka_records.Record, level: int) -> bytes:
    """The value of a log record that says `record`, as this level of metadata.version has it."""
    if isinstance(record, kafka_records.PartitionChange):
        return encode_change(record, version_at(level))
    if isinstance(record, kafka_records.Partition):
        return encode_partition(record, version_at(level))
    if isinstance(record, kafka_records.Unknown):
        return bytes(_framed(record.type_id, record.version) + record.body)
    if isinstance(record, own_records.OurRecord):
        return _encode_own(record)
    version = _version(record, level)
    out = _framed(record.API_KEY, version)
    write_fields(out, record, version)
    return bytes(out)


def _version(record: kafka_records.Record, level: int) -> int:
    """Return the version to write at this level of metadata.version."""
    match record:
        case kafka_records.RegisterBroker():
            return 3 if level >= 17 else 2 if level >= 8 else 1 if level >= 7 else 0
        case kafka_records.BrokerRegistrationChange():
            return 2 if record.log_dirs else 1 if record.in_controlled_shutdown else 0
        case _:
            return 0


def _framed(api_key: int, version: int) -> bytearray:
    out = bytearray()
    for each in (FRAME_VERSION, api_key, version):
        put_uvarint(out, each)
    return out


def _encode_own(record: own_records.OurRecord) -> bytes:
    content = bytearray((PAYLOAD_VERSION,))
    write_fields(content, record, PAYLOAD_VERSION)
    out = _framed(kafka_records.NoOp.API_KEY, 0)
    for each in (1, record.TAG, len(content)):
        put_uvarint(out, each)
    return bytes(out + content)


def decode(value: bytes | memoryview) -> kafka_records.Record:
    """The record that the value of a log record says. Raises MalformedRecord, with the reason."""
    data = bytes(value)
    try:
        return _decoded(data)
    except (IndexError, struct.error) as error:
        raise MalformedRecord(f"the record ends early, after {len(data)} bytes") from error
    except UnicodeDecodeError as error:
        raise MalformedRecord(f"a string is not UTF-8: {error.reason}") from error


def change_of(value: bytes) -> kafka_records.PartitionChange:
    """Decode a value with one of the `CHANGE_FRAMES`; the result names no partition and topic.

    A log of a million changes says the same few things again and again, of other partitions.
    Raises MalformedRecord, as `decode`.
    """
    body = value[CHANGE_HEAD_BYTES:]
    try:
        return _change(body) if len(body) > _REMEMBERED_BYTES_MAX else _remembered_change(body)
    except (IndexError, struct.error, MalformedRecord):
        # What is wrong, and where, is to be said of the whole of it.
        decode(value)
        raise


def number_of(head: bytes) -> int:
    """The number of the partition that a PartitionChange with this head is about."""
    number: int = _NUMBER.unpack_from(head, _FRAME_BYTES)[0]
    return number


def _change(body: bytes) -> kafka_records.PartitionChange:
    change, end = decode_change(_NO_PARTITION + body, 0)
    if end != len(_NO_PARTITION) + len(body):
        raise MalformedRecord("the record is longer than its fields")
    return change


_remembered_change = lru_cache(maxsize=CHANGES_REMEMBERED_MAX)(_change)


def _decoded(data: bytes) -> kafka_records.Record:
    record: Any
    if data[:3] in CHANGE_FRAMES:
        record, end = decode_change(data, 3)
    elif data[:3] in PARTITION_FRAMES:
        record, end = decode_partition(data, 3, data[2])
    else:
        record = _topic(data)
        if record is not None:
            return record  # type: ignore[no-any-return]
        reader = Reader(data)
        record = _by_schema(reader)
        end = reader.at
    if end != len(data):
        raise MalformedRecord(f"the record is over at byte {end} of {len(data)}")
    return record  # type: ignore[no-any-return]


def _topic(data: bytes) -> kafka_records.Topic | None:
    """Decode a topic of the usual form, in a tenth of the time; None of anything else.

    A snapshot may hold tens of thousands. What is wrong with one is left to the schema to say.
    """
    if not data.startswith(_TOPIC_FRAME) or len(data) == _FRAME_BYTES:
        return None
    name_at = _FRAME_BYTES + 1
    id_at = name_at + data[_FRAME_BYTES] - 1
    # A longer name has a longer size; behind the id are no tags.
    if not name_at < id_at <= name_at + 0x7E or data[id_at + TOPIC_ID_BYTES :] != b"\0":
        return None
    name = data[name_at:id_at].decode()
    return kafka_records.Topic(name=name, topic_id=uuid_of(data[id_at : id_at + TOPIC_ID_BYTES]))


def _by_schema(reader: Reader) -> Any:
    frame, type_id, version = reader.uvarint(), reader.uvarint(), reader.uvarint()
    if frame != FRAME_VERSION:
        raise MalformedRecord(f"frame version {frame} is not known, only {FRAME_VERSION}")
    shape = KAFKA_RECORDS.get(type_id)
    if shape is None:
        body = reader.take(len(reader.data) - reader.at)
        return kafka_records.Unknown(type_id=type_id, version=version, body=body)
    newest = _NEWEST_VERSIONS[type_id]
    # The partition records have codecs of their own, by the first bytes of the value.
    has_codec = shape in (kafka_records.Partition, kafka_records.PartitionChange)
    if version > newest or has_codec:
        # Ignoring it would let images diverge in silence: its writer relies on its meaning.
        raise MalformedRecord(
            f"version {version} of record type {type_id} is not known, only 0 to {newest}"
        )
    if shape is kafka_records.NoOp:
        return _decode_own(reader) or kafka_records.NoOp()
    return read_fields(reader, shape, version)


def _decode_own(reader: Reader) -> Any:
    """Decode the tagged fields of a NoOp: the record of ours, or None."""
    found = None
    for _ in range(reader.uvarint()):
        tag = reader.uvarint()
        shape = OWN_RECORDS.get(tag)
        content = Reader(reader.take(reader.uvarint()))
        if shape is None:
            continue
        if found is not None:
            raise MalformedRecord(f"a second fact of ours is before byte {reader.at}")
        name, version = shape.__name__, content.uvarint()
        if version != PAYLOAD_VERSION:
            raise MalformedRecord(
                f"version {version} of {name} is not known, only {PAYLOAD_VERSION}"
            )
        found = read_fields(content, shape, version)
        if content.at != len(content.data):
            raise MalformedRecord(f"tag {tag} ({name}) is longer than its value")
    return found


def plan_bytes(topics: tuple[own_records.PlannedTopic, ...]) -> bytes:
    """The `plan` of a `MovePart`. Packed by hand: planned partitions come by the hundred thousand.

    The bytes are those of the schema of `PlannedTopic`.
    """
    out = bytearray()
    put_uvarint(out, len(topics) + 1)
    for topic in topics:
        out += topic.topic_id.bytes
        put_uvarint(out, len(topic.partitions) + 1)
        for each in topic.partitions:
            out += _NUMBER.pack(each.number)
            out += packed_ids(each.target)
            out += packed_ids(each.original)
            out += _NO_TAGS
        out += _NO_TAGS
    return bytes(out)


def plan_of(plan: bytes) -> tuple[own_records.PlannedTopic, ...]:
    """Decode the output of `plan_bytes`. Raises MalformedRecord."""
    reader = Reader(plan)
    topics: tuple[own_records.PlannedTopic, ...] = _PLAN.read(reader)
    if reader.at != len(plan):
        raise MalformedRecord(f"the plan is over at byte {reader.at} of {len(plan)}")
    return topics


_PLAN: Final = kind_of(tuple[own_records.PlannedTopic, ...])

_HEAD: Final = struct.Struct(f">{_FRAME_BYTES}si16s")
"""Frame, number and topic, with which the values of both kinds of partition records begin."""

assert _HEAD.size == CHANGE_HEAD_BYTES

_APART: Final = frozenset({"partition_id", "topic_id", "directories"})
"""Fields that are not looked up. Directory ids are slow to hash: they are compared instead."""


def _content_getter(shape: type[Struct]) -> Callable[[Any], Any]:
    return attrgetter(*(name for name in shape.__struct_fields__ if name not in _APART))


_CONTENTS: Final = {
    shape: _content_getter(shape)
    for shape in (kafka_records.Partition, kafka_records.PartitionChange)
}

_Known: TypeAlias = tuple[Any, bytes, bytes]
"""Directories, and the bytes before and after number and topic."""


class BatchEncoder:
    """Encodes the records of one decision, each as `encode` does; repeated parts only once.

    Of a thousand changes most differ only in their partition, which stands at the beginning of the
    value. The rest is remembered for the duration of the decision.
    """

    __slots__ = ("_known", "_level", "_raw_id", "_topic_id")

    def __init__(self, level: int) -> None:
        self._level = level
        self._known: dict[type, dict[Any, _Known]] = {shape: {} for shape in _CONTENTS}
        self._topic_id: UUID | None = None
        self._raw_id = b""

    def encode(self, record: kafka_records.Record) -> bytes:
        """Encode one record."""
        if not isinstance(record, (kafka_records.PartitionChange, kafka_records.Partition)):
            return encode(record, self._level)
        shape = type(record)
        content, known_of = _CONTENTS[shape](record), self._known[shape]
        known = known_of.get(content)
        if known is None or known[0] != record.directories:
            value = encode(record, self._level)
            known_of[content] = (
                record.directories,
                value[:_FRAME_BYTES],
                value[CHANGE_HEAD_BYTES:],
            )
            return value
        if record.topic_id is not self._topic_id:
            self._topic_id, self._raw_id = record.topic_id, record.topic_id.bytes
        return _HEAD.pack(known[1], record.partition_id, self._raw_id) + known[2]
