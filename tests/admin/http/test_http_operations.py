"""Operations over HTTP: moves, decommissions and changes of voters, until they have ended."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from statemachine import commands
from statemachine.commands import AlterReassignments, DeleteTopics, FenceBrokers, Reassignment
from tests.admin.http.test_http_api import Http, check_problem, http_door, plan
from tests.controller.apis.test_kafka_transfer import at_rest
from tests.controller.apis.test_kafka_voters import until, votes
from tests.controller.controller_commands import asked, isr, join, move, topic
from tests.support.controllers import Node, a_controller, active, controllers

BASE = "/v1/operations"
MOVES = "/v1/reassignments"


async def begun(http: Http, method: str, path: str, body: Any = None) -> str:
    """Begin long work; return where it is followed."""
    async with http.client.request(method, path, json=body) as response:
        assert response.status == 202, await response.text()
        assert response.headers["Retry-After"] == "2"
        return response.headers["Location"]


async def told(http: Http, path: str) -> tuple[str, int | None]:
    """The state of an operation, and its partitions that are left."""
    found = (await http.get(path)).body
    return found["state"], found["partitions_left"]


async def two_partitions(node: Node) -> None:
    await join(node.controller, 101, 102, 103)
    await asked(node.controller, topic("a", 101, 102, partitions=2))


async def test_a_move_is_followed_to_its_end_through_a_fail_over(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        await two_partitions(leader)
        other = next(each for each in nodes.values() if each is not leader)
        async with http_door(other) as http:
            body = plan(("a", 0, [101, 103]), ("a", 1, [101, 103]))
            path = await begun(http, "POST", MOVES, body)
            assert path == f"{BASE}/move-1"
            assert await told(http, path) == ("running", 2)
            await asked(leader.controller, isr(leader.controller, "a", (101, 102, 103)))
            assert await told(http, path) == ("running", 1)
            await leader.stop()
            del nodes[leader.node_id]
            leader = await active(nodes.values())
            assert await told(http, path) == ("running", 1)
            await http.post(f"{MOVES}/1:pause")
            paused = (await http.get(path)).body
            assert (paused["state"], paused["detail"]) == ("paused", "paused by User:ANONYMOUS")
            await http.post(f"{MOVES}/1:resume")
            await http.post(f"{MOVES}:pause")
            assert await told(http, path) == ("paused", 1)
            await http.post(f"{MOVES}:resume")
            await asked(leader.controller, isr(leader.controller, "a", (101, 102, 103), (1,)))
            found = (await http.get(path)).body
            assert found == {
                "operation_id": "move-1",
                "kind": "move",
                "state": "succeeded",
                "detail": None,
                "asked_by": "User:ANONYMOUS",
                "asked_at_ms": found["asked_at_ms"],
                "ended_at_ms": found["ended_at_ms"],
                "partitions_left": 0,
                "moves": [1],
                "resource": "/v1/reassignments/1",
                "as_of_offset": leader.controller.committed,
            }
            assert found["ended_at_ms"] >= found["asked_at_ms"] > 0


async def test_moves_that_wait_or_end_otherwise_say_so(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await two_partitions(node)
        await asked(node.controller, topic("b", 101, 102))
        limit = commands.ConfigChange(
            resource_type=4,
            resource_name="",
            ops=(
                commands.ConfigOp(
                    name="reassignment.parallel.partition.count",
                    operation=commands.ConfigOperation.SET,
                    value="1",
                ),
            ),
        )
        await asked(node.controller, commands.IncrementalAlterConfigs(changes=(limit,)))
        first = await begun(http, "POST", MOVES, plan(("a", 0, [101, 103])))
        second = await begun(http, "POST", MOVES, plan(("a", 1, [101, 103])))
        third = await begun(http, "POST", MOVES, plan(("b", 0, [103])))
        assert [(await told(http, each))[0] for each in (first, second)] == ["running", "pending"]
        both = f"{BASE}/move-1-2"
        assert await told(http, both) == ("running", 2)
        await http._send("DELETE", f"{MOVES}/2")
        assert await told(http, second) == ("cancelled", 0)
        assert await told(http, both) == ("running", 1)
        again = Reassignment(topic="a", partition=0, replicas=(102, 103))
        await asked(node.controller, AlterReassignments(reassignments=(again,)))
        superseded = (await http.get(first)).body
        assert (superseded["state"], superseded["detail"]) == (
            "cancelled",
            "another move took partitions over",
        )
        assert await told(http, both) == ("cancelled", 0)
        await asked(node.controller, DeleteTopics(topics=("b",)))
        gone = (await http.get(third)).body
        assert (gone["state"], gone["detail"]) == (
            "failed",
            "the topics of its partitions were deleted",
        )
        listed = (await http.get(f"{BASE}?state=cancelled,failed&kind=move")).body
        assert [each["operation_id"] for each in listed["operations"]] == [
            "move-1",
            "move-2",
            "move-3",
        ]


async def test_a_decommission_is_followed_until_the_broker_is_gone(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await two_partitions(node)
        path = f"{BASE}/decommission-102"
        check_problem(await http.get(path), 404, "there is no operation decommission-102")
        where = await begun(http, "PUT", "/v1/brokers/102/decommission?unregister=true")
        assert where == path
        assert await told(http, path) == ("running", 2)
        await http.post(f"{MOVES}/1:pause")
        assert await told(http, path) == ("paused", 2)
        listed = (await http.get(f"{BASE}?state=paused")).body["operations"]
        assert {each["operation_id"]: each["moves"] for each in listed} == {
            "decommission-102": [1],
            "move-1": [1],
        }
        await http._send("DELETE", f"{MOVES}/1")
        failed = (await http.get(path)).body
        assert (failed["state"], failed["partitions_left"]) == ("failed", 2)
        assert "decommission it again" in failed["detail"]
        await begun(http, "PUT", "/v1/brokers/102/decommission")
        assert (await http.get(path)).body["moves"] == [2]
        for number in (0, 1):
            await asked(node.controller, isr(node.controller, "a", (101, 102, 103), (number,)))
        empty = (await http.get(path)).body
        assert (empty["state"], empty["detail"]) == (
            "running",
            "it is empty, and is unregistered once it is stopped",
        )
        await asked(node.controller, FenceBrokers(broker_ids=(102,)))
        node.controller.sweep()
        while 102 in node.controller.image.brokers:  # noqa: ASYNC110 - it signals nothing
            await asyncio.sleep(0)
        assert await told(http, path) == ("succeeded", 0)


async def test_a_recommission_cancels_and_a_cordon_alone_is_no_operation(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await two_partitions(node)
        path = await begun(http, "PUT", "/v1/brokers/102/decommission")
        await http._send("PUT", "/v1/brokers/102/recommission")
        assert await told(http, path) == ("cancelled", 0)
        await http._send("PUT", "/v1/brokers/101/cordon")
        listed = (await http.get(BASE)).body["operations"]
        assert {each["operation_id"] for each in listed} == {"decommission-102", "move-1"}
        # Everything moves already: it is asked for and not begun.
        await asked(node.controller, move("a", 102, 103))
        await asked(node.controller, move("a", 102, 103, partition=1))
        others = await begun(http, "PUT", "/v1/brokers/101/decommission")
        found = (await http.get(others)).body
        assert (found["state"], found["detail"], found["moves"]) == (
            "running",
            "other moves take its replicas away",
            [],
        )


async def test_a_change_of_voters_is_followed(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, observers=(2,), kraft_version=1) as nodes:
        await active(nodes.values())
        async with http_door(nodes[1]) as http:
            path = await begun(http, "PUT", "/v1/quorum/voters", {"target_voters": [7, 1]})
            assert path == f"{BASE}/voters-1-7"
            assert await told(http, path) == ("running", None)
            listed = (await http.get(f"{BASE}?kind=voters")).body["operations"]
            assert [each["operation_id"] for each in listed] == ["voters-1-7"]
            await http._send("DELETE", "/v1/quorum/voters/target")
            cancelled = (await http.get(path)).body
            assert cancelled["state"] == "cancelled"
            assert "the voters are 1: a change to 1, 7 was cancelled" in cancelled["detail"]
            async with http.client.put("/v1/quorum/voters", json={"target_voters": [1, 2]}) as done:
                path = done.headers.get("Location", f"{BASE}/voters-1-2")
            await until([nodes[1]], votes(1, 2))
            assert await told(http, path) == ("succeeded", None)


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("move-7", 404, "there is no operation move-7, or it ended long ago"),
        ("move-x", 400, "'move-x' is not the id of an operation; take one like move-3"),
        ("7", 400, "'7' is not the id of an operation"),
        ("move-" + "-".join(["1"] * 102), 400, "is not the id of an operation"),
        ("move-" + "9" * 2_000, 400, "operation_id: expected `str` of length <= 1000"),
    ],
)
async def test_what_is_no_operation_is_refused(
    tmp_path: Path, name: str, status: int, words: str
) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        check_problem(await http.get(f"{BASE}/{name}"), status, words)
