"""Records under Kafka's field names, as Kafka's own tools print them.

A field appears if the version of the record has it, and a tagged field only if it is set.

"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from msgspec import Struct

from statemachine.records import kafka_records, own_records, partition_codec
from statemachine.records.own_codec import PAYLOADS, plan_of
from statemachine.records.primitives import (
    I8,
    I16,
    I32,
    I64,
    UUID_KIND,
    Field,
    MalformedRecord,
    Reader,
    array,
)
from statemachine.records.schemas import BY_SHAPE, OURS_FROM
from statemachine.vocabulary import RECOVERED

_IDS: Final = array(I32)
_DIRECTORIES: Final = array(UUID_KIND)

_PARTITION: Final = (
    Field("partition_id", I32),
    Field("topic_id", UUID_KIND),
    Field("replicas", _IDS),
    Field("isr", _IDS),
    Field("removing", _IDS),
    Field("adding", _IDS),
    Field("leader", I32),
    Field("recovery", I8, tag=0, default=RECOVERED),
    Field("leader_epoch", I32),
    Field("partition_epoch", I32),
    Field("directories", _DIRECTORIES, since=1),
    Field("elr", _IDS, since=2, tag=1, default=()),
    Field("last_known_elr", _IDS, since=2, tag=2, default=()),
)
_PARTITION_CHANGE: Final = (
    Field("partition_id", I32),
    Field("topic_id", UUID_KIND),
    Field("isr", _IDS, tag=0),
    Field("leader", I32, tag=1),
    Field("replicas", _IDS, tag=2),
    Field("removing", _IDS, tag=3),
    Field("adding", _IDS, tag=4),
    Field("recovery", I8, tag=5),
    Field("elr", _IDS, since=2, tag=6),
    Field("last_known_elr", _IDS, since=2, tag=7),
    Field("directories", _DIRECTORIES, since=1, tag=8),
)
_OURS: Final = (
    Field("target", _IDS, tag=partition_codec.TARGET_TAG),
    Field("original", _IDS, tag=partition_codec.ORIGINAL_TAG),
    Field("base", _IDS, tag=partition_codec.BASE_TAG),
    Field("move", I64, tag=partition_codec.MOVE_TAG),
    Field("step", I16, tag=partition_codec.STEP_TAG),
    Field("since_ms", I64, tag=partition_codec.SINCE_TAG),
)


def _is_ours(field: Field) -> bool:
    return field.tag is not None and field.tag >= OURS_FROM


_OURS_OF: Final[Mapping[type, tuple[Field, ...]]] = MappingProxyType(
    {
        kafka_records.Partition: tuple(
            field._replace(default=() if field.kind is _IDS else 0) for field in _OURS
        ),
        kafka_records.PartitionChange: _OURS,
        **{
            shape: tuple(field for field in schema.fields if _is_ours(field))
            for shape, schema in BY_SHAPE.items()
        },
    }
)

_FIELDS: Final[Mapping[type, tuple[Field, ...]]] = MappingProxyType(
    {
        **{
            shape: tuple(field for field in schema.fields if not _is_ours(field))
            for shape, schema in BY_SHAPE.items()
        },
        kafka_records.Partition: _PARTITION,
        kafka_records.PartitionChange: _PARTITION_CHANGE,
        # To Kafka they are NoOps, which say nothing.
        **dict.fromkeys(PAYLOADS, ()),
    }
)

_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "endpoints": "endPoints",
        "removing": "removingReplicas",
        "adding": "addingReplicas",
        "recovery": "leaderRecoveryState",
        "elr": "eligibleLeaderReplicas",
        "level": "featureLevel",
        "min_supported": "minSupportedVersion",
        "max_supported": "maxSupportedVersion",
        "issue_timestamp_ms": "issueTimestamp",
        "max_timestamp_ms": "maxTimestamp",
        "expiration_timestamp_ms": "expirationTimestamp",
    }
)
"""Kafka's names of fields that are not ours in camel case."""

_NAMES_IN: Final[Mapping[type, Mapping[str, str]]] = MappingProxyType(
    {
        kafka_records.FenceBroker: {"broker_id": "id", "broker_epoch": "epoch"},
        kafka_records.UnfenceBroker: {"broker_id": "id", "broker_epoch": "epoch"},
        kafka_records.QuotaEntity: {"type": "entityType", "name": "entityName"},
        kafka_records.ZkMigrationState: {"state": "zkMigrationState"},
    }
)
"""The same, for single records."""


class Frame(NamedTuple):
    """The header before the body of a metadata record."""

    type_id: int
    version: int


def frame_of(value: bytes) -> Frame:
    """The frame of a record's value; raises `MalformedRecord` where there is none of Kafka's."""
    reader = Reader(value)
    frame = reader.uvarint()
    if frame != 1:
        raise MalformedRecord(f"frame version {frame} is not known, only 1")
    return Frame(reader.uvarint(), reader.uvarint())


def as_kafka(record: kafka_records.Record, version: int) -> dict[str, Any]:
    """The fields that this version of the record has, by Kafka's names, in Kafka's order.

    Ids and bytes stay what they are; tuples become lists, nested structures dictionaries.
    """
    return _named(record, _FIELDS[type(record)], version)


def ours(record: kafka_records.Record) -> dict[str, Any]:
    """The fields that this project has added, where they say something; Kafka skips them.

    A fact for which Kafka has no record is one field, by its name.
    """
    shape = type(record)
    payload = PAYLOADS.get(shape)
    if payload is None:
        return _named(record, _OURS_OF.get(shape, ()), partition_codec.NEWEST_VERSION)
    said = _named(record, payload.fields, 0)
    if isinstance(record, own_records.MovePart):
        said["plan"] = _plain(plan_of(record.plan))
    return {f"{shape.__name__[0].lower()}{shape.__name__[1:]}": said}


def _named(value: Struct, fields: tuple[Field, ...], version: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in fields:
        content = getattr(value, field.name)
        if field.since <= version and (field.tag is None or content != field.default):
            found[_name(type(value), field.name)] = _plain(content)
    return found


def _plain(content: Any) -> Any:
    match content:
        case tuple():
            return [_plain(item) for item in content]
        case Struct():
            return {
                _name(type(content), name): _plain(getattr(content, name))
                for name in content.__struct_fields__
            }
        case _:
            return content


def _name(shape: type, attribute: str) -> str:
    special = _NAMES_IN.get(shape, {}).get(attribute) or _NAMES.get(attribute)
    if special is not None:
        return special
    first, *others = attribute.split("_")
    return first + "".join(word.capitalize() for word in others)


def _type_name(shape: type) -> str:
    words = "".join(f"_{letter}" if letter.isupper() else letter for letter in shape.__name__)
    return f"{words[1:].upper()}_RECORD"


TYPE_NAMES: Final[Mapping[int, str]] = MappingProxyType(
    {
        **{schema.type_id: _type_name(schema.shape) for schema in BY_SHAPE.values()},
        partition_codec.PARTITION_TYPE_ID: _type_name(kafka_records.Partition),
        partition_codec.PARTITION_CHANGE_TYPE_ID: _type_name(kafka_records.PartitionChange),
    }
)
"""Kafka's name of each record type that is known, by its number."""
