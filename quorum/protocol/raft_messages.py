"""The codec of the core's flat messages in the Kafka protocol.

A flat request becomes the body of the Kafka request of the same name; a body becomes a flat message
or the refusal to answer with. The codec checks that a message is meant for this node and that its
numbers are possible; the core decides everything else.

Vote, BeginQuorumEpoch, EndQuorumEpoch (KIP-595, KIP-853) and FetchSnapshot (KIP-630) go through
kio; Fetch, which is hot, has its own codec (`fetch_messages`). Snapshot bytes are neither checked
nor, on their way out, copied here.
"""

from collections.abc import Mapping, Sequence
from struct import Struct
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from quorum.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from quorum.core.vocabulary import (
    NO_DIRECTORY,
    NO_REPLICA,
    Epoch,
    HostPort,
    Offset,
    OffsetAndEpoch,
    ReplicaId,
    ReplicaKey,
)
from quorum.core.voter_set import Endpoint, is_meant
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey, UnsupportedVersion, VersionRange
from quorum.protocol.errors import ErrorCode, Malformed, error_name
from quorum.protocol.fetch_messages import (
    read_fetch_request,
    read_fetch_response,
    write_fetch_refusal,
    write_fetch_request,
    write_fetch_response,
)
from quorum.protocol.raft_types import (
    METADATA_PARTITION,
    METADATA_TOPIC,
    NOT_ONE_PARTITION,
    LeaderAndEpoch,
    LocalNode,
    RaftResponse,
    Refusal,
    address_of,
    flat_error,
    node_endpoints,
    wrong_cluster,
)
from quorum.protocol.shape import Data
from quorum.records.varint import uvarint

API_KEYS: Final[Mapping[type[Request] | type[Response], ApiKey]] = MappingProxyType(
    {
        VoteRequest: ApiKey.VOTE,
        VoteResponse: ApiKey.VOTE,
        BeginQuorumEpochRequest: ApiKey.BEGIN_QUORUM_EPOCH,
        BeginQuorumEpochResponse: ApiKey.BEGIN_QUORUM_EPOCH,
        EndQuorumEpochRequest: ApiKey.END_QUORUM_EPOCH,
        EndQuorumEpochResponse: ApiKey.END_QUORUM_EPOCH,
        FetchRequest: ApiKey.FETCH,
        FetchResponse: ApiKey.FETCH,
        FetchSnapshotRequest: ApiKey.FETCH_SNAPSHOT,
        FetchSnapshotResponse: ApiKey.FETCH_SNAPSHOT,
    }
)
"""The Kafka API that carries each flat message."""

VERSIONS: Final[Mapping[int, VersionRange]] = MappingProxyType(
    {
        **{api_key: api_key.spoken for api_key in API_KEYS.values()},
        # By topic id (KIP-516): the metadata log is not fetched by name.
        ApiKey.FETCH: VersionRange(13, 17),
    }
)
"""The supported versions of these calls, for the offer of a quorum's listener."""

PRE_VOTE_FROM: Final = 2
"""The first version of Vote with a pre-vote (KIP-996)."""

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "vote_granted": False,
        "snapshot_id": {"end_offset": 0, "epoch": 0},
        "size": 0,
        "position": 0,
        "unaligned_records": b"",
    }
)
"""The fields of a response without a result, of every API."""

# throttle, error, topics, topic, partitions, partition, error, end offset and epoch of the snapshot
# and its tagged fields, size, position.
_BEFORE_SNAPSHOT_BYTES: Final = Struct(f">ihB{1 + len(METADATA_TOPIC)}sBihqiBqq").size
_NO_BYTES: Final = b"\x01"


class _Nesting(NamedTuple):
    """The names of the fields that identify the one partition of a message."""

    topic: str
    index_asked: str
    index_answered: str


_ELECTION: Final = _Nesting("topic_name", "partition_index", "partition_index")
_SNAPSHOT: Final = _Nesting("name", "partition", "index")


def lowest_version(request: Request) -> int:
    """Return the first version that can express `request`."""
    if isinstance(request, VoteRequest) and request.pre_vote:
        return PRE_VOTE_FROM
    return VERSIONS[API_KEYS[type(request)]].lowest


