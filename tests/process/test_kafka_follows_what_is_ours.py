"""Brokers of Kafka follow a log in which our controllers say what Kafka's never do."""

import asyncio
from pathlib import Path
from uuid import UUID

import pytest

from admin.client import AdminClient
from admin.config_questions import ConfigInfo
from admin.data.producer import Producer
from admin.model import Assignment
from quorum.records.encode import ClientRecord
from statemachine import records
from statemachine.configs import DEFAULTS
from statemachine.image import Image
from statemachine.partition import Partition
from statemachine.vocabulary import BROKER_RESOURCE, TOPIC_RESOURCE
from tests.process.kafka_foreign_records import FACTS, SETTINGS, aims, configs, write
from tests.process.one_kafka_broker import (
    BROKER_ID,
    PATIENCE_SECONDS,
    KafkaBroker,
    is_unfenced,
    kafka_broker,
    serve,
)
from tests.support.controllers import Node, a_controller
from tests.support.kafka_tools import runtime

pytestmark = pytest.mark.process

RELEASES = [("3.9.1", 21), ("4.2.0", 29)]
SECOND = 102
THROTTLED_BYTES_PER_S = 10_000
VALUE_BYTES = 600_000
VALUES = 8
# In the words of every release of Kafka, about each replica that is added to a topic it knows.
ADDED = "to exist, but it was missing. Creating..."


def second_is_unfenced(image: Image) -> bool:
    return SECOND in image.brokers and not image.brokers[SECOND].fenced


def partition_of(image: Image, topic: str) -> Partition:
    """The only partition of a topic."""
    (found,) = (each.partition(0) for each in image.topics.values() if each.name == topic)
    assert found is not None
    return found


def id_of(image: Image, topic: str) -> UUID:
    (found,) = (each.topic_id for each in image.topics.values() if each.name == topic)
    return found


async def until_configured(client: AdminClient, broker_id: int, name: str, value: str) -> None:
    """A broker has applied what its log says of it."""
    found: dict[str, ConfigInfo] = {}
    async with asyncio.timeout(PATIENCE_SECONDS):
        while name not in found or found[name].value != value:
            listed = await client.describe_configs(BROKER_RESOURCE, str(broker_id))
            found = {each.name: each for each in listed}


@pytest.mark.parametrize(("version", "level"), RELEASES)
async def test_what_is_only_ours_does_a_broker_no_harm(
    version: str, level: int, tmp_path: Path
) -> None:
    """It takes our settings for those of a plug-in, and what stands beside them for what it is.

    A change that speaks in our tags alone raises the partition's epoch for it, too: the leader
    keeps up, or it could not complete a move. NoOp records with something in them are NoOps.
    """
    java = runtime(version)
    async with (
        a_controller(tmp_path, metadata_version=level, kraft_version=1) as node,
        kafka_broker(tmp_path, java, node.address, metadata_version=level) as first,
        AdminClient([first.address], is_controller=False) as client,
    ):
        await first.until(node, is_unfenced)
        await serve(first, "orders")
        topic = records.Topic(name="orders", topic_id=id_of(node.controller.image, "orders"))
        write(node, (*configs(SETTINGS, ""), *configs({"message.max.bytes": "123456"}, "")))
        write(node, (*aims(topic, (BROKER_ID,)), *FACTS))
        await serve(first, "after-them")
        await _check_configs(client, node)

        async with kafka_broker(
            tmp_path, java, node.address, metadata_version=level, broker_id=SECOND
        ) as second:
            await second.until(node, second_is_unfenced)
            whither = Assignment(topic="orders", partition=0, replicas=(SECOND,))
            (result,) = await client.alter_reassignments([whither])
            assert result.error_code == 0, result
            await second.until(
                node, lambda image: partition_of(image, "orders").replicas == (SECOND,)
            )
            write(node, configs(dict.fromkeys(SETTINGS), ""))
            await serve(first, "without-them")
            assert first.complaints == []
            assert [line for line in second.complaints if ADDED not in line] == []
        # Once for each batch that changed configurations of all brokers: three of them.
        named = [line for line in first.said.splitlines() if "reassignment.parallel" in line]
        assert 1 <= len(named) <= 3, named


