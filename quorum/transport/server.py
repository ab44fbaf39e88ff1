"""A listener: accepts connections up to its limit, closes idle ones, and shuts down gracefully."""

import asyncio
import itertools
import os
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from quorum.protocol.apis import VersionRange
from quorum.transport.admission import LargeRequests, RequestPacer, UnreadAnswers
from quorum.transport.buffers import ReadBuffer
from quorum.transport.descriptors import DescriptorShare
from quorum.transport.inbound import Flushes, Handler, InboundConnection, Terms
from quorum.transport.limits import REPLACEABLE_SECONDS, ServerLimits
from quorum.transport.refusal_log import RefusalLog
from quorum.transport.request_times import RequestTimes
from quorum.transport.security.protocols import UNPROTECTED, ListenerSecurity
from quorum.transport.security.tls_listener import TlsListener, open_sockets
from quorum.transport.sweeper import Sweeper

_BACKLOG: Final = 512
"""Connections that the kernel queues until they are accepted."""
_ACCEPTED_AT_ONCE: Final = 8
"""Connections that asyncio accepts in one turn of its loop, three turns before it tells of them: in
all no more than there are file descriptors in reserve. It takes the backlog for it."""

_SWEEP_MS_MAX: Final = 5_000
_TURNS_OF_AN_ACCEPTED: Final = 3
"""Turns of the loop until a connection that was just accepted gets here, to be refused."""
CLOSE_MS: Final = 1_000
"""The default time for pending responses to leave in `close`."""


