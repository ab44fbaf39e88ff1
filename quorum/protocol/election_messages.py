"""Vote, BeginQuorumEpoch and EndQuorumEpoch between flat and nested form (KIP-595, KIP-853).

It checks that a message is meant for this node and that its numbers can be true. Whether a vote
is granted or an epoch accepted is not its affair.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from quorum.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Error,
    VoteRequest,
    VoteResponse,
)
from quorum.core.vocabulary import (
    NO_DIRECTORY,
    NO_REPLICA,
    Epoch,
    Offset,
    OffsetAndEpoch,
    ReplicaId,
    ReplicaKey,
)
from quorum.core.voter_set import Endpoint
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

PRE_VOTE_FROM: Final = 2
"""The version of Vote that has room for a pre-vote."""

ElectionRequest: TypeAlias = VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest
ElectionResponse: TypeAlias = VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse


def write_vote(
    request: VoteRequest, version: int, *, to: ReplicaKey, cluster_id: str | None
) -> bytes:
    """Version 0 says neither whose vote is asked for nor the candidate's directory; a pre-vote
    needs version 2 (KIP-996)."""
    assert version >= PRE_VOTE_FROM or not request.pre_vote, f"no pre-vote in version {version}"
    values = {
        "replica_epoch": request.epoch,
        "replica_id": request.candidate.id,
        "replica_directory_id": request.candidate.directory_id,
        "voter_directory_id": to.directory_id,
        "last_offset_epoch": request.log_end.epoch,
        "last_offset": request.log_end.offset,
        "pre_vote": request.pre_vote,
    }
    return _write_request(ApiKey.VOTE, version, values, cluster_id=cluster_id, voter_id=to.id)


def write_begin_quorum_epoch(
    request: BeginQuorumEpochRequest,
    version: int,
    *,
    to: ReplicaKey,
    cluster_id: str | None,
    endpoints: Sequence[Endpoint],
) -> bytes:
    """`endpoints` are the leader's own; version 0 has no room for them."""
    values = {
        "voter_directory_id": to.directory_id,
        "leader_id": request.leader,
        "leader_epoch": request.epoch,
    }
    api_key = ApiKey.BEGIN_QUORUM_EPOCH
    leader_endpoints = _leader_endpoints(api_key, version, endpoints)
    return _write_request(
        api_key,
        version,
        values,
        cluster_id=cluster_id,
        voter_id=to.id,
        leader_endpoints=leader_endpoints,
    )


def write_end_quorum_epoch(
    request: EndQuorumEpochRequest,
    version: int,
    *,
    cluster_id: str | None,
    endpoints: Sequence[Endpoint],
) -> bytes:
    """The successors go out by id alone: which directory each one has is not asked here."""
    api_key = ApiKey.END_QUORUM_EPOCH
    values: dict[str, object] = {"leader_id": request.leader, "leader_epoch": request.epoch}
    if version == 0:
        values["preferred_successors"] = request.preferred_successors
    else:
        replica = nested(codec.request_schema(api_key, version), "ReplicaInfo")
        values["preferred_candidates"] = tuple(
            make(replica, candidate_id=successor, candidate_directory_id=None)
            for successor in request.preferred_successors
        )
    leader_endpoints = _leader_endpoints(api_key, version, endpoints)
    return _write_request(
        api_key, version, values, cluster_id=cluster_id, leader_endpoints=leader_endpoints
    )


def read_request(
    api_key: int, version: int, body: Data, here: LocalNode
) -> ElectionRequest | Refusal:
    """The flat request, or why it is refused; raises `Malformed`."""
    message = codec.decode_request(api_key, version, body)
    partition = _asked_partition(message, here)
    if isinstance(partition, Refusal):
        return partition
    elsewhere = _meant_for_another(message, partition, here.replica)
    if elsewhere is not None:
        return elsewhere
    match api_key:
        case ApiKey.VOTE:
            return _vote(partition)
        case ApiKey.BEGIN_QUORUM_EPOCH:
            return _begin_quorum_epoch(partition)
        case ApiKey.END_QUORUM_EPOCH:
            return _end_quorum_epoch(partition)
        case _:
            raise AssertionError(f"{api_key} is no request of an election")


