"""One connection to another node: it negotiates API versions, then pipelines requests.

Responses come in the order of the requests, as Kafka guarantees; one that does not match the first
pending request ends the connection. The channel reconnects, and queues requests meanwhile.
"""

import asyncio
import random
import ssl
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, cast

from quorum.protocol import api_versions, headers
from quorum.protocol.apis import ApiKey, VersionRange
from quorum.protocol.errors import BadFrame, Malformed
from quorum.protocol.frames import FrameSplitter
from quorum.protocol.shape import Data
from quorum.transport.buffers import body_of, write_out
from quorum.transport.outcomes import Cause, Outcome, Reply
from quorum.transport.security.mechanisms import AuthenticationFailed
from quorum.transport.security.sasl_client import RENEWED_AFTER, ClientSasl
from quorum.transport.security.tls import handshake_failure
from quorum.version import SOFTWARE_NAME, VERSION

OnDone = Callable[[Outcome], None]
BodyWriter = Callable[[int], Data | Sequence[Data]]

_GREETING_VERSION: Final = 3
"""The first flexible ApiVersions; a node without it answers with its highest one (KIP-511)."""


@dataclass(slots=True, eq=False)
class Exchange:
    """A request, and the caller that waits for its outcome."""

    api_key: int
    body: Data | BodyWriter
    on_done: OnDone
    version: int | None
    timeout_ms: int
    deadline_ms: int
    lowest: int = 0
    correlation_id: int = 0


class Owner(Protocol):
    """The owner of a connection, which gets its reports."""

    def on_ready(self, connection: "ClientConnection") -> None:
        """Note that the API versions of the other side are known."""
        ...

    def on_replies(self, replies: Sequence[tuple[Exchange, Reply]]) -> None:
        """Take replies that came together, in the order of their requests."""
        ...

    def on_lost(self, connection: "ClientConnection", cause: Cause, reason: str) -> None:
        """Note that the connection has ended, except by `drop`."""
        ...


WANTS_SASL: Final = "it hung up at the first request, as a listener does that asks for SASL"
"""The reason of a closed connection to such a listener, if this client does not use SASL."""


