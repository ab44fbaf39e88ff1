"""The OpenAPI 3.1 description of the HTTP listener, derived from the capabilities.

A field, a route or an error of a capability is written once, in its schema; nothing here names one.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Struct

from admin.capabilities.moves import BASE
from admin.capabilities.needs import ALTER_CLUSTER, DESCRIBE_CLUSTER, Needs
from admin.capabilities.registry import CAPABILITIES
from admin.capabilities.schema import Request, Route
from admin.capabilities.topics import CreateTopic
from admin.http.answers import (
    STORED,
    STORED_BROKERS_MAX,
    BrokersStored,
    NewMove,
    ProblemDetails,
    body_of,
)
from admin.http.base_app import LIVE, METRICS, READY, Live, Ready, get_live, get_ready
from admin.http.events.resources import EVENT_STREAM, LAST_EVENT_ID, OVERVIEW, RESOURCES
from admin.http.health import HEALTH, HealthSummary, get_health
from admin.plan_file import MoveFile, PlanFile
from quorum.version import VERSION

PATH: Final = "/openapi.json"

_REF: Final = "#/components/schemas/{name}"
_JSON: Final = "application/json"
_OF_HTTP: Final = "repeated"
"""A field of answers that is a header over HTTP."""
_STATUSES: Final[Mapping[str, str]] = {
    "400": "The request is wrong, and nothing was done",
    "401": "Nobody is known to send it",
    "403": "Whoever sends it may not do it",
    "404": "What it names does not exist",
    "409": "The state of the cluster does not allow it",
    "422": "The idempotency key belongs to another request",
    "429": "Too many or too large requests are under way, or a quota of the sender is used up",
    "503": "No controller is active; retry",
    "504": "No answer in time; a change may have been made",
}
"""Besides these there are those of HTTP itself: 405, 408, 411, 413, 415, 421, 431 and 500."""


@cache
def document() -> dict[str, Any]:
    """Return the description; it never changes while the process runs."""
    schemas = _Schemas()
    paths: dict[str, dict[str, Any]] = {}
    for path, method, operation in _operations(schemas):
        paths.setdefault(path, {})[method] = operation
    for path in RESOURCES:
        _add_events(paths[path]["get"])
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "metaquorum",
            "version": VERSION,
            "summary": "The controllers of a cluster: quorum, brokers and reassignments",
            "description": (
                "Every controller answers; one that is not active forwards. Errors are problem "
                "details (RFC 9457). With `stale=true` the node answers at once from its own state."
            ),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}, {"certificate": []}],
        "tags": [{"name": name} for name in sorted({_tag(path) for path in paths})],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": schemas.components(),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "`metaquorum http-tokens create` makes one",
                },
                "certificate": {"type": "mutualTLS"},
            },
        },
    }


class _Schemas:
    """The schemas of the structs that operations refer to."""

    def __init__(self) -> None:
        self._structs: dict[str, type[Struct]] = {}
        self._requests: set[str] = set()

    def ref(self, struct: type[Struct]) -> dict[str, str]:
        """Return a reference to the schema of a struct."""
        self._structs[struct.__name__] = struct
        return {"$ref": _REF.format(name=struct.__name__)}

    def of_fields(self, kind: type[Request[Any]], fields: Sequence[Any]) -> dict[str, Any]:
        """Return the schema of an object with these fields of a request."""
        # The others come from elsewhere, but what any of them refers to has to be described.
        self.ref(kind)
        self._requests.add(kind.__name__)
        _, found = msgspec.json.schema_components([kind], ref_template=_REF)
        whole = _plain(found[kind.__name__])
        names = [each.encode_name for each in fields]
        return {
            "type": "object",
            "properties": {name: whole["properties"][name] for name in names},
            "required": [name for name in whole["required"] if name in names],
            "additionalProperties": False,
        }

    def components(self) -> dict[str, Any]:
        """Return by name all schemas that are referred to."""
        _, found = msgspec.json.schema_components(
            [each for _, each in sorted(self._structs.items())], ref_template=_REF
        )
        return {
            name: _plain(schema)
            for name, schema in sorted(found.items())
            if name not in self._requests
        }


def _operations(schemas: _Schemas) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for kind in CAPABILITIES.values():
        for place, route in enumerate(kind.ROUTES):
            yield route.path, route.method.lower(), _of_route(kind, route, place, schemas)
    yield OVERVIEW, "get", _overview(schemas)
    yield BASE, "post", _begun(schemas)
    yield f"{BASE}/{{id}}/rollback-plan", "get", _rollback_plan(schemas)
    yield STORED, "get", _stored(schemas)
    yield LIVE, "get", _probe(schemas, LIVE, Live, get_live)
    ready = _probe(schemas, READY, Ready, get_ready)
    ready["responses"]["503"] = ready["responses"]["200"] | {"description": "It is not ready"}
    yield READY, "get", ready
    yield HEALTH, "get", _health(schemas)
    yield METRICS, "get", _metrics(schemas)


def _of_route(
    kind: type[Request[Any]], route: Route, place: int, schemas: _Schemas
) -> dict[str, Any]:
    fields = {each.name: each for each in msgspec.structs.fields(kind)}
    in_query = kind.parameters(route)
    parameters = [
        _parameter(name, "query", schemas.of_fields(kind, [fields[field]]))
        for name, field in in_query.items()
    ]
    if route.id:
        parameters.insert(0, _parameter("id", "path", schemas.of_fields(kind, [fields[route.id]])))
    is_read = route.method == "GET"
    if kind.may_be_stale():
        parameters.append(_STALE)
    if "key" in fields and not is_read:
        parameters.append(_KEY)
    body = [fields[name] for name in kind.in_body(route)]
    given: dict[str, Any] = {}
    if route.method in ("POST", "PUT", "PATCH") and body:
        required = any(each.required for each in body) and not route.without_body
        given = {"requestBody": _body(schemas.of_fields(kind, body), required=required)}
    return {
        "operationId": kind.NAME if place == 0 else f"{kind.NAME}.{place + 1}",
        **_described(kind.__doc__ or "", kind.NEEDS),
        "tags": [_tag(route.path)],
        "parameters": parameters,
        **given,
        "responses": _responses(
            schemas, body_of(kind, route), is_changed=kind.CHANGES, creates=kind is CreateTopic
        ),
    }


def _overview(schemas: _Schemas) -> dict[str, Any]:
    problem = {"application/problem+json": {"schema": schemas.ref(ProblemDetails)}}
    done: dict[str, Any] = {"description": "Events of all that the live page shows", "content": {}}
    return {
        "operationId": "overview.watch",
        **_described(
            "Watch quorum, brokers, moves and counts of partitions over one connection.",
            DESCRIBE_CLUSTER,
        ),
        "tags": [_tag(OVERVIEW)],
        "parameters": [],
        "responses": {
            "200": done,
            "406": {"description": "There are events only", "content": problem},
            "default": {"description": "Another error", "content": problem},
        },
    }


def _add_events(operation: dict[str, Any]) -> None:
    """Describe the stream of events that a request may ask for by its Accept header."""
    operation["responses"]["200"]["content"] |= {EVENT_STREAM: {"schema": {"type": "string"}}}
    operation["parameters"] = [*operation["parameters"], _LAST_EVENT]


def _begun(schemas: _Schemas) -> dict[str, Any]:
    dry_run = {
        "name": "dry_run",
        "in": "query",
        "description": "Return the effects and change nothing",
        "schema": {"type": "boolean", "default": False},
    }
    return {
        "operationId": "moves.begin",
        **_described(
            "Begin a move by a plan of `reassign-partitions`.\n\nOne bad partition does not stop "
            "the others: the response lists those that were refused.",
            ALTER_CLUSTER,
        ),
        "tags": [_tag(BASE)],
        "parameters": [dry_run, _KEY],
        "requestBody": _body(schemas.ref(MoveFile), required=True),
        "responses": _responses(schemas, NewMove, is_changed=True),
    }


def _rollback_plan(schemas: _Schemas) -> dict[str, Any]:
    move_id = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
    return {
        "operationId": "moves.rollback-plan",
        **_described("The plan that restores the replicas from before a move.", DESCRIBE_CLUSTER),
        "tags": [_tag(BASE)],
        "parameters": [move_id],
        "responses": _responses(schemas, PlanFile, is_changed=False),
    }


def _stored(schemas: _Schemas) -> dict[str, Any]:
    ids = {
        "name": "ids",
        "in": "query",
        "required": True,
        "style": "form",
        "explode": False,
        "schema": {
            "type": "array",
            "items": {"type": "integer"},
            "minItems": 1,
            "maxItems": STORED_BROKERS_MAX,
        },
    }
    return {
        "operationId": "brokers.stored-bytes",
        **_described(
            "Ask brokers for the bytes of their logs.\n\nAn answer is used again for some seconds.",
            DESCRIBE_CLUSTER,
        ),
        "tags": [_tag(STORED)],
        "parameters": [ids],
        "responses": _responses(schemas, BrokersStored, is_changed=False),
    }


def _probe(
    schemas: _Schemas, path: str, body: type[Struct], handler: Callable[..., Any]
) -> dict[str, Any]:
    """A probe, which answers everybody."""
    content = {_JSON: {"schema": schemas.ref(body)}}
    summary = _paragraphs(handler.__doc__ or "").rstrip(".")
    return {
        "operationId": path.strip("/"),
        "summary": summary,
        "description": "Answers everybody, for orchestrators.",
        "tags": [_tag(path)],
        "security": [],
        "parameters": [],
        "responses": {
            "200": {"description": _summary(body), "content": content},
            "default": _problem(schemas),
        },
    }


def _health(schemas: _Schemas) -> dict[str, Any]:
    content = {_JSON: {"schema": schemas.ref(HealthSummary)}}
    return {
        "operationId": "health",
        **_described(get_health.__doc__ or "", DESCRIBE_CLUSTER),
        "tags": [_tag(HEALTH)],
        "parameters": [],
        "responses": {
            "200": {"description": "The cluster is healthy", "content": content},
            "503": {"description": "It is not, or no controller is active", "content": content},
            "default": _problem(schemas),
        },
    }


def _metrics(schemas: _Schemas) -> dict[str, Any]:
    text = {
        kind: {"schema": {"type": "string"}}
        for kind in ("text/plain", "application/vnd.google.protobuf")
    }
    return {
        "operationId": "metrics",
        **_described("The metrics of this node, for Prometheus.", DESCRIBE_CLUSTER),
        "tags": [_tag(METRICS)],
        "parameters": [],
        "responses": {
            "200": {"description": "See docs/metrics.md", "content": text},
            "default": _problem(schemas),
        },
    }


def _problem(schemas: _Schemas) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": schemas.ref(ProblemDetails)}}
    return {"description": "Another error", "content": content}


_STALE: Final[dict[str, Any]] = {
    "name": "stale",
    "in": "query",
    "description": "Answer at once from the state of this node; `as_of_offset` says how old it is",
    "schema": {"type": "boolean", "default": False},
}
_LAST_EVENT: Final[dict[str, Any]] = {
    "name": LAST_EVENT_ID,
    "in": "header",
    "description": "For a stream of events: the id of the last one, after which it goes on",
    "schema": {"type": "integer"},
}
_KEY: Final[dict[str, Any]] = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A request that is repeated with its key is carried out once",
    "schema": {"type": "string"},
}


_LOCATION: Final[dict[str, Any]] = {
    "Location": {"required": True, "schema": {"type": "string", "format": "uri-reference"}}
}
_RETRY_AFTER: Final[dict[str, Any]] = {
    "Retry-After": {
        "required": True,
        "description": "Seconds until it is worth asking how far it is",
        "schema": {"type": "integer"},
    }
}


def _described(text: str, needs: Needs) -> dict[str, str]:
    """The summary and the description of an operation, from a docstring."""
    summary, _, rest = _paragraphs(text).partition("\n\n")
    right = f"Needs {needs}; the role {needs.role} of a token."
    return {"summary": summary.rstrip("."), "description": f"{rest}\n\n{right}".strip()}


def _parameter(name: str, where: str, one: Mapping[str, Any]) -> dict[str, Any]:
    """The parameter that stands for the only field of an object."""
    (schema,) = one["properties"].values()
    # A path names one of what the capability takes a list of; a query separates them by commas.
    is_list = schema.get("type") == "array"
    if is_list and where == "path":
        schema = schema["items"]
    is_required = where == "path" or bool(one["required"])
    found = {"name": name, "in": where, "required": is_required, "schema": schema}
    if is_list and where == "query":
        found |= {"style": "form", "explode": False}
    return found


def _body(schema: Mapping[str, Any], *, required: bool) -> dict[str, Any]:
    return {"required": required, "content": {_JSON: {"schema": schema}}}


def _responses(
    schemas: _Schemas, body: type[Struct], *, is_changed: bool, creates: bool = False
) -> dict[str, Any]:
    content = {_JSON: {"schema": schemas.ref(body)}}
    done: dict[str, Any] = {"200": {"description": _summary(body), "content": content}}
    if creates:
        done["201"] = {"description": "Created", "headers": _LOCATION, "content": content}
    elif is_changed:
        done["202"] = {
            "description": "Under way; Location names the operation",
            "headers": _LOCATION | _RETRY_AFTER,
            "content": content,
        }
    problem = {"application/problem+json": {"schema": schemas.ref(ProblemDetails)}}
    failed = {
        status: {"description": meaning, "content": problem}
        for status, meaning in _STATUSES.items()
        if is_changed or status not in ("409", "422")
    }
    return {**done, **failed, "default": {"description": "Another error", "content": problem}}


def _plain(schema: Any) -> Any:
    """A schema with descriptions of one line, without what HTTP has in a header."""
    if isinstance(schema, dict):
        found = {name: _plain(value) for name, value in schema.items()}
        if isinstance(found.get("description"), str):
            found["description"] = _paragraphs(found["description"])
        if isinstance(found.get("properties"), dict):
            found["properties"].pop(_OF_HTTP, None)
        return found
    if isinstance(schema, (list, tuple)):
        return [_plain(each) for each in schema]
    return schema


def _paragraphs(text: str) -> str:
    """The text with one line for each paragraph."""
    return "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip()))


def _summary(struct: type[Struct]) -> str:
    return _paragraphs(struct.__doc__ or "").partition("\n\n")[0]


def _tag(path: str) -> str:
    """The kind of resource: `brokers` of /v1/brokers/{id}."""
    return re.split(r"[/:]", path)[2] if path.startswith("/v1/") else "monitoring"
