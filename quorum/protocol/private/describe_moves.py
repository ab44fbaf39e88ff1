"""DescribeMoves (20004): moves that run and that have ended, and where each partition stands.

Classes of kio's kind.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import BrokerId
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i32Timedelta, i64


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeMovesRequest:
    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_004)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    move_ids: tuple[i64, ...] | None = field(metadata={"kafka_type": "int64"})
    """Null asks for all, without their partitions."""
    partitions_max: i32 = field(metadata={"kafka_type": "int32"}, default=i32(200))
    """Of the moves that are named, so many partitions in all."""
    after_topic: str | None = field(metadata={"kafka_type": "string"}, default=None)
    after_partition: i32 = field(metadata={"kafka_type": "int32"}, default=i32(-1))
    """Only partitions behind this one, in order of topic and number; null for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovingPartition:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_004)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    topic_name: str = field(metadata={"kafka_type": "string"})
    partition_index: i32 = field(metadata={"kafka_type": "int32"})
    replicas: tuple[BrokerId, ...] = field(metadata={"kafka_type": "int32"})
    target: tuple[BrokerId, ...] = field(metadata={"kafka_type": "int32"})
    adding: tuple[BrokerId, ...] = field(metadata={"kafka_type": "int32"})
    removing: tuple[BrokerId, ...] = field(metadata={"kafka_type": "int32"})
    step: i32 = field(metadata={"kafka_type": "int32"})
    """Which is under way or comes next, from 1 on."""
    step_count: i32 = field(metadata={"kafka_type": "int32"})
    state: str = field(metadata={"kafka_type": "string"})
    """A word of `statemachine.reassignment.progress.State`."""
    reason: str | None = field(metadata={"kafka_type": "string"})
    """A word of `reassignment.step.Reason`; null where nothing is known to keep it."""
    detail: str = field(metadata={"kafka_type": "string"})
    reason_brokers: tuple[BrokerId, ...] = field(metadata={"kafka_type": "int32"})
    since_ms: i64 = field(metadata={"kafka_type": "int64"})
    """0 where nobody noted it."""
    bytes_left: i64 = field(metadata={"kafka_type": "int64"}, default=i64(-1))
    """To be copied for the step under way, as brokers say; -1, here and below, is not known."""
    bytes_per_s: i64 = field(metadata={"kafka_type": "int64"}, default=i64(-1))
    time_left_ms: i64 = field(metadata={"kafka_type": "int64"}, default=i64(-1))
    """Of that step, if it goes on like that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMove:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_004)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    move_id: i64 = field(metadata={"kafka_type": "int64"})
    kind: str = field(metadata={"kafka_type": "string"})
    name: str = field(metadata={"kafka_type": "string"})
    asked_by: str = field(metadata={"kafka_type": "string"})
    asked_at_ms: i64 = field(metadata={"kafka_type": "int64"})
    rollback_of: i64 = field(metadata={"kafka_type": "int64"})
    """0 for none."""
    priority: i32 = field(metadata={"kafka_type": "int32"})
    throttle_bytes_per_s: i64 = field(metadata={"kafka_type": "int64"}, default=i64(0))
    """To and from each broker; 0 is no limit."""
    throttle_lost: tuple[str, ...] = field(metadata={"kafka_type": "string"}, default=())
    """Configurations of its throttle that users have set since, who keep them: the first ones."""
    state: str = field(metadata={"kafka_type": "string"})
    """running, paused or paused-by-itself; of one that has ended how: completed, cancelled, ..."""
    since_ms: i64 = field(metadata={"kafka_type": "int64"})
    changed_by: str = field(metadata={"kafka_type": "string"})
    """Who wanted that state, if anyone did."""
    detail: str = field(metadata={"kafka_type": "string"})
    ended: bool = field(metadata={"kafka_type": "bool"})
    partition_count: i32 = field(metadata={"kafka_type": "int32"})
    refused: i32 = field(metadata={"kafka_type": "int32"})
    waiting: i32 = field(metadata={"kafka_type": "int32"})
    stepping: i32 = field(metadata={"kafka_type": "int32"})
    completed: i32 = field(metadata={"kafka_type": "int32"})
    cancelled: i32 = field(metadata={"kafka_type": "int32"})
    superseded: i32 = field(metadata={"kafka_type": "int32"})
    gone: i32 = field(metadata={"kafka_type": "int32"})
    bytes_left: i64 = field(metadata={"kafka_type": "int64"}, default=i64(-1))
    """To be copied for the steps under way of which it is known; -1 if it is known of none."""
    bytes_per_s: i64 = field(metadata={"kafka_type": "int64"}, default=i64(-1))
    copies_unknown: i32 = field(metadata={"kafka_type": "int32"}, default=i32(0))
    """Partitions of which it is not known."""
    copies_behind: i32 = field(metadata={"kafka_type": "int32"}, default=i32(0))
    """Partitions that never catch up like this: more is written to them than is copied."""
    time_left_ms: i64 = field(metadata={"kafka_type": "int64"}, default=i64(-1))
    """Until all of it is done; -1 if it is not known."""
    has_more: bool = field(metadata={"kafka_type": "bool"}, default=False)
    """Whether there are more partitions behind those that are told of."""
    partitions: tuple[MovingPartition, ...]
    """Of a move that was named those still in it, in order, as far as there is room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeMovesResponse:
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_004)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    all_paused_by: str | None = field(metadata={"kafka_type": "string"}, default=None)
    """Who has paused all moves; null while they are not."""
    all_paused_since_ms: i64 = field(metadata={"kafka_type": "int64"}, default=i64(0))
    moves: tuple[DescribedMove, ...]
