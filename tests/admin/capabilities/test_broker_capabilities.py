"""Broker capabilities over the Kafka protocol of real controllers."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from admin.capabilities import schema
from admin.capabilities.brokers import (
    CordonBrokers,
    DescribeBroker,
    ListBrokers,
    SafeToStop,
    UncordonBrokers,
    UnregisterBrokers,
)
from admin.capabilities.registry import decode_request
from admin.faults import Refused
from quorum.protocol.apis import ApiKey
from statemachine import commands
from tests.controller.apis.test_kafka_transfer import at_rest
from tests.controller.apis.test_kafka_voters import client_of
from tests.controller.controller_commands import asked, join, topic
from tests.support.controllers import a_controller, controllers
from tests.support.kafka_client import kafka_client

SECOND = timedelta(seconds=1)


async def test_any_controller_describes_and_changes_cordons(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        await join(leader.controller, 101, 102)
        await asked(leader.controller, topic("a", 101, 102, partitions=2))
        other = next(each for each in nodes.values() if each is not leader)
        async with client_of(other) as client:
            altered = await client.ask(CordonBrokers(broker_ids=(102, 109)))
            assert [(each.broker_id, each.kafka_error) for each in altered.brokers] == [
                (102, "NONE"),
                (109, "BROKER_ID_NOT_REGISTERED"),
            ]
            found = await client.ask(ListBrokers())
            assert [
                (each.broker_id, each.state, each.cordoned, each.replicas, each.leaders)
                for each in found.brokers
            ] == [(101, "alive", False, 2, 2), (102, "alive", True, 2, 0)]
            again = await client.ask(CordonBrokers(broker_ids=(102,)))
            assert [each.kafka_error_code for each in again.brokers] == [0]
            await client.ask(UncordonBrokers(broker_ids=(102,)))
            assert not (await client.ask(DescribeBroker(broker_id=102))).cordoned


async def test_any_controller_forgets_a_broker_that_is_not_in_use(tmp_path: Path) -> None:
    """Kafka's own request forgets any; that its replicas stay assigned is Kafka's way as well."""
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        await join(leader.controller, 101, 102, 103)
        await asked(leader.controller, topic("a", 101, 102))
        await asked(leader.controller, commands.FenceBrokers(broker_ids=(102, 103)))
        other = next(each for each in nodes.values() if each is not leader)
        async with client_of(other) as client:
            altered = await client.ask(UnregisterBrokers(broker_ids=(101, 102, 103, 109)))
            assert [(each.broker_id, each.kafka_error) for each in altered.brokers] == [
                (101, "INVALID_REQUEST"),
                (102, "INVALID_REQUEST"),
                (103, "NONE"),
                (109, "BROKER_ID_NOT_REGISTERED"),
            ]
            await asked(leader.controller, commands.UnregisterBroker(broker_id=102))
            assert [each.broker_id for each in (await client.ask(ListBrokers())).brokers] == [101]
            (partition,) = (await client.describe_topics(["a"]))["a"].partitions
            assert list(partition.replicas) == [101, 102]


async def test_the_partitions_that_say_no_are_named(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, client_of(node) as client:
        await join(node.controller, 101, 102)
        await asked(node.controller, topic("a", 101, 102))
        await asked(node.controller, topic("b", 101))
        found = await client.ask(SafeToStop(broker_ids=(101,)))
        assert [
            (each.topic, each.partition, each.harm, each.in_sync, each.min_isr)
            for each in found.hurt
        ] == [("b", 0, "no-leader", (), 1)]
        assert (found.partitions_hurt, found.partitions_looked_at) == (1, 2)
        assert (await client.ask(SafeToStop(broker_ids=(102,)))).partitions_hurt == 0
        assert (await client.ask(SafeToStop(broker_ids=(101, 102)))).partitions_hurt == 2


async def test_a_broker_that_is_not_registered_is_never_called_safe(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, client_of(node) as client:
        with pytest.raises(Refused, match="Broker ID 7 is not currently registered"):
            await client.ask(SafeToStop(broker_ids=(7,)))
        with pytest.raises(Refused, match="Broker ID 7 is not currently registered"):
            await client.ask(DescribeBroker(broker_id=7))
        with pytest.raises(Refused, match="no broker is named; name at least one"):
            await client.ask(SafeToStop(broker_ids=()))


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        ("brokers.cordon", {"broker_ids": ()}, "$.broker_ids"),
        ("brokers.cordon", {"broker_ids": (1, "x")}, "$.broker_ids[1]"),
        ("brokers.cordon", {"broker_ids": (-1,)}, "$.broker_ids[0]"),
        ("brokers.cordon", {"broker_ids": (1,), "force": True}, "force"),
        ("brokers.cordon", {}, "broker_ids"),
        ("brokers.explode", {}, "'brokers.explode' is not known"),
    ],
)
async def test_a_malformed_request_is_refused_with_the_field_that_is_wrong(
    tmp_path: Path, name: str, fields: dict[str, Any], words: str
) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        body = msgspec.msgpack.encode(fields)
        answer = await client.ask(ApiKey.CAPABILITY, 0, timeout=SECOND, name=name, body=body)
        assert (answer.error_code, answer.body) == (42, b"")
        assert words in answer.error_message


@pytest.mark.parametrize(
    "body",
    [b"", b"\x81", b"\xc1", b"\x91" * 5_000, b"\x01", b"\x81\xa1\xff\x01"],
)
async def test_bytes_that_are_no_request_are_refused(tmp_path: Path, body: bytes) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        answer = await client.ask(
            ApiKey.CAPABILITY, 0, timeout=SECOND, name="brokers.cordon", body=body
        )
        assert answer.error_code == 42


async def test_a_change_is_never_stale(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, client_of(node) as client:
        with pytest.raises(Refused, match="only requests that read may be stale"):
            await client.ask(CordonBrokers(broker_ids=(1,)), stale=True)


def test_a_request_and_its_answer_survive_their_bytes() -> None:
    asked = SafeToStop(broker_ids=(101, 102))
    assert decode_request(asked.NAME, schema.encode(asked)) == asked
