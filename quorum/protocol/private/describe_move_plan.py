"""DescribeMovePlan (20009): what a move asks for, and what there was before; part by part.

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
class DescribeMovePlanRequest:
    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_009)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    move_id: i64 = field(metadata={"kafka_type": "int64"})
    part: i32 = field(metadata={"kafka_type": "int32"})
    """From 0 on; a plan never changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPartition:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_009)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    topic_name: str = field(metadata={"kafka_type": "string"})
    partition_index: i32 = field(metadata={"kafka_type": "int32"})
    target: tuple[BrokerId, ...] = field(metadata={"kafka_type": "int32"})
    original: tuple[BrokerId, ...] = field(metadata={"kafka_type": "int32"})
    """What it had when the move was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeMovePlanResponse:
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_009)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    part_count: i32 = field(metadata={"kafka_type": "int32"}, default=i32(0))
    gone_count: i32 = field(metadata={"kafka_type": "int32"}, default=i32(0))
    """Partitions of this part whose topics are deleted; they are left out."""
    partitions: tuple[PlannedPartition, ...]
    """In the order in which they were asked for; at most 1,000."""
