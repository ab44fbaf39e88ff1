"""SafeToStop (20007): what would be hurt if brokers stopped. Classes of kio's kind."""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import BrokerId
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i32Timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class SafeToStopRequest:
    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_007)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    broker_ids: tuple[BrokerId, ...] = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HurtPartition:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_007)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    topic_name: str = field(metadata={"kafka_type": "string"})
    partition_index: i32 = field(metadata={"kafka_type": "int32"})
    harm: str = field(metadata={"kafka_type": "string"})
    """A word of `statemachine.safety.Harm`."""
    left: tuple[BrokerId, ...] = field(metadata={"kafka_type": "int32"})
    """Who would be in sync and alive."""
    min_isr: i32 = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SafeToStopResponse:
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_007)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    looked_at: i32 = field(metadata={"kafka_type": "int32"}, default=i32(0))
    """Partitions that any of the brokers is in sync for."""
    hurt_count: i32 = field(metadata={"kafka_type": "int32"}, default=i32(0))
    hurt: tuple[HurtPartition, ...]
    """Some of them, in order."""