def write_response(response: ElectionResponse, version: int, standing: LeaderAndEpoch) -> bytes:
    """The answer of the core, in the nesting of the request it answers."""
    match response:
        case VoteResponse():
            api_key, more = ApiKey.VOTE, {"vote_granted": response.granted}
        case BeginQuorumEpochResponse():
            api_key, more = ApiKey.BEGIN_QUORUM_EPOCH, {}
        case EndQuorumEpochResponse():
            api_key, more = ApiKey.END_QUORUM_EPOCH, {}
    top_code = response.error if response.error is Error.INCONSISTENT_CLUSTER_ID else Error.NONE
    return _write_response(api_key, version, top_code, response.error, standing, more)


def write_refusal(api_key: int, version: int, refusal: Refusal, standing: LeaderAndEpoch) -> bytes:
    """An answer that the core was not asked for."""
    top_code = refusal.code if refusal.top_level else 0
    more = {"vote_granted": False} if api_key == ApiKey.VOTE else {}
    return _write_response(api_key, version, top_code, refusal.code, standing, more)


def read_response(api_key: int, version: int, body: Data) -> RaftResponse | Refusal:
    """The flat answer, or why the request was refused; raises `Malformed`."""
    message = codec.decode_response(api_key, version, body)
    partition = _answered_partition(api_key, version, message)
    top_code: int = message.error_code.value
    if partition is None:
        if top_code == 0:
            raise Malformed(api_key, version, "neither an error nor a partition")
        return Refusal(top_code, error_name(top_code))
    code: int = top_code or partition.error_code.value
    error = flat_error(code)
    if error is None or (error and partition.leader_epoch < 0):
        return Refusal(code, error_name(code), top_level=bool(top_code))
    if partition.leader_epoch < 0:
        raise Malformed(api_key, version, f"leader epoch {partition.leader_epoch}")
    leader = ReplicaId(partition.leader_id) if partition.leader_id >= 0 else None
    response = _flat_response(api_key, error, partition, leader)
    return RaftResponse(response=response, leader_address=address_of(leader, message))


def _vote(partition: Any) -> VoteRequest | Refusal:
    if partition.replica_id < 0:
        return _invalid(f"candidate {partition.replica_id}")
    if partition.last_offset < 0 or partition.last_offset_epoch < 0:
        return _invalid(f"log end {partition.last_offset}@{partition.last_offset_epoch}")
    pre_vote = getattr(partition, "pre_vote", False)
    # Who only asks whether it would win is still in the epoch that its log may end with.
    if partition.last_offset_epoch >= partition.replica_epoch + pre_vote:
        return _invalid(
            f"epoch {partition.replica_epoch} of the candidate must be above "
            f"the last epoch {partition.last_offset_epoch} of its log"
        )
    directory_id = getattr(partition, "replica_directory_id", None)
    return VoteRequest(
        epoch=Epoch(partition.replica_epoch),
        candidate=ReplicaKey(ReplicaId(partition.replica_id), directory_id or NO_DIRECTORY),
        log_end=OffsetAndEpoch(Epoch(partition.last_offset_epoch), Offset(partition.last_offset)),
        pre_vote=pre_vote,
    )


def _begin_quorum_epoch(partition: Any) -> BeginQuorumEpochRequest | Refusal:
    if partition.leader_id < 0 or partition.leader_epoch < 0:
        return _invalid(f"leader {partition.leader_id} in epoch {partition.leader_epoch}")
    return BeginQuorumEpochRequest(
        epoch=Epoch(partition.leader_epoch), leader=ReplicaId(partition.leader_id)
    )


def _end_quorum_epoch(partition: Any) -> EndQuorumEpochRequest | Refusal:
    if partition.leader_id < 0 or partition.leader_epoch < 0:
        return _invalid(f"leader {partition.leader_id} in epoch {partition.leader_epoch}")
    if hasattr(partition, "preferred_candidates"):
        ids = [candidate.candidate_id for candidate in partition.preferred_candidates]
    else:
        ids = list(partition.preferred_successors)
    if any(successor < 0 for successor in ids):
        return _invalid(f"successors {ids}")
    return EndQuorumEpochRequest(
        epoch=Epoch(partition.leader_epoch),
        leader=ReplicaId(partition.leader_id),
        preferred_successors=tuple(map(ReplicaId, ids)),
    )


def _flat_response(
    api_key: int, error: Error, partition: Any, leader: ReplicaId | None
) -> ElectionResponse:
    epoch = Epoch(partition.leader_epoch)
    match api_key:
        case ApiKey.VOTE:
            granted = partition.vote_granted and not error
            return VoteResponse(error=error, epoch=epoch, leader=leader, granted=granted)
        case ApiKey.BEGIN_QUORUM_EPOCH:
            return BeginQuorumEpochResponse(error=error, epoch=epoch, leader=leader)
        case ApiKey.END_QUORUM_EPOCH:
            return EndQuorumEpochResponse(error=error, epoch=epoch, leader=leader)
        case _:
            raise AssertionError(f"{api_key} is no request of an election")


