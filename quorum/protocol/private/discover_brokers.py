"""DiscoverBrokers (20000, KIP-595): who is where, said and asked in one exchange.

The plain fields are those of the KIP, in its order; what it lacks is in tagged fields. Classes of
kio's kind, which `quorum.discovery.discover_brokers` fills and reads.
"""

import uuid
from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import BrokerId
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i64


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverBrokersRequest:
    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_000)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    replica_id: BrokerId = field(metadata={"kafka_type": "int32"})
    """Who asks; -1 for a client, whose other fields say nothing."""
    boot_timestamp: i64 = field(metadata={"kafka_type": "int64"})
    host: str = field(metadata={"kafka_type": "string"})
    port: i32 = field(metadata={"kafka_type": "int32"})
    cluster_id: str | None = field(metadata={"kafka_type": "string", "tag": 0}, default=None)
    """The cluster of the asker, if it knows one."""
    directory_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid", "tag": 1}, default=None)
    """The directory that the asker keeps its log in (KIP-853)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_000)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    replica_id: BrokerId = field(metadata={"kafka_type": "int32"})
    boot_timestamp: i64 = field(metadata={"kafka_type": "int64"})
    host: str = field(metadata={"kafka_type": "string"})
    port: i32 = field(metadata={"kafka_type": "int32"})
    directory_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid", "tag": 0}, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverBrokersResponse:
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_000)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    cluster_id: str | None = field(metadata={"kafka_type": "string"})
    """The cluster of the node that answers; null as long as it knows of none."""
    brokers: tuple[Broker, ...]
    """Every node it knows the whereabouts of, itself included."""
    error_message: str | None = field(metadata={"kafka_type": "string", "tag": 0}, default=None)
    leader_id: BrokerId = field(metadata={"kafka_type": "int32", "tag": 1}, default=BrokerId(-1))
    """Who leads the quorum, as far as it knows; -1 for nobody."""
    leader_epoch: i32 = field(metadata={"kafka_type": "int32", "tag": 2}, default=i32(-1))
    is_founded: bool = field(metadata={"kafka_type": "bool", "tag": 3}, default=False)
    """Whether it holds a log that has been begun: there is a quorum already."""
    replica_id: BrokerId = field(metadata={"kafka_type": "int32", "tag": 4}, default=BrokerId(-1))
    """Who answers: behind one address there may be several, the asker among them."""
