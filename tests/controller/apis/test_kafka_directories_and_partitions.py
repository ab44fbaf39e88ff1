"""AssignReplicasToDirs, failed directories and CreatePartitions over the Kafka protocol."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from quorum.protocol.apis import ApiKey
from tests.controller.apis.samples import TIMEOUT, assign_replicas_to_dirs, create_partitions
from tests.support.broker_requests import created, joined, registration
from tests.support.controllers import CLUSTER_ID, a_controller
from tests.support.kafka_client import Form, kafka_client

FORM = Form(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0)


def directory(broker_id: int) -> UUID:
    """The directory that a broker registers."""
    return UUID(int=0xD1 << 100 | broker_id)


async def test_every_replica_asked_about_is_answered_in_its_place(tmp_path: Path) -> None:
    """A broker asks again for what the answer leaves out."""
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        broker = await joined(client, 101, CLUSTER_ID)
        for other in (102, 103):
            await joined(client, other, CLUSTER_ID)
        topic_id = await created(client, "t", (101, 102), (102, 103))
        asked = assign_replicas_to_dirs(FORM, broker_epoch=broker.epoch, topic_id=topic_id)
        answer = await client.send(FORM, asked)
        assert answer.error_code.value == 0
        assert [
            (of.id_, topic.topic_id, each.partition_index, each.error_code.value)
            for of in answer.directories
            for topic in of.topics
            for each in topic.partitions
        ] == [
            (directory(101), topic_id, 0, 0),
            (directory(101), topic_id, 7, 3),
            (directory(9), topic_id, 1, 6),
        ]
        topic = node.controller.image.topics[topic_id]
        partition = topic.partition(0)
        assert partition is not None
        assert partition.directories == (directory(101), directory(102))


async def test_a_stale_sender_is_told_so_for_all(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        answer = await client.send(FORM, assign_replicas_to_dirs(FORM, broker_epoch=5))
        assert (answer.error_code.value, answer.directories) == (77, ())


async def test_a_failed_directory_in_a_heartbeat_moves_its_leaders(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        form = Form(ApiKey.BROKER_REGISTRATION, 4)
        two = (directory(101), directory(9))
        registered = await client.send(form, registration(form, 101, CLUSTER_ID, log_dirs=two))
        await joined(client, 102, CLUSTER_ID)

        async def heartbeat(**values: Any) -> Any:
            return await client.ask(
                ApiKey.BROKER_HEARTBEAT,
                1,
                broker_id=101,
                broker_epoch=registered.broker_epoch,
                current_metadata_offset=node.controller.image.end_offset,
                want_fence=False,
                want_shut_down=False,
                **values,
            )

        assert not (await heartbeat()).is_fenced
        topic_id = await created(client, "t", (101, 102))
        asked = assign_replicas_to_dirs(
            FORM, broker_epoch=registered.broker_epoch, topic_id=topic_id
        )
        await client.send(FORM, asked)
        answer = await heartbeat(offline_log_dirs=(directory(101),))
        assert (answer.error_code.value, answer.is_fenced) == (0, False)
        image = node.controller.image
        partition = image.topics[topic_id].partition(0)
        assert partition is not None
        assert partition.leader == 102
        assert image.brokers[101].log_dirs == (directory(9),)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_topics_grow_and_each_has_its_own_answer(tmp_path: Path, version: int) -> None:
    form = Form(ApiKey.CREATE_PARTITIONS, version)
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        for broker_id in (101, 102):
            await joined(client, broker_id, CLUSTER_ID)
        await created(client, "t", (101, 102))
        answer = await client.send(form, create_partitions(form))
        grown, unknown = answer.results
        assert (grown.name, grown.error_code.value, grown.error_message) == ("t", 0, None)
        assert (unknown.name, unknown.error_code.value) == ("u", 3)
        assert unknown.error_message == "there is no topic u"
        topic = node.controller.image.topic_named("t")
        assert topic is not None
        assert len(topic.partitions) == 4


async def test_a_topic_that_is_named_twice_is_refused_once(tmp_path: Path) -> None:
    form = Form(ApiKey.CREATE_PARTITIONS, 3)
    named = [
        form.part("CreatePartitionsTopic", name=each, count=2, assignments=None) for each in "aba"
    ]
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        answer = await client.send(
            form, form.request(topics=tuple(named), timeout=TIMEOUT, validate_only=False)
        )
        assert [(each.name, each.error_code.value) for each in answer.results] == [
            ("a", 42),
            ("b", 3),
        ]
        assert answer.results[0].error_message == "topic a is named 2 times"
