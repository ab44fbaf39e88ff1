"""Kafka brokers follow a log with records that only our controllers write."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from admin.client.admin_client import AdminClient
from admin.model import Assignment
from statemachine.configs.effective import DEFAULTS
from statemachine.records import kafka_records
from statemachine.vocabulary import BROKER_RESOURCE
from tests.controller.controller_commands import asked, registration
from tests.process.kafka_foreign_records import FACTS, SETTINGS, aims, configs, write
from tests.process.one_kafka_broker import BROKER_ID, is_unfenced, kafka_broker, serve
from tests.process.two_kafka_brokers import (
    RELEASES,
    SECOND,
    complaints_of_second,
    partition_of,
    second_is_unfenced,
)
from tests.statemachine.support.world import EMBEDDED_FEATURES
from tests.support.controllers import Node, a_controller
from tests.support.kafka_tools import runtime

pytestmark = pytest.mark.process

EMBEDDED = 900


@pytest.mark.parametrize(("version", "level"), RELEASES)
async def test_records_that_only_we_write_do_a_broker_no_harm(
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
        orders = node.controller.image.topic_named("orders")
        assert orders is not None
        topic = kafka_records.Topic(name="orders", topic_id=orders.topic_id)
        write(node, (*configs(SETTINGS, ""), *configs({"message.max.bytes": "123456"}, "")))
        write(node, (*aims(topic, (BROKER_ID,)), *FACTS))
        embedded = replace(registration(EMBEDDED), features=EMBEDDED_FEATURES)
        await asked(node.controller, embedded)
        assert node.controller.image.brokers[EMBEDDED].is_embedded
        assert not node.controller.image.brokers[BROKER_ID].is_embedded
        await serve(first, "after-them")
        await _check_configs(client, node)

        async with kafka_broker(
            tmp_path, java, node.address, metadata_version=level, broker_id=SECOND
        ) as second:
            await second.until(node, second_is_unfenced)
            whither = Assignment(topic="orders", partition=0, replicas=(SECOND,))
            (result,) = await client.alter_reassignments([whither])
            assert result.kafka_error_code == 0, result
            await second.until(
                node, lambda image: partition_of(image, "orders").replicas == (SECOND,)
            )
            write(node, configs(dict.fromkeys(SETTINGS), ""))
            await serve(first, "without-them")
            assert first.complaints == []
            assert complaints_of_second(second) == []
        # Once for each batch that changed configurations of all brokers: three of them.
        named = [line for line in first.said.splitlines() if "reassignment.parallel" in line]
        assert 1 <= len(named) <= 3, named


async def _check_configs(client: AdminClient, node: Node) -> None:
    """The configurations that a broker reports; it forwards changes of ours."""
    for name in (str(BROKER_ID), ""):
        listed = await client.describe_configs(BROKER_RESOURCE, name)
        found = {each.name: (each.value, each.source) for each in listed}
        assert found["message.max.bytes"] == ("123456", "all brokers")
        # It does not know whether they are secrets, and so it shows no value.
        assert {found[each] for each in SETTINGS} == {(None, "all brokers")}
    await client.alter_configs(BROKER_RESOURCE, "", {"reassignment.completion.rule": "min-isr"})
    assert node.controller.image.configs[DEFAULTS]["reassignment.completion.rule"] == "min-isr"
