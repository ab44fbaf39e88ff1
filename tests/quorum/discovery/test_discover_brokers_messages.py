from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.core.vocabulary import NO_DIRECTORY, Epoch, ReplicaId
from quorum.discovery import discover_brokers
from quorum.discovery.gossip import Advertisement, DiscoverBrokersRequest, DiscoverBrokersResponse
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.raft_types import Refusal
from tests.support.kio_values import make

CLUSTER: str = "4L6g3nShT-eMCtK--X86sw"

advertisements = st.builds(
    Advertisement,
    id=st.integers(0, 2**31 - 1).map(ReplicaId),
    boot_timestamp=st.integers(0, 2**62),
    host=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30),
    port=st.integers(1, 65_535),
    directory_id=st.just(NO_DIRECTORY) | st.uuids(),
)
clusters = st.none() | st.just(CLUSTER)


@given(
    st.builds(
        DiscoverBrokersRequest, cluster_id=clusters, advertisement=st.none() | advertisements
    ),
)
def test_a_request_comes_back_as_it_went(request: DiscoverBrokersRequest) -> None:
    assert discover_brokers.read_request(discover_brokers.write_request(request)) == request


@given(
    st.builds(
        DiscoverBrokersResponse,
        cluster_id=clusters,
        brokers=st.lists(advertisements, max_size=5).map(tuple),
        leader=st.none() | st.integers(0, 9).map(ReplicaId),
        epoch=st.integers(0, 9).map(Epoch),
        is_founded=st.booleans(),
        answerer=st.none() | st.integers(0, 9).map(ReplicaId),
    )
)
def test_an_answer_comes_back_as_it_went(response: DiscoverBrokersResponse) -> None:
    assert discover_brokers.read_response(discover_brokers.write_response(response)) == response


def test_a_refusal_is_read_with_its_reason() -> None:
    refusal = Refusal(104, "the sender is of cluster A, this node of B")
    read = discover_brokers.read_response(discover_brokers.write_refusal(refusal, CLUSTER))
    assert read == Refusal(
        104, "INCONSISTENT_CLUSTER_ID: the sender is of cluster A, this node of B"
    )


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"replica_id": -2}, "ids begin at 0"),
        ({"boot_timestamp": -1}, "boot timestamp -1"),
        ({"host": ""}, "an invalid host"),
        ({"port": 70_000}, "ports are 1 to 65535"),
    ],
)
def test_a_request_that_cannot_be_true_is_refused(wrong: dict[str, object], why: str) -> None:
    values: dict[str, object] = {
        "replica_id": 1,
        "boot_timestamp": 5,
        "host": "a",
        "port": 9,
        "directory_id": UUID(int=7),
    }
    schema = codec.request_schema(ApiKey.DISCOVER_BROKERS, 0)
    payload = make(schema, **{**values, **wrong})
    body = codec.encode_request_body(ApiKey.DISCOVER_BROKERS, 0, payload)
    refusal = discover_brokers.read_request(body)
    assert isinstance(refusal, Refusal)
    assert why in refusal.reason


def test_an_answer_with_one_impossible_place_teaches_nothing() -> None:
    good = Advertisement(id=ReplicaId(1), boot_timestamp=1, host="a", port=1)
    bad = Advertisement(id=ReplicaId(2), boot_timestamp=1, host="a", port=0)
    response = DiscoverBrokersResponse(cluster_id=None, brokers=(good, bad))
    refusal = discover_brokers.read_response(discover_brokers.write_response(response))
    assert isinstance(refusal, Refusal)
    assert "port 0" in refusal.reason


def test_an_answer_with_too_many_brokers_teaches_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(discover_brokers, "BROKERS_MAX", 1)
    places = tuple(
        Advertisement(id=ReplicaId(each), boot_timestamp=1, host="a", port=1) for each in (1, 2)
    )
    response = DiscoverBrokersResponse(cluster_id=None, brokers=places)
    refusal = discover_brokers.read_response(discover_brokers.write_response(response))
    assert isinstance(refusal, Refusal)
    assert "2 brokers in one answer" in refusal.reason
