"""Moves that are begun over HTTP: names, dry runs, and idempotency keys."""

from io import BytesIO
from pathlib import Path
from typing import Any

import orjson
import pytest

from statemachine import commands
from statemachine.reassignment.settings import PARALLEL_REPLICAS
from tests.admin.http.test_http_api import PATIENT, Answer, Http, check_problem, http_door, plan
from tests.controller.apis.test_kafka_transfer import at_rest
from tests.controller.controller_commands import asked, isr, join, move, topic
from tests.statemachine.support.config_requests import ALL_BROKERS, SET, change
from tests.support.bell import PATIENCE_SECONDS
from tests.support.controllers import Node, a_controller, active, controllers

PATH = "/v1/reassignments"
KEY = {"Idempotency-Key": "monday-7"}


async def four_brokers(node: Node, partitions: int = 1) -> None:
    """Topic a on 101 and 102; 103 and 104 are there as well."""
    await join(node.controller, 101, 102, 103, 104)
    await asked(node.controller, topic("a", 101, 102, partitions=partitions))


async def sent(
    http: Http, method: str, path: str, body: Any = None, headers: Any = None
) -> tuple[Answer, dict[str, str]]:
    """The answer, with those of its headers that are about moves."""
    async with http.client.request(method, path, json=body, headers=headers) as response:
        told = {name: response.headers.get(name) for name in ("Location", "Idempotent-Replayed")}
        answer = Answer(
            response.status, response.content_type, await response.json(content_type=None)
        )
    return answer, {name: value for name, value in told.items() if value is not None}