async def _check_configs(client: AdminClient, node: Node) -> None:
    """What a broker says of the configurations, and that it passes changes of ours on."""
    for name in (str(BROKER_ID), ""):
        listed = await client.describe_configs(BROKER_RESOURCE, name)
        found = {each.name: (each.value, each.source) for each in listed}
        assert found["message.max.bytes"] == ("123456", "all brokers")
        # It does not know whether they are secrets, and so it shows no value.
        assert {found[each] for each in SETTINGS} == {(None, "all brokers")}
    await client.alter_configs(BROKER_RESOURCE, "", {"reassignment.completion.rule": "min-isr"})
    assert node.controller.image.configs[DEFAULTS]["reassignment.completion.rule"] == "min-isr"


@pytest.mark.parametrize(("version", "level"), RELEASES)
async def test_brokers_throttle_what_a_controller_tells_them_to(
    version: str, level: int, tmp_path: Path
) -> None:
    """KIP-73: a rate of a broker and replicas of a topic, of leaders or followers, are enough.

    The rates and lists stand in the log as any controller may write them. Of three moves alike, the
    one that is not throttled ends; one fetch of each of the others passes, and the rest would take
    minutes. Once the records are taken back, they end at once.
    """
    java = runtime(version)
    async with (
        a_controller(tmp_path, metadata_version=level, kraft_version=1) as node,
        kafka_broker(tmp_path, java, node.address, metadata_version=level) as first,
        kafka_broker(
            tmp_path, java, node.address, metadata_version=level, broker_id=SECOND
        ) as second,
    ):
        await first.until(node, is_unfenced)
        await second.until(node, second_is_unfenced)
        await _fill(first, "free", "leader", "follower")
        await _throttle(node, first, second)
        async with AdminClient([first.address], is_controller=False) as client:
            plan = [
                Assignment(topic=each, partition=0, replicas=(BROKER_ID, SECOND))
                for each in ("leader", "follower", "free")
            ]
            results = await client.alter_reassignments(plan)
            assert {each.error_code for each in results} == {0}

        await second.until(node, lambda image: SECOND in partition_of(image, "free").isr)
        for side, broker_id in (("leader", BROKER_ID), ("follower", SECOND)):
            assert partition_of(node.controller.image, side).isr == (BROKER_ID,)
            _lift(node, side, broker_id)
            await _until_in_sync(second, node, side)
        assert first.complaints == []
        assert [line for line in second.complaints if ADDED not in line] == []


async def _until_in_sync(broker: KafkaBroker, node: Node, topic: str) -> None:
    await broker.until(node, lambda image: SECOND in partition_of(image, topic).isr)


async def _fill(broker: KafkaBroker, *topics: str) -> None:
    """Topics with the same records, each on this broker alone."""
    for topic in topics:
        await serve(broker, topic)
    async with Producer([broker.address]) as producer:
        for topic in topics:
            for _ in range(VALUES):
                record = ClientRecord(1, None, bytes(VALUE_BYTES))
                await (await producer.send(topic, 0, [record]))


async def _throttle(node: Node, leader: KafkaBroker, follower: KafkaBroker) -> None:
    """Of one topic the leader's side, of another the follower's; return when both know."""
    rate = str(THROTTLED_BYTES_PER_S)
    led, followed = (f"{side}.replication.throttled" for side in ("leader", "follower"))
    write(
        node,
        (
            *configs({f"{led}.replicas": "*"}, "leader", TOPIC_RESOURCE),
            *configs({f"{followed}.replicas": f"0:{SECOND}"}, "follower", TOPIC_RESOURCE),
            *configs({f"{led}.rate": rate}, str(BROKER_ID)),
            *configs({f"{followed}.rate": rate}, str(SECOND)),
        ),
    )
    for broker, broker_id, name in ((leader, BROKER_ID, led), (follower, SECOND, followed)):
        async with AdminClient([broker.address], is_controller=False) as client:
            await until_configured(client, broker_id, f"{name}.rate", rate)


def _lift(node: Node, side: str, broker_id: int) -> None:
    write(
        node,
        (
            *configs({f"{side}.replication.throttled.rate": None}, str(broker_id)),
            *configs({f"{side}.replication.throttled.replicas": None}, side, TOPIC_RESOURCE),
        ),
    )
