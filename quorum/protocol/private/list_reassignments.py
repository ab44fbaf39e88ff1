"""The answer to ListPartitionReassignments (46), with what only our controllers know.

Where a partition is to be in the end, in which move it is, and why it is not further, are tagged
fields of the partition, with tags from 10000 up; Kafka's tools skip them. All else is Kafka's.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import BrokerId, TopicName
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i32Timedelta, i64


@dataclass(frozen=True, slots=True, kw_only=True)
class OngoingPartitionReassignment:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(46)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    partition_index: i32 = field(metadata={"kafka_type": "int32"})
    replicas: tuple[BrokerId, ...] = field(metadata={"kafka_type": "int32"}, default=())
    adding_replicas: tuple[BrokerId, ...] = field(metadata={"kafka_type": "int32"}, default=())
    removing_replicas: tuple[BrokerId, ...] = field(metadata={"kafka_type": "int32"}, default=())
    target: tuple[BrokerId, ...] = field(
        metadata={"kafka_type": "int32", "tag": 10_000}, default=()
    )
    """What it is to have in the end, in order."""
    move_id: i64 = field(metadata={"kafka_type": "int64", "tag": 10_001}, default=i64(0))
    """0 where it is in none: a controller of Kafka's has begun it."""
    step: i32 = field(metadata={"kafka_type": "int32", "tag": 10_003}, default=i32(0))
    """Which is under way or comes next, from 1 on; 0 where all below is not told."""
    step_count: i32 = field(metadata={"kafka_type": "int32", "tag": 10_004}, default=i32(0))
    state: str = field(metadata={"kafka_type": "string", "tag": 10_005}, default="")
    """A word of `statemachine.reassignment.progress.State`."""
    reason: str = field(metadata={"kafka_type": "string", "tag": 10_006}, default="")
    """A word of `reassignment.step.Reason`; empty where nothing is known to keep it."""
    since_ms: i64 = field(metadata={"kafka_type": "int64", "tag": 10_007}, default=i64(0))
    """0 where nobody noted it."""
    bytes_left: i64 = field(metadata={"kafka_type": "int64", "tag": 10_008}, default=i64(-1))
    """To be copied for the step under way, as brokers say; -1 is not known."""
    bytes_per_s: i64 = field(metadata={"kafka_type": "int64", "tag": 10_009}, default=i64(-1))
    detail: str = field(metadata={"kafka_type": "string", "tag": 10_010}, default="")
    """The reason in words."""
    reason_brokers: tuple[BrokerId, ...] = field(
        metadata={"kafka_type": "int32", "tag": 10_011}, default=()
    )
    """Those that it is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OngoingTopicReassignment:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(46)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    name: TopicName = field(metadata={"kafka_type": "string"})
    partitions: tuple[OngoingPartitionReassignment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsResponse:
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(46)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    topics: tuple[OngoingTopicReassignment, ...]
