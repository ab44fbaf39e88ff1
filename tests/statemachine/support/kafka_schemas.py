"""Kafka's schemas of the metadata records once more, and kio's generic codec made to fit them.

Written from Kafka's JSON files, and sharing nothing with the code that it is held against.
"""

import io
from dataclasses import field, make_dataclass
from types import GenericAlias
from typing import Any, ClassVar, Final
from uuid import UUID

from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import i8, i16, i32, i64, u16
from msgspec import Struct

from statemachine.records import kafka_records

# Each field is: name, type, first version, tag, default. A type with "?" is nullable, one with
# "[]" an array.
Row = tuple[Any, ...]
SERVER: Final[list[Row]] = [("endpoints", "[]endpoint"), ("features", "[]feature")]
NESTED: Final[dict[str, tuple[type[Struct], list[Row]]]] = {
    "endpoint": (
        kafka_records.Endpoint,
        [
            ("name", "string"),
            ("host", "string"),
            ("port", "uint16"),
            ("security_protocol", "int16"),
        ],
    ),
    "feature": (
        kafka_records.FeatureRange,
        [("name", "string"), ("min_supported", "int16"), ("max_supported", "int16")],
    ),
    "entity": (kafka_records.QuotaEntity, [("type", "string"), ("name", "string?")]),
}
KAFKA: Final[dict[type, tuple[int, list[Row]]]] = {
    kafka_records.RegisterBroker: (
        0,
        [
            ("broker_id", "int32"),
            ("is_migrating_zk_broker", "bool", 2),
            ("incarnation_id", "uuid"),
            ("broker_epoch", "int64"),
            *SERVER,
            ("rack", "string?"),
            ("fenced", "bool"),
            ("in_controlled_shutdown", "bool", 1),
            ("log_dirs", "[]uuid", 3, 0, ()),
            ("cordoned_log_dirs", "[]uuid?", 4, 1, None),
            ("registered_at", "int64", 0, 10_000, None),
            ("stopping_at", "int64", 0, 10_001, None),
            ("cordoned", "bool", 0, 10_002, False),
            ("fenced_at_ms", "int64", 0, 10_003, None),
            ("leaving", "bool", 0, 10_004, False),
        ],
    ),
    kafka_records.UnregisterBroker: (1, [("broker_id", "int32"), ("broker_epoch", "int64")]),
    kafka_records.Topic: (2, [("name", "string"), ("topic_id", "uuid")]),
    kafka_records.Partition: (
        3,
        [
            ("partition_id", "int32"),
            ("topic_id", "uuid"),
            ("replicas", "[]int32"),
            ("isr", "[]int32"),
            ("removing", "[]int32"),
            ("adding", "[]int32"),
            ("leader", "int32"),
            ("recovery", "int8", 0, 0, 0),
            ("leader_epoch", "int32"),
            ("partition_epoch", "int32"),
            ("directories", "[]uuid", 1),
            ("elr", "[]int32", 2, 1, ()),
            ("last_known_elr", "[]int32", 2, 2, ()),
            ("target", "[]int32", 0, 10_000, ()),
            ("original", "[]int32", 0, 10_001, ()),
            ("base", "[]int32", 0, 10_002, ()),
            ("move", "int64", 0, 10_003, 0),
            ("step", "int16", 0, 10_004, 0),
            ("since_ms", "int64", 0, 10_005, 0),
        ],
    ),
    kafka_records.Config: (
        4,
        [
            ("resource_type", "int8"),
            ("resource_name", "string"),
            ("name", "string"),
            ("value", "string?"),
        ],
    ),
    kafka_records.PartitionChange: (
        5,
        [
            ("partition_id", "int32"),
            ("topic_id", "uuid"),
            ("isr", "[]int32?", 0, 0, None),
            ("leader", "int32", 0, 1, -2),
            ("replicas", "[]int32?", 0, 2, None),
            ("removing", "[]int32?", 0, 3, None),
            ("adding", "[]int32?", 0, 4, None),
            ("recovery", "int8", 0, 5, -1),
            ("elr", "[]int32?", 2, 6, None),
            ("last_known_elr", "[]int32?", 2, 7, None),
            ("directories", "[]uuid?", 1, 8, None),
            ("target", "[]int32?", 0, 10_000, None),
            ("original", "[]int32?", 0, 10_001, None),
            ("base", "[]int32?", 0, 10_002, None),
            ("move", "int64", 0, 10_003, None),
            ("step", "int16", 0, 10_004, None),
            ("since_ms", "int64", 0, 10_005, None),
        ],
    ),
    kafka_records.FenceBroker: (7, [("broker_id", "int32"), ("broker_epoch", "int64")]),
    kafka_records.UnfenceBroker: (8, [("broker_id", "int32"), ("broker_epoch", "int64")]),
    kafka_records.RemoveTopic: (9, [("topic_id", "uuid")]),
    kafka_records.DelegationToken: (
        10,
        [
            ("owner", "string"),
            ("requester", "string"),
            ("renewers", "[]string"),
            ("issue_timestamp_ms", "int64"),
            ("max_timestamp_ms", "int64"),
            ("expiration_timestamp_ms", "int64"),
            ("token_id", "string"),
        ],
    ),
    kafka_records.UserScramCredential: (
        11,
        [
            ("name", "string"),
            ("mechanism", "int8"),
            ("salt", "bytes"),
            ("stored_key", "bytes"),
            ("server_key", "bytes"),
            ("iterations", "int32"),
        ],
    ),
    kafka_records.FeatureLevel: (12, [("name", "string"), ("level", "int16")]),
    kafka_records.ClientQuota: (
        14,
        [("entity", "[]entity"), ("key", "string"), ("value", "float64"), ("remove", "bool")],
    ),
    kafka_records.ProducerIds: (
        15,
        [("broker_id", "int32"), ("broker_epoch", "int64"), ("next_producer_id", "int64")],
    ),
    kafka_records.BrokerRegistrationChange: (
        17,
        [
            ("broker_id", "int32"),
            ("broker_epoch", "int64"),
            ("fenced", "int8", 0, 0, 0),
            ("in_controlled_shutdown", "int8", 1, 1, 0),
            ("log_dirs", "[]uuid", 2, 2, ()),
            ("cordoned_log_dirs", "[]uuid?", 3, 3, None),
            ("cordoned", "int8", 0, 10_000, 0),
            ("at_ms", "int64", 0, 10_001, None),
            ("leaving", "int8", 0, 10_002, 0),
        ],
    ),
    kafka_records.AccessControlEntry: (
        18,
        [
            ("id", "uuid"),
            ("resource_type", "int8"),
            ("resource_name", "string"),
            ("pattern_type", "int8"),
            ("principal", "string"),
            ("host", "string"),
            ("operation", "int8"),
            ("permission_type", "int8"),
        ],
    ),
    kafka_records.RemoveAccessControlEntry: (19, [("id", "uuid")]),
    kafka_records.NoOp: (20, []),
    kafka_records.ZkMigrationState: (21, [("state", "int8")]),
    kafka_records.RemoveUserScramCredential: (22, [("name", "string"), ("mechanism", "int8")]),
    kafka_records.BeginTransaction: (23, [("name", "string?", 0, 0, None)]),
    kafka_records.EndTransaction: (24, []),
    kafka_records.AbortTransaction: (25, [("reason", "string?", 0, 0, None)]),
    kafka_records.RemoveDelegationToken: (26, [("token_id", "string")]),
    kafka_records.RegisterController: (
        27,
        [
            ("controller_id", "int32"),
            ("incarnation_id", "uuid"),
            ("zk_migration_ready", "bool"),
            *SERVER,
        ],
    ),
    kafka_records.ClearElr: (28, [("topic_name", "string")]),
}

