"""Kafka brokers that must not join, and the errors that they and the operator see."""

import asyncio
import logging
from pathlib import Path

import pytest

from tests.process.one_kafka_broker import KafkaBroker, is_unfenced, kafka_broker
from tests.support.bell import PATIENCE_SECONDS
from tests.support.controllers import CLUSTER_ID, Node, a_controller
from tests.support.kafka_tools import runtime

pytestmark = pytest.mark.process

OTHER_CLUSTER = "5n0Q2mJ7RyS1xWw1eEo3Kw"


async def until_said(
    node: Node, broker: KafkaBroker, log: pytest.LogCaptureFixture, *words: str
) -> str:
    """The line of the controller's log that has all these words."""
    async with asyncio.timeout(6 * PATIENCE_SECONDS):
        while True:
            for line in log.messages:
                if all(word in line for word in words):
                    return line
            await node.opened.quorum.leader_changed(within_seconds=0.05)
            if broker.process.returncode is not None and not log.messages:
                raise AssertionError(broker.said[-2_000:])


async def until_said_by(broker: KafkaBroker, node: Node, words: str) -> None:
    """Wait until the broker has logged this."""
    async with asyncio.timeout(6 * PATIENCE_SECONDS):
        while words not in broker.said:
            await node.opened.quorum.leader_changed(within_seconds=0.05)


async def test_a_broker_of_another_cluster_stays_outside_and_the_operator_reads_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    java = runtime("4.2.0")
    caplog.set_level(logging.WARNING)
    async with (
        a_controller(tmp_path, kraft_version=1) as node,
        kafka_broker(
            tmp_path, java, node.address, metadata_version=29, cluster_id=OTHER_CLUSTER
        ) as broker,
    ):
        line = await until_said(node, broker, caplog, OTHER_CLUSTER)
        assert f"the sender is of cluster {OTHER_CLUSTER}, this node of {CLUSTER_ID}" in line
        await until_said_by(broker, node, "INCONSISTENT_CLUSTER_ID")
        # It asks again and again, and is told so each time; the operator is told once.
        assert len([each for each in caplog.messages if OTHER_CLUSTER in each]) <= 2
        assert node.controller.image.brokers == {}


async def test_a_second_broker_of_an_id_waits_and_the_first_one_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    java = runtime("4.2.0")
    caplog.set_level(logging.WARNING)
    async with (
        a_controller(tmp_path, kraft_version=1) as node,
        kafka_broker(tmp_path, java, node.address, metadata_version=29) as first,
    ):
        await first.until(node, is_unfenced)
        epoch = node.controller.image.brokers[101].broker_epoch
        (tmp_path / "second").mkdir()
        async with kafka_broker(
            tmp_path / "second", java, node.address, metadata_version=29
        ) as second:
            await until_said(node, second, caplog, "101", "alive")
            assert second.process.returncode is None
            await until_said_by(second, node, "DUPLICATE_BROKER_REGISTRATION")
        assert node.controller.image.brokers[101].broker_epoch == epoch
        assert first.process.returncode is None


async def test_a_broker_that_cannot_read_the_level_is_refused_by_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    java = runtime("3.9.1")
    caplog.set_level(logging.WARNING)
    async with (
        a_controller(tmp_path, metadata_version=29, kraft_version=1) as node,
        kafka_broker(tmp_path, java, node.address, metadata_version=29) as broker,
    ):
        line = await until_said(node, broker, caplog, "101", "metadata.version 29")
        assert "1 to 21" in line
        assert node.controller.image.brokers == {}
