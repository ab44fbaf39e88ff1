"""Users over HTTP: their passwords are set, and show nowhere."""

import base64
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from admin.capabilities.users import SetUser
from quorum.transport.security.scram import MECHANISMS, credential_of, salted_password
from tests.admin.http.test_http_api import Http, check_problem, http_door
from tests.support.controllers import Node, a_controller, active, controllers

USERS = "/v1/users"
PASSWORD = "correct-horse"
ANN = f"{USERS}/ann"


@pytest_asyncio.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with a_controller(tmp_path) as found:
        yield found


@pytest_asyncio.fixture
async def http(node: Node) -> AsyncIterator[Http]:
    async with http_door(node) as door:
        yield door


async def put(http: Http, path: str, **body: Any) -> Any:
    return await http._send("PUT", path, json=body)


def stored(node: Node, user: str = "ann", mechanism: str = "SCRAM-SHA-512") -> Any:
    return node.controller.image.scram_credentials[user, MECHANISMS[mechanism].number]


def is_password(node: Node, password: str, mechanism: str = "SCRAM-SHA-512") -> bool:
    """True if `ann` logs in with this password."""
    found = stored(node, "ann", mechanism)
    known = MECHANISMS[mechanism]
    wanted = credential_of(known, password, found.salt, found.iterations)
    return (found.stored_key, found.server_key) == (wanted.stored_key, wanted.server_key)


async def test_a_user_from_its_first_password_to_its_end(node: Node, http: Http) -> None:
    made = await put(http, ANN, password=PASSWORD)
    assert (made.status, made.body) == (200, {"name": "ann", "mechanism": "SCRAM-SHA-512"})
    assert is_password(node, PASSWORD)
    await put(http, ANN, password="other", mechanism="SCRAM-SHA-256", iterations=8_192)
    assert is_password(node, "other", "SCRAM-SHA-256")
    (listed,) = (await http.get(USERS)).body["users"]
    assert listed["credentials"] == [
        {"mechanism": "SCRAM-SHA-256", "iterations": 8_192},
        {"mechanism": "SCRAM-SHA-512", "iterations": 4_096},
    ]
    await put(http, ANN, password="changed")
    assert is_password(node, "changed")

    assert (await http._send("DELETE", ANN)).status == 200
    (listed,) = (await http.get(USERS)).body["users"]
    assert [each["mechanism"] for each in listed["credentials"]] == ["SCRAM-SHA-256"]
    assert (await http._send("DELETE", f"{ANN}?mechanism=SCRAM-SHA-256")).status == 200
    assert (await http.get(USERS)).body["users"] == []
    check_problem(await http._send("DELETE", ANN), 404, "user ann cannot be deleted")


async def test_a_client_may_salt_the_password_itself(node: Node, http: Http) -> None:
    salt = b"salt-of-ann"
    salted = salted_password(MECHANISMS["SCRAM-SHA-512"], PASSWORD, salt, 4_096)
    given = {"salt": salt, "salted_password": salted}
    texts = {name: base64.b64encode(data).decode() for name, data in given.items()}
    assert (await put(http, ANN, **texts)).status == 200
    assert stored(node).salt == salt
    assert is_password(node, PASSWORD)


async def test_users_are_listed_page_by_page(http: Http) -> None:
    for name in ("bob", "ann", "abe"):
        await put(http, f"{USERS}/{name}", password=PASSWORD)
    first = (await http.get(f"{USERS}?page_size=2")).body
    assert ([each["name"] for each in first["users"]], first["total"]) == (["abe", "ann"], 3)
    rest = (await http.get(f"{USERS}?page_size=2&page_token={first['next_page_token']}")).body
    assert ([each["name"] for each in rest["users"]], rest["next_page_token"]) == (["bob"], None)
    of_a = (await http.get(f"{USERS}?prefix=a")).body
    assert ([each["name"] for each in of_a["users"]], of_a["total"]) == (["abe", "ann"], 2)


async def test_a_password_is_in_no_log_in_no_answer_and_in_no_request_between_nodes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    async with controllers(tmp_path, 1, 2) as nodes:
        leader = await active(nodes.values())
        follower = next(each for each in nodes.values() if each is not leader)
        received = []
        handler = leader.service.capability_handler

        async def handle(service: Any, name: str, body: bytes, **more: Any) -> bytes:
            received.append(bytes(body))
            return await handler(service, name, body, **more)

        monkeypatch.setattr(leader.service, "capability_handler", handle)
        async with http_door(follower) as http:
            done = await put(http, ANN, password=PASSWORD)
            wrong = await put(http, ANN, password=PASSWORD, iterations=1)
            both = await put(http, ANN, password=PASSWORD, salt="eA==")
        assert is_password(leader, PASSWORD)
    assert (done.status, wrong.status, both.status) == (200, 400, 400)
    assert len(received) == 1
    for text in (*caplog.messages, *map(str, received), str([done, wrong, both])):
        assert PASSWORD not in text
    (line,) = [json.loads(each) for each in caplog.messages if '"users.set"' in each]
    assert line["actions"] == [
        {"operation": "ALTER", "resource": "User:ann", "detail": "set SCRAM-SHA-512"}
    ]
    assert PASSWORD not in repr(SetUser(name="ann", password=PASSWORD))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "give a password, or a salt and a salted_password"),
        ({"password": "a", "mechanism": "PLAIN"}, "there are SCRAM-SHA-256, SCRAM-SHA-512"),
        ({"password": "a", "iterations": 5}, "iterations: expected `int` >= 4096"),
        ({"password": "a" * 2_000}, "password: expected `str` of length <= 1024"),
        ({"password": "a", "salted_password": "eA=="}, "give a password, or a salt"),
        ({"salt": "eA==", "salted_password": "eA=="}, "has 64 bytes"),
        ({"salt": "?"}, "salt: invalid base64"),
    ],
)
async def test_what_is_wrong_is_said_in_one_sentence(http: Http, body: Any, words: str) -> None:
    check_problem(await put(http, ANN, **body), 400, words)
    assert (await http.get(USERS)).body["total"] == 0
