"""Topics over HTTP: create, describe, grow, configure, delete."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from admin.capabilities.paging import token_of
from tests.admin.http.test_http_api import Http, check_problem, http_door
from tests.controller.controller_commands import join
from tests.support.controllers import a_controller

TOPICS = "/v1/topics"


@pytest_asyncio.fixture
async def http(tmp_path: Path) -> AsyncIterator[Http]:
    async with a_controller(tmp_path) as node:
        await join(node.controller, 101, 102, 103)
        async with http_door(node) as door:
            yield door


async def test_a_topic_from_its_creation_to_its_end(http: Http) -> None:
    asked = {"name": "orders", "partitions": 3, "replication_factor": 2}
    made = await http.post(TOPICS, {**asked, "configs": {"retention.ms": "1000"}})
    assert made.status == 201
    assert made.body | {"topic_id": ""} == {**asked, "topic_id": "", "dry_run": False}

    grown = await http._send("PUT", f"{TOPICS}/orders/partitions", json={"total": 5})
    assert (grown.status, grown.body) == (200, {"name": "orders", "dry_run": False})

    found = (await http.get(f"{TOPICS}/orders")).body
    assert (found["topic_id"], found["total"]) == (made.body["topic_id"], 5)
    for number, each in enumerate(found["partitions"]):
        assert each["partition"] == number
        assert len(each["replicas"]) == 2
        assert each["leader"] == each["replicas"][0]
        assert each["in_sync"] == each["replicas"]

    changes = {"set": {"min.insync.replicas": "2"}, "delete": ["retention.ms"]}
    changed = await http._send("PATCH", f"{TOPICS}/orders/configs", json=changes)
    assert changed.status == 200
    configs = (await http.get(f"{TOPICS}/orders/configs")).body["configs"]
    said = {each["name"]: (each["value"], each["source"]) for each in configs}
    assert said["min.insync.replicas"] == ("2", "TOPIC")
    assert said["retention.ms"][1] == "DEFAULT"

    assert (await http._send("DELETE", f"{TOPICS}/orders")).status == 200
    check_problem(await http.get(f"{TOPICS}/orders"), 404, "there is no topic orders")


async def test_partitions_are_described_page_by_page(http: Http) -> None:
    await http.post(TOPICS, {"name": "t", "partitions": 5, "replication_factor": 1})
    numbers, token = [], ""
    for _ in range(3):
        page = (await http.get(f"{TOPICS}/t?page_size=2{token}")).body
        numbers += [each["partition"] for each in page["partitions"]]
        token = f"&page_token={page['next_page_token']}"
    assert numbers == [0, 1, 2, 3, 4]
    assert page["next_page_token"] is None
    beyond = (await http.get(f"{TOPICS}/t?page_token={token_of(9)}")).body
    assert (beyond["partitions"], beyond["total"], beyond["next_page_token"]) == ([], 5, None)


async def test_the_replication_factor_during_a_move_is_the_one_after_it(http: Http) -> None:
    """Replicas that are still there, or only copied to, do not count."""
    await http.post(TOPICS, {"name": "t", "assignments": [[101, 102]]})

    async def factor() -> int:
        (found,) = (await http.get(TOPICS)).body["topics"]
        return int(found["replication_factor"])

    for target in ([102, 103], [103], [101, 102, 103]):
        partition = {"topic": "t", "partition": 0, "replicas": target}
        begun = await http.post("/v1/reassignments", {"version": 1, "partitions": [partition]})
        assert begun.status == 202, begun
        assert await factor() == len(target)


async def test_a_dry_run_changes_nothing(http: Http) -> None:
    asked = {"name": "t", "partitions": 2, "replication_factor": 1}
    assert (await http.post(f"{TOPICS}?dry_run=true", asked)).body == {
        **asked,
        "topic_id": None,
        "dry_run": True,
    }
    check_problem(await http.get(f"{TOPICS}/t"), 404)
    await http.post(TOPICS, asked)
    for path, method, body in (
        ("partitions", "PUT", {"total": 9}),
        ("configs", "PATCH", {"set": {"retention.ms": "5"}}),
    ):
        tried = await http._send(method, f"{TOPICS}/t/{path}?dry_run=true", json=body)
        assert (tried.status, tried.body["dry_run"]) == (200, True)
    assert (await http.get(f"{TOPICS}/t")).body["total"] == 2
    configs = (await http.get(f"{TOPICS}/t/configs")).body["configs"]
    assert {each["source"] for each in configs if each["name"] == "retention.ms"} == {"DEFAULT"}


async def test_replicas_may_be_given_for_each_partition(http: Http) -> None:
    made = await http.post(TOPICS, {"name": "t", "assignments": [[101, 102], [103, 101]]})
    assert (made.body["partitions"], made.body["replication_factor"]) == (2, 2)
    more = {"total": 3, "assignments": [[102, 103]]}
    await http._send("PUT", f"{TOPICS}/t/partitions", json=more)
    found = (await http.get(f"{TOPICS}/t")).body["partitions"]
    assert [each["replicas"] for each in found] == [[101, 102], [103, 101], [102, 103]]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("POST", "", {}, 400, "name is missing"),
        ("POST", "", {"name": "t"}, 409, "topic t cannot be created"),
        ("POST", "", {"name": "a b"}, 400, "topic a b cannot be created"),
        ("POST", "", {"name": "u", "replication_factor": 7}, 400, "topic u cannot be created"),
        ("POST", "", {"name": "u", "partitions": 0}, 400, "partitions: expected `int` >= 1"),
        (
            "POST",
            "",
            {"name": "u", "partitions": 1, "assignments": [[101]]},
            400,
            "omit the counts",
        ),
        ("POST", "", {"name": "u", "configs": {"bogus": "1"}}, 400, "bogus"),
        ("DELETE", "/u", None, 404, "topic u cannot be deleted"),
        ("PUT", "/t/partitions", {"total": 1}, 400, "partitions cannot be added to topic t"),
        ("PUT", "/u/partitions", {"total": 1}, 404, "partitions cannot be added to topic u"),
        ("PATCH", "/t/configs", {}, 400, "nothing is named; set or delete"),
        ("PATCH", "/t/configs", {"set": {"retention.ms": "x"}}, 400, "retention.ms"),
        (
            "PATCH",
            "/t/configs",
            {"set": {"retention.ms": "1"}, "delete": ["retention.ms"]},
            400,
            "retention.ms is set and deleted",
        ),
        ("PATCH", "/u/configs", {"delete": ["retention.ms"]}, 404, "configurations of topic u"),
        ("GET", "/u/configs", None, 404, "configurations of topic u"),
        ("GET", "/t?page_size=0", None, 400, "page_size"),
    ],
)
async def test_what_is_wrong_is_said_in_one_sentence(
    http: Http, method: str, path: str, body: Any, status: int, words: str
) -> None:
    await http.post(TOPICS, {"name": "t", "partitions": 2, "replication_factor": 1})
    before = (await http.get(f"{TOPICS}/t")).body
    check_problem(await http._send(method, f"{TOPICS}{path}", json=body), status, words)
    assert (await http.get(f"{TOPICS}/t")).body == before


async def test_a_used_up_quota_is_said_with_the_time_to_wait(http: Http) -> None:
    """KIP-599: 429 with Retry-After; a dry run does not use the quota."""
    quota = {"entity": {"user": "ANONYMOUS"}, "set": {"controller_mutation_rate": 0.01}}
    assert (await http._send("PATCH", "/v1/quotas", json=quota)).status == 200
    asked = {"name": "t", "partitions": 10, "replication_factor": 1}
    for _ in range(3):
        assert (await http.post(f"{TOPICS}?dry_run=true", asked)).status == 200
    assert (await http.post(TOPICS, asked)).status == 201
    more = {"total": 11}
    for method, path, body in (
        ("POST", TOPICS, {**asked, "name": "u"}),
        ("PUT", f"{TOPICS}/t/partitions", more),
        ("DELETE", f"{TOPICS}/t", None),
    ):
        async with http.client.request(method, path, json=body) as response:
            problem = await response.json(content_type=None)
            assert response.status == 429
            # 10 partitions, of which 0.11 were free.
            assert 900 < int(response.headers["Retry-After"]) <= 989
        assert problem["kafka_error"] == "THROTTLING_QUOTA_EXCEEDED"
        assert problem["retriable"] is True
        check_problem(
            await http._send(method, path, json=body),
            429,
            "The throttling quota has been exceeded: controller_mutation_rate=0.01 (partitions a",
        )
    dry = await http._send("PUT", f"{TOPICS}/t/partitions?dry_run=true", json=more)
    assert dry.status == 200
