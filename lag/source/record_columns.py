"""Records as columns of the table `records`.

`statemachine.records` decodes the records; names and fields are those that `dump-log` prints. Equal
content is decoded once: a million partition changes repeat a few values. The bytes after partition
number and topic are looked up among those already decoded, and numbers and topics are read as
arrays.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lag.source.schemas import ARROW_TYPES, Table
from quorum.core.vocabulary import uuid_to_text
from quorum.records.control import (
    BadControlRecord,
    compact_json,
    control_fields,
    control_record_name,
    control_type,
)
from statemachine.records import codec, kafka_records, own_records
from statemachine.records.codec import (
    CHANGE_FRAMES,
    CHANGE_HEAD_BYTES,
    PARTITION_FRAMES,
    TOPIC_ID_BYTES,
    frame_of,
)
from statemachine.records.field_names import as_kafka, ours
from statemachine.records.primitives import MalformedRecord, uuid_of

MALFORMED: Final = "Malformed"
"""The type of a record that cannot be decoded; `json` says why."""

_TOPIC_RESOURCE: Final = 2
_BROKER_RESOURCE: Final = 4


class DecodedRecord(NamedTuple):
    """One decoded record: its columns, and the reason if it cannot be decoded."""

    columns: dict[str, Any]
    problem: str | None = None


def typed_data(value: bytes | None, *, with_json: bool) -> DecodedRecord:
    """Decode a data record."""
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
    return DecodedRecord(columns)


def json_of(value: bytes) -> str:
    """All fields of a valid data record, under Kafka's names and ours."""
    record = codec.decode(value)
    if isinstance(record, kafka_records.Unknown):
        return compact_json({"bytes": record.body.hex()})
    return compact_json({**as_kafka(record, frame_of(value).version), **ours(record)})


def typed_control(key: bytes | None, value: bytes | None, *, with_json: bool) -> DecodedRecord:
    """Decode a control record; only `json` has its fields."""
    try:
        number = int(control_type(key))
    except BadControlRecord as error:
        return _malformed(str(error))
    name = control_record_name(number)
    if name is None:
        return DecodedRecord({"type": f"Unknown(control {number})"})
    try:
        fields = control_fields(number, value or b"")
    except BadControlRecord as error:
        return _malformed(f"{name}: {error}")
    columns = {"type": name, "version": fields["version"]}
    return DecodedRecord({**columns, "json": compact_json(fields)} if with_json else columns)


def _malformed(reason: str) -> DecodedRecord:
    return DecodedRecord({"type": MALFORMED, "json": compact_json({"problem": reason})}, reason)


def _columns(record: kafka_records.Record) -> dict[str, Any]:
    """The columns except `version` and `json`."""
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
            # Null: a PartitionRecord neither begins nor ends a move.
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
            of_topic = record.resource_type == _TOPIC_RESOURCE
            topic = {"topic": record.resource_name} if of_topic else {}
            return {"move_id": record.move, "name": record.name, "state": record.owned, **topic}
        case _:
            return {}


_FRAMES: Final = frozenset((*CHANGE_FRAMES, *PARTITION_FRAMES))
_FRAME_BYTES: Final = 3
_NUMBER_END: Final = CHANGE_HEAD_BYTES - TOPIC_ID_BYTES
_NOWHERE: Final = -1