class ClientConnection(asyncio.Protocol):
    """A connection that pipelines requests; no bytes from the peer raise an error in the loop."""

    def __init__(
        self,
        owner: Owner,
        *,
        client_id: str | None,
        frame_bytes_max: int,
        rng: random.Random,
        sasl: ClientSasl | None = None,
    ) -> None:
        self._owner = owner
        self._rng = rng
        self._sasl = sasl
        self._authentication: asyncio.Task[None] | None = None
        self._renewal: asyncio.TimerHandle | None = None
        self._was_ready = False
        # The answer of SASL that is waited for: API, version and correlation id of its request.
        self._asked: asyncio.Future[Data] | None = None
        self._ask_of = (0, 0, 0)
        self._client_id = client_id
        self._header_tails: dict[tuple[int, int], bytes] = {}
        self._splitter = FrameSplitter(frame_bytes_max)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._is_dropped = False
        # Version and correlation id of the ApiVersions request without an answer.
        self._greeting: tuple[int, int] | None = None
        self._next_correlation_id = 0
        self._out: list[Data] = []
        self._out_bytes = 0
        self._is_flush_due = False
        self.in_flight: deque[Exchange] = deque()
        self.offered: Mapping[int, VersionRange] | None = None
        """The API versions that the peer serves; None until it has answered."""
        self.has_replied = False
        self.gone: asyncio.Future[None] = self._loop.create_future()
        """Done when the socket is closed, or never opened."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes of requests that have not left this process."""
        if self._transport is None:
            return self._out_bytes
        return self._out_bytes + self._transport.get_write_buffer_size()

    def send(self, exchange: Exchange, version: int, parts: Sequence[Data]) -> None:
        """Send the request, in one write with others of the same turn of the loop."""
        exchange.version = version
        exchange.correlation_id = self._write(exchange.api_key, version, parts)
        # The response can be read without it.
        exchange.body = b""
        self.in_flight.append(exchange)

    def drop(self) -> None:
        """Close at once and report nothing more. The exchanges in flight stay with the caller."""
        self._is_dropped = True
        self._end_session()
        if self._transport is not None:
            self._transport.abort()

    def attempt_ended(self, *, was_cancelled: bool) -> None:
        """Note the end of the attempt to connect; a cancelled one may never report its close."""
        if was_cancelled or self._transport is None:
            self._set_gone()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not every loop's transports are subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        if self._is_dropped:
            self._transport.abort()
            return
        self._greet(_GREETING_VERSION)

    def data_received(self, data: bytes) -> None:
        if self._is_dropped:
            return
        self._splitter.feed(data)
        replies: list[tuple[Exchange, Reply]] = []
        reason = self._take_frames(replies)
        if replies:
            self.has_replied = True
            self._owner.on_replies(replies)
        if reason is not None and not self._is_dropped:
            self._end(Cause.GARBLED, reason)

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_gone()
        self._out.clear()
        self._end_session()
        if not self._is_dropped:
            self._is_dropped = True
            if isinstance(exc, ssl.SSLError) and not self._was_ready:
                # With TLS 1.3 a client hears only afterwards that its certificate is refused.
                self._owner.on_lost(self, Cause.UNAUTHENTICATED, handshake_failure(exc))
                return
            reason = "end of stream" if exc is None else str(exc)
            self._owner.on_lost(self, Cause.CLOSED, WANTS_SASL if self._lacks_sasl else reason)

    # Internal.

    @property
    def _lacks_sasl(self) -> bool:
        """True if the peer takes SASL, and hung up at the first request of a client without it.

        Kafka's brokers offer SASL at every listener: the offer alone does not tell.
        """
        if self._sasl is not None or self.offered is None:
            return False
        return ApiKey.SASL_HANDSHAKE in self.offered and bool(
            self.in_flight and not self.has_replied
        )

    def _take_frames(self, replies: list[tuple[Exchange, Reply]]) -> str | None:
        """Add the replies in complete frames; return the reason if one is unreadable, or None."""
        try:
            while (frame := self._splitter.take()) is not None:
                if self.offered is not None or self.in_flight:
                    replies.append(self._read_reply(frame))
                elif self._authentication is not None:
                    self._read_session(frame)
                else:
                    self._read_greeting(frame)
        except (BadFrame, Malformed) as error:
            return str(error)
        return None

    def _read_reply(self, frame: bytes) -> tuple[Exchange, Reply]:
        if not self.in_flight:
            raise Malformed(-1, 0, "a response without a request")
        exchange = self.in_flight[0]
        api_key, version = exchange.api_key, exchange.version
        assert version is not None
        _check_correlation(frame, api_key, version, exchange.correlation_id)
        start = headers.response_body_start(frame, api_key, version)
        self.in_flight.popleft()
        return exchange, Reply(api_key, version, body_of(frame, start))

    def _greet(self, version: int) -> None:
        body = api_versions.write_request(version, SOFTWARE_NAME, VERSION)
        self._greeting = version, self._write(ApiKey.API_VERSIONS, version, (body,))

    def _read_greeting(self, frame: bytes) -> None:
        assert self._greeting is not None, "a response before the connection was made"
        version, expected = self._greeting
        _check_correlation(frame, ApiKey.API_VERSIONS, version, expected)
        start = headers.response_body_start(frame, ApiKey.API_VERSIONS, version)
        offer = api_versions.read_offer(version, frame[start:])
        if not isinstance(offer, VersionRange):
            if self._sasl is None:
                self._open(offer)
            else:
                self._begin_session(self._sasl, offer)
            return
        # Only downwards, so that the negotiation ends.
        lower = api_versions.negotiate(VersionRange(0, max(0, version - 1)), offer)
        if version == 0 or lower is None:
            reason = f"the other side serves versions {offer}, not v{version}"
            raise Malformed(ApiKey.API_VERSIONS, version, reason)
        self._greet(lower)

    def _begin_session(self, sasl: ClientSasl, offer: Mapping[int, VersionRange]) -> None:
        """Prove who this side is, while requests wait for `offered`."""
        self._authentication = self._loop.create_task(self._authenticate(sasl, offer))

    async def _authenticate(self, sasl: ClientSasl, offer: Mapping[int, VersionRange]) -> None:
        try:
            lifetime_ms = await sasl.authenticate(self._ask, offer)
        except (AuthenticationFailed, Malformed) as failure:
            if not self._is_dropped:
                # Once it was ready, requests may have been carried out: it is lost like any other.
                cause = Cause.CLOSED if self._was_ready else Cause.UNAUTHENTICATED
                self._end(cause, str(failure))
            return
        if self._is_dropped:
            return
        if lifetime_ms > 0:
            lowest, highest = RENEWED_AFTER
            share = lowest + (highest - lowest) * self._rng.random()
            seconds = lifetime_ms * share / 1_000
            self._renewal = self._loop.call_later(seconds, self._renew, sasl, offer)
        self._open(offer)

    def _renew(self, sasl: ClientSasl, offer: Mapping[int, VersionRange]) -> None:
        """Authenticate anew (KIP-368): no request may come in between, so they wait meanwhile."""
        self._renewal = None
        if not self._is_dropped:
            self.offered = None
            self._begin_session(sasl, offer)

    async def _ask(self, api_key: int, version: int, body: bytes) -> Data:
        """Send a request of SASL; the answer comes after those to the requests in flight."""
        self._asked = self._loop.create_future()
        self._ask_of = api_key, version, self._write(api_key, version, (body,))
        return await self._asked

    def _read_session(self, frame: bytes) -> None:
        """Take an answer of SASL."""
        asked = self._asked
        if asked is None or asked.done():
            raise Malformed(-1, 0, "an answer that nobody has asked for")
        api_key, version, expected = self._ask_of
        _check_correlation(frame, api_key, version, expected)
        start = headers.response_body_start(frame, api_key, version)
        asked.set_result(frame[start:])

    def _open(self, offer: Mapping[int, VersionRange]) -> None:
        """Let the owner send its requests."""
        self._was_ready = True
        self.offered = offer
        self._owner.on_ready(self)

    def _write(self, api_key: int, version: int, parts: Sequence[Data]) -> int:
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFF_FFFF
        tail = self._header_tails.get((api_key, version))
        if tail is None:
            tail = headers.request_header_tail(api_key, version, self._client_id)
            self._header_tails[api_key, version] = tail
        size = len(tail) + (len(parts[0]) if len(parts) == 1 else sum(map(len, parts)))
        head = headers.write_framed_request_prefix(api_key, version, correlation_id, size)
        self._out += (head, tail, *parts)
        self._out_bytes += len(head) + size
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)
        return correlation_id

    def _flush(self) -> None:
        self._is_flush_due = False
        if self._transport is None or self._is_dropped or not self._out:
            return
        out, self._out = self._out, []
        size, self._out_bytes = self._out_bytes, 0
        write_out(self._transport, out, size)

    def _end_session(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None
        if self._asked is not None and not self._asked.done():
            self._asked.cancel()
        if self._authentication is not None:
            self._authentication.cancel()

    def _set_gone(self) -> None:
        if not self.gone.done():
            self.gone.set_result(None)

    def _end(self, cause: Cause, reason: str) -> None:
        self.drop()
        self._owner.on_lost(self, cause, reason)


def _check_correlation(frame: bytes, api_key: int, version: int, expected: int) -> None:
    correlation_id = headers.read_correlation_id(frame, api_key, version)
    if correlation_id != expected:
        reason = f"a response to request {correlation_id}, expected one to {expected}"
        raise Malformed(api_key, version, reason)
