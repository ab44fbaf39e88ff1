"""Planning capabilities over the Kafka protocol of real controllers."""

from pathlib import Path
from typing import Any

import pytest

from admin.capabilities.decommission import DecommissionBrokers, RecommissionBrokers
from admin.capabilities.plans import GeneratePlan
from admin.faults import Refused
from tests.admin.planned_topic import check_refused, three_brokers
from tests.controller.apis.test_kafka_transfer import at_rest
from tests.controller.apis.test_kafka_voters import client_of
from tests.controller.controller_commands import asked, join, topic
from tests.support.controllers import a_controller, controllers


async def test_any_controller_plans_and_begins_and_reports_the_result(
    tmp_path: Path,
) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        await three_brokers(leader.controller, 101, 102, partitions=2)
        other = next(each for each in nodes.values() if each is not leader)
        async with client_of(other) as client:
            mistaken = DecommissionBrokers(broker_ids=(102, 109))
            with pytest.raises(Refused, match="Broker ID 109 is not currently registered"):
                await client.ask(mistaken)
            found = await client.ask(DecommissionBrokers(broker_ids=(102,)))
            assert (found.moves, found.planned, found.accepted) == ((1,), 2, 2)
            assert [(str(each.id), each.replicas, each.target) for each in found.partitions] == [
                ("a-0", (101, 102), (101, 103)),
                ("a-1", (101, 102), (101, 103)),
            ]
            drain = found.drain
            assert (drain.held, drain.cordoned, drain.unregistered) == (2, (102,), ())
            assert [
                (each.replicas_before, each.replicas_after) for each in found.foreseen.shares
            ] == [(2, 2), (2, 0), (0, 2)]
            back = await client.ask(RecommissionBrokers(broker_ids=(102,)))
            assert (back.accepted, back.drain.cordoned) == (2, (102,))
            spread = await client.ask(GeneratePlan())
            assert (spread.moves, spread.reason) == ((), None)
            assert {str(each.id) for each in spread.partitions} <= {"a-0", "a-1"}


@pytest.mark.parametrize(
    ("name", "wrong", "words"),
    [
        ("brokers.decommission", {}, "broker_ids"),
        ("brokers.decommission", {"broker_ids": []}, "$.broker_ids"),
        ("brokers.decommission", {"broker_ids": [1, 1]}, "a broker is named twice; name each once"),
        ("brokers.decommission", {"broker_ids": [1], "topics": ["a"]}, "topics"),
        (
            "brokers.decommission",
            {"broker_ids": [1], "unregister": True, "dry_run": True},
            "a dry run unregisters nothing",
        ),
        ("brokers.recommission", {"broker_ids": [1], "unregister": True}, "unregister"),
        ("plans.generate", {"replication_factor": 2}, "replication_factor"),
        ("plans.generate", {"throttle_bytes_per_s": 2}, "throttle_bytes_per_s"),
        ("plans.generate", {"key": "k"}, "key"),
        ("plans.generate", {"brokers": []}, "no broker is named; name at least one, or omit"),
        ("plans.generate", {"topics": ["a", "a"]}, "a topic is named twice; name each once"),
        (
            "topics.replication-factor",
            {"topics": ["a"], "replication_factor": 0},
            "$.replication_factor",
        ),
        ("topics.replication-factor", {"replication_factor": 2}, "topics"),
        (
            "topics.replication-factor",
            {"topics": ["a"], "replication_factor": 2, "key": "a\n"},
            "other characters than printable ASCII",
        ),
    ],
)
async def test_an_invalid_plan_request_is_refused_with_the_valid_choices(
    tmp_path: Path, name: str, wrong: dict[str, Any], words: str
) -> None:
    await check_refused(tmp_path, name, wrong, words)


async def test_dead_brokers_get_nothing_that_is_planned(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, client_of(node) as client:
        await join(node.controller, 101)
        await asked(node.controller, topic("a", 101))
        from_here = GeneratePlan(brokers=(101, 102))
        with pytest.raises(Refused, match="no plan can be made: broker 102 is not registered"):
            await client.ask(from_here)
