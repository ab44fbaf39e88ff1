"""A channel: requests to one address, over a connection that is made on demand.

Every request ends exactly once, with its response or a failure. The channel never repeats one: that
is the caller's decision. A failed attempt to connect delays the next one, doubling each time
(KIP-580); a connection that has served is replaced without delay.
"""

import asyncio
import logging
import random
import ssl
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Final

from quorum.core.vocabulary import HostPort
from quorum.log_events import LogEvent
from quorum.protocol.api_versions import negotiate
from quorum.protocol.apis import SPOKEN, ApiKey, VersionRange, api_name
from quorum.protocol.headers import write_request_header
from quorum.protocol.shape import Data
from quorum.transport.address import REFUSALS, Address, dial, in_words
from quorum.transport.buffers import parts_of
from quorum.transport.connection import BodyWriter, ClientConnection, Exchange, OnDone
from quorum.transport.limits import ChannelLimits
from quorum.transport.outcomes import Cause, Failure, Outcome, Reply, RequestFailed
from quorum.transport.security.protocols import PLAIN_CLIENT, ClientSecurity
from quorum.transport.security.tls import ENDED_HANDSHAKE, TlsUnusable, handshake_failure
from quorum.transport.sweeper import Sweeper

logger = logging.getLogger("quorum")

AddressLookup = Callable[[], HostPort | None]
"""Return the current address, or None while it is unknown."""

_CLOSED: Final = frozenset({Cause.CLOSED, Cause.REFUSED})
_GONE_AT: Final = 2
"""The number of consecutive connections that the peer must close, reset or refuse."""


