"""Features over HTTP: what is supported and in force, and changes of their levels."""

from pathlib import Path
from typing import Any

import pytest

from tests.admin.http.test_http_api import Http, check_problem, http_door
from tests.controller.controller_commands import join
from tests.support.controllers import a_controller

FEATURES = "/v1/features"
METADATA = "metadata.version"


async def levels(http: Http) -> dict[str, int]:
    return {each["name"]: each["level"] for each in (await http.get(FEATURES)).body["features"]}


async def test_features_are_listed_with_what_is_supported_and_in_force(tmp_path: Path) -> None:
    async with a_controller(tmp_path, metadata_version=21) as node, http_door(node) as http:
        answer = await http.get(FEATURES)
        found = {each.pop("name"): each for each in answer.body["features"]}
        assert found[METADATA] == {
            "lowest_supported": 15,
            "highest_supported": 30,
            "level": 21,
            "release": "3.9-IV0",
        }
        assert (found["group.version"]["level"], found["group.version"]["release"]) == (0, None)
        assert [*found] == sorted(found)


@pytest.mark.parametrize("level", [0, 1])
async def test_the_level_of_kraft_version_is_that_of_the_quorum(tmp_path: Path, level: int) -> None:
    async with a_controller(tmp_path, kraft_version=level) as node, http_door(node) as http:
        assert (await levels(http))["kraft.version"] == level


async def test_levels_are_raised_and_lowered(tmp_path: Path) -> None:
    async with a_controller(tmp_path, metadata_version=21) as node, http_door(node) as http:
        await join(node.controller, 101)
        raised = {"levels": {METADATA: "4.0", "group.version": 1}}
        tried = await http._send("PATCH", f"{FEATURES}?dry_run=true", json=raised)
        numbers = {METADATA: 25, "group.version": 1}
        assert (tried.status, tried.body) == (200, {"levels": numbers, "dry_run": True})
        assert (await levels(http))[METADATA] == 21

        done = await http._send("PATCH", FEATURES, json=raised)
        assert done.body == {"levels": numbers, "dry_run": False}
        assert {**await levels(http), **numbers} == await levels(http)

        lower = {"levels": {"group.version": 0}}
        refused = await http._send("PATCH", FEATURES, json=lower)
        check_problem(refused, 409, "the features cannot be changed", "group.version")
        lowered = await http._send(
            "PATCH", FEATURES, json=lower | {"upgrade_type": "safe_downgrade"}
        )
        assert lowered.status == 200
        assert (await levels(http))["group.version"] == 0


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 400, "levels is missing"),
        ({"levels": {}}, 400, "length >= 1"),
        ({"levels": {"metadata.versoin": 25}}, 400, "did you mean metadata.version?"),
        ({"levels": {"x": 25}}, 400, "x is not a feature; there are"),
        ({"levels": {METADATA: "9.9"}}, 400, "'9.9' is no level of metadata.version"),
        ({"levels": {"group.version": "1"}}, 400, "write a number from 0 on"),
        ({"levels": {"group.version": -1}}, 400, "levels"),
        ({"levels": {METADATA: 25}, "upgrade_type": "any"}, 400, "upgrade_type"),
        ({"levels": {"group.version": 9}}, 409, "9 for feature group.version"),
        # All of them or none.
        ({"levels": {METADATA: 25, "group.version": 9}}, 409, "9 for feature group.version"),
    ],
)
async def test_what_is_wrong_is_said_and_nothing_is_changed(
    tmp_path: Path, body: Any, status: int, words: str
) -> None:
    async with a_controller(tmp_path, metadata_version=21) as node, http_door(node) as http:
        before = await levels(http)
        check_problem(await http._send("PATCH", FEATURES, json=body), status, words)
        assert await levels(http) == before
