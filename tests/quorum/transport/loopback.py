"""Two ends of a loopback connection for tests: a listener under test, and peers that misbehave."""

import asyncio
import logging
import random
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from struct import Struct
from types import MappingProxyType

import pytest

from quorum.protocol import headers
from quorum.protocol.api_versions import write_offer
from quorum.protocol.apis import ApiKey, VersionRange
from quorum.transport.channel import Channel
from quorum.transport.inbound import InboundRequest
from quorum.transport.limits import ChannelLimits, ServerLimits
from quorum.transport.outcomes import Cause, Failure, Outcome
from quorum.transport.security.protocols import UNPROTECTED, ListenerSecurity
from quorum.transport.server import Server
from quorum.transport.sweeper import Sweeper

LENGTH = Struct(">i")
HOST = "127.0.0.1"

OFFERED: Mapping[int, VersionRange] = MappingProxyType(
    {
        ApiKey.API_VERSIONS: VersionRange(0, 4),
        ApiKey.FETCH: VersionRange(13, 16),
        ApiKey.VOTE: VersionRange(0, 1),
        ApiKey.BEGIN_QUORUM_EPOCH: VersionRange(0, 0),
    }
)


class ManualClock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


def framed(frame: bytes) -> bytes:
    return LENGTH.pack(len(frame)) + frame


def vote(correlation_id: int, body: bytes = b"") -> bytes:
    """A framed request whose body is whatever the test likes."""
    return framed(headers.write_request_header(ApiKey.VOTE, 1, correlation_id, "test") + body)


def answer_to(correlation_id: int, body: bytes = b"") -> bytes:
    """The answer to `vote`."""
    return framed(LENGTH.pack(correlation_id) + b"\x00" + body)


class Handler:
    """Echoes; a body that begins with "park" is kept until the test responds to it."""

    def __init__(self) -> None:
        self.seen: list[InboundRequest] = []
        self.parked: deque[InboundRequest] = deque()
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    def __call__(self, request: InboundRequest) -> None:
        self.seen.append(request)
        if request.api_key == ApiKey.API_VERSIONS:
            request.respond(write_offer(request.api_version, OFFERED))
        elif bytes(request.body).startswith(b"park"):
            self.parked.append(request)
        else:
            request.respond(request.body)
        for count, waiter in self._waiters:
            if len(self.parked) >= count and not waiter.done():
                waiter.set_result(None)

    async def until_parked(self, count: int) -> None:
        if len(self.parked) < count:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append((count, waiter))
            await waiter


@asynccontextmanager
async def serving(
    handler: Callable[[InboundRequest], None],
    clock: Callable[[], int],
    limits: ServerLimits | None = None,
    security: ListenerSecurity = UNPROTECTED,
) -> AsyncIterator[tuple[Server, int]]:
    limits = limits or ServerLimits()
    if not limits.request_bytes_of:
        # A Vote stands for any request here.
        limits = replace(limits, request_bytes_of={ApiKey.VOTE: limits.frame_bytes_max})
    server = Server(handler, offered=OFFERED, name="listener", clock_ms=clock, limits=limits)
    port = await server.listen(HOST, 0, security)
    try:
        yield server, port
    finally:
        await server.close(within_ms=100)


@asynccontextmanager
async def channel_to(
    port: int, clock: Callable[[], int], limits: ChannelLimits | None = None
) -> AsyncIterator[tuple[Channel, Sweeper]]:
    sweeper = Sweeper(clock)
    channel = Channel(
        lambda: (HOST, port),
        client_id="test",
        sweeper=sweeper,
        rng=random.Random(5),
        limits=limits,
    )
    try:
        yield channel, sweeper
    finally:
        await channel.close()
        sweeper.close()


