"""A parser of metadata records: tables of Kafka's schemas, and no code of the product.

Only the records that a check needs are in the tables; others get an empty type.
Unknown tags are kept under their number, as bytes.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

_BROKER: Final = {"broker_id": "i32", "broker_epoch": "i64"}
_OURS: Final = {
    10_000: ("target", "ids"),
    10_001: ("original", "ids"),
    10_002: ("base", "ids"),
    10_003: ("move", "i64"),
    10_004: ("step", "i16"),
    10_005: ("since_ms", "i64"),
}


class Layout(NamedTuple):
    """The layout of one record type: fields in order, "name@2" since version 2, and tags."""

    name: str
    fields: Mapping[str, str] = {}
    tags: Mapping[int, tuple[str, str]] = {}


LAYOUTS: Final[Mapping[int, Layout]] = {
    0: Layout(
        "RegisterBroker",
        {
            "broker_id": "i32",
            "is_migrating_zk_broker@2": "i8",
            "incarnation_id": "uuid",
            "broker_epoch": "i64",
            "endpoints": "endpoints",
            "features": "features",
            "rack": "text",
            "fenced": "i8",
            "in_controlled_shutdown@1": "i8",
        },
    ),
    1: Layout("UnregisterBroker", _BROKER),
    2: Layout("Topic", {"name": "text", "topic_id": "uuid"}),
    3: Layout(
        "Partition",
        {
            "partition_id": "i32",
            "topic_id": "uuid",
            "replicas": "ids",
            "isr": "ids",
            "removing": "ids",
            "adding": "ids",
            "leader": "i32",
            "leader_epoch": "i32",
            "partition_epoch": "i32",
            "directories@1": "uuids",
        },
        {0: ("recovery", "i8"), 1: ("elr", "ids"), 2: ("last_known_elr", "ids"), **_OURS},
    ),
    4: Layout(
        "Config",
        {"resource_type": "i8", "resource_name": "text", "name": "text", "value": "text"},
    ),
    5: Layout(
        "PartitionChange",
        {"partition_id": "i32", "topic_id": "uuid"},
        {
            0: ("isr", "ids"),
            1: ("leader", "i32"),
            2: ("replicas", "ids"),
            3: ("removing", "ids"),
            4: ("adding", "ids"),
            5: ("recovery", "i8"),
            6: ("elr", "ids"),
            7: ("last_known_elr", "ids"),
            **_OURS,
        },
    ),
    7: Layout("FenceBroker", _BROKER),
    8: Layout("UnfenceBroker", _BROKER),
    9: Layout("RemoveTopic", {"topic_id": "uuid"}),
    12: Layout("FeatureLevel", {"name": "text", "level": "i16"}),
    17: Layout(
        "BrokerRegistrationChange",
        _BROKER,
        {0: ("fenced", "i8"), 1: ("in_controlled_shutdown", "i8")},
    ),
    20: Layout("NoOp"),
    23: Layout("BeginTransaction"),
    24: Layout("EndTransaction"),
    25: Layout("AbortTransaction"),
    28: Layout("ClearElr", {"topic_name": "text"}),
}


class ParsedRecord(NamedTuple):
    """One committed record."""

    offset: int
    type: str
    """Kafka's name of the type; empty for a type that the tables do not have."""
    fields: Mapping[str | int, Any]
    """The fields by name; an absent tag is absent here."""


class _Bytes:
    """A cursor over the bytes of a record."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        self.at += size
        assert self.at <= len(self.data), f"a committed record ends early: {self.data!r}"
        return self.data[self.at - size : self.at]

    def count(self) -> int:
        """An unsigned varint."""
        value = shift = 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value


_Read: TypeAlias = Callable[[_Bytes], Any]


def _number(form: str) -> _Read:
    packed = Struct(form)
    return lambda data: packed.unpack(data.take(packed.size))[0]


def _text(data: _Bytes) -> str | None:
    size = data.count()
    return data.take(size - 1).decode() if size else None


def _many(*kinds: str) -> _Read:
    """Read an array: of plain values for one kind, else of structures of these fields."""

    def read(data: _Bytes) -> tuple[Any, ...]:
        return tuple(one(data) for _ in range(data.count() - 1))

    def one(data: _Bytes) -> Any:
        if len(kinds) == 1:
            return _READ[kinds[0]](data)
        found = tuple(_READ[kind](data) for kind in kinds)
        _tags(data)
        return found

    return read


_READ: Final[dict[str, _Read]] = {
    "i8": _number(">b"),
    "i16": _number(">h"),
    "u16": _number(">H"),
    "i32": _number(">i"),
    "i64": _number(">q"),
    "uuid": lambda data: data.take(16).hex(),
    "text": _text,
    "ids": _many("i32"),
    "uuids": _many("uuid"),
    "endpoints": _many("text", "text", "u16", "i16"),
    "features": _many("text", "i16", "i16"),
}


def _tags(data: _Bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for _ in range(data.count()):
        tag = data.count()
        found[tag] = data.take(data.count())
    return found


def fact(offset: int, value: bytes) -> ParsedRecord:
    """Parse the record at this offset."""
    return ParsedRecord(offset, *_parsed(value))


# Successive snapshots repeat most of their records.
@lru_cache(maxsize=10_000)
def _parsed(value: bytes) -> tuple[str, Mapping[str | int, Any]]:
    data = _Bytes(value)
    frame, type_id, version = data.count(), data.count(), data.count()
    assert frame == 1, f"{value!r} has a frame of version {frame}"
    layout = LAYOUTS.get(type_id)
    if layout is None:
        return "", {}
    fields: dict[str | int, Any] = {}
    for field, kind in layout.fields.items():
        name, _, since = field.partition("@")
        if version >= int(since or 0):
            fields[name] = _READ[kind](data)
    for tag, raw in _tags(data).items():
        name, kind = layout.tags.get(tag, ("", ""))
        fields[name or tag] = _READ[kind](_Bytes(raw)) if name else raw
    assert data.at == len(value), f"{value!r} has {len(value) - data.at} bytes too many"
    return layout.name, fields
