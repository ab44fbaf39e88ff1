from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    Error,
    VoteRequest,
    VoteResponse,
)
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch, ReplicaId, ReplicaKey
from quorum.core.voter_set import Endpoint
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey, UnsupportedVersion
from quorum.protocol.errors import ErrorCode, Malformed
from quorum.protocol.raft_messages import (
    VERSIONS,
    lowest_version,
    read_request,
    read_response,
    write_refusal,
    write_request,
    write_response,
)
from quorum.protocol.raft_types import LeaderAndEpoch, LocalNode, RaftResponse, Refusal
from tests.quorum.protocol.raft_message_strategies import (
    ADDRESSES,
    BEGIN_RESPONSES,
    BEGINS,
    CLUSTER_ID,
    CLUSTER_IDS,
    END_RESPONSES,
    ENDS,
    HERE,
    ME,
    PRE_VOTES,
    REPLICAS,
    VOTE_RESPONSES,
    VOTES,
)
from tests.support.kio_values import make, make_known, nested

REQUESTS: dict[ApiKey, st.SearchStrategy[Any]] = {
    ApiKey.VOTE: VOTES,
    ApiKey.BEGIN_QUORUM_EPOCH: BEGINS,
    ApiKey.END_QUORUM_EPOCH: ENDS,
}
RESPONSES: dict[ApiKey, st.SearchStrategy[Any]] = {
    ApiKey.VOTE: VOTE_RESPONSES,
    ApiKey.BEGIN_QUORUM_EPOCH: BEGIN_RESPONSES,
    ApiKey.END_QUORUM_EPOCH: END_RESPONSES,
}
APIS = st.sampled_from(list(REQUESTS))
ENDPOINTS = st.lists(
    st.builds(Endpoint, st.text(max_size=9), st.text(max_size=9), st.integers(0, 65_535)),
    max_size=2,
)
VOTE = VoteRequest(
    epoch=Epoch(4),
    candidate=ReplicaKey(ReplicaId(1)),
    log_end=OffsetAndEpoch(Epoch(3), Offset(120)),
)
STANDING = LeaderAndEpoch(Epoch(7), ReplicaId(3), ("leader.example", 9_093))


@given(APIS, st.integers(0, 1), REPLICAS, CLUSTER_IDS, ENDPOINTS, st.data())
def test_a_request_arrives_as_it_was_sent(
    api_key: ApiKey,
    version: int,
    to: ReplicaKey,
    cluster_id: str | None,
    endpoints: list[Endpoint],
    data: st.DataObject,
) -> None:
    request = data.draw(REQUESTS[api_key])
    body = write_request(request, version, to=to, cluster_id=cluster_id, endpoints=endpoints)
    here = LocalNode(cluster_id=cluster_id, replica=to)
    if isinstance(request, VoteRequest) and version == 0:
        # Version 0 knows no directories (KIP-853).
        request = VoteRequest(
            epoch=request.epoch,
            candidate=ReplicaKey(request.candidate.id),
            log_end=request.log_end,
        )
    assert read_request(api_key, version, body, here=here) == addressed(request, version, to)


def addressed(request: Any, version: int, to: ReplicaKey) -> Any:
    """The request as it arrives: announcements of a leader name the voter that they are for."""
    match request:
        case BeginQuorumEpochRequest() if version >= 1:
            return replace(request, voter=to)
        case EndQuorumEpochRequest(preferred_successors=successors) if version >= 1:
            return replace(request, voter=to if to.id in successors else None)
        case _:
            return request


@given(APIS, st.integers(0, 1), ADDRESSES, st.data())
def test_an_answer_arrives_as_it_was_given(
    api_key: ApiKey, version: int, address: tuple[str, int] | None, data: st.DataObject
) -> None:
    response = data.draw(RESPONSES[api_key])
    (body,) = write_response(response, version, leader_address=address)
    known = address if version >= 1 and response.leader is not None else None
    answer = read_response(api_key, version, body)
    assert answer == RaftResponse(response=response, leader_address=known)


@given(PRE_VOTES, REPLICAS, CLUSTER_IDS)
def test_a_pre_vote_arrives_as_it_was_sent(
    request: VoteRequest, to: ReplicaKey, cluster_id: str | None
) -> None:
    """KIP-996: it may be of the epoch that the asker's log ends with."""
    assert lowest_version(request) == 2
    body = write_request(request, 2, to=to, cluster_id=cluster_id)
    here = LocalNode(cluster_id=cluster_id, replica=to)
    assert read_request(ApiKey.VOTE, 2, body, here=here) == request