async def test_a_plan_is_answered_with_the_move_that_it_is(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await four_brokers(node)
        body = plan(("a", 0, [101, 103])) | {"name": "rack 7", "priority": 5}
        answer, headers = await sent(http, "POST", PATH, body)
        assert (answer.status, headers) == (202, {"Location": "/v1/operations/move-1"})
        assert answer.body == {"move_id": 1, "accepted": 1, "refused": 0, "errors": []}
        told = (await http.get((await http.get(headers["Location"])).body["resource"])).body
        assert (told["name"], told["priority"], told["asked_by"]) == (
            "rack 7",
            5,
            "User:ANONYMOUS",
        )
        # What is under way already is no move of its own, and what is so needs none.
        again, headers = await sent(http, "POST", PATH, plan(("a", 0, [101, 103])))
        assert (again.status, again.body["move_id"], headers["Location"]) == (
            202,
            1,
            "/v1/operations/move-1",
        )
        await asked(node.controller, isr(node.controller, "a", (101, 102, 103)))
        done, headers = await sent(http, "POST", PATH, plan(("a", 0, [101, 103])))
        assert (done.status, done.body["move_id"], headers) == (200, None, {})


async def test_a_repeated_request_is_carried_out_once_at_any_controller(tmp_path: Path) -> None:
    """Its answer was lost; meanwhile it has arrived, and somebody else has moved it on."""
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        first = await at_rest(nodes.values())
        await four_brokers(first)
        body = plan(("a", 0, [101, 103]), ("a", 9, [101]))
        async with http_door(first) as http:
            begun, headers = await sent(http, "POST", PATH, body, KEY)
        assert (begun.status, headers) == (202, {"Location": "/v1/operations/move-1"})
        assert (begun.body["accepted"], begun.body["refused"]) == (1, 1)
        await asked(first.controller, isr(first.controller, "a", (101, 102, 103)))
        await asked(first.controller, move("a", 101, 104))
        await first.stop()
        left = [each for each in nodes.values() if each is not first]
        leader = await active(left)
        follower = next(each for each in left if each is not leader)
        for node in (leader, follower):
            async with http_door(node, wait_seconds=PATIENCE_SECONDS) as http:
                again, headers = await sent(http, "POST", PATH, body, KEY)
                assert again == begun
                assert headers == {
                    "Location": "/v1/operations/move-1",
                    "Idempotent-Replayed": "true",
                }
                other, headers = await sent(http, "POST", PATH, plan(("a", 0, [102])), KEY)
                check_problem(other, 422, "the key monday-7 belongs to another request")
                assert (other.body["kafka_error"], headers) == ("DUPLICATE_RESOURCE", {})
        image = leader.controller.image
        assert sorted(image.moves) == [1, 2]
        partition = image.topics[next(iter(image.topics))].partition(0)
        assert partition is not None
        assert partition.target == (101, 104)


async def test_changes_of_moves_are_carried_out_once_too(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await four_brokers(node)
        await asked(node.controller, move("a", 101, 103))
        paused, headers = await sent(
            http, "POST", f"{PATH}/1:pause", None, {"Idempotency-Key": "p"}
        )
        assert (paused.body["state"], headers) == ("paused", {})
        await http.post(f"{PATH}/1:resume")
        again, headers = await sent(http, "POST", f"{PATH}/1:pause", None, {"Idempotency-Key": "p"})
        # Told is how it is now: nobody pauses it a second time.
        assert (again.body["state"], headers) == ("running", {"Idempotent-Replayed": "true"})
        other, _ = await sent(http, "POST", f"{PATH}:pause", None, {"Idempotency-Key": "p"})
        check_problem(other, 422, "the key p belongs to another request")
        gone, _ = await sent(http, "DELETE", f"{PATH}/1", None, KEY)
        await asked(node.controller, move("a", 101, 104))
        again, headers = await sent(http, "DELETE", f"{PATH}/1", None, KEY)
        assert (again, headers) == (gone, {"Idempotent-Replayed": "true"})
        assert (await http.get(f"{PATH}/2")).body["state"] == "running"


async def test_a_plan_of_which_nothing_was_accepted_stays_so(tmp_path: Path) -> None:
    """A retry must not be carried out where the first was not."""
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await four_brokers(node)
        body = plan(("b", 0, [101]))
        refused, _ = await sent(http, "POST", PATH, body, KEY)
        check_problem(refused, 400, "b-0: there is no topic b")
        await asked(node.controller, topic("b", 102))
        again, headers = await sent(http, "POST", PATH, body, KEY)
        assert (again, headers) == (refused, {"Idempotent-Replayed": "true"})


async def test_a_dry_run_of_a_plan_returns_its_steps(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        await four_brokers(leader, partitions=2)
        limits = commands.IncrementalAlterConfigs(
            changes=(change(ALL_BROKERS, (PARALLEL_REPLICAS, SET, "1")),)
        )
        await asked(leader.controller, limits)
        follower = next(each for each in nodes.values() if each is not leader)
        body = plan(("a", 0, [103, 104]), ("a", 1, [101, 102]), ("a", 7, [101]))
        for node in (leader, follower):
            async with http_door(node) as http:
                for path, asked_for in ((f"{PATH}?dry_run=true", {}), (PATH, {"dry_run": True})):
                    tried, headers = await sent(http, "POST", path, body | asked_for, KEY)
                    assert (tried.status, headers) == (200, {})
                    told = tried.body
                    assert (told["dry_run"], told["move_id"]) == (True, None)
                    assert (told["accepted"], told["refused"]) == (2, 1)
                    assert told["errors"][0]["message"] == "topic a has no partition 7"
                    assert [(each["partition"], each["steps"]) for each in told["planned"]] == [
                        (0, [[103, 101, 102], [103, 102], [103, 104]]),
                        (1, []),
                    ]
                    assert told["planned_not_shown"] == 0
        assert leader.controller.image.moves == {}
        assert leader.controller.image.keys == {}


@pytest.mark.thorough
async def test_the_three_invalid_partitions_of_a_large_plan_are_reported(tmp_path: Path) -> None:
    count = 100_000
    moves = [("a", number, [101, 103]) for number in range(count)]
    moves[7], moves[8] = ("a", 7, [101, 999]), ("a", count, [101])
    moves[-1] = ("unknown", 0, [101])
    async with controllers(tmp_path, 1, timeouts=PATIENT) as nodes:
        node = await active(nodes.values())
        await four_brokers(node, partitions=count)
        async with http_door(node, wait_seconds=PATIENCE_SECONDS) as http:
            body = BytesIO(orjson.dumps(plan(*moves)))
            answer = await http.post_text(PATH, body)
    assert (answer.status, answer.body["accepted"], answer.body["refused"]) == (202, count - 3, 3)
    assert [(each["topic"], each["partition"]) for each in answer.body["errors"]] == [
        ("a", 7),
        ("a", count),
        ("unknown", 0),
    ]
    assert [each["message"] for each in answer.body["errors"]] == [
        "The manual partition assignment includes broker 999, but no such broker is registered.",
        f"topic a has no partition {count}",
        "there is no topic unknown",
    ]


@pytest.mark.parametrize(
    ("headers", "body", "words"),
    [
        ([("Idempotency-Key", "")], {}, "a key has 1 to 255 characters, not 0"),
        ([("Idempotency-Key", "x" * 256)], {}, "a key has 1 to 255 characters, not 256"),
        ([("Idempotency-Key", "é")], {}, "has other characters than printable ASCII"),
        ([("Idempotency-Key", "a"), ("Idempotency-Key", "b")], {}, "is given 2 times; give one"),
        ([], {"name": "x" * 256}, "the name of a move has at most 255 characters, not 256"),
        ([], {"name": 7}, "name: expected `str`, got `int`"),
        ([], {"priority": 2**31}, "priority: expected `int` <= 2147483647"),
        ([], {"dry_run": 1}, "dry_run: expected `bool`, got `int`"),
        ([], {"throttel": 1}, "unknown field `throttel`; known are version"),
    ],
)
async def test_an_invalid_name_or_priority_of_a_move_is_a_problem_in_one_sentence(
    tmp_path: Path, headers: Any, body: dict[str, Any], words: str
) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await four_brokers(node)
        wrong, _ = await sent(http, "POST", PATH, plan(("a", 0, [101, 103])) | body, headers)
        check_problem(wrong, 400, words)
        assert node.controller.image.moves == {}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/v1/quorum/voters"),
        ("POST", "/v1/quorum/leader:transfer"),
        ("PUT", "/v1/brokers/101/cordon"),
        ("POST", "/v1/reassignments:generate"),
    ],
)
async def test_an_idempotency_key_that_is_not_supported_is_refused_without_effect(
    tmp_path: Path, method: str, path: str
) -> None:
    """A client that gives a key relies on it: the request must not be carried out twice."""
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await four_brokers(node)
        end = node.controller.image.end_offset
        answer, _ = await sent(http, method, path, {}, KEY)
        check_problem(answer, 400, f"{method} {path} takes no Idempotency-Key; omit it")
        assert node.controller.image.end_offset == end
        nowhere, _ = await sent(http, "POST", "/v1/nowhere", {}, KEY)
        check_problem(nowhere, 404, "there is no /v1/nowhere")
        assert (await sent(http, "GET", "/v1/brokers", None, KEY))[0].status == 200
