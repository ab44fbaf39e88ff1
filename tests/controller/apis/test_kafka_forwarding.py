"""Forwarding among three controllers: the active one answers; without it a node says so."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from admin.client.admin_client import AdminClient, Unreachable
from controller.apis import router
from quorum.protocol.apis import ApiKey
from tests.controller.apis.samples import (
    alter_partition,
    describe_quorum,
    elect_leaders,
    list_reassignments,
    metadata,
)
from tests.controller.controller_commands import busy
from tests.support.broker_requests import created, creation, joined
from tests.support.controllers import CLUSTER_ID, Node, active, controllers
from tests.support.kafka_client import Form, KafkaClient, kafka_client

CREATE, LIST = Form(ApiKey.CREATE_TOPICS, 7), Form(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)


@dataclass(frozen=True)
class Scene:
    leader: Node
    followers: tuple[Node, Node]
    at_leader: KafkaClient
    at_follower: KafkaClient


@asynccontextmanager
async def a_scene(folder: Path) -> AsyncIterator[Scene]:
    """Three controllers, two of them to speak to, and brokers 101 and 102."""
    async with controllers(folder, 1, 2, 3) as nodes:
        leader = await active(nodes.values())
        first, second = (node for node in nodes.values() if node is not leader)
        async with (
            kafka_client(leader.address) as at_leader,
            kafka_client(first.address) as at_follower,
        ):
            for broker_id in (101, 102):
                await joined(at_leader, broker_id, CLUSTER_ID)
            yield Scene(leader, (first, second), at_leader, at_follower)


async def test_a_follower_answers_what_the_leader_would_have_answered(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        await created(scene.at_follower, "t", (101, 102), (102, 101))
        elect = Form(ApiKey.ELECT_LEADERS, 2)
        describe = Form(ApiKey.DESCRIBE_QUORUM, 2)
        answers = [
            [
                await client.send(LIST, list_reassignments(LIST)),
                await client.send(elect, elect_leaders(elect)),
                await client.send(CREATE, creation(CREATE, "t", (101,))),
                without_times(await client.send(describe, describe_quorum(describe))),
            ]
            for client in (scene.at_follower, scene.at_leader)
        ]
        assert answers[0] == answers[1]


async def test_metadata_of_every_node_names_the_same_active_controller(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        form = Form(ApiKey.METADATA, 12)
        for client in (scene.at_follower, scene.at_leader):
            answer = await client.send(form, metadata(form))
            assert answer.controller_id == scene.leader.node_id


async def test_brokers_are_sent_to_the_active_controller_instead(tmp_path: Path) -> None:
    """As Kafka's controllers do it: NOT_CONTROLLER lets a broker look for the right one."""
    async with a_scene(tmp_path) as scene:
        form = Form(ApiKey.ALTER_PARTITION, 3)
        answer = await scene.at_follower.send(form, alter_partition(form))
        assert (answer.error_code.value, answer.topics) == (41, ())
        answer = await scene.at_follower.ask(
            ApiKey.BROKER_HEARTBEAT,
            1,
            broker_id=101,
            broker_epoch=1,
            current_metadata_offset=1,
            want_fence=False,
            want_shut_down=False,
        )
        assert answer.error_code.value == 41
        answer = await scene.at_follower.ask(
            ApiKey.ALLOCATE_PRODUCER_IDS, 0, broker_id=101, broker_epoch=1
        )
        assert answer.error_code.value == 41


