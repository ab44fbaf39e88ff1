"""Leadership transfer over HTTP: POST /v1/quorum/leader:transfer."""

from pathlib import Path
from typing import Any

import pytest

from tests.admin.http.test_http_api import check_problem, http_door
from tests.controller.apis.test_kafka_transfer import at_rest
from tests.support.controllers import a_controller, active, controllers

TRANSFER = "/v1/quorum/leader:transfer"


@pytest.mark.parametrize("asks_leader", [True, False])
async def test_any_controller_lets_another_one_lead(tmp_path: Path, asks_leader: bool) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        epoch = leader.opened.quorum.node.epoch
        wanted, other = (each for each in nodes.values() if each is not leader)
        async with http_door(leader if asks_leader else other) as http:
            answer = await http.post(TRANSFER, {"to": wanted.node_id})
        assert answer.status == 200
        assert answer.body.keys() == {"leader_id", "leader_epoch", "duration_ms", "led_already"}
        assert not answer.body["led_already"]
        assert (answer.body["leader_id"], answer.body["leader_epoch"]) == (
            wanted.node_id,
            epoch + 1,
        )
        assert await active(nodes.values()) is wanted


async def test_a_transfer_without_a_body_goes_to_the_most_advanced_voter(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        leader = await at_rest(nodes.values())
        async with http_door(leader) as http:
            answer = await http._send("POST", TRANSFER)
        assert answer.status == 200
        assert answer.body["leader_id"] in set(nodes) - {leader.node_id}


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ({}, 409, "no voter but 1 fetches"),
        ({"to": 7}, 400, "7 is no voter; voters are 1"),
        ({"to": "1"}, 400, "to: expected `int | null`, got `str`"),
        ({"to": True}, 400, "to: expected `int | null`, got `bool`"),
        ({"to": -1}, 400, "to: expected `int` >= 0"),
        ({"leader": 1}, 400, "'leader' is not known; there is to"),
        ([], 400, "the body must be an object with to"),
    ],
)
async def test_an_invalid_transfer_is_a_problem_in_one_sentence(
    tmp_path: Path, body: Any, status: int, word: str
) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        check_problem(await http.post(TRANSFER, body), status, word)


async def test_the_transfer_to_the_leader_changes_nothing(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        answer = await http.post(TRANSFER, {"to": 1})
        assert answer.status == 200
        assert answer.body["led_already"]
        assert answer.body["leader_id"] == 1
        assert answer.body["leader_epoch"] == node.opened.quorum.node.epoch


async def test_a_body_that_is_no_json_is_a_problem(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        check_problem(await http.post_text(TRANSFER, b"{"), 400, "not JSON")
        check_problem(await http.get(TRANSFER), 405, "takes POST, not GET")
