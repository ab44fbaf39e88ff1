"""Capability (20010): one private request for every capability that Kafka has no API for.

Its body is msgpack of a typed request of `admin.capabilities`, opaque to everything below `admin`.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32Timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityRequest:
    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_010)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    timeout: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    """How long the client waits for the answer."""
    name: str = field(metadata={"kafka_type": "string"})
    """The name of the capability."""
    stale: bool = field(metadata={"kafka_type": "bool"}, default=False)
    """Whether any node may answer from what it has; only for capabilities that read."""
    asks_who_leads: bool = field(metadata={"kafka_type": "bool"}, default=False)
    """Whether "nobody leads" is an answer, once that is more than a short election."""
    body: bytes = field(metadata={"kafka_type": "bytes"})
    """The request, msgpack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityResponse:
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_010)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    body: bytes = field(metadata={"kafka_type": "bytes"}, default=b"")
    """The answer, msgpack; empty with an error."""
