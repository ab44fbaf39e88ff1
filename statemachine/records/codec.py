"""Metadata records as bytes and back: Kafka's value frame around Kafka's schemas.

A value is: frame version 1, record type and record version as unsigned varints, then the body.
Unknown record types are decoded as `Unknown`, unknown tags are skipped, and malformed bytes raise
`MalformedRecord`. Source: `AbstractApiMessageSerde` and `MetadataRecordSerde` of Kafka; KIP-482 for
the flexible form.

A record that Kafka does not have is a NoOp with one tagged field, which Kafka's readers skip. The
field begins with the version of its body, which has Kafka's flexible form. An unknown version is
refused: ignoring it would let images diverge in silence.
"""

import struct
from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple, get_args

from msgspec import Struct

from statemachine.limits import CHANGES_REMEMBERED_MAX
from statemachine.records import kafka_records, own_records
from statemachine.records.primitives import (
    MalformedRecord,
    kind_of,
    layout,
    read_uvarint,
    schema_of,
    uvarint,
)
from statemachine.vocabulary import (
    LEVEL_CORDONED_DIRECTORIES,
    LEVEL_DIRECTORIES,
    LEVEL_ELR,
    LEVEL_STOPPING_BROKERS,
    LEVEL_ZK_MIGRATION,
    Directories,
)

OWN_RECORDS: Final[dict[int, type[Struct]]] = {
    shape.TAG: shape for shape in get_args(own_records.OurRecord)
}
"""The records of this project, by the tag of their field in a NoOp."""
OWN_TAGS: Final = range(10_000, 11_000)
"""The tags that are kept for records of this project; others are Kafka's, and skipped."""
KAFKA_RECORDS: Final[dict[int, type[Struct]]] = {
    shape.API_KEY: shape
    for shape in get_args(kafka_records.Record)
    if shape not in OWN_RECORDS.values() and shape is not kafka_records.Unknown
}
"""Kafka's records, by their type."""
_NEWEST_VERSIONS: Final = {
    api_key: max((field.since for field in schema_of(shape)), default=0)
    for api_key, shape in KAFKA_RECORDS.items()
}
PAYLOAD_VERSION: Final = 0
"""The only version so far of each record of this project."""

FRAME_VERSION: Final = 1
_FRAME_BYTES: Final = 3
_FRAMES: Final = {
    (type_id, version): bytes((FRAME_VERSION, type_id, version))
    for type_id, newest in _NEWEST_VERSIONS.items()
    for version in range(newest + 1)
}
_LAYOUTS: Final = {
    frame: layout(KAFKA_RECORDS[type_id], version) for (type_id, version), frame in _FRAMES.items()
}
"""The layout of the body after each frame."""


def _frames_of(type_id: int) -> tuple[bytes, ...]:
    return tuple(frame for (each, _), frame in _FRAMES.items() if each == type_id)


CHANGE_FRAMES: Final = _frames_of(kafka_records.PartitionChange.API_KEY)
"""The frames of a PartitionChange, by the version of the record."""
PARTITION_FRAMES: Final = _frames_of(kafka_records.Partition.API_KEY)
"""The frames of a Partition, by the version of the record."""

TOPIC_ID_BYTES: Final = 16
_NUMBER: Final = struct.Struct(">i")
CHANGE_HEAD_BYTES: Final = _FRAME_BYTES + _NUMBER.size + TOPIC_ID_BYTES
"""The size of the head of a PartitionChange: its frame, partition number and topic."""
_REMEMBERED_BYTES_MAX: Final = 384
"""A change of six replicas with their directories that begins a step has 180."""
_NO_PARTITION: Final = bytes(CHANGE_HEAD_BYTES - _FRAME_BYTES)
_HEAD: Final = struct.Struct(f">{_FRAME_BYTES}si16s")
"""Frame, number and topic: the head of Partition and PartitionChange."""

assert _HEAD.size == CHANGE_HEAD_BYTES

_COMPARED: Final = frozenset({"partition_id", "topic_id", "directories"})
"""Fields that are not part of the key. Directory ids are slow to hash, so they are compared."""


def _content_getter(shape: type[Struct]) -> Callable[[Any], Any]:
    return attrgetter(*(name for name in shape.__struct_fields__ if name not in _COMPARED))


