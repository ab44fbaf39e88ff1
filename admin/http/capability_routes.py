"""HTTP routes of capabilities: path, parameters and JSON body become a request."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin

import msgspec
import orjson
from aiohttp import web

from admin.capabilities.moves import BASE, DescribedMove, DescribeMove
from admin.capabilities.registry import CAPABILITIES
from admin.capabilities.schema import REPEATED_FIELD, Request, Route, check, json_of
from admin.faults import Refused
from admin.http.bodies import read_body
from admin.http.caller import CALLER
from admin.http.gateway import Gateway
from admin.http.limits import SMALL_BYTES
from admin.http.problems import HAS_KEY, REPEATED, Problem
from admin.units import invalid_field, whole_number
from controller.move_requests import wrong_key
from statemachine.errors import Error

GATEWAY: Final = web.AppKey("gateway", Gateway)
KEY_HEADER: Final = "Idempotency-Key"
INT64_MAX: Final = 2**63 - 1
SHOWN_CHARACTERS_MAX: Final = 60
"""Of a name or an id that a message quotes."""

A = TypeVar("A")
Q = TypeVar("Q", bound=Request[Any])
Handler = Callable[[web.Request], Awaitable[web.Response]]
Respond = Callable[[web.Request, Any, Any], Awaitable[web.Response]]
"""From the HTTP request, the capability's request and its answer to the HTTP response."""


def add_routes(router: web.UrlDispatcher, responses: Mapping[type[Request[Any]], Respond]) -> None:
    """Add the routes of every capability; its answer is the response unless a table has another."""
    for kind in CAPABILITIES.values():
        for route in kind.ROUTES:
            handler = _handler(kind, route, responses.get(kind, as_answer))
            if route.method == "GET":
                # HEAD as well.
                router.add_get(route.path, handler)
            else:
                router.add_route(route.method, route.path, handler)


def _handler(kind: type[Request[Any]], route: Route, respond: Respond) -> Handler:
    parameters = kind.parameters(route)
    can_contradict = kind.can_contradict()

    async def handle(request: web.Request) -> web.Response:
        try:
            asked = await request_in(request, kind, route, parameters)
        except Problem:
            # Whoever lacks the right hears of that, and nothing of the request.
            request.app[GATEWAY].check_any(kind, request[CALLER])
            raise
        if can_contradict and request.app[GATEWAY].may(asked, request[CALLER]):
            check(asked)
        stale = kind.may_be_stale() and flag(request, "stale")
        try:
            answer = await ask(request, asked, stale=stale)
        except Refused as error:
            if error.code == Error.INVALID_REQUEST.code and route.id == "move_id":
                await described(request, getattr(asked, route.id), stale=stale)
            raise
        if getattr(answer, REPEATED_FIELD, False):
            request[REPEATED] = True
        return await respond(request, asked, answer)

    return handle


async def ask(request: web.Request, asked: Request[A], *, stale: bool = False) -> A:
    """The answer of the active controller, or of this node if it may be `stale`."""
    return await request.app[GATEWAY].ask(asked, request[CALLER], stale=stale)


def check_body(request: web.Request, kind: type[Request[Any]]) -> None:
    """Refuse a long body of a caller who may ask nothing of this kind: nothing of it is read."""
    if request.content_length is None or request.content_length > SMALL_BYTES:
        request.app[GATEWAY].check_any(kind, request[CALLER])


async def described(request: web.Request, move_id: int, *, stale: bool = False) -> DescribedMove:
    """The move of this id; raises a `Problem` if it is not listed."""
    try:
        return await ask(request, DescribeMove(move_id=move_id), stale=stale)
    except Refused as error:
        if error.code != Error.INVALID_REQUEST.code:
            raise
        reason = f"there is no move {move_id}, or it ended long ago; GET {BASE} lists them"
        raise Problem(404, "No such move", reason, retriable=False) from error


async def as_answer(_request: web.Request, _asked: Any, answer: Any) -> web.Response:
    """The answer as JSON."""
    if REPEATED_FIELD in answer.__struct_fields__:
        return as_json(json_of(answer))
    # Plain values in between would cost a tenth of a short request.
    return _as_json(msgspec.json.encode(answer), 200)


def as_json(body: Any, *, status: int = 200) -> web.Response:
    return _as_json(orjson.dumps(body), status)


def _as_json(body: bytes, status: int) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


async def request_in(
    request: web.Request, kind: type[Q], route: Route, parameters: Mapping[str, str]
) -> Q:
    """The capability's request in an HTTP request; raises a `Problem` that names what is wrong."""
    stale = ("stale",) if kind.may_be_stale() else ()
    check_parameters(request, *parameters, *stale)
    values: dict[str, Any] = dict(route.fixed)
    types = _types_of(kind)
    if route.id:
        values[route.id] = _in_path(request.match_info["id"], types[route.id], route.id)
    for name, field in parameters.items():
        if name in request.query:
            values[field] = _in_query(request.query[name], types[field], name, field)
    if request.method != "GET" and KEY_HEADER in request.headers:
        if "key" not in types:
            what = f"{request.method} {request.path} takes no {KEY_HEADER}; omit it"
            raise Problem(400, "Key not taken", what)
        values["key"] = key_of(request)
    if request.method in ("POST", "PUT", "PATCH"):
        if route.large:
            check_body(request, kind)
        body = await read_body(request, large=route.large)
        if not body.strip():
            values |= route.without_body
        else:
            # In a thread: decoding a long body would block the event loop.
            known = kind.in_body(route)
            values |= await asyncio.to_thread(_fields_in, body, known, parameters)
    return _typed(values, kind, route)


