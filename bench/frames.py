"""Whole frames of the Kafka protocol: length, header and body."""

from struct import Struct
from typing import Any, Final

from quorum.protocol import codec, headers
from quorum.protocol.codec import header_flexibility

_LENGTH: Final = Struct(">i")


def encode_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, payload: Any
) -> bytes:
    """The frame of a request."""
    body = codec.encode_request_body(api_key, version, payload)
    return frame_request(api_key, version, correlation_id, client_id, body)


def frame_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, body: bytes
) -> bytes:
    """The frame of a request with this body."""
    header = headers.write_request_header(api_key, version, correlation_id, client_id)
    return b"".join((_LENGTH.pack(len(header) + len(body)), header, body))


def encode_response(api_key: int, version: int, correlation_id: int, payload: Any) -> bytes:
    """The frame of a response."""
    body = codec.encode_response_body(api_key, version, payload)
    flexible = header_flexibility(api_key, version).response
    header = headers.write_framed_response_header(correlation_id, len(body), flexible=flexible)
    return header + body
