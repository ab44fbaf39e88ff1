"""The reference of capabilities as Markdown, generated from their schemas."""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Literal

import msgspec
from msgspec import Struct

from admin.capabilities.registry import CAPABILITIES
from admin.capabilities.schema import Request, answer_type
from admin.http.app import RESPONSES

_HEAD = """# Capabilities

Generated from `admin/capabilities`; a test keeps this page equal to the code.

Every capability is one typed request and one typed answer. The client sends both as msgpack in
the private request of the Kafka listener (`docs/divergence.md`). HTTP takes the fields in braces
from the path, `?name` from the query, `key` from the header `Idempotency-Key`, and all others from
the JSON body. A request that reads takes `?stale=true` where the table says
so. Besides the errors that are listed, a request may be refused with INVALID_REQUEST, and ends with
NOT_CONTROLLER or REQUEST_TIMED_OUT while no controller is active. Over HTTP the answer is JSON with
the fields of the answer, unless the row "HTTP response" describes another one. `GET /openapi.json`
describes the same as OpenAPI 3.1, for programs and for generators of clients.
`needs` is the operation of Kafka's ACLs, and the role of an HTTP token (`docs/security.md`); a dry
run needs what reads need, except where Kafka's own request has a dry run: there it needs what the
change needs, as in Kafka.

## Lists

A list takes `page_size` (100, at most 1,000; of partitions under reassignment 200) and
`page_token`: the `next_page_token` of the page before, which is null on the last page. `total`
counts the items on all pages. A token is a position in the order of the list: it stays valid when
items come and go, at every controller. A filter has the name of the field that it compares:
`?state=fenced,stopping` keeps the items in any of the states, several filters those that each of
them keeps. An unknown parameter or value is refused (400) with those that there are, and a
parameter that is given twice is refused as well.
The nodes that a node has heard of (`/v1/quorum/brokers`), its snapshots, features, and the
configurations of one resource are few, and have no pages.

## Operations

A request that begins long work is answered 202 with `Location: /v1/operations/ID` and
`Retry-After`: ask there until the state is succeeded, failed or cancelled. An operation is a view
of what the log has, so every controller knows it, also after a fail-over.

| id | begun by |
| --- | --- |
| `move-3`, of several moves `move-3-4` | a plan, a rollback, another replication factor |
| `decommission-101` | `PUT /v1/brokers/101/decommission` |
| `voters-1-2-3` | `PUT /v1/quorum/voters` |

- A move counts as cancelled also if another move took partitions over, and as failed if all its
  topics were deleted. The last 1,000 moves that ended are kept, for seven days.
- A decommission has succeeded when the broker has no replicas, and with `unregister` is no longer
  registered; it has failed if some are left that no move takes away. A recommission cancels it.
- The log has no earlier target voters: if neither the voters nor the target are those of the id,
  the change counts as cancelled.
"""


def as_markdown() -> str:
    """The page."""
    lines = [_HEAD]
    nested: dict[str, type[Struct]] = {}
    for kind in CAPABILITIES.values():
        lines += _section(kind)
        for each in (kind, answer_type(kind)):
            nested |= _nested(each)
    lines.append("## Types in requests and answers\n")
    for name, struct in sorted(nested.items()):
        lines.append(f"`{name}`: {_text(struct)}\n")
        lines += _fields("field", struct)
    return "\n".join(lines)


def _nested(struct: type[Struct]) -> dict[str, type[Struct]]:
    """The structs inside a struct, by name."""
    found: dict[str, type[Struct]] = {}
    for field in msgspec.structs.fields(struct):
        for each in _structs(field.type):
            found |= {each.__name__: each, **_nested(each)}
    return found


def _structs(type_: Any) -> Iterator[type[Struct]]:
    if isinstance(type_, type) and issubclass(type_, Struct):
        yield type_
    origin = getattr(type_, "__origin__", None)
    parts = (origin,) if hasattr(type_, "__metadata__") else getattr(type_, "__args__", ())
    for each in parts:
        yield from _structs(each)


def _text(documented: object) -> str:
    return " ".join((documented.__doc__ or "").split())


def _section(kind: type[Request[Any]]) -> Iterator[str]:
    yield f"## {kind.NAME}\n"
    yield f"{_text(kind)}\n"
    yield "| | |\n| --- | --- |"
    yield f"| | {_manner(kind)} |"
    yield f"| needs | {kind.NEEDS}; role {kind.NEEDS.role} |"
    for route in kind.ROUTES:
        query = "".join(f" `?{name}`" for name in kind.parameters(route))
        yield f"| HTTP | `{route.method} {route.path}`{query} |"
    if kind in RESPONSES:
        yield f"| HTTP response | {_text(RESPONSES[kind])} |"
    if kind.ERRORS:
        yield f"| errors | {', '.join(error.name for error in kind.ERRORS)} |"
    yield ""
    yield from _fields("request", kind)
    answer = answer_type(kind)
    yield f"Answer: `{answer.__name__}`. {_text(answer)}\n"
    yield from _fields("answer", answer)


def _manner(kind: type[Request[Any]]) -> str:
    if kind.CHANGES:
        keyed = "key" in {each.name for each in msgspec.structs.fields(kind)}
        return f"changes the cluster{'; takes an idempotency key' if keyed else ''}"
    return "reads; may be stale" if kind.may_be_stale() else "reads"


def _fields(title: str, kind: type[Struct]) -> Iterator[str]:
    fields = msgspec.structs.fields(kind)
    if not fields:
        return
    yield f"| {title} | type | default | |\n| --- | --- | --- | --- |"
    for each in fields:
        found = _describe(each.type)
        default = "" if each.required else f"`{_default(each)}`"
        yield f"| `{each.encode_name}` | {_type(each.type)} | {default} | {found} |"
    yield ""


def _default(field: msgspec.structs.FieldInfo) -> str:
    value = field.default
    if value is msgspec.NODEFAULT:
        return "{}"
    if value is msgspec.UNSET:
        return "absent"
    return msgspec.json.encode(value).decode()


def _describe(type_: Any) -> str:
    """The description of a field, that of its elements or of its kind if it has none itself."""
    for each in getattr(type_, "__metadata__", ()):
        if isinstance(each, msgspec.Meta) and each.description:
            return each.description
    origin = getattr(type_, "__origin__", None)
    parts = [origin] if hasattr(type_, "__metadata__") else getattr(type_, "__args__", ())
    return next((found for part in parts if (found := _describe(part))), "")


_NAMES = {
    int: "integer",
    str: "string",
    bool: "boolean",
    bytes: "string in base64",
    type(None): "null",
}


def _type(type_: Any) -> str:
    if hasattr(type_, "__metadata__"):
        return _type(type_.__origin__)
    parts: tuple[Any, ...] = getattr(type_, "__args__", ())
    origin = getattr(type_, "__origin__", None)
    if isinstance(type_, type) and issubclass(type_, Enum):
        return ", ".join(f'"{each.value}"' for each in type_)
    if origin in (tuple, Sequence):
        return f"[{_type(parts[0])}]"
    if origin in (dict, Mapping):
        return f"object of {_type(parts[1])}"
    if origin is Literal:
        return ", ".join(f'"{each}"' for each in parts)
    if parts:
        named = [_type(each) for each in parts if each is not msgspec.UnsetType]
        return " or ".join(dict.fromkeys(named))
    return _NAMES.get(type_, f"`{getattr(type_, '__name__', type_)}`")
