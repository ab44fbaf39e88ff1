"""What one metadata record says, in the columns of the table `records`.

`statemachine.records.codec` decodes the records; names and fields appear as in `dump-log`.
"""

from typing import Any, Final, NamedTuple

from quorum.core.vocabulary import uuid_to_text
from quorum.records.control import BadControlRecord, control_type
from quorum.records.kafka_names import compact_json, control_fields, control_record_name
from statemachine.records import codec, kafka_records, own_records
from statemachine.records.field_names import as_kafka, frame_of, ours
from statemachine.records.primitives import MalformedRecord

MALFORMED: Final = "Malformed"
"""The type of a record that is none, or not of its type; `json` says why."""

_TOPIC_RESOURCE: Final = 2
_BROKER_RESOURCE: Final = 4


class Typed(NamedTuple):
    """One record: its columns, and why it is not understood."""

    columns: dict[str, Any]
    problem: str | None = None


def typed_data(value: bytes | None, *, with_json: bool) -> Typed:
    """What a data record says."""
    if value is None:
        return _malformed("it has no value")
    try:
        frame = frame_of(value)
        record = codec.decode(value)
        columns = _columns(record)
        columns["version"] = frame.version
        if with_json:
            columns["json"] = json_of(value)
    except (MalformedRecord, UnicodeDecodeError) as error:
        return _malformed(str(error))
    return Typed(columns)


def json_of(value: bytes) -> str:
    """All fields of a sound data record under Kafka's names, and ours beside them."""
    record = codec.decode(value)
    if isinstance(record, kafka_records.Unknown):
        return compact_json({"bytes": record.body.hex()})
    return compact_json({**as_kafka(record, frame_of(value).version), **ours(record)})


def typed_control(key: bytes | None, value: bytes | None, *, with_json: bool) -> Typed:
    """What a control record says; of its fields only `json` tells."""
    try:
        number = int(control_type(key))
    except BadControlRecord as error:
        return _malformed(str(error))
    name = control_record_name(number)
    if name is None:
        return Typed({"type": f"Unknown(control {number})"})
    try:
        fields = control_fields(number, value or b"")
    except BadControlRecord as error:
        return _malformed(f"{name}: {error}")
    columns = {"type": name, "version": fields["version"]}
    return Typed({**columns, "json": compact_json(fields)} if with_json else columns)


def _malformed(reason: str) -> Typed:
    return Typed({"type": MALFORMED, "json": compact_json({"problem": reason})}, reason)


def _columns(record: kafka_records.Record) -> dict[str, Any]:
    """The columns but for `version` and `json`."""
    if isinstance(record, kafka_records.Unknown):
        return {"type": f"Unknown({record.type_id})"}
    name = type(record).__name__
    if isinstance(record, own_records.OurRecord):
        return {"type": name, **_of_ours(record)}
    return {"type": f"{name}Record", **_of_kafka(record)}


def _of_kafka(record: kafka_records.Record) -> dict[str, Any]:
    match record:
        case kafka_records.Partition() | kafka_records.PartitionChange():
            return _of_partition(record)
        case kafka_records.Topic():
            return {"topic": record.name, "topic_id": uuid_to_text(record.topic_id)}
        case kafka_records.RemoveTopic():
            return {"topic_id": uuid_to_text(record.topic_id)}
        case kafka_records.ClearElr():
            return {"topic": record.topic_name or None}
        case kafka_records.Config():
            return _of_config(record)
        case kafka_records.FeatureLevel():
            return {"name": record.name}
        case _:
            return _of_broker(record)


def _of_partition(
    record: kafka_records.Partition | kafka_records.PartitionChange,
) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "partition": record.partition_id,
        "topic_id": uuid_to_text(record.topic_id),
        "replicas": record.replicas,
        "isr": record.isr,
        "adding": record.adding,
        "removing": record.removing,
        "elr": record.elr,
        "leader": record.leader,
        "target": record.target,
        "original": record.original,
        "move_id": record.move,
        "step": record.step,
        "since_ms": record.since_ms,
    }
    if isinstance(record, kafka_records.Partition):
        columns |= {"leader_epoch": record.leader_epoch, "partition_epoch": record.partition_epoch}
        if not record.move:
            # No move, and none that is over: a partition as such says nothing of moves.
            columns |= dict.fromkeys(("target", "original", "move_id", "step", "since_ms"))
    return columns


def _of_config(record: kafka_records.Config) -> dict[str, Any]:
    columns: dict[str, Any] = {"name": record.name}
    if record.resource_type == _TOPIC_RESOURCE:
        columns["topic"] = record.resource_name
    elif record.resource_type == _BROKER_RESOURCE and record.resource_name.isdecimal():
        columns["broker_id"] = int(record.resource_name)
    return columns


def _of_broker(record: kafka_records.Record) -> dict[str, Any]:
    broker_id = getattr(record, "broker_id", None)
    if broker_id is None:
        return {}
    columns = {"broker_id": broker_id, "broker_epoch": getattr(record, "broker_epoch", None)}
    match record:
        case kafka_records.RegisterBroker():
            columns["fenced"] = record.fenced
            columns["in_controlled_shutdown"] = record.in_controlled_shutdown
        case kafka_records.BrokerRegistrationChange():
            columns["fenced"] = {1: True, -1: False}.get(record.fenced)
            columns["in_controlled_shutdown"] = {1: True}.get(record.in_controlled_shutdown)
            columns["since_ms"] = record.at_ms
        case kafka_records.FenceBroker():
            columns["fenced"] = True
        case kafka_records.UnfenceBroker():
            columns["fenced"] = False
        case _:
            pass
    return columns


def _of_ours(record: own_records.OurRecord) -> dict[str, Any]:
    match record:
        case own_records.MoveBegun():
            columns = {"move_id": record.id, "name": record.name, "broker_id": record.broker}
            return {**columns, "since_ms": record.asked_at_ms}
        case own_records.MovePart():
            return {"move_id": record.id}
        case own_records.MoveChanged():
            return {"move_id": record.id, "state": record.state, "since_ms": record.since_ms}
        case own_records.MoveEnded():
            return {"move_id": record.id, "state": record.outcome, "since_ms": record.at_ms}
        case own_records.ConfigOwned():
            return {"move_id": record.move, "name": record.name}
        case _:
            return {}
