"""A client that knows only Kafka's schemas reads every answer of a broker."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from broker.apis.broker_apis import FORWARDED, OFFERED
from quorum.protocol.apis import ApiKey
from tests.broker.client_requests import batch, fetch_request, produce, produce_request
from tests.broker.embedded_cluster import Node, cluster
from tests.controller.apis.samples import SAMPLES
from tests.controller.apis.test_strict_client import answer_to, read
from tests.quorum.transport.loopback import peer_of
from tests.support.kafka_client import Form


def list_offsets(form: Form, _node: Node) -> Any:
    partition = form.part("ListOffsetsPartition", partition_index=0, timestamp=-1)
    topic = form.part("ListOffsetsTopic", name="t", partitions=(partition,))
    return form.request(
        replica_id=-1, isolation_level=1, topics=(topic,), timeout=timedelta(seconds=1)
    )


def leader_epochs(form: Form, _node: Node) -> Any:
    partition = form.part(
        "OffsetForLeaderPartition", partition=0, current_leader_epoch=-1, leader_epoch=0
    )
    topic = form.part("OffsetForLeaderTopic", topic="t", partitions=(partition,))
    return form.request(replica_id=-1, topics=(topic,))


def coordinator(form: Form, _node: Node) -> Any:
    keys: dict[str, Any] = {"coordinator_keys": ("g",)} if form.version >= 4 else {"key": "g"}
    return form.request(key_type=0, **keys)


def described_topics(form: Form, _node: Node) -> Any:
    topic = form.part("TopicRequest", name="t")
    return form.request(topics=(topic,), response_partition_limit=10, cursor=None)


REQUESTS: Mapping[int, Callable[[Form, Node], Any]] = {
    ApiKey.PRODUCE: lambda form, _node: produce_request(form.version, "t", batch(b"a"), acks=1),
    ApiKey.FETCH: lambda form, node: fetch_request(node, "t", 0, version=form.version),
    ApiKey.LIST_OFFSETS: list_offsets,
    ApiKey.FIND_COORDINATOR: coordinator,
    ApiKey.INIT_PRODUCER_ID: lambda form, _node: form.request(
        transactional_id=None,
        transaction_timeout=timedelta(0),
        producer_id=-1,
        producer_epoch=-1,
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: leader_epochs,
    ApiKey.DESCRIBE_LOG_DIRS: lambda form, _node: form.request(topics=None),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: described_topics,
    **{
        key: lambda form, _node, key=key: SAMPLES[key](form)  # type: ignore[misc]
        for key in (
            ApiKey.METADATA,
            ApiKey.API_VERSIONS,
            ApiKey.DESCRIBE_CONFIGS,
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            ApiKey.DESCRIBE_CLUSTER,
        )
    },
}


@pytest.mark.parametrize(
    "api_key",
    sorted(set(OFFERED) - FORWARDED - {ApiKey.DISCOVER_BROKERS}),
    ids=lambda key: key.name,
)
async def test_a_client_of_kafka_reads_every_answer_of_a_broker(
    tmp_path: Path, api_key: ApiKey
) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        await produce(brokers[1], "t", batch(b"a", b"b"))
        async with peer_of(brokers[1].port) as peer:
            for version in range(OFFERED[api_key].lowest, OFFERED[api_key].highest + 1):
                form = Form(api_key, version)
                body = form.body(REQUESTS[api_key](form, brokers[1]))
                read(form, await answer_to(peer, form, body))
