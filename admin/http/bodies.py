"""Bodies of requests and responses within bounds: of size, of time, and of memory in total."""

import asyncio
from typing import Final

from aiohttp import web
from aiohttp.http import HttpProcessingError

from admin.http.limits import Account, HttpLimits, Share
from admin.http.problems import Handler, Problem, problem_response
from quorum.transport.address import network_of

LIMITS: Final = web.AppKey("limits", HttpLimits)
BODY_MEMORY: Final = web.AppKey("bodies", Account)
"""The memory of all bodies whose requests are not answered."""
RESPONSE_MEMORY: Final = web.AppKey("responses", Account)
"""The memory of all responses that their clients have not read."""
HELD: Final = web.RequestKey("held", Share)
"""What the request holds of the memory for bodies."""

RETRY_AFTER_SECONDS: Final = 5
LINGER_SECONDS: Final = 2.0
LINGER_BYTES_MAX: Final = 256 * 1024
_ENDED: Final = (web.RequestPayloadError, HttpProcessingError, ConnectionError, RuntimeError)
"""The errors of reading a body that is malformed or cut off. aiohttp raises a plain `RuntimeError`
if the connection has closed before the first read."""
_ELEMENT_MARKS: Final = (b",", b"[", b"{")
PIECE_BYTES: Final = 128 * 1024
"""aiohttp waits for the client behind each 64 KiB that are written."""
SHORT_BYTES: Final = 32 * 1024
"""A response that leaves with its headers at once if nothing else waits to be sent."""


@web.middleware
async def bounded(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer a request, and send the response, within the limits of the listener."""
    network = network_of(request.remote or "")
    held = request[HELD] = Share(request.app[BODY_MEMORY], network)
    try:
        response = await handler(request)
    finally:
        held.release()
    return await _sent(request, response, Share(request.app[RESPONSE_MEMORY], network))


async def _sent(
    request: web.Request, response: web.StreamResponse, unread: Share
) -> web.StreamResponse:
    """Send a response, and return once the client has read it; one that does not is cut off."""
    size = response.content_length or 0 if isinstance(response, web.Response) else 0
    # A response that is longer than the limit is sent while no other one is unread.
    if not unread.grow(size, alone=True):
        response = problem_response(_no_room("responses that are not read"))
    limits = request.app[LIMITS]
    seconds = limits.response_ms / 1_000 + size / limits.response_bytes_per_s_min
    try:
        if _fits(request, size):
            # It is written without a wait, and a time limit would cost as much as the write.
            await response.prepare(request)
            await response.write_eof()
        else:
            async with asyncio.timeout(seconds):
                await response.prepare(request)
                await _write(request, response)
        await _linger(request)
    except (TimeoutError, ConnectionError):
        if request.transport is not None:
            request.transport.abort()
    finally:
        unread.release()
    return response


def _fits(request: web.Request, size: int) -> bool:
    """True if nothing waits to be sent, and the response is too short to make its writer wait."""
    transport = request.transport
    return (
        0 < size <= SHORT_BYTES and transport is not None and transport.get_write_buffer_size() == 0
    )


async def _write(request: web.Request, response: web.StreamResponse) -> None:
    """Write a response, a long one piece by piece: TLS would take all of it at once."""
    body = response.body if isinstance(response, web.Response) else None
    if not isinstance(body, bytes) or len(body) <= PIECE_BYTES or request.method == "HEAD":
        await response.write_eof()
        return
    for start in range(0, len(body), PIECE_BYTES):
        await response.write(memoryview(body)[start : start + PIECE_BYTES])
    # That of `web.Response` would write the body again.
    await web.StreamResponse.write_eof(response)


async def _linger(request: web.Request) -> None:
    """Let the sender of a body that is not wanted read the response before it is cut off.

    The rest of a long body is left unread, so that its sender stands and takes no time of others.
    """
    body = request.content
    if body.is_eof():
        return
    left = (request.content_length or LINGER_BYTES_MAX + 1) - body.total_bytes
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            if left > LINGER_BYTES_MAX:
                await asyncio.sleep(LINGER_SECONDS)
            while not body.is_eof():
                await body.readany()
    except (TimeoutError, *_ENDED):
        # The connection is closed behind a response whose request is not whole.
        return


async def read_body(request: web.Request, *, large: bool = False) -> bytearray:
    """Return the body of a request; a `large` one lists partitions.

    Raises a `Problem` if it is too long, late, malformed, or one too many at the same time.
    """
    limits = request.app[LIMITS]
    bytes_max = limits.plan_bytes_max if large else limits.body_bytes_max
    if (request.content_length or 0) > bytes_max:
        raise _too_long(bytes_max)
    body, elements = bytearray(), 0
    try:
        async with asyncio.timeout(limits.body_ms / 1_000):
            while chunk := await request.content.readany():
                if len(body) + len(chunk) > bytes_max:
                    raise _too_long(bytes_max)
                # Piece by piece: to count 64 MiB at once would stop the event loop.
                elements += sum(map(chunk.count, _ELEMENT_MARKS))
                if elements > limits.elements_max:
                    detail = f"the body has more than {limits.elements_max} elements"
                    raise Problem(413, "Too many elements", detail)
                if not request[HELD].grow(len(chunk)):
                    raise _no_room("bodies under way")
                body += chunk
    except TimeoutError:
        detail = f"the body did not arrive within {limits.body_ms} ms"
        raise Problem(408, "Too slow", detail) from None
    except _ENDED:
        # Its chunks or its compression are malformed, or the connection has ended.
        raise Problem(400, "Malformed body", "the body is malformed or cut off") from None
    return body


def _too_long(bytes_max: int) -> Problem:
    return Problem(413, "Too large", f"the body is longer than {bytes_max} bytes")


def _no_room(what: str) -> Problem:
    return Problem(
        503,
        "Busy",
        f"{what} hold all the memory that there is for them; ask again later",
        headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
        retriable=True,
    )