def test_a_vote_may_be_of_a_version_that_knows_pre_votes() -> None:
    body = write_request(VOTE, 2, to=ME, cluster_id=CLUSTER_ID)
    assert read_request(ApiKey.VOTE, 2, body, here=HERE) == VOTE
    assert lowest_version(VOTE) == 0


@pytest.mark.parametrize("version", [0, 1])
def test_a_vote_has_the_fields_of_kafka(version: int) -> None:
    to = ReplicaKey(ReplicaId(2), UUID(int=5 << 100))
    vote = VoteRequest(
        epoch=Epoch(4),
        candidate=ReplicaKey(ReplicaId(1), UUID(int=9 << 100)),
        log_end=OffsetAndEpoch(Epoch(3), Offset(120)),
    )
    body = write_request(vote, version, to=to, cluster_id=CLUSTER_ID)
    message = codec.decode_request(ApiKey.VOTE, version, body)
    (topic,) = message.topics
    (partition,) = topic.partitions
    assert (message.cluster_id, topic.topic_name) == (CLUSTER_ID, "__cluster_metadata")
    assert partition.partition_index == 0
    assert (partition.replica_id, partition.replica_epoch) == (1, 4)
    assert (partition.last_offset_epoch, partition.last_offset) == (3, 120)
    if version == 1:
        assert message.voter_id == 2
        assert partition.voter_directory_id == to.directory_id
        assert partition.replica_directory_id == vote.candidate.directory_id


def test_a_leader_says_where_it_listens() -> None:
    request = BeginQuorumEpochRequest(epoch=Epoch(4), leader=ReplicaId(1))
    endpoints = [Endpoint("CONTROLLER", "one.example", 9_093)]
    body = write_request(request, 1, to=ME, cluster_id=None, endpoints=endpoints)
    message = codec.decode_request(ApiKey.BEGIN_QUORUM_EPOCH, 1, body)
    (endpoint,) = message.leader_endpoints
    assert (endpoint.name, endpoint.host, endpoint.port) == ("CONTROLLER", "one.example", 9_093)
    assert message.voter_id == ME.id
    assert message.topics[0].partitions[0].voter_directory_id == ME.directory_id


def refused(api_key: int, version: int, body: bytes, here: LocalNode = HERE) -> Refusal:
    refusal = read_request(api_key, version, body, here=here)
    assert isinstance(refusal, Refusal)
    return refusal


@pytest.mark.parametrize("api_key", REQUESTS)
@pytest.mark.parametrize("version", [0, 1])
def test_another_cluster_is_refused(api_key: ApiKey, version: int) -> None:
    request = _any_request(api_key)
    body = write_request(request, version, to=ME, cluster_id="another")
    refusal = refused(api_key, version, body)
    assert (refusal.code, refusal.top_level) == (ErrorCode.INCONSISTENT_CLUSTER_ID, True)
    assert refusal.reason == f"the sender is of cluster another, this node of {CLUSTER_ID}"


@pytest.mark.parametrize("api_key", REQUESTS)
@pytest.mark.parametrize("version", [0, 1])
def test_a_node_without_a_cluster_answers_only_nodes_without_one(
    api_key: ApiKey, version: int
) -> None:
    """It may turn out to be of another: its epoch and its leader are not for the sender then."""
    request, unknown = _any_request(api_key), LocalNode(cluster_id=None, replica=ME)
    body = write_request(request, version, to=ME, cluster_id="another")
    refusal = refused(api_key, version, body, unknown)
    assert refusal.reason == "the sender is of cluster another, this node knows of none yet"
    body = write_request(request, version, to=ME, cluster_id=None)
    found = read_request(api_key, version, body, here=unknown)
    assert found == addressed(request, version, ME)


@pytest.mark.parametrize("api_key", REQUESTS)
@pytest.mark.parametrize("version", [0, 1])
def test_who_knows_the_cluster_does_not_elect_with_those_who_name_none(
    api_key: ApiKey, version: int
) -> None:
    body = write_request(_any_request(api_key), version, to=ME, cluster_id=None)
    refusal = refused(api_key, version, body)
    assert (refusal.code, refusal.top_level) == (ErrorCode.INCONSISTENT_CLUSTER_ID, True)
    assert refusal.reason == f"the sender names no cluster, this node is of {CLUSTER_ID}"


def _any_request(api_key: ApiKey) -> Any:
    return {
        ApiKey.VOTE: VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH: BeginQuorumEpochRequest(epoch=Epoch(4), leader=ReplicaId(1)),
        ApiKey.END_QUORUM_EPOCH: EndQuorumEpochRequest(
            epoch=Epoch(4), leader=ReplicaId(1), preferred_successors=(ReplicaId(2),)
        ),
    }[api_key]