class Channel:
    """At most one connection at a time to `address`, which is looked up for each connection.

    Responses come in the order of the requests: one that the other side delays, such as a long
    poll, delays all that follow it. Use another channel for those.
    """

    def __init__(
        self,
        address: AddressLookup,
        *,
        client_id: str | None,
        sweeper: Sweeper,
        rng: random.Random,
        limits: ChannelLimits | None = None,
        security: ClientSecurity = PLAIN_CLIENT,
        on_gone: Callable[[], None] | None = None,
    ) -> None:
        """`on_gone` is called when the peer has closed, reset or refused two connections in a row:
        its process is most likely gone."""
        self._address = address
        self._on_gone = on_gone
        self._security = security
        self._closed_in_a_row = 0
        self._client_id = client_id
        self._header_bytes = len(write_request_header(ApiKey.API_VERSIONS, 3, 0, client_id))
        self._sweeper = sweeper
        self._rng = rng
        self._limits = limits or ChannelLimits()
        self._connection: ClientConnection | None = None
        self._connected_to: HostPort | None = None
        """The address of the connection, or of the last attempt."""
        self._waiting: deque[Exchange] = deque()
        self._undelivered: deque[tuple[Exchange, Outcome]] = deque()
        self._open: set[ClientConnection] = set()
        self._attempts: dict[ClientConnection, asyncio.Task[None]] = {}
        self._failed_attempts = 0
        self._no_connection: Failure | None = None
        """The failure of the last attempt to connect; None after a success."""
        self._retry_ms = 0
        self._swept_ms: int | None = None
        self._is_closed = False

    def request(
        self,
        api_key: int,
        body: Data | BodyWriter,
        on_done: OnDone,
        *,
        timeout_ms: int,
        version: int | None = None,
        lowest: int = 0,
    ) -> None:
        """Send a request; `on_done` gets its outcome, once, and never from inside this call.

        `body` is encoded for `version`; without one, it is a function that encodes the body for the
        highest common version. If that is below `lowest`, the request ends as `NOT_SERVED`. After
        `timeout_ms` it ends as `TIMED_OUT`, and its connection is dropped.
        """
        assert version is not None or callable(body), "an encoded body needs its version"
        now_ms = self._sweeper.now_ms()
        exchange = Exchange(
            api_key,
            body,
            on_done,
            version=version,
            timeout_ms=timeout_ms,
            deadline_ms=now_ms + timeout_ms,
            lowest=lowest,
        )
        refusal = self._refusal()
        if refusal is not None:
            self._end_later(exchange, refusal)
            return
        self._watch(exchange.deadline_ms)
        if self._connection is not None and self._connection.offered is not None:
            self._send(self._connection, exchange)
            return
        self._waiting.append(exchange)
        if self._connection is None:
            self._connect_when_due(now_ms)

    async def call(
        self,
        api_key: int,
        body: Data | BodyWriter,
        *,
        timeout_ms: int,
        version: int | None = None,
    ) -> Reply:
        """Send a request, as `request` does, and await the reply; raises `RequestFailed`."""
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def on_done(outcome: Outcome) -> None:
            # The caller may have been cancelled.
            if not answer.done():
                answer.set_result(outcome)

        self.request(api_key, body, on_done, timeout_ms=timeout_ms, version=version)
        outcome = await answer
        if isinstance(outcome, Reply):
            return outcome
        raise RequestFailed(api_key, outcome)

    def serves(self, api_key: int) -> bool | None:
        """Return whether the node at the other end serves this API; None without a connection."""
        offered = None if self._connection is None else self._connection.offered
        return None if offered is None else api_key in offered

    def look_up_again(self) -> None:
        """Close the connection soon if the address has changed: another process answers there."""
        # The caller may be handling a response from this very connection.
        asyncio.get_running_loop().call_soon(self.leave_old_address)

    def leave_old_address(self) -> None:
        """Close the connection if the address has changed; the next attempt is not delayed."""
        if self._connected_to is None or self._address() == self._connected_to:
            return
        if self._connection is not None:
            self._drop(Cause.SHUT, "another address is known now")
        self._connected_to = None
        self._failed_attempts = self._retry_ms = 0
        if self._waiting:
            self._connect_when_due(self._sweeper.now_ms())

    async def close(self) -> None:
        """Fail the requests under way, and return when every socket is closed."""
        self._is_closed = True
        self._sweeper.forget(self)
        self._drop(Cause.SHUT, "closed")
        if self._attempts:
            await asyncio.wait(tuple(self._attempts.values()))
        if self._open:
            await asyncio.wait({connection.gone for connection in self._open})
        self._deliver()

    def sweep(self, now_ms: int) -> int | None:
        """Time out requests, and reconnect when the back-off is over; called by the sweeper."""
        self._swept_ms = None
        connection = self._connection
        in_flight: Sequence[Exchange] = () if connection is None else tuple(connection.in_flight)
        expired = {e for e in (*in_flight, *self._waiting) if e.deadline_ms <= now_ms}
        for exchange in expired:
            # A request that waited for a connection fails with the reason why there is none.
            failure = self._no_connection if connection is None else None
            timed_out = f"no answer within {exchange.timeout_ms} ms"
            self._end_later(exchange, failure or Failure(Cause.TIMED_OUT, timed_out))
        if expired and connection is not None:
            names = ", ".join(sorted({api_name(exchange.api_key) for exchange in expired}))
            self._drop(Cause.SILENT, f"{names} got no answer", expired)
        elif expired:
            self._waiting = deque(e for e in self._waiting if e.deadline_ms > now_ms)
        if self._waiting and self._connection is None:
            self._connect_when_due(now_ms)
        self._swept_ms = self._next_sweep_ms()
        return self._swept_ms

    # Reports of its connections.

    def on_ready(self, connection: ClientConnection) -> None:
        if self._security.protocol:
            self._security.log.succeeded(self._where())
        waiting, self._waiting = self._waiting, deque()
        for exchange in waiting:
            self._send(connection, exchange)

    def on_replies(self, replies: Sequence[tuple[Exchange, Reply]]) -> None:
        self._failed_attempts = self._closed_in_a_row = 0
        self._no_connection = None
        self._undelivered.extend(replies)
        self._deliver()

    def on_lost(self, connection: ClientConnection, cause: Cause, reason: str) -> None:
        if connection is not self._connection:
            return
        was_asked = bool(connection.in_flight)
        if cause is Cause.UNAUTHENTICATED:
            self._security.log.failed(self._where(), reason)
        if connection in self._attempts or cause is Cause.UNAUTHENTICATED:
            self._no_connection = Failure(cause, reason)
        self._drop(cause, reason)
        if self._on_gone is None or self._is_closed:
            return
        self._closed_in_a_row = self._closed_in_a_row + 1 if cause in _CLOSED else 0
        if self._closed_in_a_row >= _GONE_AT:
            self._on_gone()
        elif self._closed_in_a_row == 1 and connection.has_replied and was_asked:
            # A request was pending: find out at once whether the process is gone.
            self._connect_when_due(self._sweeper.now_ms())

    # Internal.

    def _where(self) -> str:
        return "nowhere" if self._connected_to is None else str(Address(*self._connected_to))

    def _refusal(self) -> Failure | None:
        if self._is_closed:
            return Failure(Cause.SHUT, "the channel is closed")
        under_way = len(self._waiting)
        if self._connection is not None:
            under_way += len(self._connection.in_flight)
        if under_way >= self._limits.requests_in_flight_max:
            reason = f"{under_way} requests without an answer, which is the limit"
            return Failure(Cause.OVERLOADED, reason)
        return None

    def _send(self, connection: ClientConnection, exchange: Exchange) -> None:
        assert connection.offered is not None
        theirs = connection.offered.get(exchange.api_key)
        version = _common_version(exchange, theirs)
        if version is None:
            reason = _no_common_version(exchange, theirs)
            self._end_later(exchange, Failure(Cause.NOT_SERVED, reason))
            return
        body = self._written(exchange, version)
        if isinstance(body, Failure):
            self._end_later(exchange, body)
            return
        parts = parts_of(body)
        size = self._header_bytes + sum(map(len, parts))
        if size > self._limits.frame_bytes_max:
            reason = f"a frame of {size} bytes, at most {self._limits.frame_bytes_max} are allowed"
            self._end_later(exchange, Failure(Cause.UNSENDABLE, reason))
        elif connection.unsent_bytes + size > self._limits.outgoing_bytes_max:
            reason = f"{connection.unsent_bytes} bytes are unsent"
            self._end_later(exchange, Failure(Cause.OVERLOADED, reason))
        else:
            connection.send(exchange, version, parts)

    def _written(self, exchange: Exchange, version: int) -> Data | Sequence[Data] | Failure:
        if not callable(exchange.body):
            return exchange.body
        try:
            return exchange.body(version)
        except Exception as error:
            logger.exception(
                "cannot write %s v%d",
                api_name(exchange.api_key),
                version,
                extra=LogEvent.REQUEST_FAILED.extra,
            )
            return Failure(Cause.UNSENDABLE, f"{type(error).__name__}: {error}")

    def _connect_when_due(self, now_ms: int) -> None:
        if now_ms < self._retry_ms:
            self._watch(self._retry_ms)
            return
        found = self._address()
        if found is None:
            self._attempt_failed(now_ms)
            self._drop(Cause.NO_ADDRESS, "looked up without success")
            return
        connection = ClientConnection(
            self,
            client_id=self._client_id,
            frame_bytes_max=self._limits.frame_bytes_max,
            rng=self._rng,
            sasl=self._security.sasl,
        )
        self._connection = connection
        self._connected_to = found
        self._open.add(connection)
        connection.gone.add_done_callback(lambda _: self._open.discard(connection))
        attempt = asyncio.get_running_loop().create_task(self._connect(connection, Address(*found)))
        self._attempts[connection] = attempt
        attempt.add_done_callback(lambda _: self._attempt_ended(connection))

    async def _connect(self, connection: ClientConnection, address: Address) -> None:
        tls = self._security.tls
        try:
            context = None if tls is None else tls.context()
            await dial(lambda: connection, address, tls=context)
        except TlsUnusable as error:
            self.on_lost(connection, Cause.UNAUTHENTICATED, str(error))
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            self.on_lost(connection, Cause.REFUSED, f"{address}: {ENDED_HANDSHAKE}")
        except ssl.SSLError as error:
            self.on_lost(connection, Cause.UNAUTHENTICATED, handshake_failure(error))
        except REFUSALS as error:
            is_closed = tls is not None and isinstance(error, ConnectionResetError)
            reason = ENDED_HANDSHAKE if is_closed else in_words(error)
            self.on_lost(connection, Cause.REFUSED, f"{address}: {reason}")
        except (OSError, OverflowError, ValueError) as error:
            # The last two are raised for impossible hosts and ports.
            self.on_lost(connection, Cause.UNREACHABLE, f"{address}: {in_words(error)}")

    def _attempt_ended(self, connection: ClientConnection) -> None:
        attempt = self._attempts.pop(connection)
        connection.attempt_ended(was_cancelled=attempt.cancelled())
        if not attempt.cancelled():
            attempt.result()

    def _drop(self, cause: Cause, reason: str, expired: Collection[Exchange] = ()) -> None:
        """End the connection, or the attempt, and its requests, except the `expired` ones."""
        connection, self._connection = self._connection, None
        under_way = [*self._waiting]
        self._waiting.clear()
        if connection is not None:
            connection.drop()
            if connection in self._attempts:
                self._attempts[connection].cancel()
            under_way = [*connection.in_flight, *under_way]
            if not connection.has_replied:
                self._attempt_failed(self._sweeper.now_ms())
        for exchange in under_way:
            if exchange not in expired:
                self._end_later(exchange, Failure(cause, reason))

    def _attempt_failed(self, now_ms: int) -> None:
        self._failed_attempts += 1
        doubled_ms = self._limits.retry_backoff_ms << min(self._failed_attempts - 1, 30)
        backoff_ms = min(doubled_ms, self._limits.retry_backoff_ms_max)
        # A fifth of jitter, so that nodes that lost the same peer do not return at once.
        self._retry_ms = now_ms + max(1, round(backoff_ms * self._rng.uniform(0.8, 1.2)))

    def _end_later(self, exchange: Exchange, failure: Failure) -> None:
        if not self._undelivered:
            asyncio.get_running_loop().call_soon(self._deliver)
        self._undelivered.append((exchange, failure))

    def _deliver(self) -> None:
        """Deliver outcomes in order; a callback that raises does not stop the others."""
        try:
            while self._undelivered:
                exchange, outcome = self._undelivered.popleft()
                exchange.on_done(outcome)
        finally:
            if self._undelivered:
                asyncio.get_running_loop().call_soon(self._deliver)

    def _watch(self, deadline_ms: int) -> None:
        if self._swept_ms is None or deadline_ms < self._swept_ms:
            self._swept_ms = deadline_ms
            self._sweeper.watch(self, deadline_ms)

    def _next_sweep_ms(self) -> int | None:
        in_flight = () if self._connection is None else self._connection.in_flight
        deadlines = [exchange.deadline_ms for exchange in (*in_flight, *self._waiting)]
        if self._waiting and self._connection is None:
            deadlines.append(self._retry_ms)
        return min(deadlines, default=None)


def _common_version(exchange: Exchange, theirs: VersionRange | None) -> int | None:
    ours, version = SPOKEN.get(exchange.api_key), exchange.version
    if version is None or ours is None or theirs is None:
        highest = negotiate(ours, theirs)
        return None if highest is None or highest < exchange.lowest else highest
    is_common = max(ours.lowest, theirs.lowest) <= version <= min(ours.highest, theirs.highest)
    return version if is_common else None


def _no_common_version(exchange: Exchange, theirs: VersionRange | None) -> str:
    ours = SPOKEN.get(exchange.api_key) if exchange.version is None else exchange.version
    served = "not served there" if theirs is None else f"served there are versions {theirs}"
    return f"{api_name(exchange.api_key)}: asked in version {ours}, {served}"
