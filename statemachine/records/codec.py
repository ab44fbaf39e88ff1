"""Metadata records as bytes and back: Kafka's value frame around Kafka's schemas.

A value is: frame version 1, record type and record version as unsigned varints, then the body.
Nothing here knows what a record means. Reading is total but for bytes that are no record at all:
unknown types become `Unknown`, unknown tags are skipped. Source: `AbstractApiMessageSerde` and
`MetadataRecordSerde` of Kafka, KIP-482 for the flexible form.
"""

import struct
from functools import lru_cache
from typing import Any, Final, NamedTuple

from statemachine.limits import CHANGES_REMEMBERED_MAX
from statemachine.records import kafka_records, own_codec, partition_codec
from statemachine.records.own_records import OurRecord
from statemachine.records.primitives import (
    MalformedRecord,
    Reader,
    put_uvarint,
    read_fields,
    uuid_of,
    write_fields,
)
from statemachine.records.schemas import BY_SHAPE, BY_TYPE_ID
from statemachine.records.shapes import FRAME_VERSION, PARTITION_FRAMES

__all__ = [
    "CHANGE_FRAMES",
    "CHANGE_HEAD_BYTES",
    "TOPIC_ID_BYTES",
    "Change",
    "MalformedRecord",
    "change_of",
    "decode",
    "encode",
    "number_of",
]


CHANGE_FRAMES: Final = tuple(
    bytes((FRAME_VERSION, partition_codec.PARTITION_CHANGE_TYPE_ID, version))
    for version in range(partition_codec.NEWEST_VERSION + 1)
)
"""How the value of a PartitionChange begins, by the version of the record."""
TOPIC_ID_BYTES: Final = 16
_FRAME_BYTES: Final = 3
_TOPIC_FRAME: Final = bytes((FRAME_VERSION, BY_SHAPE[kafka_records.Topic].type_id, 0))
_NUMBER: Final = struct.Struct(">i")
CHANGE_HEAD_BYTES: Final = _FRAME_BYTES + _NUMBER.size + TOPIC_ID_BYTES
"""Of a PartitionChange: its frame, and the number and the topic of the partition it is about."""
_REMEMBERED_BYTES_MAX: Final = 384
"""A change of six replicas with their directories, that begins a step of a move, has 180."""
_NO_PARTITION: Final = bytes(CHANGE_HEAD_BYTES - _FRAME_BYTES)


def encode(record: kafka_records.Record, level: int) -> bytes:
    """The value of a log record that says `record`, as this level of metadata.version has it."""
    if isinstance(record, kafka_records.PartitionChange):
        version = partition_codec.version_at(level)
        return CHANGE_FRAMES[version] + partition_codec.encode_change(record, version)
    if isinstance(record, kafka_records.Partition):
        version = partition_codec.version_at(level)
        return PARTITION_FRAMES[version] + partition_codec.encode_partition(record, version)
    out = bytearray()
    if isinstance(record, kafka_records.Unknown):
        _put_frame(out, record.type_id, record.version)
        return bytes(out + record.body)
    if isinstance(record, OurRecord):
        _put_frame(out, own_codec.NO_OP_TYPE_ID, 0)
        return bytes(out) + own_codec.encode_ours(record)
    schema = BY_SHAPE[type(record)]
    version = schema.version(record, level)
    _put_frame(out, schema.type_id, version)
    write_fields(out, schema.fields, record, version)
    return bytes(out)


def _put_frame(out: bytearray, type_id: int, version: int) -> None:
    put_uvarint(out, FRAME_VERSION)
    put_uvarint(out, type_id)
    put_uvarint(out, version)


def decode(value: bytes | memoryview) -> kafka_records.Record:
    """The record that the value of a log record says. Raises MalformedRecord, with the reason."""
    data = bytes(value)
    try:
        return _decoded(data)
    except (IndexError, struct.error) as error:
        raise MalformedRecord(f"the record ends early, after {len(data)} bytes") from error
    except UnicodeDecodeError as error:
        raise MalformedRecord(f"a string is not UTF-8: {error.reason}") from error


class Change(NamedTuple):
    """The content of a PartitionChange without its partition."""

    change: kafka_records.PartitionChange
    """Its partition means nothing."""
    only_isr: bool
    """Whether it says an ISR, and nothing else."""


def change_of(value: bytes) -> Change:
    """Decode a value with one of the `CHANGE_FRAMES`. Raises MalformedRecord, as `decode`.

    A log of a million changes says the same few things again and again, of other partitions.
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


def _change(body: bytes) -> Change:
    change, end = partition_codec.decode_change(_NO_PARTITION + body, 0)
    if end != len(_NO_PARTITION) + len(body):
        raise MalformedRecord("the record is longer than its fields")
    only_isr = kafka_records.PartitionChange(
        partition_id=change.partition_id, topic_id=change.topic_id, isr=change.isr
    )
    return Change(change, change.isr is not None and change == only_isr)


_remembered_change = lru_cache(maxsize=CHANGES_REMEMBERED_MAX)(_change)


def _decoded(data: bytes) -> kafka_records.Record:
    record: Any
    if data[:3] in CHANGE_FRAMES:
        record, end = partition_codec.decode_change(data, 3)
    elif data[:3] in PARTITION_FRAMES:
        record, end = partition_codec.decode_partition(data, 3, data[2])
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
    """The topic that is said as nearly all are, a tenth of the time; None of anything else.

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
    schema = BY_TYPE_ID.get(type_id)
    if type_id in (partition_codec.PARTITION_TYPE_ID, partition_codec.PARTITION_CHANGE_TYPE_ID):
        raise MalformedRecord(_version_refused(type_id, version, partition_codec.NEWEST_VERSION))
    if schema is None:
        body = reader.take(len(reader.data) - reader.at)
        return kafka_records.Unknown(type_id=type_id, version=version, body=body)
    if version > schema.newest:
        # Ignoring it would let images drift apart in silence: its writer relies on its meaning.
        raise MalformedRecord(_version_refused(type_id, version, schema.newest))
    if type_id == own_codec.NO_OP_TYPE_ID:
        return own_codec.decode_ours(reader) or kafka_records.NoOp()
    return schema.shape(**read_fields(reader, schema.fields, version))


def _version_refused(type_id: int, version: int, newest: int) -> str:
    return f"version {version} of record type {type_id} is not known, only 0 to {newest}"
