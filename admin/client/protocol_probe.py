"""Find out what a listener speaks that does not answer as a node does: TLS, HTTP, SSH, ...

A command names it then, instead of waiting for the answer of a node that is none.
"""

import asyncio
import ssl
from typing import Final, cast

from quorum.protocol.apis import ApiKey
from quorum.protocol.headers import request_header_tail, write_framed_request_prefix
from quorum.transport.address import Address, dial

PROBE_SECONDS_MAX: Final = 2.0
"""The time limit of each probe."""
_OPENING_BYTES_MAX: Final = 64
_REQUEST: Final = b"GET / HTTP/1.0\r\n\r\n"
_CORRELATION_ID: Final = int.from_bytes(b"look")
_OPENINGS: Final = (
    (b"HTTP/", "HTTP"),
    (b"SSH-", "SSH"),
    (b"-ERR", "the protocol of Redis"),
    (b"RFB ", "VNC"),
    (b"220", "SMTP or FTP"),
    (b"E\x00", "the protocol of PostgreSQL"),
)
"""The first bytes of listeners, which they send by themselves or to a request of HTTP."""


class _Handshake(asyncio.Protocol):
    """Leaves once the TLS handshake is over."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()


async def speaks_tls(address: Address) -> bool:
    """Return whether the node at `address` takes part in a TLS handshake; nothing else is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(PROBE_SECONDS_MAX):
            await dial(_Handshake, address, tls=context)
    except ssl.SSLError as error:
        # It wants a certificate, say.
        return "ALERT" in (error.reason or "")
    except OSError:
        return False
    return True


class _Opening(asyncio.Protocol):
    """Sends a request, and keeps the first bytes that come."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.data: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.data.done():
            self.data.set_result(data[:_OPENING_BYTES_MAX])

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.data.done():
            self.data.set_result(b"")

    def close(self) -> None:
        """Close the connection, if it was made."""
        if self._transport is not None:
            self._transport.abort()


async def other_protocol(address: Address, tls: ssl.SSLContext | None = None) -> str | None:
    """Return the name of the protocol of a listener that is not one of Kafka, if it is known."""
    data = await _first_bytes(address, _REQUEST, tls)
    return next((name for begin, name in _OPENINGS if data.startswith(begin)), None)


async def answers_without_tls(address: Address) -> bool:
    """Return whether the node at `address` answers ApiVersions, which no listener with TLS does."""
    tail = request_header_tail(ApiKey.API_VERSIONS, 0, None)
    head = write_framed_request_prefix(ApiKey.API_VERSIONS, 0, _CORRELATION_ID, len(tail))
    data = await _first_bytes(address, head + tail)
    return data[4:8] == _CORRELATION_ID.to_bytes(4)


async def _first_bytes(
    address: Address, request: bytes, tls: ssl.SSLContext | None = None
) -> bytes:
    """Return the first bytes that come after this request, empty if none do."""
    opening = _Opening(request)
    try:
        async with asyncio.timeout(PROBE_SECONDS_MAX):
            await dial(lambda: opening, address, tls=tls)
            return await opening.data
    except (OSError, ValueError):
        return b""
    finally:
        opening.close()
