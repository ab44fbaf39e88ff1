"""The HTTP listener of controllers, used by a client over a socket."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from admin.http.access import Access
from admin.http.app import make_app
from admin.http.gateway import Gateway
from admin.http.limits import PLAN_BYTES_MAX
from quorum.clocks import monotonic_ms
from quorum.core.limits import BATCH_RECORDS_MAX
from quorum.protocol.apis import ApiKey
from quorum.transport.refusal_log import RefusalLog
from tests.controller.apis.samples import describe_quorum, list_reassignments
from tests.controller.controller_commands import asked, join, topic
from tests.support.bell import PATIENCE_SECONDS
from tests.support.controllers import (
    CLUSTER_ID,
    TIMEOUTS,
    Node,
    a_controller,
    active,
    controllers,
)
from tests.support.described_http import check_described
from tests.support.kafka_client import Form, kafka_client

PROBLEM = "application/problem+json"
JSON = {"Content-Type": "application/json"}
PATIENT = replace(TIMEOUTS, fetch_timeout_ms=60_000, request_timeout_ms=60_000)
"""For a test whose nodes, all in one process, have much to do at once."""


@dataclass(frozen=True)
class Answer:
    """Status, content type, and the JSON."""

    status: int
    kind: str
    body: Any


@dataclass(frozen=True)
class Http:
    """The door of one node."""

    client: "TestClient[Any, Any]"

    async def get(self, path: str) -> Answer:
        return await self._send("GET", path)

    async def post(self, path: str, body: Any = None, **more: Any) -> Answer:
        return await self._send("POST", path, json=body, **more)

    async def post_text(self, path: str, text: bytes | BytesIO) -> Answer:
        """Post a body that is declared as JSON, whatever it is."""
        return await self._send("POST", path, data=text, headers=JSON)

    async def _send(self, method: str, path: str, **more: Any) -> Answer:
        async with self.client.request(method, path, **more) as response:
            body = await response.json(content_type=None)
            check_described(
                method, path, response.status, response.content_type, body, response.headers
            )
            return Answer(response.status, response.content_type, body)


@asynccontextmanager
async def http_door(node: Node, *, wait_seconds: float = 20.0) -> AsyncIterator[Http]:
    """An HTTP listener at this node."""
    access = Access(refusals=RefusalLog("http", monotonic_ms))
    app = make_app(Gateway(node.service, node.router, wait_seconds=wait_seconds), access)
    async with TestClient(TestServer(app)) as client:
        yield Http(client)


def plan(*moves: tuple[str, int, list[int]]) -> Any:
    """A plan as `reassign-partitions` has it."""
    return {
        "version": 1,
        "partitions": [
            {"topic": name, "partition": number, "replicas": replicas}
            for name, number, replicas in moves
        ],
    }


def check_problem(answer: Answer, status: int, *words: str) -> None:
    """An error of the one shape, whose detail has these words."""
    assert (answer.status, answer.kind) == (status, PROBLEM)
    assert answer.body["status"] == status
    assert re.fullmatch(r"urn:metaquorum:problem:[a-z0-9-]+", answer.body["type"])
    assert answer.body["title"]
    for word in words:
        assert word in answer.body["detail"]
    assert "Traceback" not in str(answer.body)


async def test_http_and_kafka_describe_the_same_quorum(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        answer = await http.get("/v1/quorum")
        assert (answer.status, answer.kind) == (200, "application/json")
        async with kafka_client(node.address) as client:
            form = Form(ApiKey.DESCRIBE_QUORUM, 2)
            kafka = await client.send(form, describe_quorum(form))
        ((partition,),) = (each.partitions for each in kafka.topics)
        assert answer.body["cluster_id"] == CLUSTER_ID
        assert answer.body["leader_id"] == partition.leader_id == 1
        assert answer.body["leader_epoch"] == partition.leader_epoch
        assert answer.body["high_watermark"] == partition.high_watermark
        assert answer.body["as_of_offset"] == partition.high_watermark
        (shown,), (voter,) = answer.body["current_voters"], partition.current_voters
        assert (shown["replica_id"], shown["status"]) == (voter.replica_id, "leader")
        assert shown["log_end_offset"] == voter.log_end_offset
        assert (shown["lag"], shown["lag_time_ms"]) == (0, 0)
        host, port = node.address
        assert shown["endpoints"] == [{"name": "CONTROLLER", "host": host, "port": port}]
        assert (answer.body["observers"], answer.body["target_voters"]) == ([], None)


async def test_a_plan_begins_moves_which_then_are_listed(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await join(node.controller, 101, 102, 103)
        for name in ("a", "b"):
            await asked(node.controller, topic(name, 101, 102, partitions=2))
        offset = node.controller.committed
        nothing: dict[str, Any] = {"total": 0, "as_of_offset": offset, "next_page_token": None}
        moves = {**nothing, "moves": [], "all_paused": None}
        assert (await http.get("/v1/reassignments")).body == moves
        path = "/v1/reassignments/partitions"
        assert (await http.get(path)).body == {**nothing, "partitions": []}
        answer = await http.post(
            "/v1/reassignments", plan(("a", 1, [103, 102]), ("b", 0, [101, 103]))
        )
        assert (answer.status, answer.kind) == (202, "application/json")
        assert answer.body == {"move_id": 1, "accepted": 2, "refused": 0, "errors": []}
        assert (await http.get("/v1/reassignments")).body["total"] == 1
        listed = (await http.get(path)).body
        assert listed["total"] == 2
        first = listed["partitions"][0]
        assert first["since_ms"] > 0
        assert first == {
            "topic": "a",
            "partition": 1,
            "replicas": [101, 102, 103],
            "adding_replicas": [103],
            "removing_replicas": [101],
            "target_replicas": [103, 102],
            "move_id": 1,
            "step": 1,
            "steps": 1,
            "state": "growing",
            "reason": "catching-up",
            "detail": "not in sync yet: 103",
            "reason_brokers": [103],
            "since_ms": first["since_ms"],
            "bytes_left": None,
            "bytes_per_s": None,
            "time_left_ms": None,
        }
        only = (await http.get(f"{path}?topic=b")).body["partitions"]
        assert [each["topic"] for each in only] == ["b"]
        async with kafka_client(node.address) as client:
            form = Form(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
            kafka = await client.send(form, list_reassignments(form))
        assert [
            (each.name, part.partition_index, list(part.replicas))
            for each in kafka.topics
            for part in each.partitions
        ] == [(each["topic"], each["partition"], each["replicas"]) for each in listed["partitions"]]


async def test_one_bad_partition_does_not_stop_the_others(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await join(node.controller, 101, 102)
        await asked(node.controller, topic("a", 101))
        answer = await http.post(
            "/v1/reassignments", plan(("a", 0, [102]), ("a", 7, [102]), ("unknown", 0, [101]))
        )
        assert answer.status == 202
        assert (answer.body["accepted"], answer.body["refused"]) == (1, 2)
        errors = answer.body["errors"]
        assert [(each["topic"], each["partition"]) for each in errors] == [("a", 7), ("unknown", 0)]
        assert {each["kafka_error"] for each in errors} == {"UNKNOWN_TOPIC_OR_PARTITION"}
        assert {each["kafka_error_code"] for each in errors} == {3}
        assert all(each["message"] for each in errors)


async def test_a_plan_of_which_nothing_is_accepted_is_a_problem(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await join(node.controller, 101)
        await asked(node.controller, topic("a", 101))
        unknown_broker = await http.post("/v1/reassignments", plan(("a", 0, [101, 999])))
        check_problem(unknown_broker, 400, "a-0", "999")
        assert unknown_broker.body["kafka_error"] == "INVALID_REPLICA_ASSIGNMENT"
        assert unknown_broker.body["retriable"] is False
        unknown_topic = await http.post("/v1/reassignments", plan(("u", 0, [101])))
        check_problem(unknown_topic, 400, "u-0")
        assert unknown_topic.body["kafka_error_code"] == 3
        assert len(unknown_topic.body["errors"]) == 1


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{", ("not valid JSON at line 1",)),
        (b"[]", ("Expected `object`, got `array`",)),
        (b'{"version": 1, "partitions": []}', ("cannot be empty",)),
        (b'{"version": 2, "partitions": []}', ("version",)),
        (
            b'{"partitions": [{"topic": "a", "partition": 0}]}',
            ("missing required field `replicas`",),
        ),
        (
            b'{"partitions": [{"topic": "a", "partition": 0, "replicas": [1, 1]}]}',
            ("duplicate", "a-0"),
        ),
        (
            b'{"partitions": [{"topic": "a", "partition": -1, "replicas": [1]}]}',
            ("partitions[0].partition", ">= 0"),
        ),
        (
            b'{"partitions": [{"topic": "\\ud800", "partition": 0, "replicas": [1]}]}',
            ("utf-16 surrogate",),
        ),
        (b"\xff\xfe", ("UTF-8",)),
        (b"[" * 100_000, ("nested",)),
    ],
    ids=lambda value: str(value[:40]) if isinstance(value, bytes) else "",
)
async def test_a_plan_that_cannot_be_understood_is_a_problem(
    tmp_path: Path, data: bytes, words: tuple[str, ...]
) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        check_problem(await http.post_text("/v1/reassignments", data), 400, *words)


async def test_unknown_paths_and_methods_are_problems_too(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        check_problem(
            await http.get("/v1/unknown"), 404, "/v1/unknown", "/v1/quorum", "/v1/quorum/voters"
        )
        check_problem(await http.get("/v2"), 404)
        near = await http.get("/v1/topic/")
        check_problem(near, 404, "there is no /v1/topic/; did you mean /v1/topics?")
        check_problem(await http.post("/v1/quorum"), 405, "GET", "POST")
        check_problem(await http._send("DELETE", "/v1/reassignments"), 405, "DELETE")
        too_large = BytesIO(b" " * (PLAN_BYTES_MAX + 1))
        check_problem(await http.post_text("/v1/reassignments", too_large), 413)


async def test_a_trailing_slash_changes_nothing(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        for path in ("/v1/quorum", "/v1/reassignments", "/v1/brokers/7"):
            plain, slashed = await http.get(path), await http.get(f"{path}/")
            assert (slashed.status, slashed.body.keys()) == (plain.status, plain.body.keys())
        check_problem(await http.post("/v1/quorum/", {}), 405, "takes GET, HEAD, not POST")


async def test_a_parameter_that_is_not_understood_is_never_ignored(tmp_path: Path) -> None:
    """A client that asks for a dry run must not get a real one."""
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await join(node.controller, 101, 102)
        await asked(node.controller, topic("a", 101))
        dry = await http.post("/v1/reassignments?dryrun=true", plan(("a", 0, [102])))
        check_problem(dry, 400, "'dryrun' is not known; there is dry_run")
        topics = await http.get("/v1/reassignments/partitions?topics=a")
        check_problem(topics, 400, "topics", "there is state, topic, page_size")
        check_problem(await http.get("/v1/quorum?stale=1"), 400, "stale", "true or false")
        check_problem(await http.get("/v1/quorum?topic=a"), 400, "topic", "there is stale")
        assert (await http.get("/v1/reassignments")).body["total"] == 0


@pytest.mark.thorough
async def test_a_plan_that_needs_more_than_one_batch_is_taken_whole_by_every_node(
    tmp_path: Path,
) -> None:
    many = plan(*(("a", number, [102]) for number in range(BATCH_RECORDS_MAX - 1)))
    many["partitions"] += plan(*(("b", number, [102]) for number in range(5)))["partitions"]
    async with controllers(tmp_path, 1, 2, 3, timeouts=PATIENT) as nodes:
        leader = await active(nodes.values())
        await join(leader.controller, 101, 102)
        await asked(leader.controller, topic("a", 101, partitions=BATCH_RECORDS_MAX - 1))
        await asked(leader.controller, topic("b", 101, partitions=5))
        follower = next(each for each in nodes.values() if each is not leader)
        for node in (leader, follower):
            async with http_door(node, wait_seconds=PATIENCE_SECONDS) as http:
                answer = await http.post("/v1/reassignments", many)
                assert answer.body["accepted"] == len(many["partitions"])


async def test_a_follower_answers_as_the_leader_does(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await active(nodes.values())
        await join(leader.controller, 101, 102)
        await asked(leader.controller, topic("a", 101, partitions=2))
        follower = next(each for each in nodes.values() if each is not leader)
        async with http_door(leader) as at_leader, http_door(follower) as at_follower:
            answer = await at_follower.post(
                "/v1/reassignments", plan(("a", 0, [102]), ("a", 7, [102]))
            )
            assert answer.status == 202
            assert (answer.body["move_id"], answer.body["accepted"]) == (1, 1)
            assert answer.body["errors"][0]["kafka_error"] == "UNKNOWN_TOPIC_OR_PARTITION"
            nothing = plan(("a", 7, [102]))
            assert await at_follower.post("/v1/reassignments", nothing) == await at_leader.post(
                "/v1/reassignments", nothing
            )
            path = "/v1/reassignments"
            assert await at_follower.get(path) == await at_leader.get(path)
            facts = [
                steady((await http.get("/v1/quorum")).body) for http in (at_follower, at_leader)
            ]
            assert facts[0] == facts[1]
            assert facts[0]["leader_id"] == leader.node_id


def steady(body: Any) -> Any:
    """The description of a quorum without values that change with time."""
    voters = [
        {name: each[name] for name in ("replica_id", "directory_id", "status", "endpoints")}
        for each in body["current_voters"]
    ]
    kept = ("cluster_id", "leader_id", "leader_epoch", "observers", "target_voters")
    return {**{name: body[name] for name in kept}, "current_voters": voters}
