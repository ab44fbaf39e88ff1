"""FetchSnapshot between flat and nested form (KIP-630): parts of a snapshot, as they lie in a file.

The bytes need not end where a batch does, and are neither checked nor changed here. Nothing here
knows which snapshots there are.
"""

from datetime import timedelta
from typing import Any, Final

from quorum.core.messages import FetchSnapshotRequest, FetchSnapshotResponse
from quorum.core.vocabulary import (
    NO_DIRECTORY,
    NO_REPLICA,
    Epoch,
    Offset,
    OffsetAndEpoch,
    ReplicaId,
    ReplicaKey,
)
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.codec import make, make_known, nested
from quorum.protocol.errors import ErrorCode, error_name
from quorum.protocol.malformed import Malformed
from quorum.protocol.raft_types import (
    METADATA_PARTITION,
    METADATA_TOPIC,
    LeaderAndEpoch,
    LocalNode,
    RaftResponse,
    Refusal,
    address_of,
    flat_error,
    wrong_cluster,
)
from quorum.protocol.shape import Data

_KEY: Final = ApiKey.FETCH_SNAPSHOT
_NOWHERE: Final = OffsetAndEpoch(Epoch(0), Offset(0))


def write_request(request: FetchSnapshotRequest, version: int, *, cluster_id: str | None) -> bytes:
    """Version 0 does not say the replica's directory."""
    schema = codec.request_schema(_KEY, version)
    partition = make_known(
        nested(schema, "PartitionSnapshot"),
        partition=METADATA_PARTITION,
        current_leader_epoch=request.epoch,
        snapshot_id=_snapshot_id(schema, request.snapshot),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    message = make(
        schema,
        cluster_id=cluster_id,
        replica_id=request.replica.id,
        max_bytes=request.max_bytes,
        topics=_topics(schema, partition),
    )
    return codec.encode_request_body(_KEY, version, message)


def read_request(version: int, body: Data, here: LocalNode) -> FetchSnapshotRequest | Refusal:
    """The flat request, or why it is refused; raises `Malformed`."""
    message = codec.decode_request(_KEY, version, body)
    wrong = wrong_cluster(message.cluster_id, here)
    if wrong is not None:
        return wrong
    if len(message.topics) != 1 or len(message.topics[0].partitions) != 1:
        return Refusal(
            ErrorCode.INVALID_REQUEST, "exactly one topic with one partition is expected"
        )
    (topic,) = message.topics
    (partition,) = topic.partitions
    if topic.name != METADATA_TOPIC or partition.partition != METADATA_PARTITION:
        return Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{topic.name}-{partition.partition} was asked for, here is only"
            f" {METADATA_TOPIC}-{METADATA_PARTITION}",
            top_level=False,
        )
    id_ = partition.snapshot_id
    numbers = (partition.current_leader_epoch, id_.epoch, id_.end_offset, partition.position)
    if min(numbers) < 0 or message.replica_id < NO_REPLICA or message.max_bytes < 1:
        reason = f"replica {message.replica_id}, up to {message.max_bytes} bytes, {numbers}"
        return Refusal(ErrorCode.INVALID_REQUEST, f"invalid: {reason}", top_level=False)
    directory_id = getattr(partition, "replica_directory_id", None) or NO_DIRECTORY
    return FetchSnapshotRequest(
        replica=ReplicaKey(ReplicaId(message.replica_id), directory_id),
        epoch=Epoch(partition.current_leader_epoch),
        snapshot=OffsetAndEpoch(Epoch(id_.epoch), Offset(id_.end_offset)),
        position=partition.position,
        max_bytes=message.max_bytes,
    )


def write_response(
    response: FetchSnapshotResponse, version: int, standing: LeaderAndEpoch, *, part: Data
) -> bytes:
    """`part` are the bytes that the response speaks of."""
    assert len(part) == response.length
    return _write(version, 0, response.error, standing, response, part)


def write_refusal(version: int, refusal: Refusal, standing: LeaderAndEpoch) -> bytes:
    """An answer that the core was not asked for."""
    top_code = refusal.code if refusal.top_level else 0
    nothing = FetchSnapshotResponse(epoch=standing.epoch, snapshot=_NOWHERE)
    return _write(version, top_code, refusal.code, standing, nothing, b"")


def read_response(version: int, body: Data) -> RaftResponse | Refusal:
    """The flat answer and its bytes, or why the request was refused; raises `Malformed`."""
    message = codec.decode_response(_KEY, version, body)
    top_code = message.error_code.value
    if len(message.topics) != 1 or len(message.topics[0].partitions) != 1:
        if top_code:
            return Refusal(top_code, error_name(top_code))
        raise Malformed(_KEY, version, "neither an error nor exactly one partition")
    (topic,) = message.topics
    (partition,) = topic.partitions
    if topic.name != METADATA_TOPIC or partition.index != METADATA_PARTITION:
        raise Malformed(_KEY, version, f"answers for {topic.name}-{partition.index}")
    code = top_code or partition.error_code.value
    current, id_ = partition.current_leader, partition.snapshot_id
    error = flat_error(code)
    if error is None or (code and current.leader_epoch < 0):
        return Refusal(code, error_name(code), top_level=bool(top_code))
    numbers = (current.leader_epoch, id_.epoch, id_.end_offset, partition.size, partition.position)
    if min(numbers) < 0:
        raise Malformed(_KEY, version, f"negative numbers: {numbers}")
    leader = ReplicaId(current.leader_id) if current.leader_id >= 0 else None
    part = partition.unaligned_records or b""
    response = FetchSnapshotResponse(
        error=error,
        epoch=Epoch(current.leader_epoch),
        leader=leader,
        snapshot=OffsetAndEpoch(Epoch(id_.epoch), Offset(id_.end_offset)),
        size_bytes=partition.size,
        position=partition.position,
        length=len(part),
    )
    return RaftResponse(response=response, records=part, leader_address=address_of(leader, message))


def _write(
    version: int,
    top_code: int,
    code: int,
    standing: LeaderAndEpoch,
    response: FetchSnapshotResponse,
    part: Data,
) -> bytes:
    schema = codec.response_schema(_KEY, version)
    leader = NO_REPLICA if standing.leader is None else standing.leader
    partition = make(
        nested(schema, "PartitionSnapshot"),
        index=METADATA_PARTITION,
        error_code=codec.error_code(code),
        snapshot_id=_snapshot_id(schema, response.snapshot),
        current_leader=make(
            nested(schema, "LeaderIdAndEpoch"), leader_id=leader, leader_epoch=standing.epoch
        ),
        size=response.size_bytes,
        position=response.position,
        unaligned_records=bytes(part),
    )
    message = make_known(
        schema,
        throttle_time=timedelta(0),
        error_code=codec.error_code(top_code),
        topics=_topics(schema, partition),
        node_endpoints=_node_endpoints(schema, version, standing),
    )
    return codec.encode_response_body(_KEY, version, message)


def _topics(schema: type[Any], partition: Any) -> tuple[Any, ...]:
    return (make(nested(schema, "TopicSnapshot"), name=METADATA_TOPIC, partitions=(partition,)),)


def _snapshot_id(schema: type[Any], id_: OffsetAndEpoch) -> Any:
    return make(nested(schema, "SnapshotId"), end_offset=id_.offset, epoch=id_.epoch)


def _node_endpoints(schema: type[Any], version: int, standing: LeaderAndEpoch) -> tuple[Any, ...]:
    if version == 0 or standing.leader is None or standing.leader_address is None:
        return ()
    host, port = standing.leader_address
    return (make(nested(schema, "NodeEndpoint"), node_id=standing.leader, host=host, port=port),)
