"""Envelope (58, KIP-590): a request that one node forwards to the active controller.

It carries the request as it came and the client's principal; its response carries the response.
A controller that is not active refuses the whole envelope. Kafka has only an error code for that,
so between our nodes the reason travels as well, in the extension of the answer. That of the
envelope says how long its sender waits, and where the request came in.
"""

import ipaddress
from dataclasses import dataclass
from typing import Any, Final

from msgspec import Struct

from quorum.protocol.apis import ApiKey, UnsupportedVersion
from quorum.protocol.codec import (
    decode_part,
    encode_part,
    header_flexibility,
    request_body,
    request_schema,
    response_body,
    response_schema,
)
from quorum.protocol.errors import ErrorCode, Malformed
from quorum.protocol.extension import (
    Extension,
    Origin,
    details_of,
    extension_of,
    is_newer,
    newer_reason,
    with_extension,
)
from quorum.protocol.headers import (
    read_correlation_id,
    read_request_header,
    read_request_prefix,
    response_body_start,
    write_framed_response_header,
    write_request_header,
)
from quorum.protocol.principal import KafkaPrincipal

VERSION: Final = 0
REASON_BYTES_MAX: Final = 4_096
LOOPBACK: Final = b"\x7f\x00\x00\x01"
"""The address of a client whose own address is not known; Kafka wants one."""

_LENGTH_BYTES: Final = 4
_PRINCIPAL_VERSION: Final = b"\x00\x00"


class Reason(Struct, frozen=True):
    """The reason why a controller refuses an envelope."""

    text: str
    may_be_done: bool = False
    """True if the request may take effect all the same."""


@dataclass(frozen=True, slots=True)
class Forwarded:
    """The request inside an envelope."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    principal: KafkaPrincipal
    body: bytes
    host: str
    """The IP address of the client."""
    door: Origin = Origin.KAFKA


class Unreadable(Exception):
    """The request inside cannot be read; `error` is the error code of the envelope."""

    def __init__(self, error: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.error = error


def wrap(forwarded: Forwarded, *, timeout_ms: int) -> bytes:
    """Encode an EnvelopeRequest."""
    header = write_request_header(
        forwarded.api_key, forwarded.version, forwarded.correlation_id, forwarded.client_id
    )
    body = request_body(
        ApiKey.ENVELOPE,
        VERSION,
        request_data=header + forwarded.body,
        request_principal=_write_principal(forwarded.principal),
        client_host_address=_packed(forwarded.host),
    )
    schema = request_schema(ApiKey.ENVELOPE, VERSION)
    return with_extension(schema, body, Extension(patience_ms=timeout_ms, door=forwarded.door))


def unwrap(envelope: Any) -> Forwarded:
    """Read the request inside an EnvelopeRequest; raises `Unreadable`, or `Malformed` for an
    extension that cannot be read."""
    data = envelope.request_data
    principal = _read_principal(envelope.request_principal)
    host = _unpacked(envelope.client_host_address)
    try:
        api_key, version, correlation_id = read_request_prefix(data)
        client_id, start = read_request_header(data, api_key, version)
    except UnsupportedVersion as error:
        raise Unreadable(ErrorCode.UNSUPPORTED_VERSION, str(error)) from error
    except Malformed as error:
        raise Unreadable(ErrorCode.INVALID_REQUEST, str(error)) from error
    extension = extension_of(envelope) or Extension()
    if is_newer(extension):
        raise Unreadable(ErrorCode.UNSUPPORTED_VERSION, newer_reason(extension))
    return Forwarded(
        api_key,
        version,
        correlation_id,
        client_id,
        principal,
        data[start:],
        host,
        extension.door,
    )


def wrap_response(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    """Encode the EnvelopeResponse around the response to the request inside."""
    flexible = header_flexibility(api_key, version).response
    framed = write_framed_response_header(correlation_id, len(body), flexible=flexible)
    return response_body(
        ApiKey.ENVELOPE, VERSION, response_data=framed[_LENGTH_BYTES:] + body, error_code=0
    )


def unwrap_response(forwarded: Forwarded, data: bytes) -> bytes:
    """Return the body of the response inside an EnvelopeResponse; raises `Malformed`."""
    key, version = forwarded.api_key, forwarded.version
    answered = read_correlation_id(data, key, version)
    if answered != forwarded.correlation_id:
        raise Malformed(key, version, f"{answered} answers {forwarded.correlation_id}")
    return data[response_body_start(data, key, version) :]


def write_refusal(error: int, reason: Reason | None) -> bytes:
    """Encode an EnvelopeResponse that refuses the whole envelope."""
    body = response_body(ApiKey.ENVELOPE, VERSION, response_data=None, error_code=error)
    if reason is None:
        return body
    text = reason.text.encode()[:REASON_BYTES_MAX].decode(errors="ignore")
    extension = Extension.with_details(Reason(text, reason.may_be_done))
    return with_extension(response_schema(ApiKey.ENVELOPE, VERSION), body, extension)


def reason_of(response: Any) -> Reason | None:
    """Return the reason in a refusal; None if there is none, as in Kafka's. Raises `Malformed`."""
    return None if response.response_data is not None else details_of(response, Reason)


def _packed(host: str) -> bytes:
    try:
        return ipaddress.ip_address(host).packed
    except ValueError:
        return LOOPBACK


def _unpacked(host: bytes) -> str:
    """Return the text of an address of 4 or 16 bytes; raises `Unreadable`."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        reason = f"a client address of {len(host)} bytes"
        raise Unreadable(ErrorCode.INVALID_REQUEST, reason) from None


def _read_principal(data: bytes | None) -> KafkaPrincipal:
    from kio.schema.default_principal_data.v0.data import DefaultPrincipalData

    if data is None or data[:2] != _PRINCIPAL_VERSION:
        reason = "the principal is not of version 0"
        raise Unreadable(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, reason)
    fields = data[len(_PRINCIPAL_VERSION) :]
    try:
        principal = decode_part(DefaultPrincipalData, fields, ApiKey.ENVELOPE, VERSION)
    except Malformed as error:
        reason = f"the principal cannot be read: {error}"
        raise Unreadable(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, reason) from error
    return KafkaPrincipal(principal.type_, principal.name, principal.token_authenticated)


def _write_principal(principal: KafkaPrincipal) -> bytes:
    from kio.schema.default_principal_data.v0.data import DefaultPrincipalData

    values = {
        "type_": principal.kind,
        "name": principal.name,
        "token_authenticated": principal.token_authenticated,
    }
    return _PRINCIPAL_VERSION + encode_part(DefaultPrincipalData, **values)
