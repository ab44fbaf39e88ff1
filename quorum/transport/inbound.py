"""One connection of a listener: requests in, responses out in the order of the requests.

Bodies are opaque here. With too many requests under way, or too many response bytes unread by the
peer, the connection stops reading from it. It also waits for its turn among the connections of the
listener, and for memory if a request is large (`admission`). The connections of voters, live
brokers and followers are served first: they do not wait for their turn, and have memory of their
own. A client that has yet to authenticate gets the least of it, and sends no more than SASL needs.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Final, cast

from quorum.log_events import LogEvent
from quorum.protocol.api_versions import write_unsupported
from quorum.protocol.apis import ApiKey, VersionRange, api_name
from quorum.protocol.codec import header_flexibility
from quorum.protocol.errors import BadFrame, Malformed
from quorum.protocol.frames import FrameSplitter
from quorum.protocol.headers import (
    read_request_header,
    read_request_prefix,
    write_framed_response_header,
)
from quorum.protocol.principal import ANONYMOUS, KafkaPrincipal
from quorum.protocol.request_limits import LIMIT_BYTES_MIN
from quorum.protocol.shape import Data
from quorum.transport.address import host_of_peer, network_of, peer_name
from quorum.transport.admission import Claim, LargeRequests, RequestPacer, UnreadAnswers
from quorum.transport.buffers import ReadBuffer, body_of, parts_of, write_out
from quorum.transport.limits import (
    LARGE_REQUEST_BYTES,
    REQUEST_OVERHEAD_BYTES,
    SMALL_REQUESTS_BYTES_MAX,
    TLS_WRITE_BYTES,
    TURN_REQUESTS_OF_CONNECTION_MAX,
    TURN_REQUESTS_OF_FIRST_MAX,
    ServerLimits,
)
from quorum.transport.refusal_log import RefusalLog
from quorum.transport.request_times import RequestTimes
from quorum.transport.security.principal_mapping import NoRuleMatches
from quorum.transport.security.protocols import UNPROTECTED, ListenerSecurity
from quorum.transport.security.sasl_server import SASL_APIS, ServerSession

logger = logging.getLogger("quorum")


class InboundRequest:
    """A request that must be answered once, now or later.

    `peer` and `connection_id` identify its connection; a server never reuses an id.
    """

    # No dataclass: a compiler leaves the `__init__` of one to the interpreter.
    def __init__(
        self,
        connection: "InboundConnection",
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        body: Data,
    ) -> None:
        self._connection: Final = connection
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id: Final = correlation_id
        self.client_id: Final = client_id
        self.body = body
        self.answer_parts: Sequence[Data] | None = None
        """The framed response, once there is one; the connection sends it in its turn."""
        self.answer_bytes = 0
        self.large_bytes = 0
        """The room that it takes among the large requests of the listener until it is answered."""
        self.small_bytes = 0
        """The same of a small request, among those of its connection."""
        self.arrived_seconds: Final = perf_counter()
        self.on_gone: Callable[[], object] | None = None
        """Called if the connection closes before the answer; set by a handler that keeps the
        request."""

    def __str__(self) -> str:
        return f"{api_name(self.api_key)} v{self.api_version} of {self.peer}"

    @property
    def peer(self) -> str:
        return self._connection.peer

    @property
    def client_host(self) -> str:
        """The IP address of the client, without its port."""
        return self._connection.client_host

    @property
    def network(self) -> str:
        """The address of the client that counts for limits per address."""
        return self._connection.network

    def serve_first(self) -> None:
        """Serve the connection before others, and never close it to make room: a voter, a live
        broker or a follower uses it."""
        self._connection.is_served_first = True

    @property
    def connection_id(self) -> int:
        return self._connection.connection_id

    @property
    def principal(self) -> KafkaPrincipal:
        """The identity that the client has proved."""
        return self._connection.principal

    @property
    def listener(self) -> str:
        """The name of the listener that it came to."""
        return self._connection.listener

    @property
    def is_gone(self) -> bool:
        """True if the connection has closed: an answer would reach nobody."""
        return not self._connection.is_open

    def respond(self, body: Data | Sequence[Data]) -> None:
        """Answer with this body, exactly once, anywhere in the loop's thread.

        The response leaves after those to earlier requests of the connection; it is dropped if the
        connection is gone.
        """
        flexible = header_flexibility(self.api_key, self.api_version).response
        self.answer(body, flexible=flexible)

    def throttle(self, for_ms: int) -> None:
        """Take no further request of its connection for so long, as Kafka mutes a client.

        The answer to this one, and to others that were taken before, still leave.
        """
        if for_ms > 0:
            self._connection.throttle(for_ms)

    def respond_nothing(self) -> None:
        """Complete the request without a response, for a Produce with acks=0; exactly once."""
        assert self.answer_parts is None, f"{self} was answered twice"
        self.answer_parts = ()
        self.body = b""
        self._connection.answered(self)

    def forget_body(self) -> None:
        """Drop the body, which the handler has decoded, and its room: the answer may come late."""
        self.body = b""
        self._connection.give_back(self)

    def reject(self, reason: str) -> None:
        """Close the connection: the request cannot be answered."""
        self._connection.close_because(reason)

    def answer(self, body: Data | Sequence[Data], *, flexible: bool) -> None:
        """Answer as `respond` does, with a header that is flexible or not."""
        assert self.answer_parts is None, f"{self} was answered twice"
        parts = parts_of(body)
        size = len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
        header = write_framed_response_header(self.correlation_id, size, flexible=flexible)
        self.answer_parts = (header, *parts)
        self.answer_bytes = len(header) + size
        # The handler has read the body; a waiting response need not keep it.
        self.body = b""
        self._connection.answered(self)


Handler = Callable[[InboundRequest], None]
"""Takes a request, to answer it now or later. It must not block."""


class Flushes:
    """Lets the connections of a listener send what a turn of the event loop has answered.

    A commit answers many connections at once: one callback of the loop serves them all.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._due: list[InboundConnection] = []

    def add(self, connection: "InboundConnection") -> None:
        """Call `flush` of this connection at the end of the turn."""
        if not self._due:
            self._loop.call_soon(self._flush_all)
        self._due.append(connection)

    def _flush_all(self) -> None:
        due, self._due = self._due, []
        done = 0
        try:
            for each in due:
                done += 1
                each.flush()
        finally:
            # One that fails keeps no other from sending.
            for each in due[done:]:
                self.add(each)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The settings that a listener gives to each of its connections."""

    name: str
    refusal_log: RefusalLog
    pacer: RequestPacer
    large: LargeRequests
    unread: UnreadAnswers
    unread_of_first: UnreadAnswers
    """Those of connections that are served first."""
    read_buffer: ReadBuffer
    flushes: Flushes
    handler: Handler
    offered: Mapping[int, VersionRange]
    limits: ServerLimits
    admit: Callable[["InboundConnection"], str | None]
    """Takes a new connection; returns the reason to refuse it, or None."""
    release: Callable[["InboundConnection"], None]
    times: RequestTimes
    """The times of all requests of the listener."""


class InboundConnection(asyncio.BufferedProtocol):
    """One accepted connection; no bytes from the peer raise an error in the loop."""

    def __init__(
        self, terms: Terms, connection_id: int, security: ListenerSecurity = UNPROTECTED
    ) -> None:
        self._terms = terms
        self._security = security
        self._handler = terms.handler
        self._session: ServerSession | None = None
        self._is_raw = False
        self.listener = security.name
        self.principal = ANONYMOUS
        self._limits = terms.limits
        self.connection_id = connection_id
        self.peer = "unknown peer"
        self.client_host = ""
        self.network = ""
        """The address that counts for limits per address."""

        self.is_open = False
        self.is_served_first = False
        self._is_authenticated = True
        self.used_at_seconds = 0.0
        """The time of the loop at which bytes last came."""
        self.has_asked = False
        """True if a request has come by it."""
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._splitter = FrameSplitter(terms.limits.frame_bytes_max, terms.limits.bytes_max_of)
        self._next_frame: bytes | None = None
        self._waits_for_turn = False
        self._waits_for_room = False
        self._large_bytes = 0
        self._large_since_ms: int | None = None
        self._read_buffer = terms.read_buffer
        self._small_bytes = 0
        self._pending: deque[InboundRequest] = deque()
        self._held_bytes = 0
        self._out: list[Data] = []
        self._out_bytes = 0
        self._is_tls = security.tls is not None
        self._unsent = memoryview(b"")
        """What comes before `_out`, over TLS; part of `_out_bytes`."""
        self._is_tls_full = False
        self._is_flush_due = False
        self._is_paused = False
        self._is_unread = False
        self.unread_since_ms: int | None = None
        """The time since which more than `outgoing_bytes_pause` waits to be read, or None."""
        self._is_draining = False
        self._was_active = True
        self._active_ms: int | None = None
        self._stalled_ms: int | None = None
        self._unread_bytes = 0
        self._throttle: asyncio.TimerHandle | None = None
        """Ends the time in which no request is taken; None outside of it."""

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not every loop's transports are subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self.peer = peer_name(transport.get_extra_info("peername"))
        self.client_host = host_of_peer(transport.get_extra_info("peername"))
        self.network = network_of(self.client_host)
        self.used_at_seconds = self._loop.time()
        pause_bytes = TLS_WRITE_BYTES if self._is_tls else self._limits.outgoing_bytes_pause
        self._transport.set_write_buffer_limits(high=pause_bytes)
        self.is_open = True
        refusal = self._terms.admit(self)
        if refusal is not None:
            self.close_because(refusal)
        elif self._security.protocol:
            self._begin_security()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Bound what is read: a little, or what is missing of a request that has its room."""
        return self._read_buffer.space(self._splitter.missing_bytes if self._large_bytes else 0)

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(self._read_buffer.taken(nbytes))

    def data_received(self, data: bytes) -> None:
        """Take bytes from the peer."""
        self._was_active = True
        self.used_at_seconds = self._loop.time()
        if self.is_open:
            self._splitter.feed(data)
            self._pump()

    def pause_writing(self) -> None:
        if self._is_tls:
            self._is_tls_full = True
            return
        self._is_unread = True
        if self.unread_since_ms is None:
            self.unread_since_ms = self._terms.unread.now_ms()
        self._mind_reading()

    def resume_writing(self) -> None:
        if self._is_tls:
            self._is_tls_full = False
            if self._transport is not None and self.is_open:
                self._encrypt(self._transport)
                if self._is_paused:
                    self._pump()
            return
        self._is_unread = False
        self._stalled_ms = None
        self.unread_since_ms = None
        self._pump()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.is_open and self._splitter.is_in_a_frame:
            reason = "it ended in the middle of a request, which is dropped"
            self._terms.refusal_log.cut_off(self.peer, reason)
        if self._session is not None:
            self._session.close()
        if self._throttle is not None:
            self._throttle.cancel()
        self.is_open = False
        self._transport = None
        self._forget_requests()
        self._forget_answers()
        self._terms.release(self)

    # For requests and the listener.

    def answered(self, request: InboundRequest) -> None:
        """Send the response to `request`, and those that waited for it, if its turn has come."""
        self._terms.times.observe(request.api_key, perf_counter() - request.arrived_seconds)
        self.give_back(request)
        self._small_bytes -= request.small_bytes
        if not self.is_open or not self._has_room():
            if self._transport is not None:
                # Its requests are kept until the loop tells that the connection is lost.
                request.answer_parts = ()
            return
        pending = self._pending
        self._held_bytes += request.answer_bytes
        terms = self._terms
        unread = terms.unread_of_first if self.is_served_first else terms.unread
        if not unread.add(request.answer_bytes) and self._unread_now() > LARGE_REQUEST_BYTES:
            limit = f"twice {self._limits.unread_bytes_max} bytes of answers of all connections"
            self.give_up(f"{limit} wait to be read, which is the limit")
            return
        if pending[0] is not request:
            return
        while pending and (parts := pending[0].answer_parts) is not None:
            size = pending.popleft().answer_bytes
            self._held_bytes -= size
            self._out_bytes += size
            self._out.extend(parts)
        if not self._is_flush_due:
            self._is_flush_due = True
            self._terms.flushes.add(self)

    def give_back(self, request: InboundRequest) -> None:
        """Give back the room of a large request."""
        if request.large_bytes:
            size_bytes, request.large_bytes = request.large_bytes, 0
            self._terms.large.give_back(self.network, size_bytes)

    def close_because(self, reason: str) -> None:
        """Log the reason and close; ready responses still leave."""
        if not self.is_open:
            return
        self._terms.refusal_log.cut_off(self.peer, reason)
        self._close()

    def give_up(self, reason: str) -> None:
        """Log the reason and close at once, without waiting for a peer that does not read."""
        if self.is_open:
            self._terms.refusal_log.cut_off(self.peer, reason)
        self.abort()

    def count_unread(self, now_ms: int) -> int:
        """Return the response bytes that wait to be read, and note since when they are many."""
        unread_bytes = self._unread_now()
        if unread_bytes <= self._limits.outgoing_bytes_pause:
            self.unread_since_ms = None
        elif self.unread_since_ms is None:
            self.unread_since_ms = now_ms
        return unread_bytes

    def is_replaceable(self, used_before_seconds: float) -> bool:
        """Return True if it has sent nothing yet, or nothing since then and waits for nothing."""
        if not self.is_open or self.is_served_first or self._pending:
            return False
        return not self.has_asked or self.used_at_seconds < used_before_seconds

    def throttle(self, for_ms: int) -> None:
        """Take no request for so long, or until a later end that was set before."""
        end = self._loop.time() + for_ms / 1_000
        if not self.is_open or (self._throttle is not None and self._throttle.when() >= end):
            return
        if self._throttle is not None:
            self._throttle.cancel()
        self._throttle = self._loop.call_at(end, self._on_throttle_end)
        self._mind_reading()

    def _on_throttle_end(self) -> None:
        self._throttle = None
        self._pump()

    def on_turn(self) -> None:
        self._waits_for_turn = False
        self._pump()

    def on_room(self, size_bytes: int) -> None:
        self._waits_for_room = False
        self._hold(size_bytes)
        # The caller may be in the middle of an answer of another connection.
        self._loop.call_soon(self._pump)

    def drain(self) -> None:
        """Stop reading, and close once every request has been answered."""
        self._is_draining = True
        self._mind_reading()
        if not self._pending and self.is_open:
            self._close()

    def abort(self) -> None:
        """Close at once and drop the requests under way."""
        self.is_open = False
        # The loop tells later that the connection is lost; its answers need no memory until then.
        self._forget_answers()
        if self._transport is not None:
            self._transport.abort()

    def sweep(self, now_ms: int) -> None:
        """Close the connection if it is idle, or the peer does not read, for too long."""
        if self._transport is None:
            return
        if self._was_active or self._pending or self._active_ms is None:
            self._was_active = False
            self._active_ms = now_ms
        self.count_unread(now_ms)
        if self._has_stalled(self._left_unread(self._transport), now_ms):
            self.give_up(f"{self._unread_bytes} bytes unread for {self._limits.stall_ms} ms")
        elif self._is_too_slow(now_ms):
            limit_ms = self._limits.large_request_ms_max
            self.give_up(f"a large request was not whole after {limit_ms} ms")
        elif self.is_open and now_ms - self._active_ms >= self._limits.idle_ms:
            logger.info(
                "%s: closed an idle connection from %s",
                self._terms.name,
                self.peer,
                extra=LogEvent.CONNECTION_IDLE.extra,
            )
            self._close()

    # What the session of SASL calls.

    @property
    def offered(self) -> Mapping[int, VersionRange]:
        """The APIs of the listener, without those of SASL."""
        return self._terms.offered

    def authenticated(self, principal: KafkaPrincipal) -> None:
        """The client has proved who it is: its requests are served from now on."""
        self.principal = principal
        self._is_authenticated = True
        self._splitter.limit(self._limits.frame_bytes_max)
        self._handler = self._terms.handler

    def must_authenticate(self) -> None:
        """The proof has expired: serve no request before another one."""
        assert self._session is not None
        self._handler = self._session.handle_expired

    def take_raw(self, is_raw: bool) -> None:
        """Take bare frames for messages of SASL, or requests again (SaslHandshake v0)."""
        self._is_raw = is_raw

    def send_raw(self, message: bytes) -> None:
        """Send a bare frame, once the answer to SaslHandshake v0 has left."""
        if self.is_open:
            frame = len(message).to_bytes(4, "big") + message
            self._out.append(frame)
            self._out_bytes += len(frame)
            if not self._is_flush_due:
                self._is_flush_due = True
                self._terms.flushes.add(self)

    # Internal.

    def _pump(self) -> None:
        """Dispatch the received requests, up to the limit of requests under way."""
        taken = 0
        while self.is_open and self._may_take():
            frame, self._next_frame = self._next_frame, None
            if frame is None:
                try:
                    frame = self._splitter.take()
                except BadFrame as bad:
                    when = "" if self._is_authenticated else ", before the client has authenticated"
                    self.close_because(f"{bad}{when}")
                    return
            if not self._finds_room(frame):
                self._next_frame = frame
                break
            if frame is None:
                break
            if not self._has_turn(taken):
                self._next_frame = frame
                self._waits_for_turn = True
                self._terms.pacer.wait(self)
                break
            taken += 1
            self._dispatch(frame)
        self._mind_reading()

    def _has_turn(self, taken: int) -> bool:
        """Return True if one more request, after `taken` others, may be handed on in this turn."""
        pacer = self._terms.pacer
        if self.is_served_first and (taken < TURN_REQUESTS_OF_FIRST_MAX or pacer.is_held):
            return True
        if taken >= TURN_REQUESTS_OF_CONNECTION_MAX and pacer.has_waiting:
            return False
        return pacer.take()

    def _requested(
        self,
        frame: bytes,
        api_key: int,
        version: int,
        correlation_id: int,
        client_id: str | None = None,
        body: Data = b"",
    ) -> InboundRequest:
        """Return a request that awaits its answer; it takes over the room of its frame."""
        request = InboundRequest(self, api_key, version, correlation_id, client_id, body)
        if self._large_bytes:
            request.large_bytes = self._large_bytes
            self._hold(0)
        else:
            request.small_bytes = len(frame) + REQUEST_OVERHEAD_BYTES
            self._small_bytes += request.small_bytes
        self._pending.append(request)
        return request

    def _hold(self, size_bytes: int) -> None:
        """Note the room that is taken for the frame that comes; its time begins anew."""
        self._large_bytes = size_bytes
        self._large_since_ms = None

    def _finds_room(self, frame: bytes | None) -> bool:
        """Take room for a frame, or for the one that has begun to come, if it is large; return
        False, and wait, if there is none."""
        size_bytes = self._splitter.unfinished_bytes if frame is None else len(frame)
        if size_bytes <= LARGE_REQUEST_BYTES or self._large_bytes:
            return True
        large, claim = self._terms.large, self._claim()
        if large.take(self.network, size_bytes, claim):
            self._hold(size_bytes)
            return True
        self._waits_for_room = True
        large.wait(self, self.network, size_bytes, claim)
        return False

    def _claim(self) -> Claim:
        if self.is_served_first:
            return Claim.SERVED_FIRST
        return Claim.CLIENT if self._is_authenticated else Claim.UNAUTHENTICATED

    def _forget_requests(self) -> None:
        """Nobody is answered any more: give back all memory."""
        pending = tuple(self._pending)
        self._pending.clear()
        self._next_frame = None
        if self._waits_for_room:
            self._waits_for_room = False
            self._terms.large.forget(self)
        self._leave_room()
        for request in pending:
            self.give_back(request)
            if request.on_gone is not None:
                request.on_gone()

    def _forget_answers(self) -> None:
        for request in self._pending:
            if request.answer_parts is not None:
                request.answer_parts = ()
        self._out.clear()
        self._unsent = memoryview(b"")
        self._out_bytes = self._held_bytes = 0

    def _leave_room(self) -> None:
        """Give back the room of a frame that becomes no request."""
        size_bytes = self._large_bytes
        if size_bytes:
            self._hold(0)
            self._terms.large.give_back(self.network, size_bytes)

    def _is_too_slow(self, now_ms: int) -> bool:
        if not self._large_bytes:
            self._large_since_ms = None
        elif self._large_since_ms is None:
            self._large_since_ms = now_ms
        since_ms = self._large_since_ms
        return since_ms is not None and now_ms - since_ms >= self._limits.large_request_ms_max

    def _dispatch(self, frame: bytes) -> None:
        if self._is_raw:
            self._take_raw(frame)
            return
        try:
            api_key, version, correlation_id = read_request_prefix(frame)
            served = self._terms.offered.get(api_key)
            if served is None or not served.lowest <= version <= served.highest:
                self._refuse(api_key, version, correlation_id, frame)
                return
            if len(frame) > LIMIT_BYTES_MIN:
                self._check_size(api_key, version, len(frame))
            client_id, start = read_request_header(frame, api_key, version)
        except Malformed as malformed:
            self.close_because(str(malformed))
            return
        body = body_of(frame, start)
        request = self._requested(frame, api_key, version, correlation_id, client_id, body)
        self.has_asked = True
        try:
            self._handler(request)
        except Malformed as malformed:
            self.close_because(str(malformed))
        except Exception:  # noqa: BLE001 - it is logged, with its stack, but not each time
            self._terms.refusal_log.failed(self.peer, str(request))
            self._close()

    def _check_size(self, api_key: int, version: int, size_bytes: int) -> None:
        bytes_max = self._limits.bytes_max_of(api_key)
        if size_bytes > bytes_max:
            reason = f"{size_bytes} bytes, at most {bytes_max} are allowed"
            raise Malformed(api_key, version, reason)

    def _refuse(self, api_key: int, version: int, correlation_id: int, frame: bytes) -> None:
        """Take a request that the listener does not offer: one of SASL, or none at all."""
        if self._session is not None and version in SASL_APIS.get(api_key, ()):
            self._take_sasl(self._session, api_key, version, correlation_id, frame)
            return
        served = self._terms.offered.get(api_key)
        if api_key == ApiKey.API_VERSIONS and served is not None:
            request = self._requested(frame, api_key, version, correlation_id)
            # The response header of its version may be unknown; KIP-511 asks for the plain one.
            request.answer(write_unsupported(self._terms.offered), flexible=False)
            return
        known = "not served here" if served is None else f"served are versions {served}"
        self.close_because(f"{api_name(api_key)} v{version}, {known}")

    def _take_sasl(
        self,
        session: ServerSession,
        api_key: int,
        version: int,
        correlation_id: int,
        frame: bytes,
    ) -> None:
        try:
            client_id, start = read_request_header(frame, api_key, version)
            body = body_of(frame, start)
            request = self._requested(frame, api_key, version, correlation_id, client_id, body)
            session.handle(request)
        except Malformed as malformed:
            self.close_because(str(malformed))

    def _take_raw(self, frame: bytes) -> None:
        assert self._session is not None
        self._session.handle_raw(frame)
        self._leave_room()

    def _begin_security(self) -> None:
        """Find out who the client is, by its certificate, or let it prove that first."""
        assert self._transport is not None
        security = self._security
        if security.tls is not None:
            encrypted = self._transport.get_extra_info("ssl_object")
            certificate = encrypted.getpeercert(binary_form=True)
            try:
                self.principal = security.tls.principal_of(certificate)
            except (NoRuleMatches, ValueError) as refusal:
                self.close_because(f"its certificate names nobody: {refusal}")
                return
        if security.sasl is not None:
            self._session = security.sasl.session(self)
            self._is_authenticated = False
            receive_bytes_max = security.sasl.receive_bytes_max
            self._splitter.limit(min(receive_bytes_max, self._limits.frame_bytes_max))
            self._handler = self._session.handle

    def _has_room(self) -> bool:
        """Return True unless too many response bytes wait; else close the connection."""
        unread_bytes = self._unread_now()
        if unread_bytes <= self._limits.outgoing_bytes_max:
            return True
        self.give_up(f"{unread_bytes} bytes of answers wait to be read")
        return False

    def _unread_now(self) -> int:
        if self._transport is None:
            return 0
        return self._held_bytes + self._out_bytes + self._transport.get_write_buffer_size()

    def flush(self) -> None:
        """Send the answers that are ready, in one write."""
        self._is_flush_due = False
        if self._transport is None:
            return
        if self._out:
            self._write_out(self._transport)
        if self._is_draining and not self._pending:
            self._close()
        elif self._is_paused:
            self._pump()

    def _write_out(self, transport: asyncio.Transport) -> None:
        if self._is_tls:
            self._encrypt(transport)
            return
        out, self._out = self._out, []
        size, self._out_bytes = self._out_bytes, 0
        write_out(transport, out, size)

    def _encrypt(self, transport: asyncio.Transport) -> None:
        """Send a little at a time, so that what is not read stays here, where it counts.

        A transport with TLS does not tell of the encrypted bytes that it has yet to send.
        """
        while not self._is_tls_full and (self._unsent or self._out):
            if not self._unsent:
                self._unsent = memoryview(b"".join(self._out))
                self._out.clear()
            piece = self._unsent[:TLS_WRITE_BYTES]
            self._unsent = self._unsent[TLS_WRITE_BYTES:]
            self._out_bytes -= len(piece)
            transport.write(piece)

    def _may_take(self) -> bool:
        """Return True if another request may be dispatched."""
        return (
            not self._is_draining
            and not self._is_unread
            and not self._waits_for_turn
            and not self._waits_for_room
            and self._throttle is None
            and len(self._pending) < self._limits.requests_in_flight_max
            and self._small_bytes <= SMALL_REQUESTS_BYTES_MAX
            and self._out_bytes <= self._limits.outgoing_bytes_pause
        )

    def _mind_reading(self) -> None:
        """Pause or resume reading, so that it matches `_may_take`."""
        if self._transport is None or not self.is_open:
            return
        must_pause = not self._may_take()
        if must_pause == self._is_paused:
            return
        self._is_paused = must_pause
        if must_pause:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _left_unread(self, transport: asyncio.Transport) -> int:
        """Return the bytes of answers that the peer could have read."""
        kept_bytes = 0 if self._is_flush_due else self._out_bytes
        return kept_bytes + transport.get_write_buffer_size()

    def _has_stalled(self, unread_bytes: int, now_ms: int) -> bool:
        # A closing connection waits for the peer to read the last bytes.
        is_much = self._is_unread or unread_bytes > self._limits.outgoing_bytes_pause
        is_waiting = is_much or not self.is_open
        if not is_waiting or unread_bytes < self._unread_bytes:
            self._stalled_ms = None
        elif self._stalled_ms is None:
            self._stalled_ms = now_ms
        self._unread_bytes = unread_bytes
        return self._stalled_ms is not None and now_ms - self._stalled_ms >= self._limits.stall_ms

    def _close(self) -> None:
        """Send the ready responses, then close; requests under way are dropped."""
        transport = self._transport
        if transport is None or not self.is_open:
            return
        if self._is_tls and self._out_bytes:
            # Their bytes count until the connection is lost: the peer may still not read them.
            transport.write(b"".join((self._unsent, *self._out)))
            self._unsent = memoryview(b"")
            self._out.clear()
        elif self._out:
            self._write_out(transport)
        self.is_open = False
        self._forget_requests()
        transport.close()
