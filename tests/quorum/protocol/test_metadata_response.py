"""A Metadata response that is encoded piece by piece has the bytes of one that is encoded whole."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum.protocol import codec
from quorum.protocol.apis import SPOKEN, ApiKey
from quorum.protocol.metadata_response import encoded_in_slices
from statemachine.slices import whole
from tests.support.parameters import at_most_in_quick

VERSIONS = SPOKEN[ApiKey.METADATA]
IDS = st.lists(st.integers(0, 9), max_size=4)
PARTITION = st.fixed_dictionaries(
    {
        "error_code": st.sampled_from((0, 5)),
        "partition_index": st.integers(0, 300),
        "leader_id": st.integers(-1, 9),
        "leader_epoch": st.integers(0, 9),
        "replica_nodes": IDS,
        "isr_nodes": IDS,
        "offline_replicas": IDS,
    }
)
TOPIC = st.fixed_dictionaries(
    {
        "error_code": st.sampled_from((0, 3)),
        "name": st.text("ab", min_size=1, max_size=3),
        "topic_id": st.integers(1, 99).map(lambda number: UUID(int=number)),
        "is_internal": st.booleans(),
        "partitions": st.lists(PARTITION, max_size=200),
        "topic_authorized_operations": st.integers(0, 99),
    }
)
BROKER = {"node_id": 101, "host": "h", "port": 9092, "rack": None}


@pytest.mark.parametrize("version", range(VERSIONS.lowest, VERSIONS.highest + 1))
@settings(max_examples=at_most_in_quick(20))
@given(topics=st.lists(TOPIC, max_size=3), brokers=st.integers(0, 2))
def test_in_every_version(version: int, topics: list[dict[str, Any]], brokers: int) -> None:
    values = {
        "brokers": [BROKER] * brokers,
        "cluster_id": "c",
        "controller_id": 101,
        "cluster_authorized_operations": 1,
        "error_code": 0,
    }
    pieces = encoded_in_slices(version, values, (each for each in (*topics, None)))
    encoded = codec.response_body(ApiKey.METADATA, version, **values, topics=topics)
    assert whole(pieces) == encoded


def test_it_pauses_after_every_partition_and_topic() -> None:
    topic = {"error_code": 0, "name": "t", "topic_id": UUID(int=1), "is_internal": False}
    partition: dict[str, Any] = {
        "error_code": 0,
        "partition_index": 0,
        "leader_id": 1,
        "leader_epoch": 0,
    }
    partition |= {"replica_nodes": (), "isr_nodes": (), "offline_replicas": ()}
    topics = [{**topic, "partitions": [partition] * 3}, None]
    values = {"brokers": (), "cluster_id": "c", "controller_id": 1, "error_code": 0}
    assert sum(1 for _ in encoded_in_slices(13, values, topics)) == 5
