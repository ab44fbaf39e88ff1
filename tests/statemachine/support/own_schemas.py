"""A second copy of the schemas of our own records, and kio's codec for them.

Shares nothing with the code that it is held against.
"""

import io
from typing import Any, Final

from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from msgspec import Struct

from statemachine.records import own_records
from tests.statemachine.support.kafka_schemas import Row, kio_class, nested, to_kio

LEFT: Final[list[Row]] = [
    ("completed", "int32"),
    ("cancelled", "int32"),
    ("superseded", "int32"),
    ("gone", "int32"),
]
OURS: Final[dict[type, tuple[int, list[Row]]]] = {
    own_records.MoveBegun: (
        10_000,
        [
            ("id", "int64"),
            ("kind", "int8"),
            ("who", "string"),
            ("asked_at_ms", "int64"),
            ("partitions", "int32"),
            ("refused", "int32"),
            ("name", "string", 0, 0, ""),
            ("key", "string", 0, 1, ""),
            ("fingerprint", "bytes", 0, 2, b""),
            ("throttle_bytes_per_s", "int64", 0, 3, 0),
            ("priority", "int32", 0, 4, 0),
            ("broker", "int32", 0, 5, None),
            ("rollback_of", "int64", 0, 6, 0),
        ],
    ),
    own_records.MovePart: (10_001, [("id", "int64"), ("part", "int32"), ("plan", "bytes")]),
    own_records.MoveChanged: (
        10_002,
        [
            ("id", "int64"),
            ("state", "int8"),
            ("since_ms", "int64"),
            ("reason", "string", 0, 0, ""),
            ("detail", "string", 0, 1, ""),
            ("who", "string", 0, 2, ""),
            ("throttle_bytes_per_s", "int64", 0, 3, None),
            ("priority", "int32", 0, 4, None),
            *((name, kind, 0, 5 + place, 0) for place, (name, kind) in enumerate(LEFT[1:])),
        ],
    ),
    own_records.MoveEnded: (
        10_003,
        [("id", "int64"), ("outcome", "int8"), ("at_ms", "int64"), *LEFT],
    ),
    own_records.MovesForgotten: (10_004, [("through", "int64")]),
    own_records.MovesPaused: (
        10_005,
        [("paused", "bool"), ("who", "string"), ("since_ms", "int64")],
    ),
    own_records.Remembered: (
        10_006,
        [
            ("key", "string"),
            ("fingerprint", "bytes"),
            ("kind", "string"),
            ("answer", "bytes"),
            ("at_ms", "int64"),
        ],
    ),
    own_records.KeysForgotten: (10_007, [("through_ms", "int64")]),
    own_records.ConfigOwned: (
        10_008,
        [
            ("move", "int64"),
            ("resource_type", "int8"),
            ("resource_name", "string"),
            ("name", "string"),
            ("previous", "string?"),
            ("owned", "int8"),
        ],
    ),
}
PLAN: Final[list[Row]] = [("topics", "[]planned_topic")]

nested(
    "planned_partition",
    own_records.PlannedPartition,
    [("number", "int32"), ("target", "[]int32"), ("original", "[]int32")],
)
nested(
    "planned_topic",
    own_records.PlannedTopic,
    [("topic_id", "uuid"), ("partitions", "[]planned_partition")],
)


def written(record: Struct) -> bytes:
    """The whole value of a log record that says this, frame included, written by kio."""
    tag, rows = OURS[type(record)]
    defaults = {row[0]: row[4] for row in rows if len(row) > 3}
    values = {row[0]: to_kio(getattr(record, row[0])) for row in rows}
    missing = (name for name, value in values.items() if value is None and name in defaults)
    values |= {name: defaults[name] for name in missing}
    shape = kio_class(type(record).__name__, rows, 0, EntityType.data)
    content = b"\x00" + _bytes_of(shape, shape(**values))
    return b"\x01\x14\x00\x01" + _uvarint(tag) + _uvarint(len(content)) + content


def written_plan(topics: tuple[own_records.PlannedTopic, ...]) -> bytes:
    """A plan as kio writes it: all of a structure with this one field but its last byte."""
    shape = kio_class("plan", PLAN, 0, EntityType.data)
    return _bytes_of(shape, shape(topics=to_kio(topics)))[:-1]


def _bytes_of(shape: Any, value: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(shape)(out, value)
    read, size = entity_reader(shape)(out.getvalue(), 0)
    assert (read, size) == (value, len(out.getvalue()))
    return out.getvalue()


def _uvarint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    return bytes((value & 0x7F | 0x80,)) + _uvarint(value >> 7)
