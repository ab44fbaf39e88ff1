"""AlterPartitionReassignments (45) version 0, as `alter_reassignments` has version 1.

Kafka's nodes below 4.1 speak no other.
"""

import datetime
from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.alter_partition_reassignments.v0.request import (
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32Timedelta

from quorum.protocol.private.alter_reassignments import (
    AskedOfOurs,
    PlannedStep,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    ToldByOurs,
)

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
class AlterPartitionReassignmentsRequest(AskedOfOurs):
    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(45)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    timeout: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"}, default=_MINUTE)
    topics: tuple[ReassignableTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsResponse(ToldByOurs):
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(45)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    responses: tuple[ReassignableTopicResponse, ...]
