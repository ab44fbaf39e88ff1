"""Accept connections and let TLS begin on them, a bounded number at a time.

A connection whose handshake fails never reaches the protocol: it is closed and logged with the
reason, once for each address. While many handshakes are under way, an address whose handshakes have
failed lately is turned away, so that those of others go on.
"""

import asyncio
import errno
import logging
import socket
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final

from quorum.log_events import LogEvent
from quorum.transport.address import (
    HANDSHAKE_SECONDS_MAX,
    SHUTDOWN_SECONDS_MAX,
    host_of_peer,
    network_of,
    peer_name,
)
from quorum.transport.refusal_log import RefusalLog
from quorum.transport.security.handshake_alert import sending_alert
from quorum.transport.security.tls import (
    ServerTls,
    TlsUnusable,
    handshake_failure,
)

logger = logging.getLogger("security")

HANDSHAKES_MAX: Final = 128
"""Handshakes under way at one listener; further connections wait in the kernel."""
HANDSHAKES_OF_ADDRESS_MAX: Final = 64
"""Of one address; a further connection is closed."""
HANDSHAKES_CROWDED: Final = 32
"""From this number on, addresses that have failed lately are turned away."""
ACCEPTED_AT_ONCE_MAX: Final = 16
"""Connections that one turn of the loop accepts: each handshake costs about a millisecond."""
FAILURES_KEPT_MAX: Final = 1_024
"""Addresses whose failures are counted; the one that failed longest ago makes room."""
NO_DESCRIPTOR_SECONDS: Final = 1.0
"""The pause when the process has no file descriptor left."""

TLS_HANDSHAKE: Final = b"\x16"
"""The first byte of TLS: the content type of a handshake."""