class Peer(asyncio.Protocol):
    """A raw end of a connection: it keeps what comes, and says what the test tells it to."""

    def __init__(self, on_data: Callable[["Peer"], None] | None = None) -> None:
        self.received = bytearray()
        self.chunks = 0
        self.lost = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport
        self._on_data = on_data
        self._waiter: tuple[int, asyncio.Future[None]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.chunks += 1
        if self._on_data is not None:
            self._on_data(self)
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)
        self._wake()

    def write(self, data: bytes) -> None:
        self.transport.write(data)

    @property
    def name(self) -> str:
        """The address of this end at the other one."""
        host, port = self.transport.get_extra_info("sockname")[:2]
        return f"{host}:{port}"

    async def take(self, size: int) -> bytes:
        """The next `size` bytes; raises `EOFError` if the connection ends before."""
        if len(self.received) < size and not self.lost.done():
            self._waiter = size, asyncio.get_running_loop().create_future()
            await self._waiter[1]
        if len(self.received) < size:
            raise EOFError(bytes(self.received))
        taken = bytes(self.received[:size])
        del self.received[:size]
        return taken

    async def take_frame(self) -> bytes:
        (length,) = LENGTH.unpack(await self.take(LENGTH.size))
        return await self.take(length)

    def close(self) -> None:
        self.transport.abort()

    def _wake(self) -> None:
        if self._waiter is None or self._waiter[1].done():
            return
        size, waiter = self._waiter
        if len(self.received) >= size or self.lost.done():
            waiter.set_result(None)


@asynccontextmanager
async def peer_of(
    port: int, context: ssl.SSLContext | None = None, *, receive_bytes: int | None = None
) -> AsyncIterator[Peer]:
    """A raw client of the listener at `port`, with the TLS of `context`.

    `receive_bytes` is what the system keeps for it before it reads; Linux otherwise lets that grow
    to many MiB, sooner or later.
    """
    loop = asyncio.get_running_loop()
    connected = socket.socket()
    connected.setblocking(False)
    if receive_bytes is not None:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    name = None if context is None else HOST
    try:
        await loop.sock_connect(connected, (HOST, port))
        opening = loop.create_connection(Peer, sock=connected, ssl=context, server_hostname=name)
        _, peer = await opening
    except BaseException:
        connected.close()
        raise
    try:
        yield peer
    finally:
        peer.close()
        await asyncio.wait({peer.lost})


@asynccontextmanager
async def scripted(on_data: Callable[[Peer], None]) -> AsyncIterator[tuple[list[Peer], int]]:
    """A raw server: `on_data` gets each connection when something has come on it."""
    peers: list[Peer] = []

    def accept() -> Peer:
        peers.append(Peer(on_data))
        return peers[-1]

    server = await asyncio.get_running_loop().create_server(accept, HOST, 0)
    try:
        yield peers, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for peer in peers:
            peer.close()
        if peers:
            await asyncio.wait({peer.lost for peer in peers})
        await server.wait_closed()


def next_request(peer: Peer) -> tuple[int, int, int] | None:
    """Api key, version and correlation id of the next whole request, which is taken out."""
    if len(peer.received) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack_from(peer.received)
    if len(peer.received) < LENGTH.size + length:
        return None
    frame = bytes(peer.received[LENGTH.size : LENGTH.size + length])
    del peer.received[: LENGTH.size + length]
    return headers.read_request_prefix(frame)


def greet(peer: Peer) -> None:
    """Answer the ApiVersions request that a channel begins with."""
    request = next_request(peer)
    if request is not None:
        _, version, correlation_id = request
        body = write_offer(version, OFFERED)
        peer.write(framed(LENGTH.pack(correlation_id) + body))


class Outcomes:
    """Collects what becomes of requests, in order."""

    def __init__(self) -> None:
        self.all: list[Outcome] = []
        self._waiter: tuple[int, asyncio.Future[None]] | None = None

    def __call__(self, outcome: Outcome) -> None:
        self.all.append(outcome)
        if self._waiter is None or len(self.all) < self._waiter[0]:
            return
        if not self._waiter[1].done():
            self._waiter[1].set_result(None)

    async def until(self, count: int) -> list[Outcome]:
        if len(self.all) < count:
            self._waiter = count, asyncio.get_running_loop().create_future()
            await self._waiter[1]
        return self.all


async def is_served(port: int) -> None:
    """The listener still answers somebody else, so it has also done what came before."""
    async with peer_of(port) as peer:
        peer.write(vote(99, b"ping"))
        assert await peer.take_frame() == answer_to(99, b"ping")[4:]


def our_records(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Our log lines, without those of the event loop about slow callbacks."""
    return [record for record in caplog.records if record.name in ("quorum", "security")]


def our_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in our_records(caplog) if r.levelno >= logging.WARNING]


def failure_cause(outcome: Outcome) -> Cause | None:
    return outcome.cause if isinstance(outcome, Failure) else None


def refusing_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as nobody:
        nobody.bind((HOST, 0))
        port: int = nobody.getsockname()[1]
        return port
