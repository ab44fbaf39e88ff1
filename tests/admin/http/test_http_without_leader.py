"""The HTTP listener of controllers without a leader, or with one that is lost meanwhile."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from admin.capabilities.registry import CAPABILITIES
from admin.http.app import make_app
from admin.http.problems import shown_at
from quorum.clocks import wall_ms
from tests.admin.http.test_http_api import check_problem, http_door, plan
from tests.controller.controller_commands import asked, busy, join, topic
from tests.support.controllers import Node, a_controller, active, controllers


async def test_a_request_to_a_leader_that_falls_silent_is_made_again_to_the_next(
    tmp_path: Path,
) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await active(nodes.values())
        await join(leader.controller, 101, 102)
        await asked(leader.controller, topic("a", 101))
        follower = next(each for each in nodes.values() if each is not leader)
        async with http_door(follower) as http, silence_of(leader) as heard:
            asking = asyncio.get_running_loop().create_task(
                http.post("/v1/reassignments", plan(("a", 0, [102])))
            )
            await heard.wait()
            await leader.stop()
            answer = await asking
        assert answer.status == 202
        assert (answer.body["move_id"], answer.body["accepted"]) == (1, 1)


class Deaf(asyncio.Protocol):
    """Takes whatever comes, and never answers."""

    def __init__(self, heard: asyncio.Event) -> None:
        self._heard = heard

    def data_received(self, data: bytes) -> None:
        if b"forwarder-" in data:
            self._heard.set()


@asynccontextmanager
async def silence_of(node: Node) -> AsyncIterator[asyncio.Event]:
    """In place of the node somebody listens who never answers; the event: a request was forwarded.

    There is no moment at which connections are refused: a leader that refuses them is given up at
    once, and nobody would ask it any more.
    """
    heard = asyncio.Event()
    loop = asyncio.get_running_loop()
    closing = loop.create_task(node.listener.close(within_ms=1))
    for _ in range(2):
        await asyncio.sleep(0)
    # The port is free; that its connections end, nobody has seen yet.
    listening = socket.create_server(node.address)
    server = await loop.create_server(lambda: Deaf(heard), sock=listening)
    await closing
    try:
        yield heard
    finally:
        server.close()


async def test_without_an_active_controller_it_says_so_in_time(tmp_path: Path) -> None:
    async with (
        controllers(tmp_path, 1, voters=(1, 2, 3)) as nodes,
        http_door(nodes[1], wait_seconds=0.05) as http,
    ):
        answers = [
            await http.get("/v1/quorum"),
            await http.get("/v1/reassignments"),
            await http.post("/v1/reassignments", plan(("a", 0, [101]))),
        ]
        for answer in answers:
            check_problem(answer, 503, "no active controller", "node 1 knows no leader, epoch ")
            assert answer.body["kafka_error"] == "NOT_CONTROLLER"
            assert answer.body["retriable"] is True
            assert answer.body["leader_id"] is None
        async with http.client.post("/v1/reassignments:pause") as response:
            assert (response.status, response.headers["Retry-After"]) == (503, "2")


async def test_a_node_says_since_when_it_knows_no_leader(tmp_path: Path) -> None:
    began_ms = wall_ms()
    async with (
        controllers(tmp_path, 1, voters=(1, 2, 3)) as nodes,
        http_door(nodes[1]) as http,
    ):
        quorum = nodes[1].opened.quorum
        found = (await http.get("/v1/quorum?stale=true")).body
        assert found["leader_id"] == -1
        assert began_ms <= found["leaderless_since_ms"] <= quorum.now_wall_ms
    alone = tmp_path / "alone"
    alone.mkdir()
    async with a_controller(alone) as node, http_door(node) as http:
        assert (await http.get("/v1/quorum")).body["leaderless_since_ms"] is None


async def test_a_node_with_a_full_disk_answers_at_once_that_it_knows_no_leader(
    tmp_path: Path,
) -> None:
    async with (
        controllers(tmp_path, 1, voters=(1, 2, 3)) as nodes,
        http_door(nodes[1], wait_seconds=3_600) as http,
    ):
        nodes[1].opened.quorum.replica.room(False)
        answer = await http.get("/v1/quorum")
        check_problem(answer, 503, "no active controller", "before there is room on its disk")


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_after_the_time_of_an_election_every_request_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr("controller.apis.router.LEADERLESS_MS_MAX", 0)
    async with (
        controllers(tmp_path, 1, voters=(1, 2, 3)) as nodes,
        http_door(nodes[1], wait_seconds=3_600) as http,
    ):
        path = "/v1/reassignments" if method == "GET" else "/v1/reassignments:pause"
        check_problem(await http._send(method, path), 503, "no active controller", "no leader")


async def test_a_leader_that_never_answers_leaves_the_outcome_of_a_change_unknown(
    tmp_path: Path,
) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await active(nodes.values())
        follower = next(each for each in nodes.values() if each is not leader)
        async with http_door(follower, wait_seconds=0.2) as http, silence_of(leader):
            moved = await http.post("/v1/reassignments", plan(("a", 0, [102])))
            asked_only = await http.get("/v1/quorum")
            others = {
                "/v1/topics": await http.post("/v1/topics", {"name": "a"}),
                "/v1/brokers/101": await http._send("PUT", "/v1/brokers/101/cordon"),
                "/v1/topics/a/configs": await http._send(
                    "PATCH", "/v1/topics/a/configs", json={"set": {"retention.ms": "1"}}
                ),
            }
        then = "check GET /v1/reassignments before a retry"
        check_problem(moved, 504, "an earlier attempt may have succeeded", then)
        for path, answer in others.items():
            check_problem(answer, 504, f"; check GET {path} before a retry")
            assert answer.body["title"] == "Outcome unknown"
        assert moved.body["retriable"] is False
        check_problem(asked_only, 503, "no active controller")
        assert asked_only.body["retriable"] is True


def test_every_change_is_shown_by_a_path_that_get_takes() -> None:
    nothing: Any = None
    app = make_app(nothing, nothing)  # no request comes
    routes = [route for kind in CAPABILITIES.values() if kind.CHANGES for route in kind.ROUTES]
    paths = {route.path.replace("{id}", "5"): route.method for route in routes}
    shown = {
        path: shown_at(make_mocked_request(method, path, app=app)) for path, method in paths.items()
    }
    assert all(path.startswith("/v1/") for path in shown.values())
    assert shown["/v1/topics"] == "/v1/topics"
    assert shown["/v1/reassignments/5:pause"] == "/v1/reassignments/5"
    assert shown["/v1/brokers/5/cordon"] == "/v1/brokers/5"
    assert shown["/v1/quorum/leader:transfer"] == "/v1/quorum"
    assert shown["/v1/users/5"] == "/v1/users"


@pytest.mark.parametrize(
    ("headers", "then"),
    [
        ({}, "before a retry"),
        ({"Idempotency-Key": "k"}, "retry with the same Idempotency-Key: it is carried out once"),
    ],
)
async def test_a_lead_that_is_lost_underway_leaves_the_outcome_unknown(
    tmp_path: Path, headers: dict[str, str], then: str
) -> None:
    async with a_controller(tmp_path) as node, http_door(node, wait_seconds=0.2) as http:
        await join(node.controller, 101, 102)
        await asked(node.controller, topic("a", 101))
        end = node.controller.image.end_offset
        async with busy(node.opened.disk):
            asking = asyncio.get_running_loop().create_task(
                http.post("/v1/reassignments", plan(("a", 0, [102])), headers=headers)
            )
            while node.controller.image.end_offset == end:
                await node.opened.quorum.leader_changed(within_seconds=0.005)
            stopping = asyncio.get_running_loop().create_task(node.stop())
            answer = await asking
        check_problem(answer, 504, "an earlier attempt may have succeeded", then)
        assert answer.body["retriable"] is bool(headers)
        await stopping