PYTHON: Final[dict[str, Any]] = {
    "int8": i8,
    "int16": i16,
    "int32": i32,
    "int64": i64,
    "uint16": u16,
    "float64": float,
    "bool": bool,
    "string": str,
    "bytes": bytes,
    "uuid": UUID | None,
}


def kio_type(kafka_type: str) -> Any:
    """The annotation that kio's generic codec expects."""
    optional = kafka_type.endswith("?")
    name = kafka_type.removesuffix("?")
    item = name.removeprefix("[]")
    base: Any = NESTED_KIO[item] if item in NESTED else PYTHON[item]
    # `tuple[base, ...]`, in a form that no type checker takes for a type of this module.
    whole = GenericAlias(tuple, (base, ...)) if name.startswith("[]") else base
    return whole | None if optional else whole


def kio_class(name: str, rows: list[Row], version: int, kind: EntityType) -> Any:
    """A kio entity with these fields, as far as the version has them."""
    fields = []
    for row in rows:
        attribute, kafka_type = row[0], row[1]
        if len(row) > 2 and row[2] > version:
            continue
        plain = kafka_type.removeprefix("[]").removesuffix("?")
        metadata: dict[str, Any] = {} if plain in NESTED else {"kafka_type": plain}
        if len(row) > 3:
            metadata["tag"] = row[3]
            made = field(metadata=metadata, default=row[4])
        else:
            made = field(metadata=metadata)
        fields.append((attribute, kio_type(kafka_type), made))
    shape: Any = make_dataclass(name, fields, frozen=True, slots=True, kw_only=True)
    shape.__type__ = kind
    shape.__version__ = i16(version)
    shape.__flexible__ = True
    return shape


