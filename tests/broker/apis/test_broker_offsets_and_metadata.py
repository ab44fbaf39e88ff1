"""Offsets, topics, brokers and settings from a broker, over real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker.apis import describe
from broker.apis.broker_apis import OFFERED
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.transport import long_responses
from quorum.transport.channel import Channel
from quorum.transport.outcomes import Reply, RequestFailed
from statemachine.security.rights import Access
from tests.broker.client_requests import batch, produce
from tests.broker.embedded_cluster import Brokers, Node, cluster, until
from tests.controller.controller_in_memory import CLUSTER
from tests.support.kio_values import make, make_known, nested


def versions_of(api_key: ApiKey) -> range:
    return range(OFFERED[api_key].lowest, OFFERED[api_key].highest + 1)


async def offset_at(node: Node, time_ms: int, *, version: int = 8) -> Any:
    """The answer of ListOffsets for topic t, partition 0."""
    schema = codec.request_schema(ApiKey.LIST_OFFSETS, version)
    asked = make(nested(schema, "ListOffsetsPartition"), partition_index=0, timestamp=time_ms)
    topic = make(nested(schema, "ListOffsetsTopic"), name="t", partitions=(asked,))
    answer = await node.ask(
        ApiKey.LIST_OFFSETS, version, replica_id=-1, isolation_level=1, topics=(topic,)
    )
    return answer.topics[0].partitions[0]


# --- offsets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", versions_of(ApiKey.LIST_OFFSETS))
async def test_the_ends_of_a_partition_in_every_version(tmp_path: Path, version: int) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        await produce(brokers[1], "t", batch(b"a", b"b"))
        assert (await offset_at(brokers[1], -2, version=version)).offset == 0
        assert (await offset_at(brokers[1], -1, version=version)).offset == 2


async def test_offsets_by_time(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        for time_ms in (100, 300, 200):
            await produce(brokers[1], "t", batch(b"a", b"b", time_ms=time_ms))
        first = await offset_at(brokers[1], 0)
        assert (first.offset, first.timestamp) == (0, 100)
        later = await offset_at(brokers[1], 101)
        assert (later.offset, later.timestamp) == (1, 101)
        newest = await offset_at(brokers[1], -3)
        assert (newest.offset, newest.timestamp) == (3, 301)
        none = await offset_at(brokers[1], 302)
        assert (none.error_code, none.offset) == (0, -1)


async def test_a_new_leader_does_not_say_where_the_end_is_before_it_knows(tmp_path: Path) -> None:
    """KIP-207."""
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (1, 2), min_insync_replicas="2")
        await produce(brokers[1], "t", batch(b"a"))
        follower = brokers[2].partition("t")
        await brokers.stop(1)
        # It has the record, and was never told that it is committed.
        assert follower.log_end == 1
        follower.role.high_watermark = 0
        brokers.controller.fence(1)
        # One replica is under min ISR, where nothing new counts as committed.
        assert (await offset_at(brokers[2], -1)).error_code == 78
        assert (await offset_at(brokers[2], -2)).error_code == 0
        await brokers.start(1)
        leading = follower.leading
        assert leading is not None
        await until(lambda: leading.knows_committed)
        assert (await offset_at(brokers[2], -1)).offset == 1


async def test_offset_for_leader_epoch_returns_the_end_of_an_epoch(tmp_path: Path) -> None:
    """KIP-101, KIP-279."""
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (1, 2))
        await produce(brokers[1], "t", batch(b"a", b"b"))
        brokers.controller.fence(1)
        await produce(brokers[2], "t", batch(b"c"))

        async def end_of(epoch: int) -> tuple[int, int, int]:
            schema = codec.request_schema(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4)
            asked = make(
                nested(schema, "OffsetForLeaderPartition"),
                partition=0,
                current_leader_epoch=1,
                leader_epoch=epoch,
            )
            topic = make(nested(schema, "OffsetForLeaderTopic"), topic="t", partitions=(asked,))
            answer = await brokers[2].ask(
                ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, replica_id=-1, topics=(topic,)
            )
            found = answer.topics[0].partitions[0]
            return found.error_code.value, found.leader_epoch, found.end_offset

        assert await end_of(0) == (0, 0, 2)
        assert await end_of(1) == (0, 1, 3)
        assert await end_of(2) == (0, -1, -1)


# --- metadata ------------------------------------------------------------------------------------


async def metadata(node: Node, version: int, topics: tuple[str, ...] | None) -> Any:
    schema = codec.request_schema(ApiKey.METADATA, version)
    of_topic = nested(schema, "MetadataRequestTopic")
    wanted = (
        None
        if topics is None
        else tuple(make_known(of_topic, name=each, topic_id=None) for each in topics)
    )
    return await node.ask(
        ApiKey.METADATA,
        version,
        topics=wanted,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


@pytest.mark.parametrize("version", versions_of(ApiKey.METADATA))
async def test_metadata_in_every_version(tmp_path: Path, version: int) -> None:
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (1, 2), (2, 1))
        answer = await metadata(brokers[1], version, ("t", "nowhere"))
        found, missing = answer.topics
        assert [each.node_id for each in answer.brokers] == [1, 2]
        assert [(each.leader_id, each.isr_nodes) for each in found.partitions] == [
            (1, (1, 2)),
            (2, (2, 1)),
        ]
        assert missing.error_code == 3
        if version >= 1:
            assert answer.controller_id == 1
        if version >= 2:
            assert answer.cluster_id == CLUSTER


async def test_no_topics_means_none_and_null_means_all(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("b", (1,))
        await brokers.create("a", (1,))
        assert [each.name for each in (await metadata(brokers[1], 12, None)).topics] == ["a", "b"]
        assert (await metadata(brokers[1], 12, ())).topics == ()
        # In v0, which has no null, none means all.
        assert len((await metadata(brokers[1], 0, ())).topics) == 2


@pytest.mark.parametrize("version", [10, 11])
async def test_asking_by_topic_id_needs_version_12(tmp_path: Path, version: int) -> None:
    """KIP-516: before version 12 the answer must name each topic, so an id alone is refused."""
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        of_topic = nested(codec.request_schema(ApiKey.METADATA, version), "MetadataRequestTopic")
        by_id = make(of_topic, topic_id=brokers.controller.image.topic_ids["t"], name=None)
        answer = await brokers[1].ask(
            ApiKey.METADATA,
            version,
            topics=(by_id,),
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        assert [(each.name, each.error_code) for each in answer.topics] == [("", 42)]


async def test_topics_are_found_by_id(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,))
        schema = codec.request_schema(ApiKey.METADATA, 12)
        ids = (brokers.controller.image.topic_ids["t"], UUID(int=77))
        of_topic = nested(schema, "MetadataRequestTopic")
        topics = tuple(make(of_topic, topic_id=each, name=None) for each in ids)
        answer = await brokers[1].ask(
            ApiKey.METADATA,
            12,
            topics=topics,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        assert [(each.name, each.error_code.value) for each in answer.topics] == [
            ("t", 0),
            (None, 100),
        ]


async def test_a_partition_without_a_live_leader_says_so(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as brokers:
        await brokers.create("t", (2,))
        brokers.controller.fence(2)
        answer = await metadata(brokers[1], 12, ("t",))
        (partition,) = answer.topics[0].partitions
        assert (partition.error_code, partition.leader_id, partition.offline_replicas) == (
            5,
            -1,
            (2,),
        )
        assert [each.node_id for each in answer.brokers] == [1]


async def test_the_cluster_is_described(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as brokers:
        answer = await brokers[2].ask(
            ApiKey.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=False
        )
        assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, CLUSTER, 2)
        assert [each.broker_id for each in answer.brokers] == [1, 2]
        answer = await brokers[2].ask(
            ApiKey.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=False, endpoint_type=2
        )
        assert answer.error_code == 115


@pytest.mark.parametrize("slice_seconds", [long_responses.SLICE_SECONDS, 0.0])
async def test_topics_are_described_page_by_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slice_seconds: float
) -> None:
    monkeypatch.setattr(long_responses, "SLICE_SECONDS", slice_seconds)
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("a", (1,), (1,), (1,))
        await brokers.create("b", (1,), (1,))
        seen, cursor, pages = [], None, 0
        while True:
            answer = await brokers[1].ask(
                ApiKey.DESCRIBE_TOPIC_PARTITIONS,
                0,
                topics=(),
                response_partition_limit=2,
                cursor=_asked_cursor(cursor),
            )
            pages += 1
            for topic in answer.topics:
                seen += [(topic.name, each.partition_index) for each in topic.partitions]
            cursor = answer.next_cursor
            if cursor is None:
                break
        assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]
        assert pages == 3


async def test_a_page_begins_where_its_cursor_is(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("b", (1,), (1,))
        for cursor, wanted in (
            (("a", 1), [0, 1]),
            (("b", -2), [0, 1]),
            (("b", 1), [1]),
            (("b", 2), []),
            (("c", 0), None),
        ):
            answer = await brokers[1].ask(
                ApiKey.DESCRIBE_TOPIC_PARTITIONS,
                0,
                topics=(),
                response_partition_limit=2,
                cursor=_cursor(*cursor),
            )
            found = [[each.partition_index for each in topic.partitions] for topic in answer.topics]
            assert found == ([] if wanted is None else [wanted])


async def test_a_page_ends_after_many_topics_that_it_does_not_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe, "DESCRIBED_TOPICS_MAX", 2)
    async with cluster(tmp_path, 1) as brokers:
        brokers[1].image.topic_ids.update({name: UUID(int=7) for name in "abcde"})
        monkeypatch.setattr(Access, "may", lambda *_, **__: False)
        pages: list[tuple[Any, str | None]] = []
        cursor = None
        while not pages or cursor is not None:
            answer = await brokers[1].ask(
                ApiKey.DESCRIBE_TOPIC_PARTITIONS,
                0,
                topics=(),
                response_partition_limit=9,
                cursor=_asked_cursor(cursor),
            )
            cursor = answer.next_cursor
            pages.append((answer.topics, None if cursor is None else cursor.topic_name))
        assert pages == [((), "c"), ((), "e"), ((), None)]


@asynccontextmanager
async def long_metadata_under_way(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Node, Channel, asyncio.Task[Reply]]]:
    """A broker that makes a long response, with the connection that waits for it."""
    monkeypatch.setattr(long_responses, "SLICE_SECONDS", 0.0)
    async with cluster(folder, 1) as brokers:
        await brokers.create("t", *[(1,)] * 400)
        channel, body = brokers[1].connect(), codec.request_body(ApiKey.METADATA, 1, topics=None)
        waiting = asyncio.get_running_loop().create_task(
            channel.call(ApiKey.METADATA, body, timeout_ms=20_000, version=1)
        )
        await until(lambda: brokers[1].apis.long_responses.under_way == 1)
        yield brokers[1], channel, waiting
        await channel.close()


async def test_long_metadata_does_not_hold_up_other_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with long_metadata_under_way(tmp_path, monkeypatch) as (broker, _, waiting):
        assert (await offset_at(broker, -1)).error_code == 0
        assert broker.apis.long_responses.under_way == 1
        (topic,) = (await waiting).decode().topics
        assert [each.partition_index for each in topic.partitions] == list(range(400))


async def test_long_metadata_ends_with_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with long_metadata_under_way(tmp_path, monkeypatch) as (broker, channel, waiting):
        await channel.close()
        await offset_at(broker, -1)
        assert broker.apis.long_responses.under_way == 0
        with pytest.raises(RequestFailed):
            await waiting


def _asked_cursor(cursor: Any) -> Any:
    return None if cursor is None else _cursor(cursor.topic_name, cursor.partition_index)


def _cursor(topic: str, partition: int) -> Any:
    schema = codec.request_schema(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
    return make(nested(schema, "Cursor"), topic_name=topic, partition_index=partition)


# --- settings and the rest -----------------------------------------------------------------------


async def configs(brokers: Brokers, version: int, kind: int, name: str) -> Any:
    schema = codec.request_schema(ApiKey.DESCRIBE_CONFIGS, version)
    resource = make(
        nested(schema, "DescribeConfigsResource"),
        resource_type=kind,
        resource_name=name,
        configuration_keys=None,
    )
    answer = await brokers[1].ask(
        ApiKey.DESCRIBE_CONFIGS,
        version,
        resources=(resource,),
        include_synonyms=False,
        include_documentation=False,
    )
    return answer.results[0]


@pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_CONFIGS))
async def test_configurations_of_topics_and_brokers_are_described(
    tmp_path: Path, version: int
) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await brokers.create("t", (1,), min_insync_replicas="1", retention_ms="5")
        topic = await configs(brokers, version, 2, "t")
        found = {each.name: (each.value, each.config_source) for each in topic.configs}
        assert found["retention.ms"] == ("5", 1)
        assert found["max.message.bytes"][1] == 5
        broker = await configs(brokers, version, 4, "1")
        assert {each.name: each.value for each in broker.configs}["node.id"] == "1"
        assert (await configs(brokers, version, 2, "nowhere")).error_code == 3
        assert (await configs(brokers, version, 4, "2")).error_code == 42


async def test_ids_for_producers_are_new_each_time_and_across_brokers(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as brokers:
        seen = set()
        for broker_id in (1, 1, 2, 2):
            answer = await brokers[broker_id].ask(
                ApiKey.INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=timedelta(0)
            )
            assert (answer.error_code, answer.producer_epoch) == (0, 0)
            seen.add(answer.producer_id)
        assert len(seen) == 4


async def test_transactions_are_refused(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        answer = await brokers[1].ask(
            ApiKey.INIT_PRODUCER_ID, 4, transactional_id="x", transaction_timeout=timedelta(0)
        )
        assert (answer.error_code, answer.producer_id) == (42, -1)


@pytest.mark.parametrize("version", versions_of(ApiKey.FIND_COORDINATOR))
async def test_there_are_no_coordinators(tmp_path: Path, version: int) -> None:
    """UNSUPPORTED_VERSION for groups, CLUSTER_AUTHORIZATION_FAILED for transactions."""
    async with cluster(tmp_path, 1) as brokers:
        keys = {"coordinator_keys": ("g",)} if version >= 4 else {"key": "g"}
        for kind, code, words in ((0, 35, "no consumer groups"), (1, 31, "no transactions")):
            if version == 0 and kind == 1:
                continue
            answer = await brokers[1].ask(ApiKey.FIND_COORDINATOR, version, key_type=kind, **keys)
            found = answer.coordinators[0] if version >= 4 else answer
            assert found.error_code == code
            assert version == 0 or words in found.error_message


@pytest.mark.parametrize("version", versions_of(ApiKey.API_VERSIONS))
async def test_the_offer_is_what_is_handled(tmp_path: Path, version: int) -> None:
    async with cluster(tmp_path, 1) as brokers:
        answer = await brokers[1].ask(
            ApiKey.API_VERSIONS, version, client_software_name="a", client_software_version="1"
        )
        assert {each.api_key for each in answer.api_keys} == set(OFFERED)
        if version >= 3:
            levels = {each.name: each.max_version_level for each in answer.finalized_features}
            assert levels["metadata.version"] == 25
            assert levels["kraft.version"] == 1
