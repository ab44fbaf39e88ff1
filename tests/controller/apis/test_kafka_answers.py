"""Answers of a controller over the Kafka protocol, and the place of each error."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from quorum.protocol.apis import ApiKey
from statemachine.limits import CREATED_PARTITIONS_MAX
from tests.controller.apis.samples import (
    alter_reassignments,
    describe_quorum,
    list_reassignments,
    metadata,
)
from tests.support.broker_requests import Broker, created, creation, joined, registration
from tests.support.controllers import CLUSTER_ID, Node, a_controller
from tests.support.kafka_client import Form, KafkaClient, kafka_client

UNKNOWN_ID = UUID(int=79 << 64)


@dataclass(frozen=True)
class Scene:
    """One controller, brokers 101 and 102, and topic t with partitions on both."""

    node: Node
    client: KafkaClient
    brokers: tuple[Broker, Broker]
    topic_id: UUID


@asynccontextmanager
async def a_scene(folder: Path) -> AsyncIterator[Scene]:
    async with a_controller(folder) as node, kafka_client(node.address) as client:
        first = await joined(client, 101, CLUSTER_ID)
        second = await joined(client, 102, CLUSTER_ID)
        topic_id = await created(client, "t", (101, 102), (102, 101))
        yield Scene(node, client, (first, second), topic_id)


def codes(parts: Any) -> list[int]:
    """The error codes of these parts of an answer."""
    return [part.error_code.value for part in parts]


async def test_describe_quorum_tells_the_facts_of_the_leader(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        form = Form(ApiKey.DESCRIBE_QUORUM, 2)
        answer = await scene.client.send(form, describe_quorum(form))
        ((partition,),) = (topic.partitions for topic in answer.topics)
        quorum = scene.node.opened.quorum
        assert (partition.leader_id, partition.leader_epoch) == (1, quorum.node.epoch)
        assert partition.high_watermark == quorum.node.high_watermark
        (voter,) = partition.current_voters
        assert voter.replica_id == 1
        assert voter.replica_directory_id == scene.node.opened.directory_id
        assert voter.log_end_offset == quorum.node.log_end.offset
        assert partition.observers == ()
        ((node, (listener,)),) = ((each.node_id, each.listeners) for each in answer.nodes)
        assert (node, listener.host, listener.port) == (1, *scene.node.address)


@pytest.mark.parametrize(("topic", "partition"), [("t", 0), ("__cluster_metadata", 1)])
async def test_describe_quorum_of_anything_else_is_refused(
    tmp_path: Path, topic: str, partition: int
) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        form = Form(ApiKey.DESCRIBE_QUORUM, 2)
        answer = await client.send(form, describe_quorum(form, topic, partition))
        assert answer.error_code.value == 3
        assert "the quorum has one log, __cluster_metadata-0" in answer.error_message
        answer = await client.send(form, form.request(topics=()))
        assert answer.error_code.value == 3


async def test_topics_are_created_and_refused_one_by_one(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        form = Form(ApiKey.CREATE_TOPICS, 7)
        good = creation(form, "u", (101,), (102,)).topics
        bad = (
            *creation(form, "t", (101,)).topics,
            *creation(form, "a b", (101,)).topics,
            *creation(form, "v", (101, 101)).topics,
            *creation(form, "w", (999,)).topics,
        )
        timeout = creation(form, "u").timeout
        answer = await scene.client.send(
            form, form.request(topics=(*good, *bad), timeout=timeout, validate_only=False)
        )
        assert codes(answer.topics) == [0, 36, 17, 39, 39]
        assert (answer.topics[0].num_partitions, answer.topics[0].replication_factor) == (2, 1)
        assert all(topic.error_message for topic in answer.topics[1:])
        assert set(scene.node.controller.image.topic_ids) == {"t", "u"}


async def test_a_validated_topic_is_not_created(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        form = Form(ApiKey.CREATE_TOPICS, 7)
        asked = creation(form, "u", (101,))
        answer = await scene.client.send(
            form, form.request(topics=asked.topics, timeout=asked.timeout, validate_only=True)
        )
        assert codes(answer.topics) == [0]
        assert set(scene.node.controller.image.topic_ids) == {"t"}


async def test_a_topic_of_too_many_partitions_is_refused_clearly(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        form = Form(ApiKey.CREATE_TOPICS, 7)
        topic = form.part(
            "CreatableTopic",
            name="huge",
            num_partitions=CREATED_PARTITIONS_MAX + 1,
            replication_factor=1,
            assignments=(),
            configs=(),
        )
        timeout = creation(form, "u").timeout
        answer = await scene.client.send(form, form.request(topics=(topic,), timeout=timeout))
        assert codes(answer.topics) == [37]
        assert f"{CREATED_PARTITIONS_MAX} that one request may create" in (
            answer.topics[0].error_message
        )


async def test_topics_are_deleted_by_name_and_by_id(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        form = Form(ApiKey.DELETE_TOPICS, 6)
        timeout = creation(form_of(ApiKey.CREATE_TOPICS), "u").timeout
        states = tuple(
            form.part("DeleteTopicState", name=name, topic_id=topic_id)
            for name, topic_id in ((None, scene.topic_id), ("unknown", None), (None, UNKNOWN_ID))
        )
        answer = await scene.client.send(form, form.request(topics=states, timeout=timeout))
        assert codes(answer.responses) == [0, 3, 100]
        assert answer.responses[0].name == "t"
        assert scene.node.controller.image.topic_ids == {}


async def test_reassignments_begin_show_and_end_partition_by_partition(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        third = await joined(scene.client, 103, CLUSTER_ID)
        alter, listing = (
            form_of(ApiKey.ALTER_PARTITION_REASSIGNMENTS),
            form_of(ApiKey.LIST_PARTITION_REASSIGNMENTS),
        )
        answer = await scene.client.send(
            alter,
            alter_reassignments(
                alter,
                ("t", 0, (103, 102)),
                ("t", 9, (101,)),
                ("unknown", 0, (101,)),
                ("t", 1, (101, 999)),
                ("t", 1, None),
            ),
        )
        assert answer.error_code.value == 0
        results = [part for topic in answer.responses for part in topic.partitions]
        assert codes(results) == [0, 3, 3, 39, 85]
        assert all(part.error_message for part in results[1:])
        answer = await scene.client.send(listing, list_reassignments(listing))
        ((moving,),) = (topic.partitions for topic in answer.topics)
        assert moving.replicas == (101, 102, 103)
        assert (moving.adding_replicas, moving.removing_replicas) == ((103,), (101,))
        done = await scene.brokers[0].propose(
            scene.topic_id, (*scene.brokers, third), partition_epoch=1
        )
        assert done.error_code.value == 108  # Done, and with it the sender ceased to lead.
        answer = await scene.client.send(listing, list_reassignments(listing))
        assert answer.topics == ()


async def test_only_those_reassignments_are_listed_that_are_asked_for(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        await joined(scene.client, 103, CLUSTER_ID)
        alter, listing = (
            form_of(ApiKey.ALTER_PARTITION_REASSIGNMENTS),
            form_of(ApiKey.LIST_PARTITION_REASSIGNMENTS),
        )
        moves = [("t", number, (103,)) for number in (0, 1)]
        await scene.client.send(alter, alter_reassignments(alter, *moves))
        timeout = alter_reassignments(alter).timeout
        for numbers, found in (((1, 5), [1]), ((), []), ((0, 1), [0, 1])):
            topic = listing.part(
                "ListPartitionReassignmentsTopics", name="t", partition_indexes=numbers
            )
            answer = await scene.client.send(
                listing, listing.request(topics=(topic,), timeout=timeout)
            )
            shown = [part.partition_index for each in answer.topics for part in each.partitions]
            assert shown == found


async def test_leaders_are_elected_partition_by_partition(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        form = Form(ApiKey.ELECT_LEADERS, 2)
        timeout = creation(form_of(ApiKey.CREATE_TOPICS), "u").timeout
        asked = form.part("TopicPartitions", topic="t", partitions=(0, 9))
        answer = await scene.client.send(
            form, form.request(election_type=0, topic_partitions=(asked,), timeout=timeout)
        )
        (topic,) = answer.replica_election_results
        assert codes(topic.partition_result) == [84, 3]
        answer = await scene.client.send(
            form, form.request(election_type=2, topic_partitions=(asked,), timeout=timeout)
        )
        assert answer.error_code.value == 42
        everywhere = form.request(election_type=0, topic_partitions=None, timeout=timeout)
        answer = await scene.client.send(form, everywhere)
        assert (answer.error_code.value, answer.replica_election_results) == (0, ())


async def test_metadata_shows_brokers_controllers_and_topics(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        form = Form(ApiKey.METADATA, 12)
        answer = await scene.client.send(form, metadata(form))
        assert {each.node_id for each in answer.brokers} == {1, 101, 102}
        assert (answer.controller_id, answer.cluster_id) == (1, CLUSTER_ID)
        known, unknown = answer.topics
        assert (known.name, known.topic_id) == ("t", scene.topic_id)
        assert [each.leader_id for each in known.partitions] == [101, 102]
        assert codes(answer.topics) == [0, 3]
        by_id = tuple(
            form.part("MetadataRequestTopic", name=None, topic_id=topic_id)
            for topic_id in (scene.topic_id, UNKNOWN_ID)
        )
        answer = await scene.client.send(form, form.request(topics=by_id, **no_operations()))
        assert codes(answer.topics) == [0, 100]
        assert unknown.partitions == ()


@pytest.mark.parametrize("version", [10, 11])
async def test_metadata_by_topic_id_needs_version_12(tmp_path: Path, version: int) -> None:
    """KIP-516: before version 12 the answer must name each topic, so an id alone is refused."""
    async with a_scene(tmp_path) as scene:
        form = Form(ApiKey.METADATA, version)
        unnamed = form.part("MetadataRequestTopic", name=None, topic_id=scene.topic_id)
        answer = await scene.client.send(form, form.request(topics=(unnamed,), **no_operations()))
        assert codes(answer.topics) == [42]
        assert [topic.name for topic in answer.topics] == [""]


async def test_no_topics_means_none_and_in_version_0_all(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        for version, names in ((0, ["t"]), (1, []), (13, [])):
            form = Form(ApiKey.METADATA, version)
            answer = await scene.client.send(form, form.request(topics=(), **no_operations()))
            assert [topic.name for topic in answer.topics] == names
        form = Form(ApiKey.METADATA, 1)
        answer = await scene.client.send(form, form.request(topics=None))
        assert [topic.name for topic in answer.topics] == ["t"]


async def test_a_cluster_is_described_as_its_controllers(tmp_path: Path) -> None:
    """KIP-919: a controller is asked with endpoint type 2."""
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        for kind, error in ((2, 0), (1, 114), (3, 115)):
            answer = await client.ask(
                ApiKey.DESCRIBE_CLUSTER,
                1,
                include_cluster_authorized_operations=False,
                endpoint_type=kind,
            )
            assert answer.error_code.value == error
            assert (answer.error_message is None) == (error == 0)
            if kind == 1:
                assert "name it in --bootstrap-controller" in answer.error_message
        answer = await client.ask(
            ApiKey.DESCRIBE_CLUSTER, 0, include_cluster_authorized_operations=False
        )
        (only,) = answer.brokers
        assert (only.broker_id, only.host, only.port) == (1, *node.address)
        assert answer.controller_id == 1


async def test_brokers_are_told_apart_by_cluster_incarnation_and_epoch(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        form = Form(ApiKey.BROKER_REGISTRATION, 4)
        stranger = registration(form, 103, "AAAAAAAAAAAAAAAAAAAAAA")
        assert (await scene.client.send(form, stranger)).error_code.value == 104
        twin = registration(form, 101, CLUSTER_ID, incarnation_id=UNKNOWN_ID)
        assert (await scene.client.send(form, twin)).error_code.value == 101
        first = scene.brokers[0]
        assert (await first.heartbeat(broker_epoch=first.epoch + 1)).error_code.value == 77
        stale = Broker(scene.client, 101, first.epoch - 1)
        refused = await stale.propose(scene.topic_id, (first,), partition_epoch=0)
        assert (refused.error_code.value, refused.topics) == (77, ())
        unknown = await first.propose(UNKNOWN_ID, (first,), partition_epoch=0)
        assert unknown.error_code.value == 100
        answer = await scene.client.ask(ApiKey.UNREGISTER_BROKER, 0, broker_id=900)
        assert answer.error_code.value == 102
        assert "900" in answer.error_message


async def test_an_isr_is_changed_as_its_leader_asks(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        first, second = scene.brokers
        shrunk = await first.propose(scene.topic_id, (first,), partition_epoch=0)
        assert (shrunk.isr, shrunk.partition_epoch) == ((101,), 1)
        again = await first.propose(scene.topic_id, (first, second), partition_epoch=0)
        assert again.error_code.value == 95
        grown = await first.propose(scene.topic_id, (first, second), partition_epoch=1)
        assert (grown.isr, grown.partition_epoch) == ((101, 102), 2)


async def test_each_block_of_producer_ids_is_given_once(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        blocks = [
            await scene.client.ask(
                ApiKey.ALLOCATE_PRODUCER_IDS,
                0,
                broker_id=each.broker_id,
                broker_epoch=each.epoch,
            )
            for each in scene.brokers
        ]
        assert [(each.producer_id_start, each.producer_id_len) for each in blocks] == [
            (0, 1_000),
            (1_000, 1_000),
        ]


async def test_a_broker_that_stops_is_let_go_when_it_leads_nothing(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        first, second = scene.brokers
        answer = await first.heartbeat(want_shut_down=True)
        assert (answer.is_fenced, answer.should_shut_down) == (False, False)
        await second.heartbeat()
        answer = await first.heartbeat(want_shut_down=True)
        assert (answer.is_fenced, answer.should_shut_down) == (True, True)


async def test_a_message_that_repeats_what_was_asked_has_a_bound(tmp_path: Path) -> None:
    """Old versions have 16 bits for its length; and nobody wants to read back a megabyte."""
    long = "x" * 32_767
    async with a_scene(tmp_path) as scene:
        form = Form(ApiKey.CREATE_TOPICS, 2)
        asked = creation(form, "u", (101,))
        config = form.part("CreatableTopicConfig", name="retention.ms", value=long)
        topic = form.part(
            "CreatableTopic",
            name="u",
            num_partitions=1,
            replication_factor=1,
            assignments=(),
            configs=(config,),
        )
        answer = await scene.client.send(
            form, form.request(topics=(topic,), timeout=asked.timeout, validate_only=False)
        )
        assert codes(answer.topics) == [40]
        assert 0 < len(answer.topics[0].error_message) < 2_000
        form = Form(ApiKey.ELECT_LEADERS, 1)
        part = form.part("TopicPartitions", topic=long, partitions=(0,))
        answer = await scene.client.send(
            form, form.request(election_type=0, topic_partitions=(part,), timeout=asked.timeout)
        )
        (result,) = answer.replica_election_results
        assert codes(result.partition_result) == [3]
        form = Form(ApiKey.DESCRIBE_QUORUM, 2)
        answer = await scene.client.send(form, describe_quorum(form, long))
        assert answer.error_code.value == 3
        assert len(answer.error_message) < 2_000


def form_of(api_key: ApiKey) -> Form:
    """The form of the only version, or the newest."""
    return Form(api_key, {ApiKey.CREATE_TOPICS: 7}.get(api_key, 0))


def no_operations() -> dict[str, bool]:
    """The fields of a Metadata request beside its topics."""
    return {
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
