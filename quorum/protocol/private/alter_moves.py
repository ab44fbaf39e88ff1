"""AlterMoves (20003): what operators do with moves that are there. Classes of kio's kind."""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import BrokerId
from kio.static.constants import EntityType
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTopic:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_003)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    name: str = field(metadata={"kafka_type": "string"})
    partition_indexes: tuple[i32, ...] | None = field(metadata={"kafka_type": "int32"})
    """Null stands for all of the topic that is under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterMovesRequest:
    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_003)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    timeout: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    operation: i8 = field(metadata={"kafka_type": "int8"})
    """1 pauses, 2 resumes, 3 cancels, 4 rolls back, 5 gives a priority, 6 a throttle, 7 both."""
    move_ids: tuple[i64, ...] = field(metadata={"kafka_type": "int64"})
    topics: tuple[NamedTopic, ...]
    """Of a cancel: what of these topics is under way, in a move or not."""
    everything: bool = field(metadata={"kafka_type": "bool"})
    """In place of names: all moves, those to come as well where they are paused."""
    dry_run: bool = field(metadata={"kafka_type": "bool"})
    """Of a cancel and a rollback: only answer what each partition would have then."""
    priority: i32 = field(metadata={"kafka_type": "int32"})
    """Moves with a higher one step before others."""
    key: str = field(metadata={"kafka_type": "string", "tag": 0}, default="")
    """Chosen by the asker: asked again with it, it is not carried out again."""
    throttle: i64 = field(metadata={"kafka_type": "int64", "tag": 1}, default=i64(0))
    """Bytes a second to and from each broker; 0 is no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredMove:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_003)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    move_id: i64 = field(metadata={"kafka_type": "int64"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredPartition:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_003)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    topic_name: str = field(metadata={"kafka_type": "string"})
    partition_index: i32 = field(metadata={"kafka_type": "int32"})
    """-1 tells of the topic."""
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    replicas: tuple[BrokerId, ...] = field(metadata={"kafka_type": "int32"})
    """What it has now, or would have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterMovesResponse:
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(20_003)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    begun_move_id: i64 = field(metadata={"kafka_type": "int64"}, default=i64(0))
    """Of a rollback: the move that it is; 0 where nothing had to change, or it is only tried."""
    accepted_count: i32 = field(metadata={"kafka_type": "int32"}, default=i32(0))
    refused_count: i32 = field(metadata={"kafka_type": "int32"}, default=i32(0))
    """Of partitions, those that are not told of one by one included."""
    moves: tuple[AlteredMove, ...]
    """Of the moves that were named, in the order asked."""
    partitions: tuple[AlteredPartition, ...]
    """Of a cancel all, and of a rollback that is only tried; of another one those that were
    refused. As far as there is room."""
    repeated: bool = field(metadata={"kafka_type": "bool", "tag": 0}, default=False)
    """Whether a request with its key was answered before; then nothing was done now."""
