"""Voters over HTTP: PUT, GET and DELETE under /v1/quorum/voters."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from admin.capabilities.quorum import quorum_of
from admin.cli.quorum_text import status
from controller.apis import router
from tests.admin.http.test_http_api import check_problem, http_door
from tests.controller.apis.test_kafka_voters import client_of, until, votes
from tests.controller.controller_commands import busy
from tests.support.bell import PATIENCE_SECONDS
from tests.support.controllers import a_controller, active, controllers

VOTERS = "/v1/quorum/voters"


async def test_target_voters_are_put_followed_and_cancelled(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, observers=(2,), kraft_version=1) as nodes:
        await active(nodes.values())
        async with http_door(nodes[1]) as http:
            answer = await http._send("PUT", VOTERS, json={"target_voters": [1, 7]})
            assert answer.status == 202
            assert answer.body["target_voters"] == [1, 7]
            cancelled = await http._send("DELETE", f"{VOTERS}/target")
            assert (cancelled.status, cancelled.body["target_voters"]) == (200, None)
            await http._send("PUT", VOTERS, json={"target_voters": [1, 2]})
            await until([nodes[1]], votes(1, 2))
            shown = (await http.get(VOTERS)).body
            assert shown["current_voters"] == [1, 2]
            assert (shown["target_voters"], shown["waits_for"]) == (None, None)
            again = await http._send("PUT", VOTERS, json={"target_voters": [1, 2]})
            assert again.status == 200
        async with http_door(nodes[2]) as http:
            assert (await http.get(VOTERS)).body["current_voters"] == [1, 2]


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ([], "the body must be"),
        ({"target_voters": []}, "target_voters: expected `array` of length >= 1"),
        ({"target_voters": [1, 1]}, "names 1 twice"),
        ({"target_voters": ["1"]}, "target_voters[0]: expected `int | object`, got `str`"),
        ({"target_voters": [True]}, "target_voters[0]: expected `int | object`, got `bool`"),
        ({"target_voters": [-1]}, "target_voters[0]: expected `int` >= 0"),
        ({"target_voters": [{"id": 1, "directory_id": "x"}]}, "directory_id: 'x' has 1 char"),
        ({"target_voters": [1], "more": 2}, "'more' is not known; there is target_voters"),
    ],
)
async def test_an_invalid_target_is_refused_with_the_reason(
    tmp_path: Path, body: Any, word: str
) -> None:
    async with a_controller(tmp_path, kraft_version=1) as node, http_door(node) as http:
        check_problem(await http._send("PUT", VOTERS, json=body), 400, word)


async def test_a_wish_whose_time_runs_out_is_no_fault_of_the_request(tmp_path: Path) -> None:
    async with (
        a_controller(tmp_path, kraft_version=1) as node,
        http_door(node) as patient,
        http_door(node, wait_seconds=0.1) as hasty,
        asyncio.TaskGroup() as tasks,
    ):
        async with busy(node.opened.disk):
            # It is in force, but not committed before the disk has it: the next has to wait.
            first = tasks.create_task(patient._send("PUT", VOTERS, json={"target_voters": [1, 7]}))
            async with asyncio.timeout(PATIENCE_SECONDS):
                while node.opened.quorum.node.target_voters is None:
                    await node.opened.quorum.leader_changed(within_seconds=0.01)
            late = await hasty._send("PUT", VOTERS, json={"target_voters": [1, 8]})
            check_problem(late, 504, "not done in time", "is not committed yet")
            assert late.body["retriable"]
        assert (await first).status == 202


async def test_a_node_without_room_on_its_disk_says_so(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        assert (await http.get("/v1/quorum")).body["full_disks"] == []
        node.opened.quorum.replica.room(False)
        assert (await http.get("/v1/quorum")).body["full_disks"] == [1]
        async with client_of(node) as client:
            assert status(quorum_of(await client.describe_quorum())).splitlines()[-1] == (
                "FullDisks:              [1]"
            )
        node.opened.quorum.replica.room(True)
        assert (await http.get("/v1/quorum?stale=true")).body["full_disks"] == []


async def test_voters_that_no_record_names_cannot_be_changed(
    tmp_path: Path,
) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        answer = await http._send("PUT", VOTERS, json={"target_voters": [1, 2]})
        check_problem(answer, 400, "kraft.version 0", "metadata.version 21")


async def test_the_audit_log_names_directories_as_the_commands_take_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="audit")
    async with a_controller(tmp_path, kraft_version=1) as node, http_door(node) as http:
        await until([node], votes(1))
        (voter,) = (await http.get("/v1/quorum")).body["current_voters"]
        target = [{"id": 1, "directory_id": voter["directory_id"]}]
        await http._send("PUT", VOTERS, json={"target_voters": target})
    wanted = f"AlterQuorum(target [1:{voter['directory_id']}])"
    lines = [each.message for each in caplog.records if wanted in each.message]
    assert all('"outcome":"NONE"' in each for each in lines)
    assert lines


async def test_http_answers_soon_that_no_leader_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        controllers(tmp_path, 1, voters=(1, 2, 3)) as nodes,
        http_door(nodes[1], wait_seconds=3_600) as http,
    ):
        monkeypatch.setattr(router, "LEADERLESS_MS_MAX", 0)
        answer = await http.get("/v1/quorum")
        check_problem(answer, 503, "no active controller", "node 1 knows no leader, epoch ")
