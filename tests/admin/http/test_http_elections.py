"""Elections of leaders over HTTP: preferred and unclean ones, of some partitions or all."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from admin.capabilities.elections import RESULTS_SHOWN_MAX, elected
from statemachine.commands import FenceBrokers, LeaderElected, LeadersElected
from statemachine.errors import Error
from tests.admin.http.test_http_api import Http, check_problem, http_door
from tests.controller.controller_commands import asked, heartbeat, isr, join, topic
from tests.support.controllers import Node, a_controller

ELECT = "/v1/partitions:elect-leaders"


@pytest_asyncio.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """A controller whose topic `t` has two partitions on 101 and 102."""
    async with a_controller(tmp_path) as found:
        await join(found.controller, 101, 102)
        await asked(found.controller, topic("t", 101, 102, partitions=2))
        yield found


@pytest_asyncio.fixture
async def http(node: Node) -> AsyncIterator[Http]:
    async with http_door(node) as door:
        yield door


async def leaders(http: Http) -> list[int | None]:
    return [each["leader"] for each in (await http.get("/v1/topics/t")).body["partitions"]]


async def move_lead(node: Node) -> None:
    """Let 102 lead both partitions, with 101 in sync again."""
    controller = node.controller
    await asked(controller, FenceBrokers(broker_ids=(101,)))
    await asked(controller, heartbeat(controller, 101))
    await asked(controller, isr(controller, "t", (101, 102), (0, 1)))


def named(*numbers: int) -> list[dict[str, Any]]:
    return [{"topic": "t", "partition": each} for each in numbers]


async def test_the_preferred_leader_of_one_partition_or_of_all(node: Node, http: Http) -> None:
    await move_lead(node)
    assert await leaders(http) == [102, 102]
    one = await http.post(ELECT, {"election_type": "preferred", "partitions": named(1)})
    assert (one.status, one.body["elected"], one.body["refused"]) == (200, 1, 0)
    assert await leaders(http) == [102, 101]

    both = await http.post(ELECT, {"election_type": "preferred", "partitions": named(0, 1)})
    assert (both.body["elected"], both.body["not_needed"], both.body["refused"]) == (1, 1, 0)
    assert [each["kafka_error"] for each in both.body["results"]] == ["NONE", "ELECTION_NOT_NEEDED"]

    await move_lead(node)
    every = await http.post(ELECT, {"election_type": "preferred", "partitions": None})
    assert (every.body["elected"], every.body["not_needed"]) == (2, 0)
    assert await leaders(http) == [101, 101]
    nothing = await http.post(ELECT, {"election_type": "preferred", "partitions": None})
    assert (nothing.status, nothing.body["elected"], nothing.body["results"]) == (200, 0, [])


async def test_an_unclean_election_takes_a_replica_that_is_not_in_sync(
    node: Node, http: Http
) -> None:
    controller = node.controller
    await asked(controller, isr(controller, "t", (101,), (0, 1)))
    await asked(controller, FenceBrokers(broker_ids=(101,)))
    assert await leaders(http) == [None, None]
    clean = await http.post(ELECT, {"election_type": "preferred", "partitions": named(0, 1)})
    check_problem(clean, 409, "The preferred leader was not available")
    assert (clean.body["refused"], len(clean.body["errors"])) == (2, 2)
    every = await http.post(ELECT, {"election_type": "unclean", "partitions": None})
    assert (every.status, every.body["elected"]) == (200, 2)
    assert await leaders(http) == [102, 102]


async def test_a_partition_that_is_refused_does_not_stop_the_others(node: Node, http: Http) -> None:
    await move_lead(node)
    asked_for = {"election_type": "preferred", "partitions": named(0, 7)}
    found = await http.post(ELECT, asked_for)
    assert (found.status, found.body["elected"], found.body["refused"]) == (200, 1, 1)
    assert found.body["results"][0]["kafka_error"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert await leaders(http) == [101, 102]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 400, "election_type is missing"),
        ({"election_type": "preferred"}, 400, "partitions is missing"),
        ({"election_type": "dirty", "partitions": None}, 400, "election_type: invalid enum"),
        ({"election_type": "unclean", "partitions": []}, 400, "length >= 1"),
        ({"election_type": "unclean", "partitions": named(1, 1)}, 400, "t-1 is named twice"),
        ({"election_type": "unclean", "partitions": named(9)}, 404, "No such partition as t-9"),
        ({"election_type": "unclean", "partitions": [{"topic": "t"}]}, 400, "`partition`"),
    ],
)
async def test_what_is_wrong_is_said_in_one_sentence(
    http: Http, body: Any, status: int, words: str
) -> None:
    check_problem(await http.post(ELECT, body), status, words)


def test_an_answer_is_bounded_and_shows_what_is_refused() -> None:
    done = [LeaderElected(topic="t", partition=each) for each in range(5_000)]
    done.append(
        LeaderElected(topic="t", partition=5_000, error=Error.PREFERRED_LEADER_NOT_AVAILABLE)
    )
    answer = elected(LeadersElected(partitions=tuple(done)))
    assert (answer.elected, answer.refused) == (5_000, 1)
    assert len(answer.results) == RESULTS_SHOWN_MAX
    assert [each.partition for each in answer.results[:2]] == [5_000, 0]
