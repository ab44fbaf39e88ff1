"""Kafka's brokers copy at the rate of a move, and none is left where one of them is down."""

from pathlib import Path

import pytest

from admin.client import AdminClient
from admin.data.producer import Producer
from quorum.records.encode import ClientRecord
from statemachine import commands
from statemachine.image import Image
from statemachine.partition import Partition
from statemachine.throttle_configs import FOLLOWER_RATE, LEADER_RATE
from statemachine.vocabulary import BROKER_RESOURCE
from tests.admin.controller.asking import asked
from tests.process.one_kafka_broker import (
    BROKER_ID,
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
BYTES_PER_S = 10_000
VALUE_BYTES = 600_000
VALUES = 8
# In the words of every release of Kafka, about each replica that is added to a topic it knows.
ADDED = "to exist, but it was missing. Creating..."


def second_is_unfenced(image: Image) -> bool:
    return SECOND in image.brokers and not image.brokers[SECOND].fenced


def partition_of(image: Image, topic: str) -> Partition:
    """The only partition of a topic."""
    found = image.topic_named(topic)
    assert found is not None
    partition = found.partition(0)
    assert partition is not None
    return partition


def throttles(image: Image) -> dict[tuple[int, str], list[str]]:
    """What is set of throttles, by resource."""
    found = {
        resource: sorted(name for name in configs if ".throttled." in name)
        for resource, configs in image.configs.items()
    }
    return {resource: names for resource, names in found.items() if names}


async def fill(broker: KafkaBroker, *topics: str) -> None:
    """Topics with the same records, each on this broker alone."""
    for topic in topics:
        await serve(broker, topic)
    async with Producer([broker.address]) as producer:
        for topic in topics:
            for _ in range(VALUES):
                record = ClientRecord(1, None, bytes(VALUE_BYTES))
                await (await producer.send(topic, 0, [record]))


async def begin(node: Node, topic: str, bytes_per_s: int = 0) -> int:
    """The topic gets a replica on the second broker; returns which move that is."""
    whither = commands.Reassignment(topic=topic, partition=0, replicas=(BROKER_ID, SECOND))
    command = commands.BeginMove(reassignments=(whither,), throttle_bytes_per_s=bytes_per_s)
    started = await asked(node.controller, command)
    assert isinstance(started, commands.MoveStarted)
    assert started.move_id
    return started.move_id


async def rate_known(broker: KafkaBroker, name: str) -> str | None:
    """The rate that the broker goes by; None where it knows none."""
    async with AdminClient([broker.address], is_controller=False) as client:
        listed = await client.describe_configs(BROKER_RESOURCE, str(BROKER_ID))
    return next((each.value for each in listed if each.name == name), None)


async def until_known(broker: KafkaBroker, node: Node, name: str, rate: str | None) -> None:
    """Wait until the broker has applied it."""
    while await rate_known(broker, name) != rate:
        assert broker.process.returncode is None, broker.said[-3_000:]
        await node.opened.quorum.leader_changed(within_seconds=0.02)


@pytest.mark.parametrize(("version", "level"), RELEASES)
async def test_a_move_holds_brokers_up_while_it_runs_and_leaves_nothing_where_one_is_down(
    version: str, level: int, tmp_path: Path
) -> None:
    """Kafka's own tool asks every broker to forget the rate, and waits for one that is down.

    Of three moves alike the one that is not throttled ends; the rest of the others would take
    minutes. One of them is let go, and ends at once; then the second broker dies, the other one is
    cancelled, and the first broker knows no rate any more.
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
        await fill(first, "free", "let-go", "cancelled")
        slow = [await begin(node, topic, BYTES_PER_S) for topic in ("let-go", "cancelled")]
        await begin(node, "free")
        await second.until(node, lambda image: SECOND in partition_of(image, "free").isr)
        image = node.controller.image
        assert partition_of(image, "let-go").isr == partition_of(image, "cancelled").isr
        assert partition_of(image, "let-go").isr == (BROKER_ID,)
        await until_known(first, node, LEADER_RATE, str(BYTES_PER_S))

        await asked(node.controller, commands.AlterMove(move_id=slow[0], throttle_bytes_per_s=0))
        await second.until(node, lambda image: SECOND in partition_of(image, "let-go").isr)
        assert partition_of(image, "cancelled").isr == (BROKER_ID,)
        assert throttles(image)[(BROKER_RESOURCE, str(SECOND))] == [FOLLOWER_RATE, LEADER_RATE]

        second.process.kill()
        await second.process.wait()
        await asked(node.controller, commands.CancelMoves(moves=(slow[1],)))
        assert throttles(image) == {}
        await until_known(first, node, LEADER_RATE, None)
        assert first.complaints == []
        assert [line for line in second.complaints if ADDED not in line] == []
