"""AlterPartitionReassignments (45) version 1, with what only our controllers understand and say.

A key, so that it may be asked again, a throttle, what is only to be tried, a name and a priority
are tagged fields of the request; which move it is, what partitions have now and the steps that are
planned are those of the answer. Kafka's nodes and tools skip them, and its brokers pass them on.
The tags begin with 10010: lower ones say elsewhere what an answer may be. All else is Kafka's.
"""

import datetime
from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.alter_partition_reassignments.v1.request import (
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import BrokerId, TopicName
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i32Timedelta, i64

__all__ = [
    "AlterPartitionReassignmentsRequest",
    "AlterPartitionReassignmentsResponse",
    "PlannedStep",
    "ReassignablePartition",
    "ReassignablePartitionResponse",
    "ReassignableTopic",
    "ReassignableTopicResponse",
]

_MINUTE = i32Timedelta.parse(datetime.timedelta(minutes=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedOfOurs:
    """The field of our own clients in the request, of whichever version."""

    options: bytes = field(metadata={"kafka_type": "bytes", "tag": 10_010}, default=b"")
    """Msgpack of the options of the move, opaque here (`controller.move_requests.MoveOptions`).
    The partitions of a dry run are in it, so that a node that skips the field does nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldByOurs:
    """The fields of the answer that only our controllers send."""

    move_id: i64 = field(metadata={"kafka_type": "int64", "tag": 10_010}, default=i64(0))
    """The move that it is, or that brings already what was asked for; 0 for none."""
    repeated: bool = field(metadata={"kafka_type": "bool", "tag": 10_013}, default=False)
    """Whether a request with its key was answered before; then nothing was done now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsRequest(AskedOfOurs):
    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(1)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(45)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    timeout: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"}, default=_MINUTE)
    allow_replication_factor_change: bool = field(metadata={"kafka_type": "bool"}, default=True)
    topics: tuple[ReassignableTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(1)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(45)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    replicas: tuple[BrokerId, ...] = field(metadata={"kafka_type": "int32"})
    """What the partition has once it is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignablePartitionResponse:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(1)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(45)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    partition_index: i32 = field(metadata={"kafka_type": "int32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    replicas: tuple[BrokerId, ...] = field(
        metadata={"kafka_type": "int32", "tag": 10_011}, default=()
    )
    """What it has now, those that are being added included; of a dry run, what it would have."""
    planned_steps: tuple[PlannedStep, ...] = field(metadata={"tag": 10_012}, default=())
    """Of a dry run, for the first partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignableTopicResponse:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(1)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(45)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    name: TopicName = field(metadata={"kafka_type": "string"})
    partitions: tuple[ReassignablePartitionResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsResponse(ToldByOurs):
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(1)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(45)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    allow_replication_factor_change: bool = field(metadata={"kafka_type": "bool"}, default=True)
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    responses: tuple[ReassignableTopicResponse, ...]
