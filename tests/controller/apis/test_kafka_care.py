"""Care of brokers, asked over the Kafka protocol of real controllers."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from admin.care import Operation
from admin.faults import Refused
from quorum.protocol.apis import ApiKey
from statemachine import commands
from tests.controller.apis.test_kafka_transfer import at_rest
from tests.controller.apis.test_kafka_voters import client_of
from tests.controller.asking import asked, join, topic
from tests.support.controllers import a_controller, controllers
from tests.support.kafka_client import kafka_client

SECOND = timedelta(seconds=1)


async def test_any_controller_tells_and_changes_who_gets_new_replicas(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        await join(leader.controller, 101, 102)
        await asked(leader.controller, topic("a", 101, 102, partitions=2))
        other = next(each for each in nodes.values() if each is not leader)
        async with client_of(other) as client:
            results = await client.cordon_brokers([102, 109])
            assert [(each.broker_id, each.error_name) for each in results] == [
                (102, "NONE"),
                (109, "BROKER_ID_NOT_REGISTERED"),
            ]
            found = await client.broker_standings()
            assert [
                (each.id, each.state, each.is_cordoned, each.replica_count, each.leader_count)
                for each in found.brokers
            ] == [(101, "alive", False, 2, 2), (102, "alive", True, 2, 0)]
            assert found.as_of is not None
            assert [each.error_code for each in await client.cordon_brokers([102])] == [0]
            await client.cordon_brokers([102], cordoned=False)
            (one,) = (await client.broker_standings([102])).brokers
            assert not one.is_cordoned


async def test_any_controller_forgets_a_broker_that_is_not_in_use(tmp_path: Path) -> None:
    """Kafka's own request forgets any; that its replicas stay assigned is Kafka's way as well."""
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        await join(leader.controller, 101, 102, 103)
        await asked(leader.controller, topic("a", 101, 102))
        await asked(leader.controller, commands.FenceBrokers(broker_ids=(102, 103)))
        other = next(each for each in nodes.values() if each is not leader)
        async with client_of(other) as client:
            results = await client.alter_brokers([101, 102, 103, 109], Operation.UNREGISTER)
            assert [(each.broker_id, each.error_name) for each in results] == [
                (101, "INVALID_REQUEST"),
                (102, "INVALID_REQUEST"),
                (103, "NONE"),
                (109, "BROKER_ID_NOT_REGISTERED"),
            ]
            await client.unregister_broker(102)
            assert [each.id for each in (await client.broker_standings()).brokers] == [101]
            (partition,) = (await client.describe_topics(["a"]))["a"].partitions
            assert list(partition.replicas) == [101, 102]


async def test_the_partitions_that_say_no_are_named(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, client_of(node) as client:
        await join(node.controller, 101, 102)
        await asked(node.controller, topic("a", 101, 102))
        await asked(node.controller, topic("b", 101))
        found = await client.safe_to_stop([101])
        assert [(str(each.id), each.harm, each.left, each.min_isr) for each in found.hurt] == [
            ("b-0", "no-leader", (), 1)
        ]
        assert (found.hurt_count, found.looked_at) == (1, 2)
        assert (await client.safe_to_stop([102])).hurt_count == 0
        assert (await client.safe_to_stop([101, 102])).hurt_count == 2


async def test_a_broker_that_is_not_registered_is_never_called_safe(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, client_of(node) as client:
        with pytest.raises(Refused, match="Broker ID 7 is not currently registered"):
            await client.safe_to_stop([7])
        with pytest.raises(Refused, match="Broker ID 7 is not currently registered"):
            await client.broker_standings([7])
        with pytest.raises(Refused, match="no broker is named; name at least one"):
            await client.safe_to_stop([])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            {"operation": 4},
            "operation 4 is not known; there is 1 cordon, 2 uncordon, 3 unregister",
        ),
        ({"broker_ids": ()}, "no broker is named; name at least one"),
    ],
)
async def test_what_cannot_be_meant_is_refused_as_a_whole(
    tmp_path: Path, wrong: dict[str, Any], words: str
) -> None:
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        fields: dict[str, Any] = {"timeout": SECOND, "broker_ids": (1,), "operation": 1}
        answer = await client.ask(ApiKey.ALTER_BROKERS, 0, **{**fields, **wrong})
        assert (answer.error_code, answer.error_message, answer.brokers) == (42, words, ())
