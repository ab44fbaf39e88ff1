"""Facts for which Kafka has no record as NoOp records (20): each in a tagged field of its own.

Kafka's readers skip the field and see a NoOp. What is in it begins with the version of what
follows, a body in Kafka's flexible form. A version that is not known is refused, for ignoring it
would let images drift apart in silence; a tag that is not known is skipped, as everywhere.
"""

from struct import Struct
from typing import Any, Final, NamedTuple

from msgspec import Struct as Value

from statemachine.records import own_records
from statemachine.records.partition_codec import packed_ids
from statemachine.records.primitives import (
    BOOL,
    BYTES,
    I8,
    I32,
    I64,
    NULLABLE_STRING,
    STRING,
    UUID_KIND,
    Field,
    MalformedRecord,
    Reader,
    array,
    put_uvarint,
    read_fields,
    structure,
    write_fields,
)

NO_OP_TYPE_ID: Final = 20
PAYLOAD_VERSION: Final = 0
"""The only version so far, of each of them."""


_NUMBER: Final = Struct(">i")
_NO_TAGS: Final = b"\x00"


class Payload(NamedTuple):
    """The encoding of one extension record."""

    tag: int
    shape: type[Value]
    fields: tuple[Field, ...]


_IDS: Final = array(I32)
_PLAN: Final = array(
    structure(
        own_records.PlannedTopic,
        Field("topic_id", UUID_KIND),
        Field(
            "partitions",
            array(
                structure(
                    own_records.PlannedPartition,
                    Field("number", I32),
                    Field("target", _IDS),
                    Field("original", _IDS),
                )
            ),
        ),
    )
)
_BEGUN: Final = (
    Field("id", I64),
    Field("kind", I8),
    Field("who", STRING),
    Field("asked_at_ms", I64),
    Field("partitions", I32),
    Field("refused", I32),
    Field("name", STRING, tag=0, default=""),
    Field("key", STRING, tag=1, default=""),
    Field("fingerprint", BYTES, tag=2, default=b""),
    Field("throttle_bytes_per_s", I64, tag=3, default=0),
    Field("priority", I32, tag=4, default=0),
    Field("broker", I32, tag=5),
    Field("rollback_of", I64, tag=6, default=0),
)
_CHANGED: Final = (
    Field("id", I64),
    Field("state", I8),
    Field("since_ms", I64),
    Field("reason", STRING, tag=0, default=""),
    Field("detail", STRING, tag=1, default=""),
    Field("who", STRING, tag=2, default=""),
    Field("throttle_bytes_per_s", I64, tag=3),
    Field("priority", I32, tag=4),
    Field("cancelled", I32, tag=5, default=0),
    Field("superseded", I32, tag=6, default=0),
    Field("gone", I32, tag=7, default=0),
)
_ENDED: Final = (
    Field("id", I64),
    Field("outcome", I8),
    Field("at_ms", I64),
    Field("completed", I32),
    Field("cancelled", I32),
    Field("superseded", I32),
    Field("gone", I32),
)
_REMEMBERED: Final = (
    Field("key", STRING),
    Field("fingerprint", BYTES),
    Field("kind", STRING),
    Field("answer", BYTES),
    Field("at_ms", I64),
)
_OWNED: Final = (
    Field("move", I64),
    Field("resource_type", I8),
    Field("resource_name", STRING),
    Field("name", STRING),
    Field("previous", NULLABLE_STRING),
    Field("owned", I8),
)

_ALL: Final = (
    Payload(10_000, own_records.MoveBegun, _BEGUN),
    Payload(
        10_001,
        own_records.MovePart,
        (Field("id", I64), Field("part", I32), Field("plan", BYTES)),
    ),
    Payload(10_002, own_records.MoveChanged, _CHANGED),
    Payload(10_003, own_records.MoveEnded, _ENDED),
    Payload(10_004, own_records.MovesForgotten, (Field("through", I64),)),
    Payload(
        10_005,
        own_records.MovesPaused,
        (Field("paused", BOOL), Field("who", STRING), Field("since_ms", I64)),
    ),
    Payload(10_006, own_records.Remembered, _REMEMBERED),
    Payload(10_007, own_records.KeysForgotten, (Field("through_ms", I64),)),
    Payload(10_008, own_records.ConfigOwned, _OWNED),
)

PAYLOADS: Final[dict[type, Payload]] = {payload.shape: payload for payload in _ALL}
_BY_TAG: Final = {payload.tag: payload for payload in _ALL}


def encode_ours(record: own_records.OurRecord) -> bytes:
    """The body of a NoOp that says `record`."""
    payload = PAYLOADS[type(record)]
    content = bytearray((PAYLOAD_VERSION,))
    write_fields(content, payload.fields, record, PAYLOAD_VERSION)
    out = bytearray((1,))
    put_uvarint(out, payload.tag)
    put_uvarint(out, len(content))
    return bytes(out + content)


def decode_ours(reader: Reader) -> Any:
    """The fact that the body of a NoOp says, or None. Raises MalformedRecord."""
    found = None
    for _ in range(reader.uvarint()):
        payload = _BY_TAG.get(reader.uvarint())
        content = Reader(reader.take(reader.uvarint()))
        if payload is None:
            continue
        if found is not None:
            raise MalformedRecord(f"a second fact of ours is before byte {reader.at}")
        found = _fact(payload, content)
    return found


def _fact(payload: Payload, content: Reader) -> Any:
    name = payload.shape.__name__
    version = content.uvarint()
    if version != PAYLOAD_VERSION:
        raise MalformedRecord(f"version {version} of {name} is not known, only {PAYLOAD_VERSION}")
    fact = payload.shape(**read_fields(content, payload.fields, version))
    if content.at != len(content.data):
        raise MalformedRecord(f"tag {payload.tag} ({name}) is longer than its value")
    return fact


def plan_bytes(topics: tuple[own_records.PlannedTopic, ...]) -> bytes:
    """A plan as `MovePart` has it; by hand, for they come by the hundred thousand."""
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
