"""The HTTP listener of a node on a loopback socket, asked by bytes that a test writes itself."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from admin.http.access import Access, known_hosts
from admin.http.app import make_app
from admin.http.events.hub import HUB, EventHub
from admin.http.gateway import Gateway
from admin.http.limits import HttpLimits
from admin.http.listener import HttpListener
from admin.http.problems import Handler
from admin.http.tokens import TokenFile
from quorum.clocks import monotonic_ms
from quorum.transport.refusal_log import RefusalLog
from quorum.transport.security.tls import ServerTls
from tests.support.controllers import HOST, Node

PAUSE: Final = "/v1/reassignments:pause"
DEFAULTS: Final = HttpLimits()


@dataclass(frozen=True)
class Raw:
    """A response: the header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)


@dataclass
class Connection:
    """One connection of a client."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    host: str

    async def ask(self, method: str, path: str, body: bytes = b"", /, **headers: str | None) -> Raw:
        """Send a request and read its response; an underscore in a header's name is a hyphen."""
        self.write(method, path, body, **headers)
        return await self.response()

    def write(self, method: str, path: str, body: bytes = b"", /, **headers: str | None) -> None:
        given: dict[str, str | None] = {"Host": self.host}
        if body:
            given |= {"Content_Type": "application/json", "Content_Length": str(len(body))}
        given |= headers
        lines = [
            f"{name.replace('_', '-')}: {value}"
            for name, value in given.items()
            if value is not None
        ]
        head = "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""])
        self.writer.write(head.encode() + body)

    async def response(self) -> Raw:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (each.partition(":") for each in lines)
        }
        body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return Raw(int(first.split()[1]), headers, body)

    async def rest(self) -> bytes:
        """Everything until the other side ends the connection."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""


@dataclass(frozen=True)
class Listening:
    """A listener, and how to connect to it."""

    listener: HttpListener
    port: int
    hub: EventHub

    @asynccontextmanager
    async def connected(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[Connection]:
        reader, writer = await asyncio.open_connection(HOST, self.port, ssl=tls)
        try:
            yield Connection(reader, writer, f"{HOST}:{self.port}")
        finally:
            writer.transport.abort()

    async def ask(self, method: str, path: str, body: bytes = b"", /, **headers: str | None) -> Raw:
        """Send one request on a connection of its own."""
        async with self.connected() as connection:
            return await connection.ask(method, path, body, **headers)

    async def until_open(self, count: int) -> None:
        """Return once the listener has so many connections."""
        while self.listener.connections != count:  # noqa: ASYNC110 - it signals nothing
            await asyncio.sleep(0)


@asynccontextmanager
async def listening(
    node: Node,
    *hosts: str,
    tokens: TokenFile | None = None,
    tls: ServerTls | None = None,
    route: tuple[str, Handler] | None = None,
    limits: HttpLimits = DEFAULTS,
    port: int = 0,
) -> AsyncIterator[Listening]:
    """An HTTP listener at this node, as `admin.daemon` starts it, with one more `route`."""
    refusals = RefusalLog("http", monotonic_ms)
    access = Access(
        known_hosts=known_hosts(*hosts),
        tokens=tokens,
        tls=tls,
        refusals=refusals,
    )
    app = make_app(Gateway(node.service, node.router), access, limits)
    if route is not None:
        app.router.add_get(*route)
    listener = HttpListener(app, limits=limits, refusals=refusals, tls=tls)
    port = await listener.start(HOST, port)
    try:
        yield Listening(listener, port, app[HUB])
    finally:
        await listener.close()