def write_request(
    request: Request,
    version: int,
    *,
    to: ReplicaKey,
    cluster_id: str | None,
    endpoints: Sequence[Endpoint] = (),
) -> bytes:
    """Encode `request` for the replica `to`, whose directory may be unknown.

    `endpoints` are the sender's listeners, for the announcement of a leader (KIP-853). Fields that
    `version` lacks are left out, but a pre-vote needs its version. Raises `UnsupportedVersion`
    outside `VERSIONS`.
    """
    api_key = API_KEYS[type(request)]
    _require(api_key, version)
    if isinstance(request, FetchRequest):
        return write_fetch_request(request, version, cluster_id=cluster_id)
    assert version >= lowest_version(request), f"{request} in version {version}"
    whole, partition = _request_fields(request, to)
    nesting = _nesting(api_key)
    partition |= {nesting.index_asked: METADATA_PARTITION, "voter_directory_id": to.directory_id}
    return codec.request_body(
        api_key,
        version,
        cluster_id=cluster_id,
        voter_id=to.id,
        leader_endpoints=[{"name": e.name, "host": e.host, "port": e.port} for e in endpoints],
        topics=[{nesting.topic: METADATA_TOPIC, "partitions": [partition]}],
        **whole,
    )


def read_request(api_key: int, version: int, body: Data, *, here: LocalNode) -> Request | Refusal:
    """Decode a request, or return the refusal for its sender; raises `Malformed`.

    Refused are requests of another cluster, for another topic, partition or voter, or with invalid
    numbers. Raises `UnsupportedVersion` outside `VERSIONS`.
    """
    _require(api_key, version)
    if api_key == ApiKey.FETCH:
        return read_fetch_request(version, body, here)
    message = codec.decode_request(api_key, version, body)
    is_election = api_key != ApiKey.FETCH_SNAPSHOT
    refusal = wrong_cluster(message.cluster_id, here, is_required=is_election)
    if refusal is not None:
        return refusal
    if len(message.topics) != 1 or len(message.topics[0].partitions) != 1:
        return NOT_ONE_PARTITION
    nesting, (topic,) = _nesting(api_key), message.topics
    (partition,) = topic.partitions
    name, index = getattr(topic, nesting.topic), getattr(partition, nesting.index_asked)
    if name != METADATA_TOPIC or index != METADATA_PARTITION:
        reason = f"{name}-{index} is unknown; the log is {METADATA_TOPIC}-{METADATA_PARTITION}"
        is_whole = nesting is _ELECTION
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason, top_level=is_whole)
    refusal = _meant_for_another(message, partition, here.replica)
    if refusal is not None:
        return refusal
    read = _flat_request(api_key, message, partition, here.replica)
    return Refusal.of_invalid(read) if isinstance(read, str) else read


def write_response(
    response: Response,
    version: int,
    *,
    records: Data = b"",
    leader_address: HostPort | None = None,
) -> Sequence[Data]:
    """Encode a response, in parts, to a request of `version`.

    `records` are the bytes for a fetch of records or of a snapshot; `leader_address` is that of the
    leader in `response`, for replicas that know only its id.
    """
    if isinstance(response, FetchResponse):
        return write_fetch_response(
            response, version, records=records, leader_address=leader_address
        )
    fields: Mapping[str, Any] = _NOTHING
    length = 0
    if isinstance(response, VoteResponse):
        fields = {"vote_granted": response.granted}
    elif isinstance(response, FetchSnapshotResponse):
        length = response.length
        fields = {
            "snapshot_id": _snapshot_id(response.snapshot),
            "size": response.size_bytes,
            "position": response.position,
            "unaligned_records": b"",
        }
    assert len(records) == length, f"{response} carries {len(records)} bytes"
    current = LeaderAndEpoch(response.epoch, response.leader, leader_address)
    top_code = response.error if response.error is Error.INCONSISTENT_CLUSTER_ID else 0
    api_key = API_KEYS[type(response)]
    whole = _write_answer(api_key, version, current, top_code, response.error, fields)
    return _around(whole, records) if records else (whole,)


def _around(whole: bytes, records: Data) -> Sequence[Data]:
    """Return the parts of an answer to FetchSnapshot that is encoded without its records."""
    at = _BEFORE_SNAPSHOT_BYTES
    after = at + len(_NO_BYTES)
    assert whole[at:after] == _NO_BYTES
    return whole[:at] + uvarint(len(records) + 1), records, whole[after:]


def write_refusal(api_key: int, version: int, refusal: Refusal, current: LeaderAndEpoch) -> bytes:
    """Encode the response to a request that `read_request` refused."""
    if api_key == ApiKey.FETCH:
        return write_fetch_refusal(version, refusal, current)
    top_code = refusal.code if refusal.top_level else 0
    return _write_answer(api_key, version, current, top_code, refusal.code, _NOTHING)