@pytest.mark.parametrize("api_key", [ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH])
def test_a_request_for_another_voter_is_refused(api_key: ApiKey) -> None:
    """KIP-853: whoever answers in another's place would be counted as the other."""
    request = _any_request(api_key)
    other_disk = ReplicaKey(ME.id, UUID(int=1 << 100))
    for to in (ReplicaKey(ReplicaId(3)), ReplicaKey(ReplicaId(3), ME.directory_id), other_disk):
        refusal = refused(api_key, 1, write_request(request, 1, to=to, cluster_id=CLUSTER_ID))
        assert (refusal.code, refusal.top_level) == (ErrorCode.INVALID_VOTER_KEY, False)
        assert refusal.reason == f"replica {to.text} is addressed, this is {ME.text}"


@pytest.mark.parametrize("api_key", [ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH])
def test_a_voter_whose_directory_one_side_does_not_know_is_meant_all_the_same(
    api_key: ApiKey,
) -> None:
    request = _any_request(api_key)
    anybody = ReplicaKey(ME.id)
    body = write_request(request, 1, to=anybody, cluster_id=CLUSTER_ID)
    assert read_request(api_key, 1, body, here=HERE) == addressed(request, 1, anybody)
    body = write_request(request, 1, to=ME, cluster_id=None)
    nameless = LocalNode(cluster_id=None, replica=anybody)
    assert read_request(api_key, 1, body, here=nameless) == addressed(request, 1, ME)


def nest(api_key: int, version: int, **changes: Any) -> bytes:
    """A request with two levels of nesting as the test wants them."""
    schema = codec.request_schema(api_key, version)
    values = {
        "partition_index": 0,
        "replica_epoch": 4,
        "replica_id": 1,
        "replica_directory_id": None,
        "voter_directory_id": None,
        "last_offset_epoch": 3,
        "last_offset": 120,
        "leader_id": 1,
        "leader_epoch": 4,
        "preferred_successors": (2,),
        "preferred_candidates": (),
        **{name: value for name, value in changes.items() if name not in ("topic_name", "times")},
    }
    partition = make_known(nested(schema, "PartitionData"), **values)
    topic = make_known(
        nested(schema, "TopicData"),
        topic_name=changes.get("topic_name", "__cluster_metadata"),
        partitions=(partition,) * changes.get("times", (1, 1))[1],
    )
    message = make_known(
        schema,
        cluster_id=CLUSTER_ID,
        topics=(topic,) * changes.get("times", (1, 1))[0],
        leader_endpoints=(),
    )
    return codec.encode_request_body(api_key, version, message)


@pytest.mark.parametrize("api_key", REQUESTS)
@pytest.mark.parametrize("version", [0, 1])
def test_only_the_one_partition_of_the_metadata_log_can_be_meant(
    api_key: ApiKey, version: int
) -> None:
    assert not isinstance(
        read_request(api_key, version, nest(api_key, version), here=HERE), Refusal
    )
    for changes in ({"topic_name": "orders"}, {"partition_index": 1}):
        refusal = refused(api_key, version, nest(api_key, version, **changes))
        assert (refusal.code, refusal.top_level) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)
        assert "the log is __cluster_metadata-0" in refusal.reason
    for times in ((0, 1), (2, 1), (1, 0), (1, 2)):
        refusal = refused(api_key, version, nest(api_key, version, times=times))
        assert (refusal.code, refusal.top_level) == (ErrorCode.INVALID_REQUEST, True)


@pytest.mark.parametrize(
    ("api_key", "changes", "reason"),
    [
        (ApiKey.VOTE, {"replica_id": -1}, "candidate -1"),
        (ApiKey.VOTE, {"last_offset": -1}, "log end -1@3"),
        (ApiKey.VOTE, {"last_offset_epoch": -1}, "log end 120@-1"),
        (ApiKey.VOTE, {"last_offset_epoch": 4}, "epoch 4 of the candidate must be above"),
        (ApiKey.BEGIN_QUORUM_EPOCH, {"leader_id": -1}, "leader -1 in epoch 4"),
        (ApiKey.BEGIN_QUORUM_EPOCH, {"leader_epoch": -1}, "leader 1 in epoch -1"),
        (ApiKey.END_QUORUM_EPOCH, {"leader_id": -1}, "leader -1 in epoch 4"),
        (ApiKey.END_QUORUM_EPOCH, {"leader_epoch": -2}, "leader 1 in epoch -2"),
        (ApiKey.END_QUORUM_EPOCH, {"preferred_successors": (2, -1)}, "successors [2, -1]"),
    ],
)
def test_numbers_that_cannot_be_true_are_refused(
    api_key: ApiKey, changes: dict[str, Any], reason: str
) -> None:
    refusal = refused(api_key, 0, nest(api_key, 0, **changes))
    assert (refusal.code, refusal.top_level) == (ErrorCode.INVALID_REQUEST, False)
    assert reason in refusal.reason


