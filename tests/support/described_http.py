"""Check HTTP responses against the description of the listener (OpenAPI 3.1)."""

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from jsonschema import Draft202012Validator

from admin.http.openapi import PATH, document


def check_described(
    method: str,
    path: str,
    status: int,
    kind: str,
    body: Any,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Assert that the description has this response, with exactly these fields."""
    if path == PATH:
        # A schema of the description itself is no part of it.
        return
    operation = operation_of(method, path.partition("?")[0].rstrip("/"))
    if operation is None:
        assert status in (400, 404, 405, 421), f"{method} {path} is not described"
        return
    responses = operation["responses"]
    response = responses.get(str(status), responses["default"])
    content = response["content"]
    lacking = [each for each in response.get("headers", ()) if each not in headers]
    assert not lacking, f"{method} {path} {status} has no {', '.join(lacking)}"
    assert kind in content, f"{method} {path} {status} is {kind}, not {', '.join(content)}"
    (name,) = re.findall(r"/(\w+)$", content[kind]["schema"]["$ref"])
    errors = [
        f"{error.json_path}: {error.message}" for error in validators()[name].iter_errors(body)
    ]
    assert not errors, f"{method} {path} {status}, {name}: {errors[:5]}"


def operation_of(method: str, path: str) -> dict[str, Any] | None:
    """The operation of a path; a path without a parameter goes before one with one."""
    wanted = "get" if method == "HEAD" else method.lower()
    for template, operations in sorted(document()["paths"].items(), key=lambda it: "{" in it[0]):
        pattern = re.sub(r"\\\{\w+\\\}", "[^/:]+", re.escape(template))
        if wanted in operations and re.fullmatch(pattern, path):
            found: dict[str, Any] = operations[wanted]
            return found
    return None


@cache
def validators() -> dict[str, Draft202012Validator]:
    """A validator for each schema; none allows a field that is not described."""
    schemas = {
        name: _closed(schema) for name, schema in document()["components"]["schemas"].items()
    }
    whole = {"components": {"schemas": schemas}}
    return {
        name: Draft202012Validator({**whole, "$ref": f"#/components/schemas/{name}"})
        for name in schemas
    }


def _closed(schema: Any) -> Any:
    if isinstance(schema, dict):
        found = {name: _closed(value) for name, value in schema.items()}
        if isinstance(found.get("properties"), dict):
            found.setdefault("additionalProperties", False)
        return found
    return [_closed(each) for each in schema] if isinstance(schema, list) else schema