def read_response(api_key: int, version: int, body: Data) -> RaftResponse | Refusal:
    """Decode a response and its attachments, or return its refusal; raises `Malformed`.

    A refusal is an error that the core does not know. The records of a fetch are unchecked; the
    caller checks them and sets `FetchResponse.batches`.
    """
    if api_key == ApiKey.FETCH:
        return read_fetch_response(version, body)
    message = codec.decode_response(api_key, version, body)
    top_code = message.error_code.value
    if len(message.topics) != 1 or len(message.topics[0].partitions) != 1:
        if top_code:
            return Refusal(top_code, error_name(top_code))
        raise Malformed(api_key, version, "neither an error nor exactly one partition")
    nesting, (topic,) = _nesting(api_key), message.topics
    (partition,) = topic.partitions
    name, index = getattr(topic, nesting.topic), getattr(partition, nesting.index_answered)
    if name != METADATA_TOPIC or index != METADATA_PARTITION:
        raise Malformed(api_key, version, f"answers for {name}-{index}")
    current = getattr(partition, "current_leader", partition)
    code: int = top_code or partition.error_code.value
    error = flat_error(code)
    if error is None or (error and current.leader_epoch < 0):
        return Refusal(code, error_name(code), top_level=bool(top_code))
    if current.leader_epoch < 0:
        raise Malformed(api_key, version, f"leader epoch {current.leader_epoch}")
    leader = ReplicaId(current.leader_id) if current.leader_id >= 0 else None
    response = _flat_response(
        api_key, version, partition, error, Epoch(current.leader_epoch), leader
    )
    return RaftResponse(
        response=response,
        records=getattr(partition, "unaligned_records", None) or b"",
        leader_address=address_of(leader, message),
    )


def _require(api_key: int, version: int) -> None:
    if version not in VERSIONS.get(api_key, ()):
        raise UnsupportedVersion(api_key, version)


def _nesting(api_key: int) -> _Nesting:
    return _SNAPSHOT if api_key == ApiKey.FETCH_SNAPSHOT else _ELECTION


