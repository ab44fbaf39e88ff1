"""The quorum's flat messages in the Kafka protocol: the one door to them for whoever sends.

A request becomes the body of the Kafka request of the same name, a body becomes a flat message or
the refusal that its sender gets. It never decides: what the core should say is the core's affair.

Fetch carries FetchQuorumRecords, for replicas of ours and for Kafka's brokers as observers.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from quorum.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    Response,
    VoteRequest,
)
from quorum.core.vocabulary import ReplicaKey
from quorum.core.voter_set import Endpoint
from quorum.protocol import election_messages, snapshot_messages
from quorum.protocol.apis import ApiKey, UnsupportedVersion, VersionRange
from quorum.protocol.fetch_requests import read_fetch_request, write_fetch_request
from quorum.protocol.fetch_responses import (
    read_fetch_response,
    write_fetch_refusal,
    write_fetch_response,
)
from quorum.protocol.raft_types import (
    HostPort,
    LeaderAndEpoch,
    LocalNode,
    RaftResponse,
    Refusal,
)
from quorum.protocol.shape import Data

API_KEYS: Final[Mapping[type[Request], ApiKey]] = MappingProxyType(
    {
        VoteRequest: ApiKey.VOTE,
        BeginQuorumEpochRequest: ApiKey.BEGIN_QUORUM_EPOCH,
        EndQuorumEpochRequest: ApiKey.END_QUORUM_EPOCH,
        FetchRequest: ApiKey.FETCH,
        FetchSnapshotRequest: ApiKey.FETCH_SNAPSHOT,
    }
)
"""The Kafka API that carries each flat request."""

VERSIONS: Final[Mapping[int, VersionRange]] = MappingProxyType(
    {
        # By topic id (KIP-516): a metadata log is not asked for by name.
        ApiKey.FETCH: VersionRange(13, 17),
        ApiKey.FETCH_SNAPSHOT: VersionRange(0, 1),
        ApiKey.VOTE: VersionRange(0, 2),
        ApiKey.BEGIN_QUORUM_EPOCH: VersionRange(0, 1),
        ApiKey.END_QUORUM_EPOCH: VersionRange(0, 1),
    }
)
"""The versions in which these calls are understood: what a listener of a quorum can offer."""


def lowest_version(request: Request) -> int:
    """The first version that can say `request`; a replica that serves none so high is not asked."""
    if isinstance(request, VoteRequest) and request.pre_vote:
        return election_messages.PRE_VOTE_FROM
    return VERSIONS[API_KEYS[type(request)]].lowest


def write_request(
    request: Request,
    version: int,
    *,
    to: ReplicaKey,
    cluster_id: str | None,
    endpoints: Sequence[Endpoint] = (),
) -> bytes:
    """The body of `request` for the replica `to`, whose directory may be unknown.

    `endpoints` are where the sender listens, for messages in which a leader says so (KIP-853).
    Raises `UnsupportedVersion` outside `VERSIONS`.
    """
    _require(API_KEYS[type(request)], version)
    match request:
        case FetchRequest():
            return write_fetch_request(request, version, cluster_id=cluster_id)
        case FetchSnapshotRequest():
            return snapshot_messages.write_request(request, version, cluster_id=cluster_id)
        case VoteRequest():
            return election_messages.write_vote(request, version, to=to, cluster_id=cluster_id)
        case BeginQuorumEpochRequest():
            return election_messages.write_begin_quorum_epoch(
                request, version, to=to, cluster_id=cluster_id, endpoints=endpoints
            )
        case EndQuorumEpochRequest():
            return election_messages.write_end_quorum_epoch(
                request, version, cluster_id=cluster_id, endpoints=endpoints
            )


def read_request(api_key: int, version: int, body: Data, *, here: LocalNode) -> Request | Refusal:
    """The flat request, or the refusal that its sender is to get; raises `Malformed`.

    Refused are requests of another cluster, for another topic or partition, for another voter,
    or with numbers that cannot be true. Raises `UnsupportedVersion` outside `VERSIONS`.
    """
    _require(api_key, version)
    if api_key == ApiKey.FETCH:
        return read_fetch_request(version, body, here)
    if api_key == ApiKey.FETCH_SNAPSHOT:
        return snapshot_messages.read_request(version, body, here)
    return election_messages.read_request(api_key, version, body, here)


def write_response(
    response: Response,
    version: int,
    *,
    records: Data = b"",
    leader_address: HostPort | None = None,
) -> Sequence[Data]:
    """The parts of the body, for a request that came with `version`.

    `records` belong to the answer of a fetch, of records or of a snapshot; `leader_address` is
    where the leader that `response` names listens, for askers that know only its id.
    """
    if isinstance(response, FetchResponse):
        return write_fetch_response(
            response, version, records=records, leader_address=leader_address
        )
    standing = LeaderAndEpoch(response.epoch, response.leader, leader_address)
    if isinstance(response, FetchSnapshotResponse):
        return (snapshot_messages.write_response(response, version, standing, part=records),)
    assert not records, f"{response} carries no records"
    return (election_messages.write_response(response, version, standing),)


def write_refusal(api_key: int, version: int, refusal: Refusal, standing: LeaderAndEpoch) -> bytes:
    """The body of the answer to a request that `read_request` refused."""
    if api_key == ApiKey.FETCH:
        return write_fetch_refusal(version, refusal, standing)
    if api_key == ApiKey.FETCH_SNAPSHOT:
        return snapshot_messages.write_refusal(version, refusal, standing)
    return election_messages.write_refusal(api_key, version, refusal, standing)


def read_response(api_key: int, version: int, body: Data) -> RaftResponse | Refusal:
    """The flat answer and what came beside it, or why there is none; raises `Malformed`.

    A refusal is an error for which the core has no word. The records of a fetch are unchecked,
    and `FetchResponse.batches` is for whoever checks them to fill in.
    """
    if api_key == ApiKey.FETCH:
        return read_fetch_response(version, body)
    if api_key == ApiKey.FETCH_SNAPSHOT:
        return snapshot_messages.read_response(version, body)
    return election_messages.read_response(api_key, version, body)


def _require(api_key: int, version: int) -> None:
    spoken = VERSIONS.get(api_key)
    if spoken is None or not spoken.lowest <= version <= spoken.highest:
        raise UnsupportedVersion(api_key, version)
