"""Requests of clients to brokers, one partition at a time, and batches of records."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.records.encode import ClientRecord, encode_client
from tests.broker.embedded_cluster import Node
from tests.support.kio_values import make, make_known, nested


def batch(*values: bytes, producer: tuple[int, int, int] = (-1, -1, -1), time_ms: int = 1) -> bytes:
    """One batch of a producer: id, epoch and first sequence, where it is idempotent."""
    producer_id, epoch, sequence = producer
    found = [ClientRecord(time_ms + place, None, value) for place, value in enumerate(values)]
    return bytes(
        encode_client(found, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    )


def produce_request(
    version: int,
    topic: str,
    records_: bytes | None,
    *,
    acks: int,
    number: int = 0,
    timeout_ms: int = 10_000,
) -> Any:
    """A request that writes to one partition."""
    schema = codec.request_schema(ApiKey.PRODUCE, version)
    data = make(nested(schema, "PartitionProduceData"), index=number, records=records_)
    of_topic = nested(schema, "TopicProduceData")
    return make(
        schema,
        acks=acks,
        timeout=timedelta(milliseconds=timeout_ms),
        topic_data=(make(of_topic, name=topic, partition_data=(data,)),),
    )


async def produce(
    node: Node, topic: str, records_: bytes | None, *, acks: int = -1, version: int = 9, **more: Any
) -> Any:
    """The answer for the one partition that is written to."""
    request = produce_request(version, topic, records_, acks=acks, **more)
    answer = await node.call(ApiKey.PRODUCE, version, request)
    return answer.responses[0].partition_responses[0]


def fetch_request(
    node: Node, topic: str, offset: int, *, version: int = 12, wait_ms: int = 0, **more: Any
) -> Any:
    """A consumer's request for one partition."""
    schema = codec.request_schema(ApiKey.FETCH, version)
    partition = make_known(
        nested(schema, "FetchPartition"),
        partition=more.get("number", 0),
        fetch_offset=offset,
        partition_max_bytes=more.get("partition_bytes", 1 << 20),
        current_leader_epoch=more.get("leader_epoch", -1),
        last_fetched_epoch=more.get("last_epoch", -1),
    )
    topic_id = node.image.topic_ids.get(topic, UUID(int=1))
    named = {"topic_id": topic_id} if version >= 13 else {"topic": topic}
    return make_known(
        schema,
        max_wait=timedelta(milliseconds=wait_ms),
        min_bytes=more.get("min_bytes", 1),
        max_bytes=more.get("max_bytes", 1 << 22),
        isolation_level=1,
        session_id=more.get("session_id", 0),
        session_epoch=more.get("session_epoch", -1),
        replica_id=-1,
        forgotten_topics_data=(),
        topics=(make(nested(schema, "FetchTopic"), partitions=(partition,), **named),),
    )


async def fetch(node: Node, topic: str, offset: int, *, version: int = 12, **more: Any) -> Any:
    """The answer for the one partition that a consumer reads."""
    request = fetch_request(node, topic, offset, version=version, **more)
    answer = await node.call(ApiKey.FETCH, version, request)
    return answer.responses[0].partitions[0]
