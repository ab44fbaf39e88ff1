"""The HTTP listener: it accepts connections within its limits, over TLS if it has certificates.

aiohttp parses and answers the requests of a connection. It is given one only after it has been
counted and its TLS handshake is done, so that connections without a request are bounded as well.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.web_request import BaseRequest

from admin.http.limits import Account, HttpLimits
from admin.http.problems import Problem, problem_response
from quorum.transport.address import network_of, peer_name
from quorum.transport.refusal_log import RefusalLog
from quorum.transport.security.tls import NO_TLS, ServerTls, handshake_failure
from quorum.transport.security.tls_listener import TLS_HANDSHAKE, first_byte

logger = logging.getLogger("http")

READ_BYTES: Final = 32 * 1024
"""Of a body that nobody reads: beyond twice this, the connection is not read either."""
SHORTEST_SECONDS: Final = 0.001
"""Of a handshake: no time at all would be no limit."""
SHUTDOWN_SECONDS: Final = 2.0
"""The time for a client to end TLS."""
BACKLOG: Final = 128
RECEIVE_BUFFER_BYTES: Final = 64 * 1024
"""Of the kernel for each connection. It is what one turn of the event loop reads of each, so that
many senders of long bodies do not keep the others waiting."""


class HttpListener:
    """The connections of one node's HTTP listener."""

    def __init__(
        self,
        app: web.Application,
        *,
        limits: HttpLimits,
        refusals: RefusalLog,
        tls: ServerTls | None = None,
        close_ms: int = 500,
    ) -> None:
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=close_ms / 1_000, handler_cancellation=False
        )
        self._limits = limits
        self._refusals = refusals
        self._tls = tls
        self._open = Account(limits.connections_max, limits.connections_max_per_ip)
        self._handshakes: set[asyncio.Task[None]] = set()
        self._without_tls = web.Server(_refuse_without_tls)
        self._server: asyncio.Server | None = None

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return self._open.total

    async def start(self, host: str, port: int) -> int:
        """Accept connections, and return the port; raises `OSError`. Port 0 takes a free one."""
        await self._runner.setup()
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Arrived(self._arrived), host, port, backlog=BACKLOG, start_serving=False
        )
        for each in self._server.sockets:
            # Accepted connections inherit it.
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        await self._server.start_serving()
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """Accept no more, let responses under way leave, and close every connection."""
        if self._server is not None:
            self._server.close()
        handshakes = tuple(self._handshakes)
        for task in handshakes:
            task.cancel()
        await asyncio.gather(*handshakes, return_exceptions=True)
        await self._without_tls.shutdown()
        await self._runner.cleanup()

    def _arrived(self, transport: asyncio.Transport) -> None:
        """Count a connection, or close it; then it is served."""
        peer = peer_name(transport.get_extra_info("peername"))
        network = network_of(peer.rpartition(":")[0].strip("[]"))
        if not self._open.take(network, 1):
            self._refusals.cut_off(peer, "too many HTTP connections are open")
            transport.abort()
        elif self._tls is None:
            connection = self._connection(network)
            transport.set_protocol(connection)
            connection.connection_made(transport)
        else:
            # uvloop reads a transport from here on, whatever is asked of it, so that the first
            # bytes of TLS would be lost. Nothing has been read of the socket itself.
            held = transport.get_extra_info("socket").dup()
            transport.abort()
            task = asyncio.get_running_loop().create_task(
                self._shake_hands(held, self._tls.context(), peer, network)
            )
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(
        self, held: socket.socket, context: ssl.SSLContext, peer: str, network: str
    ) -> None:
        """Serve a connection once its TLS handshake is done, or close it."""
        loop, within_seconds = asyncio.get_running_loop(), self._limits.handshake_ms / 1_000
        deadline = loop.time() + within_seconds
        connection = self._connection(network)
        # From then on the loop closes the socket.
        has_begun = False
        try:
            opening = await first_byte(held, within_seconds)
            has_begun = True
            if opening not in (TLS_HANDSHAKE, b""):
                self._refusals.cut_off(peer, NO_TLS)
                connection = self._connection(network, self._without_tls)
                await loop.connect_accepted_socket(lambda: connection, held)
                return
            await loop.connect_accepted_socket(
                lambda: connection,
                held,
                ssl=context,
                ssl_handshake_timeout=max(deadline - loop.time(), SHORTEST_SECONDS),
                ssl_shutdown_timeout=SHUTDOWN_SECONDS,
            )
        except (OSError, TimeoutError) as error:
            self._refusals.cut_off(peer, handshake_failure(error))
            connection.end()
        except asyncio.CancelledError:
            connection.end()
            raise
        finally:
            if not has_begun:
                held.close()

    def _connection(self, network: str, server: web.Server | None = None) -> "_Connection":
        """Return the protocol of a connection that has been counted."""
        server = server or self._runner.server
        assert server is not None
        return _Connection(
            server,
            lambda: self._open.give_back(network, 1),
            self._refusals,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=self._limits.idle_ms / 1_000,
            max_line_size=self._limits.header_bytes_max,
            max_field_size=self._limits.header_bytes_max,
            max_headers=self._limits.headers_max,
            # `bounded` does it.
            lingering_time=0,
            read_bufsize=READ_BYTES,
            access_log=None,
            logger=logger,
        )


async def _refuse_without_tls(_request: BaseRequest) -> web.Response:
    what = "this port speaks TLS, and the request came without: write https:// in place of http://"
    response = problem_response(Problem(400, "TLS is needed", what))
    response.force_close()
    return response


def no_longer_counted(request: web.Request) -> None:
    """Count the connection of an event stream no longer: streams have a limit of their own."""
    if isinstance(request.protocol, _Connection):
        request.protocol.end()


class _Arrived(asyncio.Protocol):
    """A connection that has just been accepted."""

    def __init__(self, arrived: Callable[[asyncio.Transport], None]) -> None:
        self._arrived = arrived

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No class of uvloop is one of asyncio.
        self._arrived(cast(asyncio.Transport, transport))


class _Connection(web.RequestHandler):
    """A connection whose malformed requests get a problem, and one line in the log."""

    __slots__ = ("_ended", "_refusals")

    def __init__(
        self,
        server: web.Server,
        ended: Callable[[], None],
        refusals: RefusalLog,
        **options: Any,
    ) -> None:
        super().__init__(server, **options)
        self._ended: Callable[[], None] | None = ended
        self._refusals = refusals

    def end(self) -> None:
        """Count the connection no longer."""
        ended, self._ended = self._ended, None
        if ended is not None:
            ended()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.end()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        try:
            super().data_received(data)
        except Exception as error:  # noqa: BLE001 - only bytes of a stranger can have caused it
            self._malformed(error)
            self.force_close()

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the response to a request that cannot be read, without a part of it."""
        self._malformed(exc)
        problem = Problem(status, "Malformed request", "the request is no valid HTTP")
        if status != 400:
            problem = Problem(status, "Internal error", "the request could not be handled")
        if request.writer.output_size:
            raise ConnectionError("a part of a response is sent already")
        response = problem_response(problem)
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log an error outside of a handler, which logs its own."""
        self._malformed(kw.get("exc_info"))

    def _malformed(self, error: object) -> None:
        # The message of an error may quote the request.
        kind = type(error).__name__
        peer = peer_name(self.peername)
        self._refusals.refused(peer, f"refused an HTTP request of {peer}: it is malformed", kind)
