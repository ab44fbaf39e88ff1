"""What handlers share: the capabilities of the node, parameters of a request, JSON answers."""

from typing import Any, Final

import orjson
from aiohttp import web

from admin.anywhere import Anywhere
from admin.http.problems import HAS_KEY, REPEATED, Problem
from admin.keys import wrong_key
from admin.shown import SHOWN_CHARACTERS_MAX

CAPABILITIES: Final = web.AppKey("capabilities", Anywhere)
ANONYMOUS: Final = "User:ANONYMOUS"
KEY_HEADER: Final = "Idempotency-Key"
BROKER_ID_MAX: Final = 2**31 - 1


def check_parameters(request: web.Request, *known: str) -> None:
    """Refuse what is not understood: it may be meant to change what the request does."""
    for name in request.query:
        if name not in known:
            right = f"there is {', '.join(known)}" if known else "there is none"
            raise Problem(400, "Unknown parameter", f"{name!r} is not known; {right}")


def is_stale(request: web.Request) -> bool:
    """Whether what this node knows will do: `?stale=true`."""
    return is_asked(request, "stale")


def is_asked(request: web.Request, name: str) -> bool:
    """Whether the parameter of this name is true; it is false where it is not given."""
    match request.query.get(name, "false"):
        case "true":
            return True
        case "false":
            return False
        case other:
            raise Problem(400, "Invalid parameter", f"{name} is {other!r}; it is true or false")


def key_of(request: web.Request) -> str:
    """The `Idempotency-Key`, by which the request may be asked again; empty without one."""
    given = request.headers.getall(KEY_HEADER, [])
    if len(given) > 1:
        raise Problem(400, "Invalid key", f"{KEY_HEADER} is there {len(given)} times; give one")
    if not given:
        return ""
    reason = wrong_key(given[0])
    if reason is not None:
        raise Problem(400, "Invalid key", f"{KEY_HEADER}: {reason}")
    request[HAS_KEY] = True
    return given[0]


def broker_in(text: str) -> int:
    """The id of a broker in a path or a parameter; a `Problem` where it is none."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(BROKER_ID_MAX))
    if not is_number or int(text) > BROKER_ID_MAX:
        quoted = text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[:SHOWN_CHARACTERS_MAX]}..."
        raise Problem(400, "Invalid broker", f"{quoted!r} is no id of a broker; write one like 101")
    return int(text)


def note_repeated(request: web.Request, is_repeated: bool) -> None:
    """Let the answer say that it was given before, to a request with the same key."""
    request[REPEATED] = is_repeated


def as_json(body: Any, *, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(body), status=status, content_type="application/json")