@pytest.mark.parametrize("api_key", REQUESTS)
@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("top_level", [True, False])
def test_a_refusal_names_the_leader_and_reaches_the_asker(
    api_key: ApiKey, version: int, top_level: bool
) -> None:
    refusal = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "a reason for our log", top_level)
    body = write_refusal(api_key, version, refusal, STANDING)
    message = codec.decode_response(api_key, version, body)
    partition = message.topics[0].partitions[0]
    assert message.error_code == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if top_level else 0)
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (partition.leader_id, partition.leader_epoch) == (3, 7)
    expected = Refusal(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "UNKNOWN_TOPIC_OR_PARTITION", top_level
    )
    assert read_response(api_key, version, body) == expected


def test_errors_that_the_core_knows_come_back_as_its_answers() -> None:
    refusal = Refusal(ErrorCode.INVALID_REQUEST, "", top_level=False)
    body = write_refusal(ApiKey.VOTE, 1, refusal, STANDING)
    assert read_response(ApiKey.VOTE, 1, body) == RaftResponse(
        response=VoteResponse(error=Error.INVALID_REQUEST, epoch=Epoch(7), leader=ReplicaId(3)),
        leader_address=("leader.example", 9_093),
    )


@pytest.mark.parametrize("api_key", REQUESTS)
def test_an_error_without_a_partition_is_a_refusal(api_key: ApiKey) -> None:
    """Kafka leaves the topics out when it refuses a request as a whole."""
    schema = codec.response_schema(api_key, 1)
    message = make(schema, error_code=codec.error_code(104), topics=())
    body = codec.encode_response_body(api_key, 1, message)
    assert read_response(api_key, 1, body) == Refusal(104, "INCONSISTENT_CLUSTER_ID")
    message = make(schema, error_code=codec.error_code(0), topics=())
    with pytest.raises(Malformed, match="neither an error nor exactly one partition"):
        read_response(api_key, 1, codec.encode_response_body(api_key, 1, message))


def granted(top_code: int, code: int) -> bytes:
    """A vote that is said to be granted, whatever the errors beside it say."""
    schema = codec.response_schema(ApiKey.VOTE, 1)
    partition = make(
        nested(schema, "PartitionData"),
        partition_index=0,
        error_code=codec.error_code(code),
        leader_id=-1,
        leader_epoch=9,
        vote_granted=True,
    )
    topic = make(
        nested(schema, "TopicData"), topic_name="__cluster_metadata", partitions=(partition,)
    )
    message = make(schema, error_code=codec.error_code(top_code), topics=(topic,))
    return codec.encode_response_body(ApiKey.VOTE, 1, message)


@pytest.mark.parametrize(("top_code", "code"), [(0, 74), (74, 0), (74, 104)])
def test_a_granted_vote_with_an_error_is_not_granted(top_code: int, code: int) -> None:
    answer = read_response(ApiKey.VOTE, 1, granted(top_code, code))
    refused = VoteResponse(error=Error.FENCED_LEADER_EPOCH, epoch=Epoch(9), leader=None)
    assert answer == RaftResponse(response=refused)
    fine = VoteResponse(epoch=Epoch(9), leader=None, granted=True)
    assert read_response(ApiKey.VOTE, 1, granted(0, 0)) == RaftResponse(response=fine)


@given(APIS, st.integers(0, 1), st.binary(max_size=80))
def test_any_bytes_are_a_message_or_malformed(api_key: ApiKey, version: int, junk: bytes) -> None:
    for read in (
        lambda: read_request(api_key, version, junk, here=HERE),
        lambda: read_response(api_key, version, junk),
    ):
        try:
            read()
        except Malformed:
            continue


@pytest.mark.parametrize(("api_key", "version"), [(52, 3), (1, 12), (1, 18), (18, 3)])
def test_other_versions_and_calls_are_not_understood(api_key: int, version: int) -> None:
    with pytest.raises(UnsupportedVersion):
        read_request(api_key, version, b"", here=HERE)
    assert version not in VERSIONS.get(api_key, ())