async def test_a_request_waits_through_a_change_of_the_leader(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        async with busy(scene.leader.opened.disk):
            follower = scene.followers[0]
            asking = asyncio.get_running_loop().create_task(
                scene.at_follower.send(CREATE, creation(CREATE, "t", (101,)))
            )
            stopping = asyncio.get_running_loop().create_task(scene.leader.stop())
            await follower.opened.quorum.leader_changed(within_seconds=20)
        answer = await asking
        assert answer.topics[0].error_code.value == 0
        await stopping
        assert "t" in (await active(scene.followers)).controller.image.topic_ids


async def test_one_who_gives_up_soon_does_not_disturb_the_others(tmp_path: Path) -> None:
    """Their requests travel on one connection, and must not be sent twice for his sake."""
    async with a_scene(tmp_path) as scene, kafka_client(scene.followers[0].address) as other:
        for follower in scene.followers:
            await caught_up(follower, scene.leader)
        async with held_up(scene):
            patient = asyncio.get_running_loop().create_task(
                scene.at_follower.send(CREATE, creation(CREATE, "t", (101,)))
            )
            await decided(scene.leader, "t")
            hasty = await other.send(CREATE, creation(CREATE, "u", (101,), timeout_ms=30))
            # Not that it failed: that is not known.
            assert hasty.topics[0].error_code.value == 7
            assert (
                f"node {scene.leader.node_id} leads, and did not answer"
                in hasty.topics[0].error_message
            )
        answer = await patient
        assert answer.topics[0].error_code.value == 0


async def test_the_forwarding_node_returns_the_reason_of_a_refusal(
    tmp_path: Path,
) -> None:
    async with a_scene(tmp_path) as scene:
        for follower in scene.followers:
            await caught_up(follower, scene.leader)
        for node in (scene.leader, *scene.followers):
            node.opened.quorum.replica.room(False)
        answer = await scene.at_follower.send(CREATE, creation(CREATE, "t", (101,), timeout_ms=200))
        (topic,) = answer.topics
        assert topic.error_code.value == 41
        assert f"node {scene.leader.node_id}: the disk of the active controller is full" in (
            topic.error_message
        )


@pytest.mark.parametrize("version", [2, 7])
async def test_without_an_active_controller_the_refusal_is_clear(
    tmp_path: Path, version: int
) -> None:
    async with (
        controllers(tmp_path, 1, voters=(1, 2, 3)) as nodes,
        kafka_client(nodes[1].address) as client,
    ):
        form = Form(ApiKey.CREATE_TOPICS, version)
        answer = await client.send(form, creation(form, "t", (101,), timeout_ms=20))
        (topic,) = answer.topics
        assert topic.error_code.value == 41
        assert topic.error_message.startswith(
            "this node could not reach the active controller in time: "
            "node 1 knows no leader, epoch "
        )
        soon = timedelta(milliseconds=20)
        answer = await client.send(LIST, LIST.request(topics=None, timeout=soon))
        assert (answer.error_code.value, answer.topics) == (41, ())
        # What every node knows by itself, it says.
        form = Form(ApiKey.METADATA, 12)
        answer = await client.send(form, metadata(form))
        assert answer.controller_id == -1
        assert {each.node_id for each in answer.brokers} == {1, 2, 3}
        # Of topics it does not know whether they are there: ask again.
        assert [each.error_code.value for each in answer.topics] == [5, 5]


async def test_a_node_with_a_full_disk_sends_clients_elsewhere_at_once(
    tmp_path: Path,
) -> None:
    async with (
        controllers(tmp_path, 1, voters=(1, 2, 3)) as nodes,
        kafka_client(nodes[1].address) as client,
        AdminClient([nodes[1].address], is_controller=True, timeout_ms=1_500) as admin,
    ):
        nodes[1].opened.quorum.replica.room(False)
        an_hour = creation(CREATE, "t", (101,), timeout_ms=3_600_000)
        answer = await client.send(CREATE, an_hour)
        (topic,) = answer.topics
        assert topic.error_code.value == 41
        assert topic.error_message.startswith("node 1 knows no leader, epoch ")
        assert "before there is room on its disk: ask another node" in topic.error_message
        with pytest.raises(Unreachable, match="before there is room on its disk"):
            await admin.describe_quorum()


async def test_describe_quorum_reports_soon_that_no_leader_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as it is no matter of an election any more, though the asker would wait longer."""
    async with (
        controllers(tmp_path, 1, voters=(1, 2, 3)) as nodes,
        kafka_client(nodes[1].address) as client,
        AdminClient([nodes[1].address], is_controller=True, timeout_ms=3_600_000) as admin,
    ):
        while not nodes[1].opened.quorum.leaderless_ms:
            await nodes[1].opened.quorum.leader_changed(within_seconds=0.001)
        monkeypatch.setattr(router, "LEADERLESS_MS_MAX", 1)
        form = Form(ApiKey.DESCRIBE_QUORUM, 2)
        partition = form.part("PartitionData", partition_index=0)
        topic = form.part("TopicData", topic_name="__cluster_metadata", partitions=(partition,))
        answer = await client.send(form, form.request(topics=(topic,)))
        assert answer.error_code.value == 41
        assert answer.error_message.startswith("node 1 knows no leader, epoch ")
        with pytest.raises(Unreachable) as raised:
            await admin.describe_quorum(patient=False)
        said = (
            f"cannot be described: no controller leads ({nodes[1].address} knows no leader, epoch"
        )
        assert said in str(raised.value)
        assert "asked for 3600000 ms" not in str(raised.value)
        # A change waits for as long as its asker does.
        soon = timedelta(milliseconds=20)
        answer = await client.send(LIST, LIST.request(topics=None, timeout=soon))
        assert answer.error_message.startswith("this node could not reach the active controller")


async def test_requests_that_wait_for_a_leader_are_given_up_when_the_node_stops(
    tmp_path: Path,
) -> None:
    async with (
        controllers(tmp_path, 1, voters=(1, 2, 3)) as nodes,
        kafka_client(nodes[1].address) as client,
    ):
        asking = asyncio.get_running_loop().create_task(
            client.send(CREATE, creation(CREATE, "t", (101,)))
        )
        form = Form(ApiKey.METADATA, 12)
        async with kafka_client(nodes[1].address) as other:
            await other.send(form, metadata(form))
        await nodes[1].apis.close()
        assert not asking.done()
        asking.cancel()
        await asyncio.wait({asking})


@asynccontextmanager
async def held_up(scene: Scene) -> AsyncIterator[None]:
    """Nothing is committed meanwhile: all disks are busy."""
    first, second = scene.followers
    async with busy(scene.leader.opened.disk), busy(first.opened.disk), busy(second.opened.disk):
        yield


async def decided(node: Node, name: str) -> None:
    """Return once the node has decided to create the topic, committed or not."""
    while name not in node.controller.image.topic_ids:
        await node.opened.quorum.leader_changed(within_seconds=0.005)


async def caught_up(node: Node, leader: Node) -> None:
    """Return once the node knows to be committed what the leader does."""
    while node.controller.committed < leader.controller.committed:
        await node.opened.quorum.leader_changed(within_seconds=0.005)


def without_times(answer: Any) -> Any:
    """An answer to DescribeQuorum without what passes."""
    ((partition,),) = (topic.partitions for topic in answer.topics)
    voters = tuple(
        (each.replica_id, each.replica_directory_id) for each in partition.current_voters
    )
    return answer.error_code, partition.leader_id, partition.leader_epoch, voters, answer.nodes
