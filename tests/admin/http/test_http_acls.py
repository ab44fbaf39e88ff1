"""ACLs over HTTP: created, listed by a filter, and deleted by one."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from statemachine.security.authorization import AuthorizerConfig
from tests.admin.http.test_http_api import Http, check_problem, http_door
from tests.support.controllers import a_controller

ACLS = "/v1/acls"
EVERYBODY = AuthorizerConfig(super_users=frozenset({"User:ANONYMOUS"}))


@pytest_asyncio.fixture
async def http(tmp_path: Path) -> AsyncIterator[Http]:
    async with a_controller(tmp_path, authorizer=EVERYBODY) as node, http_door(node) as door:
        yield door


def acl(name: str, principal: str = "User:ann", operation: str = "READ", **more: str) -> Any:
    given = {"resource_type": "TOPIC", "resource_name": name, "principal": principal}
    return {**given, "operation": operation, **more}


async def create(http: Http, *acls: Any) -> Any:
    return (await http.post(ACLS, {"acls": acls})).body


async def names(http: Http, query: str = "") -> list[str]:
    found = (await http.get(f"{ACLS}{query}")).body["acls"]
    return [f"{each['resource_name']} {each['principal']} {each['operation']}" for each in found]


async def test_an_acl_from_its_creation_to_its_end(http: Http) -> None:
    made = await http.post(ACLS, {"acls": [acl("orders")]})
    whole = acl("orders", pattern_type="LITERAL", host="*", permission_type="ALLOW")
    assert (made.status, made.body["created"], made.body["results"][0]["acl"]) == (200, 1, whole)
    listed = (await http.get(ACLS)).body
    assert (listed["total"], listed["acls"], listed["next_page_token"]) == (1, [whole], None)
    again = await create(http, acl("orders"))
    assert (again["created"], (await http.get(ACLS)).body["total"]) == (1, 1)

    gone = await http._send("DELETE", f"{ACLS}?resource_name=orders")
    assert (gone.status, gone.body) == (200, {"total": 1, "acls": [whole], "dry_run": False})
    assert await names(http) == []
    nothing = await http._send("DELETE", f"{ACLS}?resource_name=orders")
    assert (nothing.status, nothing.body["total"]) == (200, 0)


async def test_a_filter_selects_as_kafkas_does(http: Http) -> None:
    await create(
        http,
        acl("orders"),
        acl("ord", pattern_type="PREFIXED", operation="WRITE"),
        acl("*", "User:bob", permission_type="DENY"),
        acl("kafka-cluster", resource_type="CLUSTER", operation="ALTER"),
    )
    orders = "?resource_type=TOPIC&resource_name=orders"
    assert await names(http, f"{orders}&pattern_type=LITERAL") == ["orders User:ann READ"]
    matching = ["* User:bob READ", "ord User:ann WRITE", "orders User:ann READ"]
    assert await names(http, f"{orders}&pattern_type=MATCH") == matching
    assert await names(http, "?permission_type=DENY") == matching[:1]
    assert await names(http, "?principal=User:ann&operation=ALTER") == [
        "kafka-cluster User:ann ALTER"
    ]

    tried = await http._send("DELETE", f"{ACLS}{orders}&pattern_type=MATCH&dry_run=true")
    assert (tried.body["total"], tried.body["dry_run"]) == (3, True)
    assert len(await names(http)) == 4
    done = await http._send("DELETE", f"{ACLS}{orders}&pattern_type=MATCH")
    assert done.body["acls"] == tried.body["acls"]
    assert await names(http) == ["kafka-cluster User:ann ALTER"]


async def test_acls_are_listed_page_by_page(http: Http) -> None:
    wanted = [f"t{number} User:ann READ" for number in range(5)]
    await create(http, *(acl(f"t{number}") for number in (3, 1, 4, 0, 2)))
    found, token = [], ""
    for _ in range(3):
        page = (await http.get(f"{ACLS}?page_size=2{token}")).body
        assert page["total"] == 5
        found += [f"{each['resource_name']} User:ann READ" for each in page["acls"]]
        # The next page begins after an ACL that is gone.
        await http._send("DELETE", f"{ACLS}?resource_name={page['acls'][-1]['resource_name']}")
        await create(http, acl(page["acls"][-1]["resource_name"]))
        token = f"&page_token={page['next_page_token']}"
    assert (found, page["next_page_token"]) == (wanted, None)


async def test_every_acl_is_deleted_only_if_everything_is_asked_for(http: Http) -> None:
    await create(http, acl("a"), acl("b"))
    check_problem(await http._send("DELETE", ACLS), 400, "give a filter, or everything=true")
    both = await http._send("DELETE", f"{ACLS}?everything=true&resource_name=a")
    check_problem(both, 400, "omit the filter")
    assert len(await names(http)) == 2
    assert (await http._send("DELETE", f"{ACLS}?everything=true")).body["total"] == 2
    assert await names(http) == []


async def test_an_acl_that_is_refused_does_not_stop_the_others(http: Http) -> None:
    misnamed = acl("x", resource_type="CLUSTER", operation="ALTER")
    found = await create(http, acl("a"), misnamed)
    assert (found["created"], found["refused"]) == (1, 1)
    assert [each["kafka_error"] for each in found["results"]] == ["NONE", "INVALID_REQUEST"]
    assert await names(http) == ["a User:ann READ"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "acls is missing"),
        ({"acls": []}, "length >= 1"),
        ({"acls": [acl("a", "ann")]}, "acls[0]: 'ann' is not a principal, like User:alice"),
        ({"acls": [acl("a"), acl("a", "user:x")]}, "acls[1]: 'user:x' is nobody"),
        ({"acls": [acl("a", operation="CLUSTER_ACTION")]}, "there is no CLUSTER_ACTION on a TOPIC"),
        ({"acls": [acl("a", operation="read")]}, "there are ALL, READ, WRITE"),
        ({"acls": [acl("a", pattern_type="MATCH")]}, "there are LITERAL, PREFIXED"),
        ({"acls": [acl("")]}, "resource_name"),
        ({"acls": [acl("a", resource_type="CLUSTER", operation="ALTER")]}, "kafka-cluster"),
        ({"acls": [acl("a") | {"color": "red"}]}, "color"),
    ],
)
async def test_what_is_wrong_is_said_in_one_sentence(http: Http, body: Any, words: str) -> None:
    check_problem(await http.post(ACLS, body), 400, words)
    assert await names(http) == []


async def test_a_filter_that_is_wrong_is_said_with_what_is_right(http: Http) -> None:
    check_problem(await http.get(f"{ACLS}?resource_type=topic"), 400, "there are ANY, TOPIC, GROUP")
    check_problem(
        await http.get(f"{ACLS}?page_token=x"), 400, "'x' is invalid; take next_page_token"
    )


async def test_without_an_authorizer_there_are_no_acls(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, http_door(node) as http:
        words = "No Authorizer is configured"
        check_problem(await http.get(ACLS), 409, words)
        check_problem(await http.post(ACLS, {"acls": [acl("a")]}), 409, words)
        check_problem(await http._send("DELETE", f"{ACLS}?everything=true"), 409, words)