class Server:
    """Serves the requests of `offered` APIs and versions on one or more addresses.

    Each offered request goes to `handler`, ApiVersions included. An ApiVersions request that is too
    new is answered with the offered versions; any other request that is not offered is logged and
    closes its connection, as in Kafka. If the handler raises, the error is logged and the
    connection closed.

    `name` is part of the log lines; `clock_ms` returns monotonic milliseconds.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        offered: Mapping[int, VersionRange],
        name: str,
        clock_ms: Callable[[], int],
        limits: ServerLimits | None = None,
    ) -> None:
        self._limits = limits or ServerLimits()
        self._connections: set[InboundConnection] = set()
        self._of_host: Counter[str] = Counter()
        self._descriptors = DescriptorShare(self._limits.descriptors_reserved)
        self._ids = itertools.count(1)
        self._listeners: list[asyncio.Server] = []
        self._tls_listeners: list[TlsListener] = []
        self._sweeper = Sweeper(clock_ms)
        self._gone: asyncio.Future[None] | None = None
        self._is_closing = False
        pacer = RequestPacer()
        unread_bytes_max = self._limits.unread_bytes_max
        self._terms = Terms(
            name=name,
            refusal_log=RefusalLog(name, clock_ms),
            pacer=pacer,
            large=LargeRequests(self._limits.large_requests_bytes_max),
            unread=UnreadAnswers(unread_bytes_max, self._connections, self._sweeper, pacer=pacer),
            unread_of_first=UnreadAnswers(
                unread_bytes_max, self._connections, self._sweeper, pacer=None
            ),
            read_buffer=ReadBuffer(),
            flushes=Flushes(),
            handler=handler,
            offered=offered,
            limits=self._limits,
            admit=self._admit,
            release=self._release,
            times=RequestTimes(),
        )

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    @property
    def times(self) -> RequestTimes:
        """The times of all requests so far."""
        return self._terms.times

    @property
    def large_requests_bytes(self) -> int:
        """The bytes of all large requests that have begun to come and are not answered."""
        return self._terms.large.held_bytes

    async def listen(
        self, host: str | None, port: int, security: ListenerSecurity = UNPROTECTED
    ) -> int:
        """Accept connections at this address; return the port. None stands for all addresses.

        Port 0 takes a free one. Raises `OSError` if the address cannot be bound, and `TlsUnusable`
        for unusable keys or certificates.
        """

        def make() -> InboundConnection:
            return InboundConnection(self._terms, next(self._ids), security)

        def make_plaintext() -> InboundConnection:
            return InboundConnection(self._terms, next(self._ids), security.plaintext)

        security.check()
        if security.tls is not None:
            sockets = await open_sockets(host, port, _BACKLOG)
            door = TlsListener(
                sockets,
                security.tls,
                make,
                self._terms.refusal_log,
                refusal=self._handshake_refusal,
                of_address_max=self._limits.connections_per_address_max,
                make_plaintext=make_plaintext if security.accepts_plaintext else None,
            )
            self._tls_listeners.append(door)
            return door.port
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(make, host, port, backlog=_ACCEPTED_AT_ONCE)
        for each in listener.sockets:
            with socket.socket(fileno=os.dup(each.fileno())) as listening:
                listening.listen(_BACKLOG)
        self._listeners.append(listener)
        bound: int = listener.sockets[0].getsockname()[1]
        return bound

    async def close(self, *, within_ms: int = CLOSE_MS) -> None:
        """Stop accepting and reading, let pending responses leave, and close every connection.

        Responses that have not left `within_ms` are dropped.
        """
        self._is_closing = True
        for connection in tuple(self._connections):
            connection.drain()
        await self._accept_no_more()
        for listener in self._listeners:
            listener.close()
        for door in self._tls_listeners:
            await door.close()
        self._tls_listeners.clear()
        for _ in range(_TURNS_OF_AN_ACCEPTED):
            await asyncio.sleep(0)
        if not await self._all_gone(within_ms):
            for connection in tuple(self._connections):
                connection.abort()
            await self._all_gone(within_ms)
        for listener in self._listeners:
            await listener.wait_closed()
        self._listeners.clear()
        self._sweeper.close()

    def sweep(self, now_ms: int) -> int | None:
        """Close connections that are idle or stalled; return the time of the next sweep."""
        for connection in tuple(self._connections):
            connection.sweep(now_ms)
        return now_ms + self._sweep_ms() if self._connections else None

    async def _accept_no_more(self) -> None:
        """Stop accepting, and let connections accepted in this turn of the loop get a transport.

        Otherwise a transport that starts after its listener has closed fails silently and leaves
        its socket open (CPython 3.11, `Server._attach`).
        """
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            for listening in listener.sockets:
                loop.remove_reader(listening.fileno())
        await asyncio.sleep(0)

    async def _all_gone(self, within_ms: int) -> bool:
        if not self._connections:
            return True
        self._gone = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait({self._gone}, timeout=within_ms / 1_000)
        self._gone = None
        return bool(done)

    def _admit(self, connection: InboundConnection) -> str | None:
        open_before, host = len(self._connections), connection.network
        of_host_before = self._of_host[host]
        # A refused connection counts until it has closed, so that `close` waits for it.
        self._connections.add(connection)
        self._of_host[host] += 1
        if self._is_closing:
            return "this listener is closing"
        self._sweeper.watch(self, self._sweeper.now_ms() + self._sweep_ms())
        if of_host_before >= self._limits.connections_per_address_max:
            full = f"{of_host_before} connections of one address are open, which is the limit"
            return self._make_room(connection, host, full)
        if open_before >= self._limits.connections_max:
            full = f"{open_before} connections are open, which is the limit"
        else:
            return self._descriptor_refusal(open_before + 1, connection)
        return self._make_room(connection, self._most_common_host(), full)

    def _handshake_refusal(self) -> str | None:
        """Return why no further TLS handshake begins now, or None."""
        return self._descriptor_refusal(len(self._connections) + 1, None)

    def _descriptor_refusal(
        self, connections: int, connection: InboundConnection | None
    ) -> str | None:
        """Return None if the descriptors suffice, also for the TLS handshakes under way."""
        connections += sum(each.handshakes for each in self._tls_listeners)
        if self._descriptors.has_room(connections, asyncio.get_running_loop().time()):
            return None
        full = f"more than {self._descriptors.total} file descriptors are in use (ulimit -n)"
        return self._make_room(connection, self._most_common_host(), full)

    def _most_common_host(self) -> str:
        found = self._of_host.most_common(1)
        return found[0][0] if found else ""

    def _make_room(self, connection: InboundConnection | None, host: str, full: str) -> str | None:
        """Close a connection of `host` that is of no use; return `full` if there is none.

        That is one that has sent no request yet, or none for long. So idle connections, however
        many there are, keep nobody out, and least of all a voter.
        """
        now_seconds = asyncio.get_running_loop().time()
        idle = [
            each
            for each in self._connections
            if each is not connection
            and each.network == host
            and each.is_replaceable(now_seconds - REPLACEABLE_SECONDS)
        ]
        if not idle:
            return full
        first = min(idle, key=lambda each: (each.has_asked, each.used_at_seconds))
        first.close_because(full)
        return None

    def _release(self, connection: InboundConnection) -> None:
        if connection in self._connections:
            self._of_host[connection.network] -= 1
            if not self._of_host[connection.network]:
                del self._of_host[connection.network]
        self._connections.discard(connection)
        if not self._connections and self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    def _sweep_ms(self) -> int:
        # Often enough that no connection outlives its limit by more than a quarter.
        shortest_ms = min(self._limits.stall_ms, self._limits.idle_ms)
        return max(1, min(shortest_ms // 4, _SWEEP_MS_MAX))
