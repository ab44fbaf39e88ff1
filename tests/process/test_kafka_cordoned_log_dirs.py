"""Log directories of Kafka's brokers that get no new replicas (KIP-1066), on our controllers."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from admin.client.admin_client import AdminClient
from admin.client.log_dirs import describe_log_dirs
from admin.model import Assignment
from admin.tools import kafka_brokers
from admin.tools.kafka_runtime import Runtime
from quorum.protocol.errors import RequestRefused
from quorum.transport.address import Address
from statemachine.image.image import Image
from statemachine.vocabulary import LEVEL_CORDONED_DIRECTORIES, Replicas
from tests.process.kafka_tools_process import Said, ToolsRoom, tools_room
from tests.process.one_kafka_broker import BROKER_ID, KafkaBroker, is_unfenced, kafka_broker
from tests.process.two_kafka_brokers import SECOND, complaints_of_second, second_is_unfenced
from tests.support.controllers import CLUSTER_ID, a_controller
from tests.support.kafka_tools import runtime

pytestmark = pytest.mark.process

VERSION = "4.3.1"


async def tell(room: ToolsRoom, tool: str, at: Address, *arguments: str) -> Said:
    """Run one of Kafka's tools against a broker, while the controller of this test runs."""
    return await asyncio.to_thread(room.run, tool, ("--bootstrap-server", str(at), *arguments))


async def cordon(room: ToolsRoom, broker: KafkaBroker, broker_id: int, value: str) -> None:
    """Change cordoned.log.dirs of a broker as Kafka documents it."""
    entity = ("--alter", "--entity-type", "brokers", "--entity-name", str(broker_id))
    done = await tell(
        room,
        "kafka-configs.sh",
        broker.address,
        *entity,
        "--add-config",
        f"cordoned.log.dirs={value}",
    )
    assert f"Completed updating config for broker {broker_id}" in done.text


def replicas_of(image: Image, topic: str) -> Replicas:
    """The replicas of the first partition of a topic."""
    found = image.topic_named(topic)
    partition = None if found is None else found.partition(0)
    return () if partition is None else partition.replicas


def made(folder: Path, topic: str) -> int:
    """The number of partitions of the topic in this log directory."""
    return len(list(folder.glob(f"{topic}-*")))


def cordoned(broker_id: int, count: int) -> Callable[[Image], bool]:
    """True once so many directories of the broker are cordoned, as far as it has told."""

    def holds(image: Image) -> bool:
        known = image.brokers[broker_id].cordoned_log_dirs
        return known is not None and len(known) == count

    return holds


async def test_cordons_of_kafkas_brokers_are_followed_from_the_upgrade_on(tmp_path: Path) -> None:
    """Kafka's own tool upgrades 29 to 30 and cordons; the second broker's file cordons it."""
    java = runtime(VERSION)
    with tools_room(java, tmp_path) as room:
        await follow(tmp_path, java, room)


async def follow(tmp_path: Path, java: Runtime, room: ToolsRoom) -> None:
    """Upgrade, cordon, create, move, and try to go back."""
    folders = [tmp_path / f"broker-{BROKER_ID}" / "data", tmp_path / "disk-2"]
    kafka_brokers.format_storage(folders[1], CLUSTER_ID, BROKER_ID, random.Random(1))
    two_disks: dict[str, object] = {"log.dirs": ",".join(map(str, folders))}
    async with (
        a_controller(tmp_path, metadata_version=29, kraft_version=1) as node,
        kafka_broker(tmp_path, java, node.address, metadata_version=29, more=two_disks) as first,
        kafka_broker(
            tmp_path,
            java,
            node.address,
            metadata_version=29,
            broker_id=SECOND,
            more={"cordoned.log.dirs": "*"},
        ) as second,
    ):
        await first.until(node, is_unfenced)
        await second.until(node, second_is_unfenced)
        image = node.controller.image
        assert len(image.brokers[BROKER_ID].log_dirs) == len(folders)
        assert image.brokers[SECOND].cordoned_log_dirs is None
        async with AdminClient([first.address], is_controller=False) as client:
            await client.create_topic("before", assignments={0: (SECOND,)})

            upgrade = ("upgrade", "--feature", "metadata.version=30")
            done = await tell(room, "kafka-features.sh", first.address, *upgrade)
            assert done == Said("metadata.version was upgraded to 30.\n", 0)
            assert image.level == LEVEL_CORDONED_DIRECTORIES
            # Both report, the second one what its file says.
            await first.until(node, cordoned(BROKER_ID, 0))
            await second.until(node, cordoned(SECOND, 1))
            await client.create_topic("placed", partitions=4, replication_factor=1)
            with pytest.raises(RequestRefused, match="cordoned") as refused:
                await client.create_topic("by-hand", assignments={0: (SECOND,)})
            assert "INVALID_REPLICA_ASSIGNMENT" in str(refused.value)
            topic = image.topic_named("placed")
            assert topic is not None
            assert {each.replicas for _, each in topic.existing()} == {(BROKER_ID,)}

            # One of two directories: the broker stays open, and uses the other one.
            await cordon(room, first, BROKER_ID, str(folders[0]))
            await first.until(node, cordoned(BROKER_ID, 1))
            await client.create_topic("one-disk", partitions=3, replication_factor=1)
            await first.until(node, lambda _: made(folders[1], "one-disk") == 3)
            assert made(folders[0], "one-disk") == 0
            described = await describe_log_dirs([first.address])
            assert {each.path: each.cordoned for each in described.of_brokers[first.address]} == {
                str(folders[0]): True,
                str(folders[1]): False,
            }

            # All of them: nobody is left.
            await cordon(room, first, BROKER_ID, "*")
            await first.until(node, cordoned(BROKER_ID, 2))
            with pytest.raises(RequestRefused, match="cordoned"):
                await client.create_topic("nowhere", partitions=1, replication_factor=1)
            await cordon(room, second, SECOND, "")
            await second.until(node, cordoned(SECOND, 0))
            await client.create_topic("nowhere", partitions=1, replication_factor=1)
            there = Assignment(topic="one-disk", partition=0, replicas=(SECOND,))
            (moved,) = await client.alter_reassignments([there])
            assert not moved.kafka_error_code
            await second.until(node, lambda image: replicas_of(image, "one-disk") == (SECOND,))
            back = Assignment(topic="one-disk", partition=0, replicas=(BROKER_ID,))
            (refused_move,) = await client.alter_reassignments([back])
            assert "cordoned.log.dirs" in (str(refused_move))
        downgrade = ("downgrade", "--feature", "metadata.version=29")
        done = await tell(room, "kafka-features.sh", first.address, *downgrade)
        assert "Unsupported metadata.version downgrade from 30 to 29" in done.text
        assert done.code
        assert first.complaints == complaints_of_second(second) == []
