"""Frames of HTTP: requests of every route of the capabilities, valid and changed."""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import orjson

from admin.capabilities.registry import CAPABILITIES
from admin.capabilities.schema import Route
from chaos.fuzz.frames import OF_THE_QUORUM, Frame, Kind, mutated, no_frame
from chaos.fuzz.values import RandomValues

PATHS: Final = (
    *("/", "/metrics", "/v1", "/v1/", "/v1/reassignments/1/rollback-plan", "/v1/%00", "/%", "*"),
    *("/" + "a" * 9_000, "/v1/brokers/" + "9" * 400, "/v1/../../etc/passwd", "http://x/v1/quorum"),
)
METHODS: Final = (
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "\x00",
)
_HEADERS: Final = (
    *("Origin: http://evil.example", "Content-Type: text/plain", "Idempotency-Key: " + "k" * 300),
    *("Idempotency-Key: \xff", "Transfer-Encoding: chunked", "Content-Length: -1"),
    *("Content-Length: 99999999999999999999", "Content-Encoding: gzip", "Expect: 100-continue"),
    *("Authorization: Bearer x", "Authorization: Bearer \xff\x00", "Upgrade: websocket"),
    *(
        "Cookie: " + "c" * 9_000,
        "X: " + "y" * 8_000,
        "\x00: \x00",
        "Host: evil",
        ": x",
        "Range: bytes=-1",
    ),
)


class HttpFrames:
    """Frames of HTTP/1.1; `host` and `authorization` are what a request needs to be served."""

    def __init__(
        self, seed: int, *, harmless: bool, host: str, authorization: str | None = None
    ) -> None:
        self._seed = seed
        self._harmless = harmless
        self._host = host
        self._authorization = authorization
        self._routes = [
            (kind, route)
            for kind in CAPABILITIES.values()
            if not (harmless and kind.NAME in OF_THE_QUORUM)
            for route in kind.ROUTES
        ]
        self._kinds = tuple(Kind)
        self._shares = tuple(each.shares for each in Kind)

    def frame(self, number: int) -> Frame:
        rng = random.Random(f"{self._seed}/{number}")
        (kind,) = rng.choices(self._kinds, self._shares)
        capability, route = rng.choice(self._routes)
        data = self._data(kind, capability, route, rng)
        return Frame(number, kind, f"{route.method} {route.path}", data)

    def _data(  # noqa: C901 - one case for each kind
        self, kind: Kind, capability: Any, route: Route, rng: random.Random
    ) -> bytes:
        values = RandomValues(rng)
        path, fields = _path(route, dict(values.of_struct(capability)), values)
        body = orjson.dumps(fields) if route.method in ("POST", "PUT", "PATCH") and fields else b""
        match kind:
            case Kind.VALID:
                return self._request(route.method, path, body)
            case Kind.MUTATED if rng.random() < 0.5:
                return self._request(route.method, path, mutated(body, rng))
            case Kind.MUTATED:
                return mutated(self._request(route.method, path, body), rng)
            case Kind.TRUNCATED:
                return self._request(route.method, path, body[: rng.randrange(len(body) + 1)])
            case Kind.AMPLIFIED:
                return self._request(route.method, path, _amplified(rng))
            case Kind.BULK:
                size = rng.choice((100_000, 2_000_000, 2_000_000, 20_000_000))
                return self._request("POST", "/v1/reassignments", b"[" * size)
            case Kind.RANDOM:
                return self._request(rng.choice(METHODS), rng.choice(PATHS), rng.randbytes(40))
            case Kind.UNKNOWN:
                more = rng.sample(_HEADERS, rng.randint(1, 3))
                return self._request(rng.choice(METHODS), path, body, more)
            case Kind.CUT_OFF:
                whole = self._request(route.method, path, body)
                return whole[: rng.randrange(1, len(whole))]
            case Kind.NO_FRAME:
                return no_frame(rng)

    def _request(self, method: str, path: str, body: bytes, more: Sequence[str] = ()) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._host}", *more]
        if self._authorization is not None:
            lines.append(f"Authorization: {self._authorization}")
        if body:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body


def _path(
    route: Route, fields: dict[str, Any], values: RandomValues
) -> tuple[str, Mapping[str, Any]]:
    """Return the path of a request with its query, and the fields that remain for the body."""
    id = fields.pop(route.id, None) if route.id else None
    shown = id if isinstance(id, str | int) else values.integer(32)
    path = route.path.replace("{id}", quote(str(shown), safe=""))
    query = {name: fields.pop(field) for name, field in route.parameters.items() if field in fields}
    for name in (*route.fixed, *route.excluded):
        fields.pop(name, None)
    fields.pop("key", None)
    if query:
        shown_as = {name: quote(str(each).lower()) for name, each in query.items()}
        path += "?" + "&".join(f"{name}={each}" for name, each in shown_as.items())
    return path, fields


def _amplified(rng: random.Random) -> bytes:
    count = rng.choice((100, 2_000, 20_000))
    return rng.choice(
        (
            b"[" * count,
            b'{"a":' * count + b"1" + b"}" * count,
            b'{"version":1,"partitions":[' + b'{"topic":"t","partition":0,"replicas":[1]},' * count,
            b'{"move_ids":[' + b"1," * count + b"1]}",
            b'{"a":' + b"9" * count + b"}",
            b'"' + b"\\u0000" * count + b'"',
        )
    )
