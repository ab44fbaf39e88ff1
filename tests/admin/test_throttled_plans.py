"""Plans are throttled from their beginning: decommission, replication factors."""

from pathlib import Path
from typing import Any

import pytest

from statemachine.vocabulary import MoveKind
from tests.admin.cli.test_brokers_cli import run
from tests.admin.cli.test_reassign_partitions import brokers
from tests.admin.http.test_http_api import check_problem, http_door
from tests.admin.planned_topic import (
    EMPTYING,
    FACTOR,
    altered,
    check_misused,
    check_refused,
    planned_over_http,
)
from tests.admin.test_throttled_moves_on_listeners import rates
from tests.controller.controller_commands import asked, isr, join, topic
from tests.support.controllers import a_controller

THREE = dict.fromkeys((101, 102, 103))


async def test_over_http_a_broker_is_emptied_at_a_rate(tmp_path: Path) -> None:
    async with planned_over_http(tmp_path) as (node, http):
        tried = await http._send(
            "PUT", f"{EMPTYING}?dry_run=true", json={"throttle_bytes_per_s": 5}
        )
        assert (tried.status, rates(node)) == (200, {})
        begun = await http._send("PUT", EMPTYING, json={"throttle_bytes_per_s": 1_000})
        assert (begun.status, begun.body["moves"][0]["throttle_bytes_per_s"]) == (202, 1_000)
        assert node.controller.image.moves[1].begun.kind == MoveKind.DRAIN
        assert rates(node) == {"103": "1000"}
        await asked(node.controller, isr(node.controller, "a", (101, 102, 103)))
        assert rates(node) == {}


async def test_over_http_replicas_are_added_at_a_rate(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await join(node.controller, 101, 102)
        await asked(node.controller, topic("a", 101))
        body = {"topics": ["a"], "replication_factor": 2, "throttle_bytes_per_s": 1_000}
        assert (await http.post(FACTOR, body)).status == 202
        assert rates(node) == {"102": "1000"}


async def test_on_the_command_line_the_rate_is_said_of_what_is_begun_and_of_what_was_before(
    tmp_path: Path,
) -> None:
    async with brokers(tmp_path, THREE) as node:
        await asked(node.controller, topic("a", 101, 102))
        emptied = ("decommission", "--brokers", "102", "--throttle")
        begun = await run(node, *emptied, "1000")
        assert begun.exit_code == 3, begun.output
        assert begun.stdout.splitlines()[-1] == (
            "Move 1 is throttled to 1000 bytes/s to and from each broker."
        )
        assert rates(node) == {"103": "1000"}
        again = await run(node, *emptied, "70")
        assert again.stdout.splitlines()[-1] == (
            "Move 1 was started earlier and is throttled to 1000 bytes/s;"
            " `metaquorum moves throttle 1 70` changes this."
        )
        assert rates(node) == {"103": "1000"}
        await asked(node.controller, topic("b", 101))
        more = await altered(node, "b", "--replication-factor", "2", "--throttle", "5")
        assert more.stdout.splitlines()[-1] == (
            "Move 2 is throttled to 5 bytes/s to and from each broker."
        )
        assert rates(node) == {"103": "5"}


@pytest.mark.parametrize(
    ("method", "path", "body", "words"),
    [
        (
            "PUT",
            EMPTYING,
            {"throttle_bytes_per_s": -1},
            "throttle_bytes_per_s: expected `int` >= 0",
        ),
        ("PUT", EMPTYING, {"throttle_bytes_per_s": "1"}, "throttle_bytes_per_s: expected `int`"),
        ("PUT", EMPTYING, {"throttle": 1}, "'throttle' is not known; there is throttle_bytes_per_"),
        ("PUT", EMPTYING, [], "the body must be an object with throttle_bytes_per_s"),
        (
            "PUT",
            "/v1/brokers/102/recommission",
            {"x": 1},
            "'x' is not known; the body must be empty",
        ),
        (
            "POST",
            FACTOR,
            {"topics": ["a"], "replication_factor": 2, "throttle_bytes_per_s": 2**63},
            "throttle_bytes_per_s: expected `int` <= 9223372036854775807",
        ),
    ],
)
async def test_a_rate_that_cannot_be_is_a_problem_and_nothing_begins(
    tmp_path: Path, method: str, path: str, body: Any, words: str
) -> None:
    async with planned_over_http(tmp_path) as (node, http):
        check_problem(await http._send(method, path, json=body), 400, words)
        image = node.controller.image
        assert (image.moves, image.brokers[102].cordoned) == ({}, False)


@pytest.mark.parametrize(
    ("name", "wrong", "words"),
    [
        ("brokers.decommission", {"throttle_bytes_per_s": -1}, "$.throttle_bytes_per_s"),
        ("plans.generate", {"throttle_bytes_per_s": 1}, "throttle_bytes_per_s"),
        ("brokers.recommission", {"throttle_bytes_per_s": 1}, "throttle_bytes_per_s"),
    ],
)
async def test_the_private_request_refuses_it_as_well(
    tmp_path: Path, name: str, wrong: dict[str, Any], words: str
) -> None:
    brokers = {} if name.startswith("plans") else {"broker_ids": [101]}
    await check_refused(tmp_path, name, {**brokers, **wrong}, words)


def test_an_invalid_throttle_on_the_command_line_is_refused_before_a_request() -> None:
    emptied = ("brokers", "decommission", "--brokers", "1", "--throttle")
    check_misused(
        (
            ((*emptied, "0"), "'0' is not from 1 to"),
            ((*emptied, "x"), "'x' is not a size"),
            (
                ("topics", "alter", "a", "--partitions", "2", "--throttle", "1"),
                "--throttle requires",
            ),
        )
    )
