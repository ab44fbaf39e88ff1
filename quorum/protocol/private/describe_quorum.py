"""The answer to DescribeQuorum (55) version 2, with what KIP-595 has and Kafka's schema lacks.

Who is to vote in the end, what the change waits for, and whose disk is full, are tagged fields of
the partition, with tags from 10000 up; Kafka's tools skip them. All else is Kafka's, class by
class.
"""

import uuid
from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.describe_quorum.v2.response import Listener, Node, ReplicaState
from kio.schema.errors import ErrorCode
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import BrokerId, TopicName
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i64

__all__ = ["DescribeQuorumResponse", "Listener", "Node", "PartitionData", "ReplicaState"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetVoter:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(2)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(55)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    voter_id: BrokerId = field(metadata={"kafka_type": "int32"})
    voter_directory_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid"})
    """Null stands for any directory of the id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(2)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(55)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    partition_index: i32 = field(metadata={"kafka_type": "int32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    leader_id: BrokerId = field(metadata={"kafka_type": "int32"})
    leader_epoch: i32 = field(metadata={"kafka_type": "int32"})
    high_watermark: i64 = field(metadata={"kafka_type": "int64"})
    current_voters: tuple[ReplicaState, ...]
    observers: tuple[ReplicaState, ...]
    target_voters: tuple[TargetVoter, ...] = field(metadata={"tag": 10_000}, default=())
    """Who is to vote in the end; empty while no change is under way."""
    waits_for: str | None = field(metadata={"kafka_type": "string", "tag": 10_001}, default=None)
    """Why the change does not go on at once, if it does not."""
    full_disks: tuple[i32, ...] = field(metadata={"kafka_type": "int32", "tag": 10_002}, default=())
    """Nodes that have no room on their disks, as far as whoever answers knows: of itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicData:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(2)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(55)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    topic_name: TopicName = field(metadata={"kafka_type": "string"})
    partitions: tuple[PartitionData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumResponse:
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(2)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(55)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    topics: tuple[TopicData, ...]
    nodes: tuple[Node, ...]
