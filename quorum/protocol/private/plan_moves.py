"""PlanMoves (20005): spread topics, change replication factors, empty brokers, and end that.

Classes of kio's kind.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import BrokerId
from kio.static.constants import EntityType
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMovesRequest:
    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_005)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    timeout: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    operation: i8 = field(metadata={"kafka_type": "int8"})
    """1 spreads topics, 2 changes a replication factor, 3 empties brokers, 4 ends that."""
    topics: tuple[str, ...] | None = field(metadata={"kafka_type": "string"})
    """Null stands for all."""
    broker_ids: tuple[BrokerId, ...] | None = field(metadata={"kafka_type": "int32"})
    """Where to, or those that are emptied; null stands for all that take replicas."""
    heeds_racks: bool = field(metadata={"kafka_type": "bool"})
    replication_factor: i32 = field(metadata={"kafka_type": "int32"})
    dry_run: bool = field(metadata={"kafka_type": "bool"})
    """Only answer what would be begun. What spreads topics is never begun by this."""
    unregister: bool = field(metadata={"kafka_type": "bool"})
    """Forget emptied brokers once they have nothing any more and are dead, now or later."""
    throttle: i64 = field(metadata={"kafka_type": "int64", "tag": 0}, default=i64(0))
    """Of the moves that it begins, in bytes a second to and from each broker; 0 is no limit."""
    key: str = field(metadata={"kafka_type": "string", "tag": 1}, default="")
    """Chosen by the asker: asked again with it, it is not carried out again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPartition:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_005)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    topic_name: str = field(metadata={"kafka_type": "string"})
    partition_index: i32 = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPartition(NamedPartition):
    replicas: tuple[BrokerId, ...] = field(metadata={"kafka_type": "int32"})
    """What it has now."""
    target: tuple[BrokerId, ...] = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedPartition(NamedPartition):
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerShare:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_005)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    broker_id: BrokerId = field(metadata={"kafka_type": "int32"})
    replicas_before: i32 = field(metadata={"kafka_type": "int32"})
    replicas_after: i32 = field(metadata={"kafka_type": "int32"})
    leaders_before: i32 = field(metadata={"kafka_type": "int32"})
    leaders_after: i32 = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMovesResponse:
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_005)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    reason: str | None = field(metadata={"kafka_type": "string"}, default=None)
    """Why there is no plan; null where there is one."""
    move_ids: tuple[i64, ...] = field(metadata={"kafka_type": "int64"}, default=())
    """Begun by this, and of an emptying those that are under way."""
    planned_count: i32 = field(metadata={"kafka_type": "int32"}, default=i32(0))
    planned: tuple[PlannedPartition, ...] = ()
    """As many as there is room for."""
    accepted_count: i32 = field(metadata={"kafka_type": "int32"}, default=i32(0))
    refused_count: i32 = field(metadata={"kafka_type": "int32"}, default=i32(0))
    refused: tuple[RefusedPartition, ...] = ()
    replicas_added: i32 = field(metadata={"kafka_type": "int32"}, default=i32(0))
    replicas_removed: i32 = field(metadata={"kafka_type": "int32"}, default=i32(0))
    leaders_moved: i32 = field(metadata={"kafka_type": "int32"}, default=i32(0))
    crowded_before: i32 = field(metadata={"kafka_type": "int32"}, default=i32(-1))
    """Partitions that share racks needlessly; -1 where racks are not known."""
    crowded_after: i32 = field(metadata={"kafka_type": "int32"}, default=i32(-1))
    shares: tuple[BrokerShare, ...] = ()
    held_count: i32 = field(metadata={"kafka_type": "int32"}, default=i32(0))
    """Partitions that have a replica on the brokers that are emptied."""
    leaving_count: i32 = field(metadata={"kafka_type": "int32"}, default=i32(0))
    leaderless: tuple[NamedPartition, ...] = ()
    busy: tuple[NamedPartition, ...] = ()
    cordoned: tuple[BrokerId, ...] = field(metadata={"kafka_type": "int32"}, default=())
    """Brokers of which that has begun, or ended, by this."""
    strange: tuple[BrokerId, ...] = field(metadata={"kafka_type": "int32"}, default=())
    """Brokers that are not registered."""
    alive: tuple[BrokerId, ...] = field(metadata={"kafka_type": "int32"}, default=())
    repeated: bool = field(metadata={"kafka_type": "bool", "tag": 0}, default=False)
    """Whether a request with its key was answered before; then nothing was done now."""
    to_be_unregistered: tuple[BrokerId, ...] = field(
        metadata={"kafka_type": "int32", "tag": 1}, default=()
    )
    """Of the brokers that are emptied, those that are forgotten then."""
