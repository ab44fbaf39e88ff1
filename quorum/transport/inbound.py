"""One connection of a listener: requests in, responses out in the order of the requests.

Bodies are opaque here. With too many requests unanswered, or too many response bytes unread by the
peer, the connection stops reading from it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

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
from quorum.protocol.shape import Data
from quorum.transport.address import peer_name
from quorum.transport.buffers import body_of, parts_of, write_out
from quorum.transport.limits import ServerLimits
from quorum.transport.refusal_log import RefusalLog

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class InboundRequest:
    """A request that must be answered once, now or later.

    `peer` and `connection_id` identify its connection; a server never reuses an id.
    """

    _connection: "InboundConnection"
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: Data
    answer_parts: Sequence[Data] | None = None
    """The framed response, once there is one; the connection sends it in its turn."""
    answer_bytes: int = 0

    def __str__(self) -> str:
        return f"{api_name(self.api_key)} v{self.api_version} of {self.peer}"

    @property
    def peer(self) -> str:
        return self._connection.peer

    @property
    def connection_id(self) -> int:
        return self._connection.connection_id

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

    def respond_nothing(self) -> None:
        """Complete the request without a response, for a Produce with acks=0; exactly once."""
        assert self.answer_parts is None, f"{self} was answered twice"
        self.answer_parts = ()
        self.body = b""
        self._connection.answered(self)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The settings that a listener gives to each of its connections."""

    name: str
    refusal_log: RefusalLog
    handler: Handler
    offered: Mapping[int, VersionRange]
    limits: ServerLimits
    admit: Callable[["InboundConnection"], str | None]
    """Takes a new connection; returns the reason to refuse it, or None."""
    release: Callable[["InboundConnection"], None]


