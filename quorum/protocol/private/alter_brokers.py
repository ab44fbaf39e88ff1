"""AlterBrokers (20006): which brokers may get new replicas. Classes of kio's kind."""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import BrokerId
from kio.static.constants import EntityType
from kio.static.primitive import i8, i16, i32Timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterBrokersRequest:
    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_006)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    timeout: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    broker_ids: tuple[BrokerId, ...] = field(metadata={"kafka_type": "int32"})
    operation: i8 = field(metadata={"kafka_type": "int8"})
    """1 cordons, 2 ends that, 3 forgets those that have stopped and have no replicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredBroker:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_006)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    broker_id: BrokerId = field(metadata={"kafka_type": "int32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterBrokersResponse:
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_006)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    brokers: tuple[AlteredBroker, ...]