class _PartitionMemo(NamedTuple):
    """The encoded contents of one version of Partition or PartitionChange."""

    frame: bytes
    content: Callable[[Any], Any]
    """Returns the key of a record."""
    encoded: dict[Any, tuple[Directories | None, bytes]]
    """The directories, and the bytes after number and topic, by key."""


_MEMOS: Final[dict[type, list[_PartitionMemo]]] = {
    shape: [_PartitionMemo(frame, _content_getter(shape), {}) for frame in frames]
    for shape, frames in (
        (kafka_records.PartitionChange, CHANGE_FRAMES),
        (kafka_records.Partition, PARTITION_FRAMES),
    )
}


class Frame(NamedTuple):
    """The header before the body of a metadata record."""

    type_id: int
    version: int


def encode(record: kafka_records.Record, level: int) -> bytes:
    """Encode `record` in its version at this level of metadata.version."""
    memos = _MEMOS.get(type(record))
    if memos is not None:
        return _encode_partition(record, memos[partition_version(level)])
    if isinstance(record, kafka_records.Unknown):
        header = (FRAME_VERSION, record.type_id, record.version)
        return b"".join(map(uvarint, header)) + record.body
    if isinstance(record, own_records.OurRecord):
        return _encode_own(record)
    frame = _FRAMES[record.API_KEY, _version(record, level)]
    return frame + _LAYOUTS[frame].pack(record)


def _encode_partition(record: Any, memo: _PartitionMemo) -> bytes:
    """Encode a record of a partition. Most of a thousand differ only in number and topic."""
    frame, content_of, encoded = memo
    content = content_of(record)
    known = encoded.get(content)
    if known is None or known[0] != record.directories:
        if len(encoded) >= CHANGES_REMEMBERED_MAX:
            encoded.clear()
        rest = _LAYOUTS[frame].pack(record)[len(_NO_PARTITION) :]
        encoded[content] = known = record.directories, rest
    return _HEAD.pack(frame, record.partition_id, record.topic_id.bytes) + known[1]


def _version(record: kafka_records.Record, level: int) -> int:
    """Return the version to write at this level of metadata.version."""
    match record:
        case kafka_records.RegisterBroker():
            return sum(level >= each for each in _REGISTER_BROKER_LEVELS)
        case kafka_records.BrokerRegistrationChange():
            if record.cordoned_log_dirs is not None:
                return 3
            return 2 if record.log_dirs else 1 if record.in_controlled_shutdown else 0
        case _:
            return 0


_REGISTER_BROKER_LEVELS: Final = (
    LEVEL_STOPPING_BROKERS,
    LEVEL_ZK_MIGRATION,
    LEVEL_DIRECTORIES,
    LEVEL_CORDONED_DIRECTORIES,
)
"""The levels that each begin a version of RegisterBroker, from version 1 on."""


def partition_version(level: int) -> int:
    """Return the version of Partition and PartitionChange: 1 has directories, 2 the ELR."""
    return 2 if level >= LEVEL_ELR else 1 if level >= LEVEL_DIRECTORIES else 0


def _encode_own(record: own_records.OurRecord) -> bytes:
    body = layout(type(record), PAYLOAD_VERSION).pack(record)
    content = bytes((PAYLOAD_VERSION,)) + body
    return b"".join((_NO_OP, b"\1", uvarint(record.TAG), uvarint(len(content)), content))


_NO_OP: Final = _FRAMES[kafka_records.NoOp.API_KEY, 0]


def decode(value: bytes | memoryview) -> kafka_records.Record:
    """Decode the value of a log record. Raises MalformedRecord with the reason."""
    data = bytes(value)
    try:
        record, end = _decoded(data)
    except (IndexError, struct.error) as error:
        raise MalformedRecord(f"the record ends early, after {len(data)} bytes") from error
    except UnicodeDecodeError as error:
        raise MalformedRecord(f"a string is not UTF-8: {error.reason}") from error
    if end != len(data):
        raise MalformedRecord(f"the record ends at byte {end} of {len(data)}")
    return record  # type: ignore[no-any-return]


def frame_of(value: bytes) -> Frame:
    """Return the frame of a record's value. Raises MalformedRecord if it has none."""
    try:
        return _framed(value)[0]
    except IndexError as error:
        raise MalformedRecord(f"the record ends early, after {len(value)} bytes") from error


def _framed(data: bytes) -> tuple[Frame, int]:
    """Return the frame and the offset of the body."""
    frame_version, at = read_uvarint(data, 0)
    if frame_version != FRAME_VERSION:
        raise MalformedRecord(f"frame version {frame_version} is not known, only {FRAME_VERSION}")
    type_id, at = read_uvarint(data, at)
    version, at = read_uvarint(data, at)
    return Frame(type_id, version), at