def _asked_partition(message: Any, here: LocalNode) -> Any | Refusal:
    """The one partition of a request, or why there is none to speak of."""
    wrong = wrong_cluster(message.cluster_id, here)
    if wrong is not None:
        return wrong
    if len(message.topics) != 1 or len(message.topics[0].partitions) != 1:
        return Refusal(
            ErrorCode.INVALID_REQUEST, "exactly one topic with one partition is expected"
        )
    (topic,) = message.topics
    (partition,) = topic.partitions
    if topic.topic_name != METADATA_TOPIC or partition.partition_index != METADATA_PARTITION:
        asked = f"{topic.topic_name}-{partition.partition_index}"
        return Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{asked} was asked for, here is only {METADATA_TOPIC}-{METADATA_PARTITION}",
        )
    return partition


def _meant_for_another(message: Any, partition: Any, me: ReplicaKey) -> Refusal | None:
    """Return the reason why a request addressed to another voter is refused, or None (KIP-853).

    Another replica may answer at an address where its namesake once was: without this check
    its vote would be counted as the other's.
    """
    voter_id = getattr(message, "voter_id", NO_REPLICA)
    if voter_id == NO_REPLICA:
        return None
    directory_id = getattr(partition, "voter_directory_id", None) or NO_DIRECTORY
    if voter_id == me.id and NO_DIRECTORY in (directory_id, me.directory_id):
        return None
    meant = ReplicaKey(ReplicaId(voter_id), directory_id)
    if meant == me:
        return None
    reason = f"replica {meant.text} is addressed, this is {me.text}"
    return Refusal(ErrorCode.INVALID_VOTER_KEY, reason, top_level=False)


def _answered_partition(api_key: int, version: int, message: Any) -> Any | None:
    if not message.topics:
        return None
    if len(message.topics) != 1 or len(message.topics[0].partitions) != 1:
        raise Malformed(api_key, version, "more or less than one topic with one partition")
    (topic,) = message.topics
    (partition,) = topic.partitions
    if topic.topic_name != METADATA_TOPIC or partition.partition_index != METADATA_PARTITION:
        answered = f"{topic.topic_name}-{partition.partition_index}"
        raise Malformed(api_key, version, f"answers for {answered}")
    return partition


def _write_request(
    api_key: int, version: int, partition_values: dict[str, Any], **values: object
) -> bytes:
    schema = codec.request_schema(api_key, version)
    topics = _nest(schema, partition_values)
    return codec.encode_request_body(api_key, version, make_known(schema, topics=topics, **values))


def _write_response(
    api_key: int,
    version: int,
    top_code: int,
    code: int,
    standing: LeaderAndEpoch,
    more: dict[str, Any],
) -> bytes:
    schema = codec.response_schema(api_key, version)
    values = {
        "error_code": codec.error_code(code),
        "leader_id": NO_REPLICA if standing.leader is None else standing.leader,
        "leader_epoch": standing.epoch,
        **more,
    }
    response = make_known(
        schema,
        error_code=codec.error_code(top_code),
        topics=_nest(schema, values),
        node_endpoints=_node_endpoints(schema, version, standing),
    )
    return codec.encode_response_body(api_key, version, response)


def _nest(schema: type[Any], partition_values: dict[str, Any]) -> tuple[Any, ...]:
    partition = make_known(
        nested(schema, "PartitionData"), partition_index=METADATA_PARTITION, **partition_values
    )
    topic = make(nested(schema, "TopicData"), topic_name=METADATA_TOPIC, partitions=(partition,))
    return (topic,)


def _node_endpoints(schema: type[Any], version: int, standing: LeaderAndEpoch) -> tuple[Any, ...]:
    if version == 0 or standing.leader is None or standing.leader_address is None:
        return ()
    host, port = standing.leader_address
    return (make(nested(schema, "NodeEndpoint"), node_id=standing.leader, host=host, port=port),)


def _leader_endpoints(api_key: int, version: int, endpoints: Sequence[Endpoint]) -> tuple[Any, ...]:
    if version == 0:
        return ()
    entry = nested(codec.request_schema(api_key, version), "LeaderEndpoint")
    return tuple(make(entry, name=e.name, host=e.host, port=e.port) for e in endpoints)


def _invalid(what: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, f"invalid: {what}", top_level=False)
