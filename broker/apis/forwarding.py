"""Forward requests to the active controller in an Envelope (KIP-590).

The request travels unchanged, with the client's principal, and the response returns unchanged.
Without an active controller it is retried, through an election if need be, until the timeout of
the request. Then the client gets one error for everything in its request: NOT_CONTROLLER if no
controller can have carried it out, and else REQUEST_TIMED_OUT. A lost response can make the
controller execute a request twice, so every forwarded request states a desired state and not a
change to it.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

from broker.limits import FORWARD_TIMEOUT_MS, FORWARDED_BYTES_MAX
from quorum.log_events import LogEvent
from quorum.ports import Clock
from quorum.protocol import codec
from quorum.protocol.apis import ApiKey
from quorum.protocol.envelope import (
    VERSION,
    Forwarded,
    unwrap_response,
    wrap,
)
from quorum.protocol.errors import ErrorCode, Malformed
from quorum.protocol.refusals import build_refusal
from quorum.transport.controller_channel import (
    Backoff,
    NoActiveController,
    NodeToControllerChannelManager,
)
from quorum.transport.inbound import InboundRequest

logger = logging.getLogger("broker")

_SHARE_OF_TIME: Final = 0.9
"""Of the timeout of a request: the answer arrives before the client gives up."""
_TOO_MANY: Final = "too many requests are being forwarded"


class ForwardingManager:
    """The forwarder; each request runs in a task of `group`."""

    def __init__(
        self,
        controllers: NodeToControllerChannelManager,
        group: asyncio.TaskGroup,
        *,
        clock: Clock,
    ) -> None:
        self._controllers = controllers
        self._group = group
        self._clock = clock
        self._held_bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Cancel the requests in flight, without a response."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def handle(self, request: InboundRequest, message: Any) -> None:
        """Forward the request, or refuse it if too many bytes are in flight."""
        body = bytes(request.body)
        if self._has_room(len(body)):
            self._start(self._forward(request, message, body), len(body))
        else:
            _refuse(request, message, ErrorCode.REQUEST_TIMED_OUT, _TOO_MANY)

    def handle_long(self, request: InboundRequest) -> None:
        """Do the same with a request that is decoded first, in a thread."""
        body = bytes(request.body)
        has_room = self._has_room(len(body))
        work = self._decode_and_forward(request, body, has_room=has_room)
        self._start(work, len(body) if has_room else 0)

    def _has_room(self, size: int) -> bool:
        return self._held_bytes + size <= FORWARDED_BYTES_MAX

    def _start(self, work: Coroutine[Any, Any, None], size: int) -> None:
        self._held_bytes += size
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._release(done, size))

    def _release(self, task: asyncio.Task[None], size: int) -> None:
        self._tasks.discard(task)
        self._held_bytes -= size

    async def _decode_and_forward(
        self, request: InboundRequest, body: bytes, *, has_room: bool
    ) -> None:
        key, version = request.api_key, request.api_version
        try:
            message = await asyncio.to_thread(codec.decode_request, key, version, body)
        except Malformed as malformed:
            request.reject(str(malformed))
            return
        if has_room:
            await self._forward(request, message, body)
        else:
            _refuse(request, message, ErrorCode.REQUEST_TIMED_OUT, _TOO_MANY)

    async def _forward(self, request: InboundRequest, message: Any, body: bytes) -> None:
        forwarded = Forwarded(
            request.api_key,
            request.api_version,
            request.correlation_id,
            request.client_id,
            request.principal,
            body,
            request.client_host,
        )
        deadline_ms = self._clock() + _timeout_ms(message)
        backoff = Backoff()
        reason = "no active controller answered in time"
        code = ErrorCode.NOT_CONTROLLER
        while not request.is_gone:
            left_ms = deadline_ms - self._clock()
            if left_ms <= 0:
                _refuse(request, message, code, reason)
                return
            body = wrap(forwarded, timeout_ms=left_ms)
            try:
                answer = await self._controllers.send(
                    ApiKey.ENVELOPE, body, timeout_ms=left_ms, version=VERSION
                )
            except NoActiveController as failure:
                logger.debug("Forwarding %s again: %s", request, failure)
                reason = f"no active controller answered in time: {failure}"
                if failure.may_be_done:
                    code = ErrorCode.REQUEST_TIMED_OUT
                left_ms = max(0, deadline_ms - self._clock())
                await asyncio.sleep(min(backoff.next_seconds(), left_ms / 1_000))
                continue
            _respond(request, message, forwarded, answer)
            return


def _respond(request: InboundRequest, message: Any, forwarded: Forwarded, answer: Any) -> None:
    code = answer.error_code.value
    if code == ErrorCode.UNSUPPORTED_VERSION:
        request.reject(f"the controller does not know {request}")
        return
    data = answer.response_data
    if code != 0 or data is None:
        reason = f"the controller rejected the envelope: {answer.error_code.name}"
        _refuse(request, message, ErrorCode.UNKNOWN_SERVER_ERROR, reason)
        return
    try:
        body = unwrap_response(forwarded, data)
        # The controller leaves it to the broker, whose client it is.
        request.throttle(codec.throttle_ms(request.api_key, request.api_version, body))
        request.respond(body)
    except Malformed as malformed:
        logger.error(
            "Invalid response from the controller: %s",
            malformed,
            extra=LogEvent.RESPONSE_INVALID.extra,
        )
        reason = "the response of the controller is malformed"
        _refuse(request, message, ErrorCode.UNKNOWN_SERVER_ERROR, reason)


def _refuse(request: InboundRequest, message: Any, code: ErrorCode, reason: str) -> None:
    if not request.is_gone:
        key, version = request.api_key, request.api_version
        refusal = build_refusal(key, version, message, code, reason)
        request.respond(codec.encode_response_body(key, version, refusal))


def _timeout_ms(message: Any) -> int:
    timeout = getattr(message, "timeout", None)
    if timeout is None:
        return FORWARD_TIMEOUT_MS
    asked_ms: int = round(timeout.total_seconds() * 1_000)
    if asked_ms <= 0:
        asked_ms = 1_000
    return round(min(asked_ms, FORWARD_TIMEOUT_MS) * _SHARE_OF_TIME)