def _request_fields(request: Request, to: ReplicaKey) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of the message and those of its partition; versions may lack some."""
    match request:
        case VoteRequest():
            return {}, {
                "replica_epoch": request.epoch,
                "replica_id": request.candidate.id,
                "replica_directory_id": request.candidate.directory_id,
                "last_offset_epoch": request.log_end.epoch,
                "last_offset": request.log_end.offset,
                "pre_vote": request.pre_vote,
            }
        case BeginQuorumEpochRequest():
            return {}, {"leader_id": request.leader, "leader_epoch": request.epoch}
        case EndQuorumEpochRequest():
            successors = request.preferred_successors
            # The directory of the addressed voter tells it that the sender knows the voters.
            candidates = [
                {
                    "candidate_id": each,
                    "candidate_directory_id": _directory_of(to) if each == to.id else None,
                }
                for each in successors
            ]
            return {}, {
                "leader_id": request.leader,
                "leader_epoch": request.epoch,
                "preferred_successors": successors,
                "preferred_candidates": candidates,
            }
        case FetchSnapshotRequest():
            whole = {"replica_id": request.replica.id, "max_bytes": request.max_bytes}
            return whole, {
                "current_leader_epoch": request.epoch,
                "snapshot_id": _snapshot_id(request.snapshot),
                "position": request.position,
                "replica_directory_id": request.replica.directory_id,
            }
        case FetchRequest():
            raise AssertionError("Fetch has a codec of its own")


def _directory_of(replica: ReplicaKey) -> Any:
    return None if replica.directory_id == NO_DIRECTORY else replica.directory_id


def _snapshot_id(id_: OffsetAndEpoch) -> dict[str, Any]:
    return {"end_offset": id_.offset, "epoch": id_.epoch}


def _flat_request(api_key: int, message: Any, partition: Any, me: ReplicaKey) -> Request | str:
    """Return the flat request, or its invalid numbers."""
    directory_id = getattr(partition, "replica_directory_id", None) or NO_DIRECTORY
    if api_key == ApiKey.VOTE:
        return _vote(partition, directory_id)
    if api_key == ApiKey.FETCH_SNAPSHOT:
        return _fetch_snapshot(message, partition, directory_id)
    if partition.leader_id < 0 or partition.leader_epoch < 0:
        return f"leader {partition.leader_id} in epoch {partition.leader_epoch}"
    epoch, leader = Epoch(partition.leader_epoch), ReplicaId(partition.leader_id)
    voter: ReplicaKey | None = None
    if api_key == ApiKey.BEGIN_QUORUM_EPOCH:
        if getattr(message, "voter_id", NO_REPLICA) == me.id:
            voter = ReplicaKey(me.id, partition.voter_directory_id or NO_DIRECTORY)
        return BeginQuorumEpochRequest(epoch=epoch, leader=leader, voter=voter)
    if hasattr(partition, "preferred_candidates"):
        ids = [candidate.candidate_id for candidate in partition.preferred_candidates]
        for candidate in partition.preferred_candidates:
            if candidate.candidate_id == me.id:
                voter = ReplicaKey(me.id, candidate.candidate_directory_id or NO_DIRECTORY)
    else:
        ids = list(partition.preferred_successors)
    if any(successor < 0 for successor in ids):
        return f"successors {ids}"
    successors = tuple(map(ReplicaId, ids))
    return EndQuorumEpochRequest(
        epoch=epoch, leader=leader, preferred_successors=successors, voter=voter
    )


def _vote(partition: Any, directory_id: Any) -> VoteRequest | str:
    if partition.replica_id < 0:
        return f"candidate {partition.replica_id}"
    if partition.last_offset < 0 or partition.last_offset_epoch < 0:
        return f"log end {partition.last_offset}@{partition.last_offset_epoch}"
    pre_vote = getattr(partition, "pre_vote", False)
    # In a pre-vote the candidate has not raised its epoch, so its log may end in it.
    if partition.last_offset_epoch >= partition.replica_epoch + pre_vote:
        return (
            f"epoch {partition.replica_epoch} of the candidate must be above "
            f"the last epoch {partition.last_offset_epoch} of its log"
        )
    return VoteRequest(
        epoch=Epoch(partition.replica_epoch),
        candidate=ReplicaKey(ReplicaId(partition.replica_id), directory_id),
        log_end=OffsetAndEpoch(Epoch(partition.last_offset_epoch), Offset(partition.last_offset)),
        pre_vote=pre_vote,
    )


def _fetch_snapshot(message: Any, partition: Any, directory_id: Any) -> FetchSnapshotRequest | str:
    id_ = partition.snapshot_id
    numbers = (partition.current_leader_epoch, id_.epoch, id_.end_offset)
    if min(numbers) < 0 or message.replica_id < NO_REPLICA or message.max_bytes < 1:
        return f"replica {message.replica_id}, up to {message.max_bytes} bytes, {numbers}"
    return FetchSnapshotRequest(
        replica=ReplicaKey(ReplicaId(message.replica_id), directory_id),
        epoch=Epoch(partition.current_leader_epoch),
        snapshot=OffsetAndEpoch(Epoch(id_.epoch), Offset(id_.end_offset)),
        position=partition.position,
        max_bytes=message.max_bytes,
    )


def _meant_for_another(message: Any, partition: Any, me: ReplicaKey) -> Refusal | None:
    """Return the refusal of a request addressed to another voter, or None (KIP-853).

    Another replica of the same id may have taken over the address: without this check its vote
    would count as the voter's.
    """
    directory_id = getattr(partition, "voter_directory_id", None) or NO_DIRECTORY
    meant = ReplicaKey(getattr(message, "voter_id", NO_REPLICA), directory_id)
    # A node that does not know its own directory yet may be any of its id.
    if meant.id == NO_REPLICA or is_meant(meant, me) or is_meant(me, meant):
        return None
    reason = f"replica {meant.text} is addressed, this is {me.text}"
    return Refusal(ErrorCode.INVALID_VOTER_KEY, reason, top_level=False)


def _write_answer(
    api_key: int,
    version: int,
    current: LeaderAndEpoch,
    top_code: int,
    code: int,
    fields: Mapping[str, Any],
) -> bytes:
    """Encode a response; `fields` are those of its partition besides error, leader and epoch."""
    nesting = _nesting(api_key)
    leader = {
        "leader_id": NO_REPLICA if current.leader is None else current.leader,
        "leader_epoch": current.epoch,
    }
    partition = {
        nesting.index_answered: METADATA_PARTITION,
        "error_code": code,
        # Election responses have them as fields of the partition, the others as a structure.
        **leader,
        "current_leader": leader,
        **fields,
    }
    return codec.response_body(
        api_key,
        version,
        error_code=top_code,
        topics=[{nesting.topic: METADATA_TOPIC, "partitions": [partition]}],
        node_endpoints=node_endpoints(current),
    )


def _flat_response(
    api_key: int,
    version: int,
    partition: Any,
    error: Error,
    epoch: Epoch,
    leader: ReplicaId | None,
) -> Response:
    if api_key == ApiKey.VOTE:
        granted = partition.vote_granted and not error
        return VoteResponse(error=error, epoch=epoch, leader=leader, granted=granted)
    if api_key == ApiKey.BEGIN_QUORUM_EPOCH:
        return BeginQuorumEpochResponse(error=error, epoch=epoch, leader=leader)
    if api_key == ApiKey.END_QUORUM_EPOCH:
        return EndQuorumEpochResponse(error=error, epoch=epoch, leader=leader)
    id_ = partition.snapshot_id
    numbers = (id_.epoch, id_.end_offset, partition.size, partition.position)
    if min(numbers) < 0:
        raise Malformed(api_key, version, f"negative numbers: {numbers}")
    return FetchSnapshotResponse(
        error=error,
        epoch=epoch,
        leader=leader,
        snapshot=OffsetAndEpoch(Epoch(id_.epoch), Offset(id_.end_offset)),
        size_bytes=partition.size,
        position=partition.position,
        length=len(partition.unaligned_records or b""),
    )
