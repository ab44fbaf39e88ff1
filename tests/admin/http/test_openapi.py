"""The description of the HTTP listener: whole, valid, and equal to what the listener does."""

import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from jsonschema import Draft202012Validator

from admin.capabilities.registry import CAPABILITIES
from admin.http.app import make_app
from admin.http.base_app import PROBES
from admin.http.openapi import PATH, document
from admin.http.page.assets import PAGES
from tests.admin.http.test_http_api import http_door
from tests.support.controllers import controllers
from tests.support.described_http import check_described


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, operation)
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_route_is_described_and_every_described_route_is_there() -> None:
    nothing: Any = None
    monitored: Any = object()
    app = make_app(nothing, nothing, monitor=monitored)  # no request comes
    routed = {
        (route.resource.canonical, route.method.lower())
        for route in app.router.routes()
        if isinstance(route.resource, web.Resource)
        and route.method != "HEAD"
        and not route.resource.canonical.endswith("/")
    }
    own = {(path, "get") for path in (PATH, *PAGES, "/page/{name}")}
    assert routed - own == {(path, method) for path, method, _ in operations()}


def test_every_schema_is_valid_and_every_reference_has_one() -> None:
    schemas = document()["components"]["schemas"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    assert set(re.findall(r"#/components/schemas/(\w+)", str(document()))) == {*schemas}


def test_parameters_of_a_path_are_those_in_its_template() -> None:
    for path, _, operation in operations():
        named = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
        assert named == set(re.findall(r"{(\w+)}", path)), path


def test_operations_have_ids_of_their_own_and_say_what_they_need() -> None:
    ids = [operation["operationId"] for _, _, operation in operations()]
    assert len({*ids}) == len(ids)
    for kind in CAPABILITIES.values():
        assert not kind.ROUTES or kind.NAME in ids
    open_to_all = {path for path, _, operation in operations() if operation.get("security") == []}
    assert open_to_all == {*PROBES}
    for path, _, operation in operations():
        assert operation["summary"]
        assert path in PROBES or re.search(
            r"Needs [A-Z_]+ on \w+; the role \w+ of a token\.$", operation["description"]
        )


async def test_a_node_serves_its_description(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1) as nodes, http_door(nodes[1]) as http:
        answer = await http.get(PATH)
        assert (answer.status, answer.kind) == (200, "application/json")
        assert answer.body["openapi"] == "3.1.0"
        assert answer.body == document()


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"broker_id": 1}, "'registered' is a required property"),
        ({"broker_id": 1, "registered": 0}, "0 is not of type 'boolean'"),
        ({"broker_id": 1, "registered": False, "else": 1}, "'else' was unexpected"),
    ],
)
def test_a_response_that_is_not_as_described_is_noticed(body: Any, named: str) -> None:
    with pytest.raises(AssertionError, match=named):
        check_described("DELETE", "/v1/brokers/1", 200, "application/json", body)
