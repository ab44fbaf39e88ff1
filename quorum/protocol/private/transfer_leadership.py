"""TransferLeadership (20002): who is to lead the quorum next. Classes of kio's kind."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i32Timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferLeadershipRequest:
    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_002)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    cluster_id: str | None = field(metadata={"kafka_type": "string"})
    timeout: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    """How long to look for a leader to ask; handing over takes an election time-out at most."""
    voter_id: i32 = field(metadata={"kafka_type": "int32"}, default=i32(-1))
    """Who is to lead; -1 for whichever voter suits best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferLeadershipResponse:
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_002)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    leader_id: i32 = field(metadata={"kafka_type": "int32"}, default=i32(-1))
    """Who leads now, as far as whoever led before knows; -1 if nobody."""
    leader_epoch: i32 = field(metadata={"kafka_type": "int32"}, default=i32(-1))
    duration: i32Timedelta = field(
        metadata={"kafka_type": "timedelta_i32"}, default=i32Timedelta.parse(timedelta(0))
    )
    """From the request until this leader was known."""
