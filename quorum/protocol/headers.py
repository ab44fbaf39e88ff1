"""Request and response headers, encoded by hand because every message has one.

A request header is api key, version, correlation id and client id, and ends with tagged fields if
the version is flexible (KIP-482). The client id has its old form in every version.
"""

import struct
from struct import Struct
from typing import Final

from quorum.protocol.codec import header_flexibility
from quorum.protocol.errors import Malformed
from quorum.protocol.request_limits import HEADER_TAGS_MAX
from quorum.records.varint import read_tags, read_uvarint

_REQUEST: Final = Struct(">hhi")
_STRING_LENGTH: Final = Struct(">h")
_CORRELATION: Final = Struct(">i")
_FRAMED_REQUEST: Final = Struct(">ihhi")
_FRAMED_RESPONSE: Final = Struct(">ii")
_FRAMED_FLEXIBLE_RESPONSE: Final = Struct(">iib")

_CLIENT_ID_AT: Final = _REQUEST.size
_CLIENT_ID_START: Final = _CLIENT_ID_AT + _STRING_LENGTH.size
_NO_API: Final = -1


def read_request_prefix(frame: bytes) -> tuple[int, int, int]:
    """Decode api key, version and correlation id of a request; raises `Malformed`."""
    try:
        return _REQUEST.unpack_from(frame)
    except struct.error:
        reason = f"a request of {len(frame)} bytes has no header"
        raise Malformed(_NO_API, 0, reason) from None


def read_request_header(frame: bytes, api_key: int, version: int) -> tuple[str | None, int]:
    """Return the client id after the prefix, and the position of the body.

    Raises `UnsupportedVersion` for an unknown API or version, where the end of the header is
    unknown too, and `Malformed` for an incomplete header.
    """
    flexible = header_flexibility(api_key, version).request
    try:
        (length,) = _STRING_LENGTH.unpack_from(frame, _CLIENT_ID_AT)
        end = _CLIENT_ID_START + length if length > 0 else _CLIENT_ID_START
        if length < -1 or end > len(frame):
            reason = f"a client id of {length} bytes does not fit the frame"
            raise Malformed(api_key, version, reason)
        client_id = None if length < 0 else frame[_CLIENT_ID_START:end].decode()
    except struct.error:
        raise Malformed(api_key, version, "the header ends before the client id") from None
    except UnicodeDecodeError:
        raise Malformed(api_key, version, "the client id is not UTF-8") from None
    return client_id, _skip_tags(frame, end, api_key, version) if flexible else end


def read_correlation_id(frame: bytes, api_key: int, version: int) -> int:
    """Decode the correlation id of a response; raises `Malformed`."""
    if len(frame) < _CORRELATION.size:
        raise Malformed(api_key, version, f"a response of {len(frame)} bytes has no header")
    correlation_id: int = _CORRELATION.unpack_from(frame)[0]
    return correlation_id


def response_body_start(frame: bytes, api_key: int, version: int) -> int:
    """Return the position of a response's body; raises `Malformed`."""
    if not header_flexibility(api_key, version).response:
        return _CORRELATION.size
    return _skip_tags(frame, _CORRELATION.size, api_key, version)


def write_request_header(
    api_key: int, version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """Encode the header of a request, without the frame's length."""
    prefix = _REQUEST.pack(api_key, version, correlation_id)
    return prefix + request_header_tail(api_key, version, client_id)


def write_framed_request_prefix(
    api_key: int, version: int, correlation_id: int, following_bytes: int
) -> bytes:
    """Encode the frame's length and the prefix of a request, before `following_bytes`."""
    return _FRAMED_REQUEST.pack(_REQUEST.size + following_bytes, api_key, version, correlation_id)


def request_header_tail(api_key: int, version: int, client_id: str | None) -> bytes:
    """Encode the rest of the header: the same for all requests of one client, API and version."""
    encoded = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(encoded)
    tags = b"\x00" if header_flexibility(api_key, version).request else b""
    return b"".join((_STRING_LENGTH.pack(length), encoded, tags))


def write_framed_response_header(correlation_id: int, body_bytes: int, *, flexible: bool) -> bytes:
    """Encode the frame's length and the header of a response with a body of `body_bytes`."""
    if flexible:
        return _FRAMED_FLEXIBLE_RESPONSE.pack(5 + body_bytes, correlation_id, 0)
    return _FRAMED_RESPONSE.pack(4 + body_bytes, correlation_id)


def _skip_tags(frame: bytes, at: int, api_key: int, version: int) -> int:
    """Return the position after the tagged fields at `at`, which are unknown: Kafka has none."""
    if frame[at : at + 1] == b"\x00":
        return at + 1
    try:
        count, _ = read_uvarint(frame, at)
        if count > HEADER_TAGS_MAX:
            raise ValueError(f"{count}, at most {HEADER_TAGS_MAX} are allowed")
        return read_tags(frame, at)[1]
    except ValueError as error:
        raise Malformed(api_key, version, f"tagged fields of the header: {error}") from None
