"""DescribeBrokers (20008): every registered broker, and what it has. Classes of kio's kind."""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import BrokerId
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i32Timedelta, i64


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeBrokersRequest:
    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_008)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    broker_ids: tuple[BrokerId, ...] | None = field(metadata={"kafka_type": "int32"})
    """Null asks for all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedBroker:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_008)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    broker_id: BrokerId = field(metadata={"kafka_type": "int32"})
    broker_epoch: i64 = field(metadata={"kafka_type": "int64"})
    rack: str | None = field(metadata={"kafka_type": "string"})
    is_fenced: bool = field(metadata={"kafka_type": "bool"})
    is_stopping: bool = field(metadata={"kafka_type": "bool"})
    is_cordoned: bool = field(metadata={"kafka_type": "bool"})
    replica_count: i32 = field(metadata={"kafka_type": "int32"})
    in_sync_count: i32 = field(metadata={"kafka_type": "int32"})
    leader_count: i32 = field(metadata={"kafka_type": "int32"})
    to_be_unregistered: bool = field(metadata={"kafka_type": "bool", "tag": 0}, default=False)
    """Once it has nothing and is fenced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeBrokersResponse:
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_008)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    brokers: tuple[DescribedBroker, ...]
