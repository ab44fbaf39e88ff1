"""Client quotas over HTTP: listed by a filter, and changed."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.admin.http.test_http_api import Answer, Http, check_problem, http_door
from tests.support.controllers import a_controller

QUOTAS = "/v1/quotas"
RATE = "producer_byte_rate"
ANN: Any = {"user": "ann"}
ANN_AT_A: Any = {"user": "ann", "client_id": "a"}
ANYBODY: Any = {"user": None}
HOST: Any = {"ip": "10.0.0.7"}


@pytest_asyncio.fixture
async def http(tmp_path: Path) -> AsyncIterator[Http]:
    async with a_controller(tmp_path) as node, http_door(node) as door:
        yield door


async def alter(http: Http, entity: Any, path: str = QUOTAS, **changes: Any) -> Answer:
    return await http._send("PATCH", path, json={"entity": entity, **changes})


async def entities(http: Http, query: str = "") -> list[Any]:
    return [each["entity"] for each in (await http.get(f"{QUOTAS}{query}")).body["entities"]]


async def set_all(http: Http) -> None:
    for entity in (ANN_AT_A, ANN, ANYBODY):
        assert (await alter(http, entity, set={RATE: 1_024})).status == 200
    assert (await alter(http, HOST, set={"connection_creation_rate": 5})).status == 200


async def test_quotas_are_set_changed_and_removed(http: Http) -> None:
    done = await alter(http, ANN, set={RATE: 1_024, "request_percentage": 12.5})
    assert done.body == {"entity": ANN, "dry_run": False}
    await alter(http, ANN, set={RATE: 2_048}, delete=["request_percentage"])
    (found,) = (await http.get(QUOTAS)).body["entities"]
    assert found == {"entity": ANN, "quotas": {RATE: 2_048.0}}
    await alter(http, ANN, delete=[RATE])
    assert await entities(http) == []


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", [ANN_AT_A, HOST, ANYBODY, ANN]),
        ("?user=ann", [ANN_AT_A, ANN]),
        ("?user=ann&strict=true", [ANN]),
        ("?user=ann&client_id=a", [ANN_AT_A]),
        ("?default=user", [ANYBODY]),
        ("?any=user", [ANN_AT_A, ANYBODY, ANN]),
        ("?any=user,client_id", [ANN_AT_A]),
        ("?ip=10.0.0.7", [HOST]),
        ("?user=bob", []),
    ],
)
async def test_a_filter_selects_as_kafkas_does(http: Http, query: str, found: list[Any]) -> None:
    await set_all(http)
    assert await entities(http, query) == found


async def test_entities_are_listed_page_by_page(http: Http) -> None:
    await set_all(http)
    found, token = [], ""
    for _ in range(4):
        page = (await http.get(f"{QUOTAS}?page_size=1{token}")).body
        assert page["total"] == 4
        found += [each["entity"] for each in page["entities"]]
        token = f"&page_token={page['next_page_token']}"
    assert (found, page["next_page_token"]) == ([ANN_AT_A, HOST, ANYBODY, ANN], None)


async def test_a_dry_run_checks_and_changes_nothing(http: Http) -> None:
    path = f"{QUOTAS}?dry_run=true"
    assert (await alter(http, ANN, path, set={RATE: 5})).body == {"entity": ANN, "dry_run": True}
    check_problem(await alter(http, ANN, path, set={RATE: -5}), 400, "must be greater than 0")
    assert await entities(http) == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"set": {RATE: 1}}, "entity is missing"),
        ({"entity": {}, "set": {RATE: 1}}, "entity names nobody; give user, client_id, ip"),
        ({"entity": {"group": "g"}, "set": {RATE: 1}}, "group"),
        ({"entity": ANN}, "nothing is named; set or delete a quota"),
        ({"entity": ANN, "set": {RATE: 1}, "delete": [RATE]}, "is set and deleted"),
        ({"entity": ANN, "set": {"speed": 1}}, "'speed' is not a quota of this entity"),
        ({"entity": ANN, "set": {RATE: 0.5}}, "must be a whole number"),
        ({"entity": ANN, "set": {RATE: "1"}}, "set"),
        ({"entity": HOST | ANN, "set": {RATE: 1}}, "ip stands alone"),
    ],
)
async def test_what_is_wrong_is_said_in_one_sentence(http: Http, body: Any, words: str) -> None:
    check_problem(await http._send("PATCH", QUOTAS, json=body), 400, words)
    assert await entities(http) == []


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("?any=group", "there are user, client_id, ip"),
        ("?user=ann&default=user", "may be in one filter only"),
        ("?ip=h&user=ann", "cannot be combined"),
        ("?page_token=x", "page_token 'x' is invalid; take next_page_token"),
    ],
)
async def test_a_filter_that_is_wrong_is_said(http: Http, query: str, words: str) -> None:
    check_problem(await http.get(f"{QUOTAS}{query}"), 400, words)
