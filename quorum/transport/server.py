"""A listener: accepts connections up to its limit, closes idle ones, and shuts down gracefully."""

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import Final

from quorum.protocol.apis import VersionRange
from quorum.transport.inbound import Handler, InboundConnection, Terms
from quorum.transport.limits import ServerLimits
from quorum.transport.refusal_log import RefusalLog
from quorum.transport.sweeper import Sweeper

_BACKLOG: Final = 512
"""Connections that the kernel queues until they are accepted."""

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
        self._ids = itertools.count(1)
        self._listeners: list[asyncio.Server] = []
        self._sweeper = Sweeper(clock_ms)
        self._gone: asyncio.Future[None] | None = None
        self._is_closing = False
        self._terms = Terms(
            name=name,
            refusal_log=RefusalLog(name, clock_ms),
            handler=handler,
            offered=offered,
            limits=self._limits,
            admit=self._admit,
            release=self._release,
        )

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    async def listen(self, host: str | None, port: int) -> int:
        """Accept connections at this address; return the port. None stands for all addresses.

        Port 0 takes a free one. Raises `OSError` if the address cannot be bound.
        """
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(
            lambda: InboundConnection(self._terms, next(self._ids)), host, port, backlog=_BACKLOG
        )
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
        open_before = len(self._connections)
        # A refused connection counts until it has closed, so that `close` waits for it.
        self._connections.add(connection)
        if self._is_closing:
            return "this listener is closing"
        self._sweeper.watch(self, self._sweeper.now_ms() + self._sweep_ms())
        if open_before >= self._limits.connections_max:
            return f"{open_before} connections are open, which is the limit"
        return None

    def _release(self, connection: InboundConnection) -> None:
        self._connections.discard(connection)
        if not self._connections and self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    def _sweep_ms(self) -> int:
        # Often enough that no connection outlives its limit by more than a quarter.
        shortest_ms = min(self._limits.stall_ms, self._limits.idle_ms)
        return max(1, min(shortest_ms // 4, _SWEEP_MS_MAX))