def _decoded(data: bytes) -> tuple[Any, int]:
    """Return the record and the offset of its end."""
    frame = data[:_FRAME_BYTES]
    if frame in _LAYOUTS and frame != _NO_OP:
        return _LAYOUTS[frame].read(data, _FRAME_BYTES)
    (type_id, version), at = _framed(data)
    shape = KAFKA_RECORDS.get(type_id)
    if shape is None:
        unknown = kafka_records.Unknown(type_id=type_id, version=version, body=data[at:])
        return unknown, len(data)
    newest = _NEWEST_VERSIONS[type_id]
    if version > newest:
        # Ignoring it would let images diverge in silence.
        raise MalformedRecord(
            f"version {version} of record type {type_id} ({shape.__name__}) is not known, only 0 to"
            f" {newest}"
        )
    if shape is kafka_records.NoOp:
        return _decode_own(data, at)
    return layout(shape, version).read(data, at)


def _decode_own(data: bytes, at: int) -> tuple[Any, int]:
    """Decode the tagged fields of a NoOp: a record of this project, or an empty NoOp."""
    found = None
    count, at = read_uvarint(data, at)
    for _ in range(count):
        tag, at = read_uvarint(data, at)
        size, at = read_uvarint(data, at)
        end = at + size
        shape = OWN_RECORDS.get(tag)
        if shape is not None:
            if found is not None:
                raise MalformedRecord(f"a NoOp has a second record in it, before byte {end}")
            name = shape.__name__
            version, at = read_uvarint(data, at)
            if version != PAYLOAD_VERSION:
                raise MalformedRecord(
                    f"version {version} of {name} is not known, only {PAYLOAD_VERSION}"
                )
            found, at = layout(shape, version).read(data, at)
            if at != end:
                raise MalformedRecord(f"tag {tag} ({name}) is not as long as its value")
        elif tag in OWN_TAGS:
            # Ignoring it would let images diverge in silence.
            raise MalformedRecord(f"tag {tag} of a NoOp is not known, a record of metaquorum")
        at = end
    return found or kafka_records.NoOp(), at


def change_of(value: bytes) -> kafka_records.PartitionChange:
    """Decode a value with one of the `CHANGE_FRAMES`; the result names no partition and topic.

    A log of a million changes has the same few contents for many partitions. Raises
    MalformedRecord, like `decode`.
    """
    body = value[CHANGE_HEAD_BYTES:]
    try:
        return _change(body) if len(body) > _REMEMBERED_BYTES_MAX else _remembered_change(body)
    except (IndexError, struct.error, MalformedRecord):
        # The error must name the offset in the whole record.
        decode(value)
        raise


def number_of(head: bytes) -> int:
    """Return the partition number in the head of a PartitionChange."""
    number: int = _NUMBER.unpack_from(head, _FRAME_BYTES)[0]
    return number


def _change(body: bytes) -> kafka_records.PartitionChange:
    change: kafka_records.PartitionChange
    change, end = _CHANGE.read(_NO_PARTITION + body, 0)
    if end != len(_NO_PARTITION) + len(body):
        raise MalformedRecord("the record is longer than its fields")
    return change


_CHANGE: Final = _LAYOUTS[CHANGE_FRAMES[-1]]
"""Reads every version of a PartitionChange: an older one only lacks fields."""

_remembered_change = lru_cache(maxsize=CHANGES_REMEMBERED_MAX)(_change)


def plan_bytes(topics: tuple[own_records.PlannedTopic, ...]) -> bytes:
    """Encode the `plan` of a `MovePart`."""
    return _PLAN.pack(topics)


def plan_of(plan: bytes) -> tuple[own_records.PlannedTopic, ...]:
    """Decode the output of `plan_bytes`. Raises MalformedRecord."""
    topics: tuple[own_records.PlannedTopic, ...]
    try:
        topics, end = _PLAN.read(plan, 0)
    except (IndexError, struct.error) as error:
        raise MalformedRecord(f"the plan ends early, after {len(plan)} bytes") from error
    if end != len(plan):
        raise MalformedRecord(f"the plan ends at byte {end} of {len(plan)}")
    return topics


_PLAN: Final = kind_of(tuple[own_records.PlannedTopic, ...])
