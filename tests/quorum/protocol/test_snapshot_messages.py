"""FetchSnapshot on the wire: it arrives as sent, in both versions, and kio reads it too."""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.core.messages import Error, FetchSnapshotRequest, FetchSnapshotResponse
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch, ReplicaId, ReplicaKey
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import ErrorCode
from quorum.protocol.raft_messages import (
    read_request,
    read_response,
    write_refusal,
    write_request,
    write_response,
)
from quorum.protocol.raft_types import LeaderAndEpoch, LocalNode, RaftResponse, Refusal

KEY = ApiKey.FETCH_SNAPSHOT
CLUSTER = "4L6g3nShT-eMCtK--X86sw"
ME = ReplicaKey(ReplicaId(1), UUID(int=7))
HERE = LocalNode(cluster_id=CLUSTER, replica=ME)
EPOCHS = st.integers(0, 2**31 - 1).map(Epoch)
LOG_ENDS = st.builds(OffsetAndEpoch, EPOCHS, st.integers(0, 2**62).map(Offset))
REPLICAS = st.builds(ReplicaKey, st.integers(-1, 2**31 - 1).map(ReplicaId), st.uuids())
REQUESTS = st.builds(
    FetchSnapshotRequest,
    replica=REPLICAS,
    epoch=EPOCHS,
    snapshot=LOG_ENDS,
    position=st.integers(0, 2**62),
    max_bytes=st.integers(1, 2**31 - 1),
)
VERSIONS = st.integers(0, 1)
REQUEST = FetchSnapshotRequest(
    replica=ME,
    epoch=Epoch(3),
    snapshot=OffsetAndEpoch(Epoch(2), Offset(40)),
    position=5,
    max_bytes=10,
)


@given(REQUESTS, VERSIONS, st.none() | st.just(CLUSTER))
def test_a_request_arrives_as_sent(
    request: FetchSnapshotRequest, version: int, cluster_id: str | None
) -> None:
    body = write_request(request, version, to=ME, cluster_id=cluster_id)
    (topic,) = codec.decode_request(KEY, version, body).topics
    assert (topic.name, topic.partitions[0].position) == ("__cluster_metadata", request.position)
    expected = request
    if version == 0:
        expected = replace(request, replica=ReplicaKey(request.replica.id))
    assert read_request(KEY, version, memoryview(body), here=HERE) == expected


@given(
    st.sampled_from([Error.NONE, Error.SNAPSHOT_NOT_FOUND, Error.NOT_LEADER_OR_FOLLOWER]),
    EPOCHS,
    st.none() | st.integers(0, 9).map(ReplicaId),
    LOG_ENDS,
    st.binary(max_size=40),
    st.integers(0, 2**62),
    VERSIONS,
)
def test_an_answer_arrives_as_given(
    error: Error,
    epoch: Epoch,
    leader: ReplicaId | None,
    snapshot: OffsetAndEpoch,
    part: bytes,
    position: int,
    version: int,
) -> None:
    response = FetchSnapshotResponse(
        error=error,
        epoch=epoch,
        leader=leader,
        snapshot=snapshot,
        size_bytes=position + len(part),
        position=position,
        length=len(part),
    )
    parts = write_response(response, version, records=part, leader_address=("host", 9093))
    answer = read_response(KEY, version, b"".join(parts))
    known = ("host", 9093) if version == 1 and leader is not None else None
    assert answer == RaftResponse(response=response, records=part, leader_address=known)


@pytest.mark.parametrize("version", [0, 1])
def test_a_part_is_not_copied_into_its_answer(version: int) -> None:
    part = memoryview(bytes(1024))
    response = FetchSnapshotResponse(
        error=Error.NONE,
        epoch=Epoch(3),
        leader=None,
        snapshot=REQUEST.snapshot,
        size_bytes=2048,
        position=0,
        length=len(part),
    )
    assert any(each is part for each in write_response(response, version, records=part))


@pytest.mark.parametrize("version", [0, 1])
def test_a_request_for_another_node_is_refused(version: int) -> None:
    body = write_request(REQUEST, version, to=ME, cluster_id="another-cluster-of-som")
    refusal = read_request(KEY, version, body, here=HERE)
    assert isinstance(refusal, Refusal)
    assert refusal.code == ErrorCode.INCONSISTENT_CLUSTER_ID
    snapshot = replace(REQUEST.snapshot, offset=Offset(-1))
    for wrong in (replace(REQUEST, snapshot=snapshot), replace(REQUEST, max_bytes=0)):
        body = write_request(wrong, version, to=ME, cluster_id=None)
        refusal = read_request(KEY, version, body, here=HERE)
        assert isinstance(refusal, Refusal)
        assert refusal.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [0, 1])
def test_a_refusal_says_who_leads(version: int) -> None:
    standing = LeaderAndEpoch(Epoch(9), ReplicaId(2), ("host", 9093))
    for top_level in (True, False):
        refusal = Refusal(ErrorCode.INVALID_REQUEST, "so", top_level=top_level)
        body = write_refusal(KEY, version, refusal, standing)
        answer = read_response(KEY, version, bytes(body))
        assert isinstance(answer, RaftResponse)
        assert answer.response.error is Error.INVALID_REQUEST
        assert (answer.response.epoch, answer.response.leader) == (9, 2)
