"""Random values of a schema: kio's classes of Kafka's requests, and the structs of capabilities.

A value is valid in form. Half of its numbers, names and ids are ones that a node may know, so that
requests get past the first check; the others are extremes.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import Field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

import msgspec

from quorum.protocol import shape
from quorum.protocol.codec import error_code
from quorum.protocol.raft_types import METADATA_TOPIC, METADATA_TOPIC_ID
from quorum.records.encode import ClientRecord, encode_client

FUZZED_TOPIC: Final = "fuzzed"
"""A topic that the frames may find; nobody else uses it."""
NAMES: Final = (
    *("", "t", FUZZED_TOPIC, METADATA_TOPIC, "retention.ms", "metadata.version", "kraft.version"),
    *("1", "2", "101", "user", "client-id", "ip", "alice", "User:alice", "*", "PLAIN", "kafka"),
    *("127.0.0.1", "CONTROLLER", "PLAINTEXT", "x" * 249, "x" * 250, "é\u202e\x1b[2J", "a\x00b\n"),
)
ITEMS_MAX: Final = 3

_IDS: Final = (-2, -1, 0, 1, 2, 3, 101, 900, 1_000)
_UUIDS: Final = (UUID(int=1), METADATA_TOPIC_ID, UUID(int=0xD1 << 100 | 101), UUID(int=2**128 - 1))
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class RandomValues:
    """Values that a generator of random numbers chooses.

    `harmless` leaves out the ids of nodes: what its values ask for names nobody.
    """

    def __init__(self, rng: random.Random, *, harmless: bool = False) -> None:
        self._rng = rng
        self._ids = tuple(each for each in _IDS if not harmless or not 0 < each < 900)

    def of_schema(self, schema: type[Any]) -> Any:
        """Return a value of one of kio's classes."""
        return schema(**{each.name: self._field(each) for each in fields(schema)})

    def of_struct(self, kind: type[msgspec.Struct]) -> Mapping[str, Any]:
        """Return plain values for the fields of a struct; some with a default are left out."""
        return self._struct(_struct_type(kind))

    # kio

    def _field(self, field: Field[Any]) -> Any:
        inner, is_array, is_optional = shape.type_of(field)
        if is_optional and self._rng.random() < 0.25:
            return None
        if is_array:
            return tuple(self._item(field, inner) for _ in range(self._rng.randint(0, ITEMS_MAX)))
        return self._item(field, inner)

    def _item(self, field: Field[Any], inner: Any) -> Any:
        if is_dataclass(inner):
            assert isinstance(inner, type)
            return self.of_schema(inner)
        return _PRIMITIVES[field.metadata["kafka_type"]](self)

    def integer(self, bits: int, *, signed: bool = True) -> int:
        """Return a number that a node may know, an extreme, or any."""
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        match self._rng.randrange(4):
            case 0:
                found = self._rng.choice((low, low + 1, high - 1, high))
            case 1:
                found = self._rng.randint(low, high) >> self._rng.randrange(bits)
            case _:
                found = self._rng.choice(self._ids)
        return min(max(found, low), high)

    def string(self) -> str:
        """Return a name."""
        if self._rng.random() < 0.8:
            return self._rng.choice(NAMES)
        return "".join(chr(self._rng.randrange(1, 0x250)) for _ in range(self._rng.randrange(40)))

    def data(self) -> bytes:
        """Return some bytes."""
        return self._rng.randbytes(self._rng.choice((0, 1, 16, 40)))

    def records(self) -> bytes:
        """Return a batch of records, whole or with some wrong bytes."""
        found = [ClientRecord(1, None, b"v" * self._rng.randrange(9)) for _ in range(2)]
        batch = bytearray(
            encode_client(
                found,
                producer_id=self._rng.choice((-1, 7)),
                producer_epoch=self._rng.choice((-1, 0)),
                base_sequence=self._rng.choice((-1, 0)),
            )
        )
        for _ in range(self._rng.choice((0, 0, 1, 4))):
            batch[self._rng.randrange(len(batch))] = self._rng.randrange(256)
        return bytes(batch)

    def uuid(self) -> UUID:
        """Return an id."""
        if self._rng.random() < 0.5:
            return self._rng.choice(_UUIDS)
        return UUID(int=self._rng.getrandbits(128) | 1)

    def duration(self) -> timedelta:
        """Return a time to wait, most often a short one: who waits holds up its connection."""
        long = self._rng.random() < 0.02
        chosen = (-(1 << 31), -1, (1 << 31) - 1) if long else (0, 0, 1, 20)
        return timedelta(milliseconds=self._rng.choice(chosen))

    def chance(self) -> bool:
        """Return True or False."""
        return self._rng.random() < 0.5

    # msgspec

    def _struct(self, found: msgspec.inspect.StructType) -> Mapping[str, Any]:
        return {
            each.encode_name: self._typed(each.type)
            for each in found.fields
            if each.required or self.chance()
        }

    def _typed(self, kind: msgspec.inspect.Type) -> Any:  # noqa: C901 - one case for each type
        types = msgspec.inspect
        match kind:
            case types.Metadata():
                return self._typed(kind.type)
            case types.StructType():
                return self._struct(kind)
            case types.UnionType():
                return self._typed(self._rng.choice(kind.types))
            case types.LiteralType():
                return self._rng.choice(kind.values)
            case types.EnumType():
                return self._rng.choice(list(kind.cls)).value
            case types.BoolType():
                return self.chance()
            case types.IntType():
                return self.integer(self._rng.choice((8, 32, 64)))
            case types.StrType():
                return self.string()
            case types.NoneType():
                return None
            case types.VarTupleType() | types.ListType():
                number = self._rng.randint(0, ITEMS_MAX)
                return [self._typed(kind.item_type) for _ in range(number)]
            case types.TupleType():
                return [self._typed(each) for each in kind.item_types]
            case types.DictType():
                return {self.string(): self._typed(kind.value_type)}
            case _:
                return self._rng.choice((0, 1.5, "x", None))


@cache
def _struct_type(kind: type[msgspec.Struct]) -> msgspec.inspect.StructType:
    found = msgspec.inspect.type_info(kind)
    assert isinstance(found, msgspec.inspect.StructType)
    return found


_PRIMITIVES: Final[Mapping[str, Callable[[RandomValues], Any]]] = MappingProxyType(
    {
        "bool": RandomValues.chance,
        "int8": lambda it: it.integer(8),
        "int16": lambda it: it.integer(16),
        "int32": lambda it: it.integer(32),
        "int64": lambda it: it.integer(64),
        "uint8": lambda it: it.integer(8, signed=False),
        "uint16": lambda it: it.integer(16, signed=False),
        "uint32": lambda it: it.integer(32, signed=False),
        "uint64": lambda it: it.integer(64, signed=False),
        "float64": lambda it: it._rng.choice((0.0, -1.5, 1e308, float("inf"))),
        "string": RandomValues.string,
        "bytes": RandomValues.data,
        "records": RandomValues.records,
        "uuid": RandomValues.uuid,
        "error_code": lambda it: error_code(it._rng.choice((0, 3, 41))),
        "timedelta_i32": RandomValues.duration,
        "timedelta_i64": RandomValues.duration,
        "datetime_i64": lambda it: _EPOCH + timedelta(milliseconds=it._rng.choice((0, 1 << 40))),
    }
)