class InboundConnection(asyncio.Protocol):
    """One accepted connection; no bytes from the peer raise an error in the loop."""

    def __init__(self, terms: Terms, connection_id: int) -> None:
        self._terms = terms
        self._limits = terms.limits
        self.connection_id = connection_id
        self.peer = "unknown peer"
        self.is_open = False
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._splitter = FrameSplitter(terms.limits.frame_bytes_max)
        self._pending: deque[InboundRequest] = deque()
        self._held_bytes = 0
        self._out: list[Data] = []
        self._out_bytes = 0
        self._is_flush_due = False
        self._is_paused = False
        self._is_unread = False
        self._is_draining = False
        self._was_active = True
        self._active_ms: int | None = None
        self._stalled_ms: int | None = None
        self._unread_bytes = 0

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not every loop's transports are subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self.peer = peer_name(transport.get_extra_info("peername"))
        self._transport.set_write_buffer_limits(high=self._limits.outgoing_bytes_pause)
        self.is_open = True
        refusal = self._terms.admit(self)
        if refusal is not None:
            self.close_because(refusal)

    def data_received(self, data: bytes) -> None:
        self._was_active = True
        if self.is_open:
            self._splitter.feed(data)
            self._pump()

    def pause_writing(self) -> None:
        self._is_unread = True
        self._mind_reading()

    def resume_writing(self) -> None:
        self._is_unread = False
        self._stalled_ms = None
        self._pump()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.is_open and self._splitter.is_in_a_frame:
            reason = "it ended in the middle of a request, which is dropped"
            self._terms.refusal_log.cut_off(self.peer, reason)
        self.is_open = False
        self._transport = None
        self._pending.clear()
        self._out.clear()
        self._terms.release(self)

    # For requests and the listener.

    def answered(self, request: InboundRequest) -> None:
        """Send the response to `request`, and those that waited for it, if its turn has come."""
        if not self.is_open or not self._has_room():
            return
        pending = self._pending
        self._held_bytes += request.answer_bytes
        if pending[0] is not request:
            return
        while pending and (parts := pending[0].answer_parts) is not None:
            size = pending.popleft().answer_bytes
            self._held_bytes -= size
            self._out_bytes += size
            self._out.extend(parts)
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def close_because(self, reason: str) -> None:
        """Log the reason and close; ready responses still leave."""
        if not self.is_open:
            return
        self._terms.refusal_log.cut_off(self.peer, reason)
        self._close()

    def drain(self) -> None:
        """Stop reading, and close once every request has been answered."""
        self._is_draining = True
        self._mind_reading()
        if not self._pending and self.is_open:
            self._close()

    def abort(self) -> None:
        """Close at once and drop the requests under way."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def sweep(self, now_ms: int) -> None:
        """Close the connection if it is idle, or the peer does not read, for too long."""
        if self._transport is None:
            return
        if self._was_active or self._pending or self._active_ms is None:
            self._was_active = False
            self._active_ms = now_ms
        if self._has_stalled(self._transport.get_write_buffer_size(), now_ms):
            self._give_up(f"{self._unread_bytes} bytes unread for {self._limits.stall_ms} ms")
        elif self.is_open and now_ms - self._active_ms >= self._limits.idle_ms:
            logger.info("%s: closed an idle connection from %s", self._terms.name, self.peer)
            self._close()

    # Internal.

    def _pump(self) -> None:
        """Dispatch the received requests, up to the limit of requests under way."""
        while self.is_open and self._may_take():
            try:
                frame = self._splitter.take()
            except BadFrame as bad:
                self.close_because(str(bad))
                return
            if frame is None:
                break
            self._dispatch(frame)
        self._mind_reading()

    def _dispatch(self, frame: bytes) -> None:
        try:
            api_key, version, correlation_id = read_request_prefix(frame)
            served = self._terms.offered.get(api_key)
            if served is None or not served.lowest <= version <= served.highest:
                self._refuse(api_key, version, correlation_id, served)
                return
            client_id, start = read_request_header(frame, api_key, version)
        except Malformed as malformed:
            self.close_because(str(malformed))
            return
        body = body_of(frame, start)
        request = InboundRequest(self, api_key, version, correlation_id, client_id, body)
        self._pending.append(request)
        try:
            self._terms.handler(request)
        except Malformed as malformed:
            self.close_because(str(malformed))
        except Exception:
            logger.exception("%s: %s failed; closing the connection", self._terms.name, request)
            self._close()

    def _refuse(
        self, api_key: int, version: int, correlation_id: int, served: VersionRange | None
    ) -> None:
        if api_key == ApiKey.API_VERSIONS and served is not None:
            request = InboundRequest(self, api_key, version, correlation_id, None, b"")
            self._pending.append(request)
            # The response header of its version may be unknown; KIP-511 asks for the plain one.
            request.answer(write_unsupported(self._terms.offered), flexible=False)
            return
        known = "not served here" if served is None else f"served are versions {served}"
        self.close_because(f"{api_name(api_key)} v{version}, {known}")

    def _has_room(self) -> bool:
        """Return True unless too many response bytes wait; else close the connection."""
        assert self._transport is not None
        unread_bytes = self._held_bytes + self._out_bytes
        unread_bytes += self._transport.get_write_buffer_size()
        if unread_bytes <= self._limits.outgoing_bytes_max:
            return True
        self._give_up(f"{unread_bytes} bytes of answers wait to be read")
        return False

    def _give_up(self, reason: str) -> None:
        """Log the reason and close at once, without waiting for a peer that does not read."""
        if self.is_open:
            self._terms.refusal_log.cut_off(self.peer, reason)
        self.abort()

    def _flush(self) -> None:
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
        out, self._out = self._out, []
        size, self._out_bytes = self._out_bytes, 0
        write_out(transport, out, size)

    def _may_take(self) -> bool:
        """Return True if another request may be dispatched."""
        return (
            not self._is_draining
            and not self._is_unread
            and len(self._pending) < self._limits.requests_in_flight_max
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

    def _has_stalled(self, unread_bytes: int, now_ms: int) -> bool:
        # A closing connection waits for the peer to read the last bytes.
        is_waiting = self._is_unread or not self.is_open
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
        if self._out:
            self._write_out(transport)
        self.is_open = False
        self._pending.clear()
        transport.close()