_OUT_OF_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class HandshakeFailures:
    """The failed handshakes of each address since the last one that succeeded."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, int] = OrderedDict()

    def count(self, host: str) -> int:
        """Return the number of failures of this address."""
        return self._counts.get(host, 0)

    def failed(self, host: str) -> None:
        """Count a failure."""
        self._counts[host] = self._counts.pop(host, 0) + 1
        if len(self._counts) > FAILURES_KEPT_MAX:
            self._counts.popitem(last=False)

    def succeeded(self, host: str) -> None:
        """Forget the failures of an address."""
        self._counts.pop(host, None)


class TlsListener:
    """Listening sockets whose connections speak TLS."""

    def __init__(
        self,
        sockets: list[socket.socket],
        tls: ServerTls,
        make: Callable[[], asyncio.BaseProtocol],
        refusal_log: RefusalLog,
        *,
        refusal: Callable[[], str | None] = lambda: None,
        of_address_max: int = HANDSHAKES_OF_ADDRESS_MAX,
        make_plaintext: Callable[[], asyncio.BaseProtocol] | None = None,
    ) -> None:
        """`refusal` returns why the process has no room for a further handshake, or None.

        An address has at most `of_address_max` handshakes, as it has connections.
        `make_plaintext` makes the protocol of a connection without TLS; None refuses those.
        """
        self._sockets = sockets
        self._tls = tls
        self._make = make
        self._process_refusal = refusal
        self._of_address_max = min(of_address_max, HANDSHAKES_OF_ADDRESS_MAX)
        self._make_plaintext = make_plaintext
        self._refusal_log = refusal_log
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._of_address: Counter[str] = Counter()
        self.failures = HandshakeFailures()
        self._is_accepting = False
        self._is_closed = False
        self._pause: asyncio.TimerHandle | None = None
        self._accept_again()

    @property
    def port(self) -> int:
        """The port of the first socket."""
        port: int = self._sockets[0].getsockname()[1]
        return port

    @property
    def handshakes(self) -> int:
        """The number of handshakes under way."""
        return len(self._handshakes)

    def stop_accepting(self) -> None:
        """Accept no more; handshakes under way go on."""
        self._is_closed = True
        self._accept_nobody()
        if self._pause is not None:
            self._pause.cancel()

    async def close(self) -> None:
        """Close the sockets and drop the handshakes under way."""
        self.stop_accepting()
        for each in self._sockets:
            each.close()
        handshakes = tuple(self._handshakes)
        for handshake in handshakes:
            handshake.cancel()
        await asyncio.gather(*handshakes, return_exceptions=True)

    def _accept_again(self) -> None:
        self._pause = None
        if self._is_closed or self._is_accepting or len(self._handshakes) >= HANDSHAKES_MAX:
            return
        self._is_accepting = True
        for each in self._sockets:
            self._loop.add_reader(each.fileno(), self._accept, each)

    def _accept_nobody(self) -> None:
        if self._is_accepting:
            self._is_accepting = False
            for each in self._sockets:
                self._loop.remove_reader(each.fileno())

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE_MAX):
            if len(self._handshakes) >= HANDSHAKES_MAX:
                self._accept_nobody()
                return
            try:
                accepted, peername = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS:
                    raise
                logger.error(
                    "Accepting no connections for a moment: %s",
                    error.strerror,
                    extra=LogEvent.CONNECTIONS_PAUSED.extra,
                )
                self._accept_nobody()
                self._pause = self._loop.call_later(NO_DESCRIPTOR_SECONDS, self._accept_again)
                return
            accepted.setblocking(False)
            self._take(accepted, network_of(host_of_peer(peername)), peer_name(peername))

    def _take(self, accepted: socket.socket, host: str, peer: str) -> None:
        refusal = self._refusal(host)
        if refusal is not None:
            accepted.close()
            self._refusal_log.cut_off(peer, refusal)
            return
        self._of_address[host] += 1
        handshake = self._loop.create_task(self._shake_hands(accepted, host, peer))
        self._handshakes.add(handshake)
        handshake.add_done_callback(lambda done: self._ended(done, accepted, host))

    def _refusal(self, host: str) -> str | None:
        """Return why no handshake with this address begins now, or None."""
        under_way = self._of_address[host]
        if under_way >= self._of_address_max:
            return f"{under_way} TLS handshakes of its address are under way, which is the limit"
        failures = self.failures.count(host)
        if failures and len(self._handshakes) >= HANDSHAKES_CROWDED:
            return f"{failures} TLS handshakes of its address have failed, and many are under way"
        return self._process_refusal()

    async def _shake_hands(self, accepted: socket.socket, host: str, peer: str) -> None:
        # From then on the loop closes the socket.
        has_begun = False
        try:
            is_plaintext = self._make_plaintext is not None and not await _begins_tls(accepted)
            has_begun = True
            if self._make_plaintext is not None and is_plaintext:
                await self._loop.connect_accepted_socket(self._make_plaintext, accepted)
                return
            async with sending_alert():
                await self._loop.connect_accepted_socket(
                    self._make,
                    accepted,
                    ssl=self._tls.context(),
                    ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX,
                    ssl_shutdown_timeout=SHUTDOWN_SECONDS_MAX,
                )
        except TlsUnusable as error:
            accepted.close()
            self._refusal_log.cut_off(peer, str(error))
        except OSError as error:
            if not has_begun:
                accepted.close()
            self._failed(host, peer, error)
        else:
            self.failures.succeeded(host)

    def _failed(self, host: str, peer: str, error: Exception) -> None:
        self.failures.failed(host)
        self._refusal_log.cut_off(peer, handshake_failure(error))

    def _ended(self, handshake: "asyncio.Task[None]", accepted: socket.socket, host: str) -> None:
        self._handshakes.discard(handshake)
        if handshake.cancelled():
            accepted.close()
        self._of_address[host] -= 1
        if self._of_address[host] <= 0:
            del self._of_address[host]
        if not handshake.cancelled() and handshake.exception() is not None:
            logger.error(
                "A TLS handshake failed",
                exc_info=handshake.exception(),
                extra=LogEvent.REQUEST_FAILED.extra,
            )
        if self._pause is None:
            self._accept_again()


async def _begins_tls(accepted: socket.socket) -> bool:
    """Return whether the first byte of a client is that of TLS; raises `TimeoutError`.

    A request of Kafka begins with its length, whose first byte is 0 below 16 MiB.
    """
    return await first_byte(accepted, HANDSHAKE_SECONDS_MAX) == TLS_HANDSHAKE


async def first_byte(accepted: socket.socket, within_seconds: float) -> bytes:
    """Return the first byte that a client sends, empty if it ends the connection; the byte stays
    to be read. Raises `TimeoutError` or another `OSError`."""
    loop, descriptor = asyncio.get_running_loop(), accepted.fileno()
    readable: asyncio.Future[None] = loop.create_future()

    def on_readable() -> None:
        if not readable.done():
            readable.set_result(None)

    loop.add_reader(descriptor, on_readable)
    try:
        async with asyncio.timeout(within_seconds):
            await readable
    finally:
        loop.remove_reader(descriptor)
    return accepted.recv(1, socket.MSG_PEEK)


async def open_sockets(host: str | None, port: int, backlog: int) -> list[socket.socket]:
    """Return sockets that listen at every address of `host`, None for all of the machine's.

    Raises `OSError` if one cannot be had.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listening = socket.socket(family, kind, protocol)
            sockets.append(listening)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if len(sockets) > 1 and port == 0:
                address = (address[0], sockets[0].getsockname()[1], *address[2:])
            listening.bind(address)
            listening.setblocking(False)
            listening.listen(backlog)
    except BaseException:
        for each in sockets:
            each.close()
        raise
    return sockets