NESTED_KIO: Final[dict[str, Any]] = {}


def nested(name: str, shape: type[Struct], rows: list[Row]) -> None:
    """Let this be the name of a nested structure in the types of fields."""
    NESTED[name] = (shape, rows)
    NESTED_KIO[name] = kio_class(name, rows, 0, EntityType.nested)


for _name, (_shape, _rows) in list(NESTED.items()):
    nested(_name, _shape, _rows)


class Oracle:
    """One record type in one version, written and read by kio."""

    cache: ClassVar[dict[tuple[type, int], "Oracle"]] = {}

    def __init__(self, shape: type, version: int) -> None:
        self.type_id, self.rows = KAFKA[shape]
        self.version = version
        self.shape = kio_class(shape.__name__, self.rows, version, EntityType.data)

    @classmethod
    def of(cls, shape: type, version: int) -> "Oracle":
        """The oracle of a record type and version."""
        key = (shape, version)
        if key not in cls.cache:
            cls.cache[key] = cls(shape, version)
        return cls.cache[key]

    def as_kio(self, record: Struct) -> Any:
        """The record as a value of kio's."""
        present = {row[0] for row in self.rows if len(row) < 3 or row[2] <= self.version}
        defaults = {row[0]: row[4] for row in self.rows if len(row) > 3}
        values = {name: to_kio(getattr(record, name)) for name in present}
        for name, value in values.items():
            if value is None and defaults.get(name) is not None:
                values[name] = defaults[name]
        return self.shape(**values)

    def write(self, record: Struct) -> bytes:
        """The whole value, frame included."""
        out = io.BytesIO()
        entity_writer(self.shape)(out, self.as_kio(record))
        return bytes((1, self.type_id, self.version)) + out.getvalue()

    def read(self, value: bytes) -> Any:
        """The body, as a value of kio's."""
        read, size = entity_reader(self.shape)(value, 3)
        assert 3 + size == len(value)
        return read


def to_kio(value: Any) -> Any:
    """A field as kio has it: the zero id is None, nested structures are its own."""
    match value:
        case UUID(int=0):
            return None
        case tuple():
            return tuple(to_kio(item) for item in value)
        case Struct():
            names = {shape: name for name, (shape, _) in NESTED.items()}
            made = {n: to_kio(getattr(value, n)) for n in value.__struct_fields__}
            return NESTED_KIO[names[type(value)]](**made)
        case _:
            return value
