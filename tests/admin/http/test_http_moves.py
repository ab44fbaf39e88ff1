"""Moves over HTTP: shown, paused, cancelled and rolled back, at any controller."""

import json
from pathlib import Path
from typing import Any

import pytest

from admin.plan_file import parse_plan
from statemachine import commands
from tests.admin.http.test_http_api import check_problem, http_door
from tests.controller.apis.test_kafka_transfer import at_rest
from tests.controller.controller_commands import asked, isr, join, move, topic
from tests.support.controllers import Node, a_controller, controllers

BASE = "/v1/reassignments"
MOVE = "/v1/reassignments/1"
CANCEL = "/v1/reassignments:cancel"
NESTED = json.loads("[" * 400 + "]" * 400)


async def moving(node: Node) -> None:
    """Move 1 takes a-0 from 102 to 103, where nothing is in sync yet."""
    await join(node.controller, 101, 102, 103)
    await asked(node.controller, topic("a", 101, 102))
    await asked(node.controller, move("a", 101, 103))


async def test_a_follower_tells_and_changes_moves_as_the_leader_does(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        await moving(leader)
        follower = next(each for each in nodes.values() if each is not leader)
        async with http_door(leader) as at_leader, http_door(follower) as at_follower:
            listed = await at_follower.get("/v1/reassignments")
            assert listed == await at_leader.get("/v1/reassignments")
            assert (listed.body["total"], listed.body["all_paused"]) == (1, None)
            (summary,) = listed.body["moves"]
            one = await at_follower.get(MOVE)
            assert one == await at_leader.get(MOVE)
            assert summary.items() <= one.body.items()
            assert (one.body["state"], one.body["partitions_not_shown"]) == ("running", 0)
            (partition,) = one.body["partitions"]
            assert partition["since_ms"] > 0
            assert partition == {
                "topic": "a",
                "partition": 0,
                "step": 1,
                "steps": 1,
                "state": "growing",
                "reason": "catching-up",
                "detail": "not in sync yet: 103",
                "reason_brokers": [103],
                "since_ms": partition["since_ms"],
                "replicas": [101, 102, 103],
                "target_replicas": [101, 103],
                "adding_replicas": [103],
                "removing_replicas": [102],
                "bytes_left": None,
                "bytes_per_s": None,
                "time_left_ms": None,
            }
            paused = await at_follower.post(f"{MOVE}:pause")
            assert (paused.status, paused.body["state"]) == (200, "paused")
            resumed = await at_leader.post(f"{MOVE}:resume")
            assert (resumed.status, resumed.body["state"]) == (200, "running")
            unknown = await at_follower.get("/v1/reassignments/7")
            assert unknown == await at_leader.get("/v1/reassignments/7")
            check_problem(unknown, 404, "there is no move 7, or it ended long ago")


async def test_all_moves_are_paused_and_one_is_put_first(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await moving(node)
        paused = await http.post("/v1/reassignments:pause")
        assert (paused.status, paused.body["all_paused"]["by"]) == (200, "User:ANONYMOUS")
        assert (await http.get(MOVE)).body["all_paused"] == paused.body["all_paused"]
        assert (await http.post("/v1/reassignments:resume")).body["all_paused"] is None
        first = await http._send("PATCH", MOVE, json={"priority": 5})
        assert (first.status, first.body["priority"]) == (200, 5)
        only = (await http.get("/v1/reassignments/partitions?topic=a&stale=true")).body
        assert [each["move_id"] for each in only["partitions"]] == [1]


async def test_a_cancel_is_tried_and_done_over_http(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await moving(node)
        tried = await http._send("DELETE", f"{MOVE}?dry_run=true")
        assert (tried.status, tried.body["dry_run"]) == (200, True)
        (partition,) = tried.body["partitions"]
        assert (partition["topic"], partition["replicas"]) == ("a", [101, 102])
        assert (await http.get(MOVE)).body["state"] == "running"
        done = await http._send("DELETE", MOVE)
        assert done.body == tried.body | {"dry_run": False}
        ended = (await http.get(MOVE)).body
        assert (ended["state"], ended["ended"], ended["cancelled"]) == ("cancelled", True, 1)
        for again in (
            await http._send("DELETE", MOVE),
            await http.post(f"{MOVE}:pause"),
            await http._send("PATCH", MOVE, json={"priority": 1}),
        ):
            check_problem(again, 409, "move 1 has ended: cancelled")
        nothing = await http.post("/v1/reassignments:cancel")
        assert (nothing.status, nothing.body["partitions"]) == (200, [])


async def test_a_cancel_of_which_no_part_can_be_done_is_a_conflict(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await join(node.controller, 101, 102, 103)
        await asked(node.controller, topic("a", 101, configs=(("min.insync.replicas", "2"),)))
        await asked(node.controller, move("a", 102, 103))
        await asked(node.controller, isr(node.controller, "a", (101, 102)))
        await asked(node.controller, commands.FenceBrokers(broker_ids=(101,)))
        refusal = await http._send("DELETE", MOVE)
        check_problem(refusal, 409, "a-0: ")
        (error,) = refusal.body["errors"]
        assert (error["topic"], error["kafka_error"]) == ("a", "INVALID_REPLICA_ASSIGNMENT")


async def test_the_partitions_of_a_move_are_had_page_by_page(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        await join(leader.controller, 101, 102, 103)
        for name in ("b", "a"):
            await asked(leader.controller, topic(name, 101, 102, partitions=3))
        wanted = commands.AlterReassignments(
            reassignments=tuple(
                commands.Reassignment(topic=name, partition=number, replicas=(101, 103))
                for name in ("b", "a")
                for number in range(3)
            )
        )
        await asked(leader.controller, wanted)
        follower = next(each for each in nodes.values() if each is not leader)
        async with http_door(leader) as at_leader, http_door(follower) as at_follower:
            path, shown = f"{MOVE}/partitions?page_size=4", []
            for http, count in ((at_leader, 4), (at_follower, 2)):
                found = await http.get(path)
                assert found == await at_leader.get(path)
                assert (found.body["move_id"], found.body["total"]) == (1, 6)
                assert len(found.body["partitions"]) == count
                shown += [(each["topic"], each["partition"]) for each in found.body["partitions"]]
                path = f"{MOVE}/partitions?page_token={found.body['next_page_token']}"
            assert found.body["next_page_token"] is None
            assert shown == [(name, number) for name in "ab" for number in range(3)]
            # What was the last of a page may be gone by the time of the next.
            await at_leader._send("DELETE", MOVE)
            nothing = await at_leader.get(f"{MOVE}/partitions")
            assert (nothing.body["partitions"], nothing.body["total"]) == ([], 0)


async def test_the_plan_that_leads_back_is_a_plan(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        await moving(leader)
        await asked(leader.controller, topic("b", 102, 101))
        more = commands.AlterReassignments(
            reassignments=tuple(
                commands.Reassignment(topic=name, partition=0, replicas=replicas)
                for name, replicas in (("b", (103, 101)), ("a", (102, 103)))
            )
        )
        await asked(leader.controller, more)
        follower = next(each for each in nodes.values() if each is not leader)
        for node in (leader, follower):
            async with (
                http_door(node) as http,
                http.client.get("/v1/reassignments/2/rollback-plan") as response,
            ):
                assert response.headers["Partitions-Gone"] == "0"
                back = parse_plan(await response.text())
            # For a-0 that is what it had before the first move, which was still under way.
            assert {str(each.id): each.replicas for each in back} == {
                "a-0": (101, 102),
                "b-0": (102, 101),
            }
        await asked(leader.controller, commands.DeleteTopics(topics=("b",)))
        async with (
            http_door(follower) as http,
            http.client.get("/v1/reassignments/2/rollback-plan") as response,
        ):
            assert response.headers["Partitions-Gone"] == "1"
            assert [str(each.id) for each in parse_plan(await response.text())] == ["a-0"]


async def test_partitions_and_topics_are_cancelled_by_name(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await moving(node)
        for name in ("b", "c"):
            await asked(node.controller, topic(name, 101, 102, partitions=2))
            for number in (0, 1):
                await asked(node.controller, move(name, 101, 103, partition=number))
        body = {"topics": ["b"], "partitions": [{"topic": "c", "partition": 1}]}
        done = await http.post("/v1/reassignments:cancel", body)
        assert done.status == 200
        assert [(each["topic"], each["partition"]) for each in done.body["partitions"]] == [
            ("b", 0),
            ("b", 1),
            ("c", 1),
        ]
        left = (await http.get("/v1/reassignments/partitions")).body["partitions"]
        assert [(each["topic"], each["partition"]) for each in left] == [("a", 0), ("c", 0)]
        again = await http.post("/v1/reassignments:cancel", body)
        check_problem(again, 409, "no partition of topic b is being reassigned")
        assert again.body["detail"] == again.body["errors"][0]["message"]
        assert [each["partition"] for each in again.body["errors"]] == [None, 1]
        one = await http.post(f"{MOVE}:cancel")
        assert (one.status, one.body["partitions_accepted"]) == (200, 1)


async def test_a_rollback_is_tried(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await moving(node)
        await asked(node.controller, isr(node.controller, "a", (101, 102, 103)))
        tried = await http.post(f"{MOVE}:rollback?dry_run=true")
        assert tried.status == 200
        assert tried.body["dry_run"] is True
        assert (tried.body["begun_move_id"], tried.body["partitions_accepted"]) == (None, 1)
        (partition,) = tried.body["partitions"]
        assert (partition["topic"], partition["partition"]) == ("a", 0)
        assert (partition["replicas"], partition["kafka_error"]) == ([101, 102], "NONE")
        # No broker of this test can be asked how long its log is, and that is said.
        assert tried.body["bytes_moved"] is None
        assert tried.body["bytes_moved_unknown"]
        assert len((await http.get("/v1/reassignments")).body["moves"]) == 1
        strange = await http.post(f"{MOVE}:rollback?dry_run=perhaps")
        check_problem(strange, 400, "perhaps")
        await asked(node.controller, commands.DeleteTopics(topics=("a",)))
        gone = await http.post(f"{MOVE}:rollback?dry_run=true")
        check_problem(gone, 409, "any more")


async def test_a_rollback_says_where_it_is_told_of(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await moving(node)
        await asked(node.controller, isr(node.controller, "a", (101, 102, 103)))
        async with http.client.post(f"{MOVE}:rollback") as response:
            assert response.status == 202
            where = response.headers["Location"]
            assert (await response.json())["begun_move_id"] == 2
        assert where == "/v1/operations/move-2"
        back = (await http.get("/v1/reassignments/2")).body
        assert (back["kind"], back["rollback_of"]) == ("rollback", 1)
        assert back["partitions"][0]["target_replicas"] == [101, 102]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("GET", "/v1/reassignments/x", None, 400, "'x' is not the id of a move; write one like 3"),
        ("GET", "/v1/reassignments/0", None, 400, "'0' is not the id of a move"),
        ("GET", f"/v1/reassignments/{9**30}", None, 400, "is not the id of a move"),
        ("GET", "/v1/reassignments/7?topic=a", None, 400, "'topic' is not known; there is stale"),
        ("DELETE", "/v1/reassignments/7", None, 404, "there is no move 7"),
        ("DELETE", f"{MOVE}?dry_run=yes", None, 400, "dry_run is 'yes'; it is true or false"),
        ("POST", "/v1/reassignments/7:pause", None, 404, "there is no move 7"),
        ("POST", "/v1/reassignments/7:rollback", None, 404, "there is no move 7"),
        ("POST", f"{MOVE}:pause?dry_run=true", None, 400, "'dry_run' is not known"),
        ("POST", "/v1/reassignments:pause?all=1", None, 400, "'all' is not known"),
        (
            "PATCH",
            MOVE,
            {"speed": 1},
            400,
            "'speed' is not known; there is priority, throttle_bytes_per_s",
        ),
        ("PATCH", MOVE, {"priority": 2**31}, 400, "priority: expected `int` <= 2147483647"),
        ("PATCH", MOVE, {"priority": True}, 400, "priority: expected `int`, got `bool`"),
        ("GET", "/v1/reassignments/7/partitions", None, 404, "there is no move 7"),
        ("GET", "/v1/reassignments/7/rollback-plan", None, 404, "there is no move 7"),
        ("GET", f"{MOVE}/partitions?page_size=0", None, 400, "page_size: expected `int` >= 1"),
        (
            "GET",
            f"{MOVE}/partitions?page_size=x",
            None,
            400,
            "page_size: expected `int`, got `str`",
        ),
        ("GET", f"{MOVE}/partitions?page_size=201", None, 400, "page_size: expected `int` <= 200"),
        ("GET", f"{MOVE}/partitions?page_token=x", None, 400, "'x' is invalid; take next_"),
        ("GET", f"{MOVE}/partitions?page_token=W10", None, 400, "'W10' is invalid"),
        ("GET", f"{MOVE}/partitions?page_token=%C3%A9", None, 400, "'é' is invalid"),
        ("POST", CANCEL, {}, 400, "nothing is named; name moves, topics or partitions"),
        ("POST", CANCEL, {"topic": "a"}, 400, "'topic' is not known; there is everything, moves, "),
        ("POST", CANCEL, {"topics": []}, 400, "nothing is named; name moves, topics"),
        ("POST", CANCEL, {"topics": [7]}, 400, "topics[0]: expected `str`, got `int`"),
        ("POST", CANCEL, {"moves": ["x"]}, 400, "moves[0]: expected `int`, got `str`"),
        ("POST", CANCEL, {"moves": [NESTED]}, 400, "moves[0]: expected `int`, got `array`"),
        ("POST", CANCEL, {"partitions": ["a-0"]}, 400, "partitions[0]: expected `object`"),
        (
            "POST",
            CANCEL,
            {"partitions": [{"topic": "a", "partition": -1}]},
            400,
            "partitions[0].partition: expected `int` >= 0",
        ),
        ("POST", CANCEL, {"moves": [7]}, 404, "there is no move 7"),
        ("POST", f"{BASE}:pause", {"foo": 1}, 400, "'foo' is not known; the body must be empty"),
        ("POST", f"{BASE}:pause", {"moves": [1]}, 400, "'moves' is not known; the body must be"),
        (
            "POST",
            f"{BASE}:pause",
            {"after_step": True},
            400,
            "'after_step' is a parameter of the URL: write ?after_step=",
        ),
        ("POST", f"{BASE}:resume", {"moves": [1]}, 400, "'moves' is not known; the body must be"),
        ("POST", f"{MOVE}:pause", {"everything": True}, 400, "'everything' is not known; the body"),
        (
            "POST",
            f"{MOVE}:cancel",
            {"everything": True},
            400,
            "'everything' is not known; there is partitions, topics",
        ),
        ("POST", MOVE, None, 405, "takes DELETE, GET, HEAD, PATCH, not POST"),
        (
            "POST",
            f"{MOVE}:explode",
            None,
            404,
            "no action :explode; there are :cancel, :pause",
        ),
        ("GET", f"{MOVE}:explode", None, 404, "no action :explode"),
        ("POST", f"{BASE}:explode", None, 404, f"{BASE} has no action :explode; there are :can"),
    ],
)
async def test_invalid_requests_about_moves_are_problems_in_one_sentence(
    tmp_path: Path, method: str, path: str, body: Any, status: int, words: str
) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        check_problem(await http._send(method, path, json=body), status, words)