class RecordColumns:
    """Records, collected one by one and returned as columns."""

    def __init__(self, json: str) -> None:
        """`json` is the option: `true`, `few` or `false`."""
        self._json = json
        self._codes: list[int] = []
        """For each record, its place in `_different`."""
        self._different: list[DecodedRecord] = []
        self._code_of: dict[bytes, int] = {}
        """Places by whole value."""
        self._code_of_partition: dict[bytes, int] = {}
        """Places of records about a partition, by their bytes without number and topic."""
        self._heads: list[bytes] = []
        """The partition numbers of the records about a partition,"""
        self._topics: list[bytes] = []
        """and their topics."""
        self._places: list[int] = []
        """The positions of these records."""
        self._whole: list[bytes | None] = []
        """The values, if each is shown as JSON."""

    def __len__(self) -> int:
        return len(self._codes)

    def add(self, values: list[bytes]) -> None:
        """Add the values of data records. This runs once per record."""
        codes, of_partition, of_others = self._codes, self._code_of_partition, self._code_of
        if self._json == "true":
            self._whole += values
        for value in values:
            frame = value[:_FRAME_BYTES]
            if frame in _FRAMES and len(value) > CHANGE_HEAD_BYTES:
                said = frame + value[CHANGE_HEAD_BYTES:]
                code = of_partition.get(said)
                if code is None:
                    code = of_partition[said] = self._new(typed_data(value, with_json=False))
                self._places.append(len(codes))
                self._heads.append(value[_FRAME_BYTES:_NUMBER_END])
                self._topics.append(value[_NUMBER_END:CHANGE_HEAD_BYTES])
            else:
                code = of_others.get(value)
                if code is None:
                    typed = typed_data(value, with_json=self._json != "false")
                    code = of_others[value] = self._new(typed)
            codes.append(code)

    def add_other(self, key: bytes | None, value: bytes | None, *, control: bool) -> None:
        """Add a control record, or one without a value."""
        if not control and value is not None:
            self.add([value])
            return
        with_json = self._json != "false"
        if control:
            typed = typed_control(key, value, with_json=with_json)
        else:
            typed = typed_data(None, with_json=with_json)
        if self._json == "true":
            self._whole.append(None)
        self._codes.append(self._new(typed))

    def _new(self, typed: DecodedRecord) -> int:
        self._different.append(typed)
        return len(self._different) - 1

    def problems(self) -> list[tuple[int, str]]:
        """The positions of records that cannot be decoded, and the reasons."""
        wrong = {code: each.problem for code, each in enumerate(self._different) if each.problem}
        if not wrong:
            return []
        return [(at, wrong[code]) for at, code in enumerate(self._codes) if code in wrong]

    def said(self) -> tuple[Any, list[dict[str, Any]]]:
        """For each record its place (`numpy.ndarray`) among the distinct contents."""
        return np.array(self._codes, np.int64), [typed.columns for typed in self._different]

    def columns(self, table: Table) -> dict[str, Callable[[], Any]]:
        """A function for each column."""
        codes = pa.array(np.array(self._codes, np.int64))

        def taken(name: str, type_: str) -> Callable[[], Any]:
            def make() -> Any:
                found = [typed.columns.get(name) for typed in self._different]
                return pa.array(found, ARROW_TYPES[type_]).take(codes)

            return make

        made = {each.name: taken(each.name, each.type) for each in table.in_ms.columns}
        made["since_ms"] = taken("since_ms", "BIGINT")
        made["partition"] = self._partitions
        plain_topic, plain_json = taken("topic_id", "STRING"), taken("json", "STRING")
        made["topic_id"] = lambda: self._topic_ids(plain_topic())
        if self._json == "true":
            made["json"] = lambda: self._all_json(plain_json())
        return made

    def _partitions(self) -> Any:
        numbers = np.zeros(len(self), np.int32)
        unknown = np.ones(len(self), np.bool_)
        numbers[self._places] = np.frombuffer(b"".join(self._heads), ">i4")
        unknown[self._places] = False
        return pa.array(numbers, pa.int32(), mask=unknown)

    def _topic_ids(self, others: Any) -> Any:
        """The ids of topics: from the heads of records about partitions, else from `others`."""
        if not self._places:
            return others
        names: dict[bytes, int] = {}
        places = [names.setdefault(raw, len(names)) for raw in self._topics]
        texts = pa.array([uuid_to_text(uuid_of(raw)) for raw in names], pa.string())
        if len(places) == len(self):
            return texts.take(pa.array(places))
        where = np.full(len(self), _NOWHERE, np.int64)
        where[self._places] = places
        found = texts.take(pa.array(where, mask=where == _NOWHERE))
        return pc.coalesce(found, others)

    def _all_json(self, few: Any) -> Any:
        whole = self._whole
        shown = few.to_pylist()
        for at in self._places:
            value = whole[at]
            if value is not None and self._different[self._codes[at]].problem is None:
                shown[at] = json_of(value)
        return pa.array(shown, pa.string())