# msgspec evaluates the annotations of a class anew at each call: a tenth of a short request.
@cache
def _types_of(kind: type[msgspec.Struct]) -> Mapping[str, Any]:
    return {each.name: each.type for each in msgspec.structs.fields(kind)}


@cache
def _required_of(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple([each.name for each in msgspec.structs.fields(kind) if each.required])


def _typed(values: dict[str, Any], kind: type[Q], route: Route) -> Q:
    for field in _required_of(kind):
        if field not in values:
            name = "ids" if field == route.ids else field
            raise Problem(400, "Invalid request", f"{name} is missing")
    try:
        asked: Q = msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        words = f"{invalid_field(error)}{_valid_values(kind, error)}"
        raise Problem(400, "Invalid request", words) from None
    return asked


def _valid_values(kind: type[Request[Any]], error: msgspec.ValidationError) -> str:
    """The values of the field that the error names, if they are a few words."""
    path = str(error).partition(" - at `$.")[2]
    found: Any = kind
    for name in re.findall(r"[a-z_]+", path):
        found = _plain(_types_of(found).get(name))
        if get_origin(found) is tuple:
            found = _plain(get_args(found)[0])
        if not (isinstance(found, type) and issubclass(found, msgspec.Struct)):
            break
    parts = (found, *map(_plain, get_args(found)))
    words = [word for part in parts for word in _words_of(part)]
    return f"; there are {', '.join(words)}" if words else ""


def _words_of(type_: Any) -> tuple[str, ...]:
    """The words that a field of this type may have; none if it is no choice between words."""
    if isinstance(type_, type) and issubclass(type_, Enum):
        return tuple([each.value for each in type_])
    return get_args(type_) if get_origin(type_) is Literal else ()


def _fields_in(
    body: bytearray, known: Sequence[str], parameters: Collection[str]
) -> dict[str, Any]:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Problem(400, "Invalid request", f"the body is not JSON: {error}") from error
    there = ", ".join(sorted(known))
    if not isinstance(found, dict):
        raise Problem(
            400, "Invalid request", f"the body must be an object with {there or 'nothing'}"
        )
    for name in found:
        if name in parameters:
            right = f"{name!r} is a parameter of the URL: write ?{name}="
            raise Problem(400, "Invalid request", right)
        if name not in known:
            right = f"there is {there}" if there else "the body must be empty"
            raise Problem(400, "Invalid request", f"{_short(name)!r} is not known; {right}")
    return found


def _in_path(text: str, type_: Any, field: str) -> Any:
    """The value of a field in the path: a name, an id, or the only one of a list."""
    if _plain(type_) is str:
        return text
    number = id_in(text, _kind_of_id(field))
    return (number,) if get_origin(_plain(type_)) is tuple else number


def _kind_of_id(field: str) -> str:
    return "move" if field.startswith("move") else "broker"


def _in_query(text: str, type_: Any, name: str, field: str) -> Any:
    """The value of a query parameter: a flag, a number, ids, text, or texts."""
    plain = _plain(type_)
    if plain is bool:
        return _flag(text, name)
    if get_origin(plain) is tuple:
        if _plain(get_args(plain)[0]) is not int:
            return tuple(text.split(","))
        return tuple(id_in(each, _kind_of_id(field)) for each in text.split(","))
    number = whole_number(text, INT64_MAX) if plain is int else None
    return text if number is None else number


def _plain(type_: Any) -> Any:
    """The type without what describes it, and without null."""
    while hasattr(type_, "__metadata__"):
        type_ = type_.__origin__
    if isinstance(type_, UnionType) or get_origin(type_) is Union:
        parts = [each for each in get_args(type_) if each is not NoneType]
        return _plain(parts[0]) if len(parts) == 1 else type_
    return type_


_IDS: Final = {"broker": ("101", 0, 2**31 - 1), "move": ("3", 1, INT64_MAX)}
"""An example of each kind of id, the lowest and the highest."""


def id_in(text: str, what: str) -> int:
    """The id in a path or a parameter; raises a `Problem` if it is invalid."""
    example, lowest, highest = _IDS[what]
    number = whole_number(text, highest)
    if number is None or number < lowest:
        right = f"is not the id of a {what}; write one like {example}"
        raise Problem(400, f"Invalid {what}", f"{_short(text)!r} {right}")
    return number


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[:SHOWN_CHARACTERS_MAX]}..."


def check_parameters(request: web.Request, *known: str) -> None:
    """Refuse parameters that are unknown or repeated: they may be meant to change what is done."""
    for name in request.query:
        if name not in known:
            right = f"there is {', '.join(known)}" if known else "there is none"
            raise Problem(400, "Unknown parameter", f"{name!r} is not known; {right}")
        if len(request.query.getall(name)) > 1:
            right = "give it once, several values with commas between them"
            raise Problem(400, "Repeated parameter", f"{name} is given more than once; {right}")


def flag(request: web.Request, name: str) -> bool:
    """True if the parameter of this name is true; false if it is not given."""
    return _flag(request.query.get(name, "false"), name)


def _flag(text: str, name: str) -> bool:
    if text in ("true", "false"):
        return text == "true"
    raise Problem(400, "Invalid parameter", f"{name} is {text!r}; it is true or false")


def key_of(request: web.Request) -> str:
    """The `Idempotency-Key` of the request; empty without one."""
    given = request.headers.getall(KEY_HEADER, [])
    if len(given) > 1:
        raise Problem(400, "Invalid key", f"{KEY_HEADER} is given {len(given)} times; give one")
    if not given:
        return ""
    reason = wrong_key(given[0])
    if reason is not None:
        raise Problem(400, "Invalid key", f"{KEY_HEADER}: {reason}")
    request[HAS_KEY] = True
    return given[0]
