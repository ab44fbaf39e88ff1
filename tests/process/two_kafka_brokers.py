"""Two brokers of Apache Kafka on one controller of ours, and what copies from one to the other."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from admin.client.producer import Producer
from quorum.records.encode import ClientRecord
from statemachine.image.image import Image
from statemachine.partitions.registration import PartitionRegistration
from tests.process.one_kafka_broker import (
    KafkaBroker,
    is_unfenced,
    kafka_broker,
    serve,
)
from tests.support.controllers import Node, a_controller
from tests.support.kafka_tools import runtime

RELEASES: Final = [
    pytest.param("3.9.1", 21, marks=pytest.mark.long),
    pytest.param("4.2.0", 29, marks=pytest.mark.long),
    ("4.3.1", 30),
]
SECOND: Final = 102
BYTES_PER_S: Final = 10_000
"""A rate at which what a topic of `fill` holds takes minutes."""
VALUE_BYTES: Final = 600_000
VALUES: Final = 8
# In the words of every release of Kafka, about each replica that is added to a topic it knows.
_ADDED: Final = "to exist, but it was missing. Creating..."


@dataclass(frozen=True)
class TwoBrokers:
    """A controller, and two brokers that are unfenced."""

    node: Node
    first: KafkaBroker
    second: KafkaBroker

    def partition(self, topic: str) -> PartitionRegistration:
        """The only partition of a topic."""
        return partition_of(self.node.controller.image, topic)

    async def until_copied(self, topic: str) -> None:
        """Return once the second broker has all of the topic."""
        await self.second.until(self.node, lambda image: SECOND in partition_of(image, topic).isr)

    async def fill(self, *topics: str) -> None:
        """Topics with the same records, each on the first broker alone."""
        for topic in topics:
            await serve(self.first, topic)
        async with Producer([self.first.address]) as producer:
            for topic in topics:
                for _ in range(VALUES):
                    record = ClientRecord(1, None, bytes(VALUE_BYTES))
                    await (await producer.send(topic, 0, [record]))

    def check_complaints(self) -> None:
        """Nobody complained of anything but what everybody complains of."""
        assert self.first.complaints == []
        assert complaints_of_second(self.second) == []


def second_is_unfenced(image: Image) -> bool:
    """The second broker may lead."""
    return SECOND in image.brokers and not image.brokers[SECOND].fenced


def partition_of(image: Image, topic: str) -> PartitionRegistration:
    """The only partition of a topic."""
    found = image.topic_named(topic)
    assert found is not None
    partition = found.partition(0)
    assert partition is not None
    return partition


def complaints_of_second(broker: KafkaBroker) -> list[str]:
    """The other errors of a broker that is given replicas of topics it already had."""
    return [line for line in broker.complaints if _ADDED not in line]


@asynccontextmanager
async def two_kafka_brokers(folder: Path, version: str, level: int) -> AsyncIterator[TwoBrokers]:
    """Brokers of this release, both unfenced; skips where they cannot be run."""
    java = runtime(version)
    async with (
        a_controller(folder, metadata_version=level, kraft_version=1) as node,
        kafka_broker(folder, java, node.address, metadata_version=level) as first,
        kafka_broker(
            folder, java, node.address, metadata_version=level, broker_id=SECOND
        ) as second,
    ):
        await first.until(node, is_unfenced)
        await second.until(node, second_is_unfenced)
        yield TwoBrokers(node, first, second)
