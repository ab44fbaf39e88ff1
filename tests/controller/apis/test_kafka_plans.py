"""Plans asked for over the Kafka protocol of real controllers: PlanMoves (20005)."""

from pathlib import Path
from typing import Any

import pytest

from admin.faults import Refused
from admin.plans import Operation, PlanRequest
from tests.admin.planned_topic import check_refused, three_brokers
from tests.controller.apis.test_kafka_transfer import at_rest
from tests.controller.apis.test_kafka_voters import client_of
from tests.controller.asking import asked, join, topic
from tests.support.controllers import a_controller, controllers


async def test_any_controller_plans_and_begins_and_is_told_what_came_of_it(
    tmp_path: Path,
) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        await three_brokers(leader.controller, 101, 102, partitions=2)
        other = next(each for each in nodes.values() if each is not leader)
        async with client_of(other) as client:
            mistaken = PlanRequest(operation=Operation.DRAIN, brokers=(102, 109))
            with pytest.raises(Refused, match="Broker ID 109 is not currently registered"):
                await client.plan_moves(mistaken)
            found = await client.plan_moves(PlanRequest(operation=Operation.DRAIN, brokers=(102,)))
            assert (found.moves, found.planned, found.accepted) == ((1,), 2, 2)
            assert [(str(each.id), each.replicas, each.target) for each in found.partitions] == [
                ("a-0", (101, 102), (101, 103)),
                ("a-1", (101, 102), (101, 103)),
            ]
            emptying = found.emptying
            assert (emptying.held, emptying.cordoned, emptying.strange) == (2, (102,), ())
            assert [
                (each.replicas_before, each.replicas_after) for each in found.foreseen.shares
            ] == [(2, 2), (2, 0), (0, 2)]
            back = await client.plan_moves(PlanRequest(operation=Operation.UNDRAIN, brokers=(102,)))
            assert (back.accepted, back.emptying.cordoned) == (2, (102,))
            spread = await client.plan_moves(PlanRequest(operation=Operation.SPREAD))
            assert (spread.moves, spread.reason) == ((), None)
            assert {str(each.id) for each in spread.partitions} <= {"a-0", "a-1"}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"operation": 9}, "operation 9 is not known; there is 1 spread, 2 factor, 3 drain"),
        ({"broker_ids": None}, "no broker is named; name at least one"),
        ({"broker_ids": ()}, "no broker is named; name at least one"),
        ({"broker_ids": (1, 1)}, "a broker is named twice; name each once"),
        ({"topics": ("a",)}, "brokers are emptied of all that they have; leave topics and factor"),
        ({"unregister": True, "dry_run": True}, "nothing is unregistered by what changes nothing"),
        ({"unregister": True, "operation": 4}, "nothing is unregistered by what changes nothing"),
        ({"unregister": True, "operation": 1}, "only brokers that are emptied can be unregistered"),
        ({"operation": 1, "replication_factor": 2}, "keeps their replication factors"),
        ({"operation": 1, "broker_ids": ()}, "no broker is named; name at least one, or none at"),
        ({"operation": 2, "topics": ("a",)}, "a replication factor is from 1 to 32,767, not 0"),
        ({"operation": 2, "replication_factor": 2}, "no topic is named; name those that are to"),
    ],
)
async def test_what_cannot_be_meant_is_refused_with_what_would_be_right(
    tmp_path: Path, wrong: dict[str, Any], words: str
) -> None:
    await check_refused(tmp_path, wrong, words)


async def test_dead_brokers_get_nothing_that_is_planned(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, client_of(node) as client:
        await join(node.controller, 101)
        await asked(node.controller, topic("a", 101))
        from_here = PlanRequest(operation=Operation.SPREAD, brokers=(101, 102))
        with pytest.raises(Refused, match="no plan can be made: broker 102 is not registered"):
            await client.plan_moves(from_here)
