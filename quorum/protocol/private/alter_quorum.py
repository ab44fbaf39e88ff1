"""AlterQuorum (20001, KIP-595): who is to vote in the end. Classes of kio's kind."""

import uuid
from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import BrokerId
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32Timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetVoter:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_001)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    voter_id: BrokerId = field(metadata={"kafka_type": "int32"})
    voter_directory_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid"})
    """Null stands for any directory of the id: the one that votes, or else that fetches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterQuorumRequest:
    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_001)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    cluster_id: str | None = field(metadata={"kafka_type": "string"})
    timeout: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    """How long to wait until the target is committed; the change itself goes on after that."""
    target_voters: tuple[TargetVoter, ...] | None
    """Null cancels what is under way: the voters stay as they are then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterQuorumResponse:
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_001)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
