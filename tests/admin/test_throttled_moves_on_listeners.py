"""Moves are throttled by the Kafka protocol, over HTTP and on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from admin.capabilities.reassignments import BeginMove
from admin.client.reassignments import read_begun
from admin.faults import Incompatible
from admin.model import Assignment
from admin.plan_file import InvalidPlan, parse_move
from statemachine import commands
from statemachine.reassignment.throttle import FOLLOWER_RATE, LEADER_RATE
from statemachine.vocabulary import BROKER_RESOURCE
from tests.admin.cli.test_moves_command import run as moves
from tests.admin.cli.test_reassign_execute import FOUR, plan
from tests.admin.cli.test_reassign_partitions import brokers
from tests.admin.cli.test_reassign_partitions import run as reassign
from tests.admin.http.test_http_api import check_problem, http_door
from tests.admin.http.test_http_api import plan as plan_body
from tests.admin.http.test_http_new_moves import sent
from tests.controller.apis.test_kafka_new_moves import altered, codes, four_brokers
from tests.controller.apis.test_kafka_voters import client_of
from tests.controller.controller_commands import asked, isr, join, topic
from tests.statemachine.support.config_requests import SET, change
from tests.support.controllers import Node, a_controller
from tests.support.kafka_client import kafka_client

PATH = "/v1/reassignments"


def rates(node: Node) -> dict[str, str]:
    """The rate at which each broker fetches as a follower."""
    return {
        name: configs[FOLLOWER_RATE]
        for (kind, name), configs in node.controller.image.configs.items()
        if kind == BROKER_RESOURCE and FOLLOWER_RATE in configs
    }


def taken_by_user(node: Node) -> Any:
    """A user sets the rate of broker 103 himself."""
    wish = change((BROKER_RESOURCE, "103"), (LEADER_RATE, SET, "7"))
    return asked(node.controller, commands.IncrementalAlterConfigs(changes=(wish,)))


LOST = "leader.replication.throttled.rate of broker 103"


@pytest.mark.parametrize("version", [0, 1])
async def test_kafkas_request_has_a_field_for_it(tmp_path: Path, version: int) -> None:
    wanted = [("a", 0, (101, 103))]
    async with a_controller(tmp_path) as node, kafka_client(node.address) as client:
        await four_brokers(node)
        refused = await altered(client, version, wanted, throttle_bytes_per_s=-1)
        assert codes(refused) == [42]
        assert "a throttle of -1 bytes a second is not possible" in refused.partitions[0].message
        begun = await altered(client, version, wanted, throttle_bytes_per_s=1_000)
        assert (begun.move_id, begun.partitions[0].replicas) == (1, (101, 102, 103))
        assert rates(node) == {"103": "1000"}


async def test_over_http_a_move_is_begun_with_it_and_it_changes(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await four_brokers(node)
        body = plan_body(("a", 0, [101, 103])) | {"throttle_bytes_per_s": 1_000}
        begun, _ = await sent(http, "POST", PATH, body)
        assert (begun.status, rates(node)) == (202, {"103": "1000"})
        changed, _ = await sent(http, "PATCH", f"{PATH}/1", {"throttle_bytes_per_s": 50})
        assert (changed.status, changed.body["throttle_bytes_per_s"]) == (200, 50)
        assert rates(node) == {"103": "50"}
        await taken_by_user(node)
        told = (await http.get(f"{PATH}/1")).body
        assert (told["throttle_bytes_per_s"], told["throttle_lost"]) == (50, [LOST])
        lifted, _ = await sent(http, "PATCH", f"{PATH}/1", {"throttle_bytes_per_s": 0})
        assert (lifted.body["throttle_bytes_per_s"], rates(node)) == (None, {})
        both = {"throttle_bytes_per_s": 70, "priority": 3}
        altered_both, _ = await sent(http, "PATCH", f"{PATH}/1", both)
        assert (altered_both.status, both.items() <= altered_both.body.items()) == (200, True)
        assert rates(node) == {"103": "70"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"throttle_bytes_per_s": -1}, "throttle_bytes_per_s: expected `int` >= 0"),
        ({"throttle_bytes_per_s": "fast"}, "throttle_bytes_per_s: expected `int`"),
        ({"throttle": 1}, "'throttle' is not known; there is priority, "),
        ({"throttle_bytes_per_s": 1, "priority": 1.5}, "priority: expected `int`"),
        ({"throttle_bytes_per_s": -1, "priority": 1}, "throttle_bytes_per_s: expected `int` >= 0"),
        ({}, "give a priority, a throttle_bytes_per_s, or both"),
        ([], "the body must be"),
    ],
)
async def test_over_http_what_is_wrong_with_it_is_told(
    tmp_path: Path, body: Any, words: str
) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await four_brokers(node)
        await sent(http, "POST", PATH, plan_body(("a", 0, [101, 103])))
        answer, _ = await sent(http, "PATCH", f"{PATH}/1", body)
        check_problem(answer, 400)
        assert words in answer.body["detail"]
        move = node.controller.image.moves[1]
        assert (move.options.priority, move.options.throttle_bytes_per_s) == (0, 0)


async def test_on_the_command_line_a_plan_is_executed_at_a_rate(tmp_path: Path) -> None:
    async with brokers(tmp_path, FOUR) as node:
        await asked(node.controller, topic("a", 101, 102))
        file = plan(tmp_path, ("a", 0, [101, 103]))
        done = await reassign(node, "--execute", *file, "--throttle", "1000")
        assert done.exit_code == 0, done.output
        assert done.stdout.splitlines()[-1] == (
            "The inter-broker throttle limit was set to 1000 B/s until the move has ended"
        )
        assert rates(node) == {"103": "1000"}
        await asked(node.controller, isr(node.controller, "a", (101, 102, 103)))
        assert rates(node) == {}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--verify", "--throttle", "5"), 'Option "--throttle" can\'t be used with action'),
        (("--execute", "--throttle", "0"), "'0' is not from 1 to"),
        (("--execute", "--throttle", "fast"), "'fast' is not a size"),
    ],
)
async def test_a_rate_that_makes_no_sense_is_refused_before_anything_is_sent(
    tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    async with brokers(tmp_path, FOUR) as node:
        await asked(node.controller, topic("a", 101, 102))
        refused = await reassign(node, *options, *plan(tmp_path, ("a", 0, [101, 103])))
        assert refused.exit_code == 2
        assert words in refused.stderr
        assert node.controller.image.moves == {}


async def test_moves_are_throttled_by_their_ids_and_say_what_they_have_lost(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        await join(node.controller, 101, 102, 103)
        await asked(node.controller, topic("a", 101, 102))
        async with client_of(node) as client:
            whither = Assignment(topic="a", partition=0, replicas=(101, 103))
            await client.begin_move(BeginMove(assignments=[whither]))
        done = await moves(node, "throttle", "1", "1000")
        assert done.stdout == "Move 1 is throttled to 1000 bytes/s.\n"
        assert rates(node) == {"103": "1000"}
        await taken_by_user(node)
        lines = (await moves(node, "show", "1")).stdout.splitlines()
        assert "Throttle: 1000 bytes/s to and from each broker." in lines
        assert f"Throttle configs changed by users since, and left alone: {LOST}." in lines
        data = json.loads((await moves(node, "show", "1", "-o", "json")).stdout)
        assert (data["throttle_bytes_per_s"], data["throttle_lost"]) == (1_000, [LOST])
        lifted = await moves(node, "throttle", "1", "0")
        assert lifted.stdout == "Move 1 is no longer throttled.\n"
        unknown = await moves(node, "throttle", "7", "5")
        assert (unknown.exit_code, unknown.stderr) == (1, "Error: there is no move 7\n")


async def test_a_pause_says_what_it_does_not_stop_over_http_and_on_the_command_line(
    tmp_path: Path,
) -> None:
    """Users have set the rates of both brokers that the copy needs."""
    async with a_controller(tmp_path) as node, http_door(node) as http:
        await four_brokers(node)
        await sent(http, "POST", PATH, plan_body(("a", 0, [101, 103])))
        stopped, _ = await sent(http, "POST", f"{PATH}/1:pause", None)
        assert (stopped.body["stops_copying"], stopped.body["not_stopped"]) == (True, [])
        assert stopped.body["partitions"][0]["state"] == "paused"
        assert rates(node) == {"103": "0"}
        await sent(http, "POST", f"{PATH}/1:resume", None)
        for broker, name in (("101", LEADER_RATE), ("103", FOLLOWER_RATE)):
            wish = change((BROKER_RESOURCE, broker), (name, SET, "7"))
            await asked(node.controller, commands.IncrementalAlterConfigs(changes=(wish,)))
        limit = "a user limits copies to broker 103 by follower.replication.throttled.rate=7"
        copy = {"topic": "a", "partition": 0, "broker_id": 103, "reason": limit}
        for path in (f"{PATH}/1:pause", f"{PATH}:pause"):
            paused, _ = await sent(http, "POST", path, None)
            found = paused.body["not_stopped"], paused.body["not_stopped_total"]
            assert (paused.status, found) == (200, ([copy], 1))
            later, _ = await sent(http, "POST", f"{path}?after_step=true", None)
            assert later.body["not_stopped"] == []
        told = await moves(node, "pause", "1")
        assert (told.exit_code, told.stdout) == (1, "Move 1 paused.\n")
        assert told.stderr == f"Not stopped: a-0 to broker 103: {limit}.\n"
        data = json.loads((await moves(node, "pause", "--all", "-o", "json")).stdout)
        assert (data["not_stopped"], data["not_stopped_total"]) == ([copy], 1)
        shown = json.loads((await moves(node, "show", "1", "-o", "json")).stdout)
        assert shown["partitions"][0]["detail"].endswith(f"does not stop 103: {limit}")


class _Said:
    """The answer of a Kafka controller: it skips fields that it does not know."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


def test_a_controller_that_does_not_know_the_field_is_noticed() -> None:
    """It has begun, at any rate: nobody must think that it is throttled."""
    partition = _Said(
        partition_index=0,
        error_code=_Said(value=0),
        error_message=None,
    )
    response = _Said(responses=[_Said(name="a", partitions=[partition])])
    whither = Assignment(topic="a", partition=0, replicas=(101, 103))
    asked_for = BeginMove(assignments=[whither], throttle_bytes_per_s=1_000)
    with pytest.raises(Incompatible, match="the move has begun without one"):
        read_begun(asked_for, response)


@pytest.mark.parametrize("value", [True, 1.5, None, 2**63])
def test_a_throttle_is_a_whole_number_of_bytes(value: Any) -> None:
    plan = {"partitions": [], "throttle_bytes_per_s": value}
    with pytest.raises(InvalidPlan, match="throttle_bytes_per_s: expected `int`"):
        parse_move(json.dumps(plan))
