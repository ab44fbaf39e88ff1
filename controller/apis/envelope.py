"""Envelope (58, KIP-590): a request that one node passes on to another, with who asked it."""

from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

from controller.apis.request import KafkaRequest, encode_answer
from quorum.protocol.apis import ApiKey, UnsupportedVersion, header_flexibility
from quorum.protocol.codec import (
    decode_part,
    decode_request,
    encode_request_body,
    encode_response_body,
    error_code,
    make,
    request_schema,
    response_schema,
)
from quorum.protocol.extension_tags import consistency_of, patience_of
from quorum.protocol.faults import Malformed
from quorum.protocol.headers import (
    read_request_header,
    read_request_prefix,
    response_body_start,
    write_framed_response_header,
    write_request_header,
)

UNSUPPORTED_VERSION: Final = 35
INVALID_REQUEST: Final = 42
PRINCIPAL_DESERIALIZATION_FAILURE: Final = 97

_LENGTH_BYTES: Final = 4
_PRINCIPAL_VERSION: Final = b"\x00\x00"
_LOOPBACK: Final = b"\x7f\x00\x00\x01"
"""Kafka wants the address of the client whose request is passed on; the door has only its name."""


class Unreadable(Exception):
    """What is inside cannot be read; `error` is the envelope's own error code for it."""

    def __init__(self, error: int, reason: str) -> None:
        super().__init__(reason)
        self.error = error


@dataclass(frozen=True, slots=True)
class Inner:
    """The request inside, and what its answer needs to find its way back."""

    call: KafkaRequest
    correlation_id: int


def open_envelope(envelope: Any) -> Inner:
    """The request inside an EnvelopeRequest; raises `Unreadable`."""
    data = envelope.request_data
    principal = _read_principal(envelope.request_principal)
    try:
        api_key, version, correlation_id = read_request_prefix(data)
        client_id, start = read_request_header(data, api_key, version)
        message = decode_request(api_key, version, data[start:])
    except UnsupportedVersion as error:
        raise Unreadable(UNSUPPORTED_VERSION, str(error)) from error
    except Malformed as error:
        raise Unreadable(INVALID_REQUEST, str(error)) from error
    call = KafkaRequest(
        api_key=ApiKey(api_key),
        version=version,
        client_id=client_id,
        principal=principal,
        message=message,
        consistency=consistency_of(api_key, version, data[start:]),
        patience_ms=patience_of(api_key, version, data[start:]),
    )
    return Inner(call, correlation_id)


def answer(inner: Inner, payload: Any) -> bytes:
    """The EnvelopeResponse body around the answer to the request inside."""
    call = inner.call
    body = encode_answer(call, payload)
    flexible = header_flexibility(call.api_key, call.version).response
    framed = write_framed_response_header(inner.correlation_id, len(body), flexible=flexible)
    schema = response_schema(ApiKey.ENVELOPE, 0)
    data = framed[_LENGTH_BYTES:] + body
    response = make(schema, response_data=data, error_code=error_code(0))
    return encode_response_body(ApiKey.ENVELOPE, 0, response)


def wrap(call: KafkaRequest, body: bytes, correlation_id: int) -> bytes:
    """The EnvelopeRequest body for a request that is passed on, body as it came."""
    header = write_request_header(call.api_key, call.version, correlation_id, call.client_id)
    schema = request_schema(ApiKey.ENVELOPE, 0)
    request = make(
        schema,
        request_data=header + body,
        request_principal=_write_principal(call.principal),
        client_host_address=_LOOPBACK,
    )
    return encode_request_body(ApiKey.ENVELOPE, 0, request)


def inner_body(call: KafkaRequest, data: bytes) -> bytes:
    """The body of the answer that came back in an EnvelopeResponse; raises `Malformed`."""
    return data[response_body_start(data, call.api_key, call.version) :]


def _read_principal(data: bytes | None) -> str:
    from kio.schema.default_principal_data.v0.data import DefaultPrincipalData

    if data is None or data[:2] != _PRINCIPAL_VERSION:
        raise Unreadable(PRINCIPAL_DESERIALIZATION_FAILURE, "the principal is not of version 0")
    fields = data[len(_PRINCIPAL_VERSION) :]
    try:
        principal = decode_part(DefaultPrincipalData, fields, ApiKey.ENVELOPE, 0)
    except Malformed as error:
        reason = f"the principal cannot be read: {error}"
        raise Unreadable(PRINCIPAL_DESERIALIZATION_FAILURE, reason) from error
    return f"{principal.type_}:{principal.name}"


def _write_principal(principal: str) -> bytes:
    from kio.schema.default_principal_data.v0.data import DefaultPrincipalData
    from kio.serial import entity_writer

    kind, _, name = principal.partition(":")
    buffer = BytesIO()
    value = make(DefaultPrincipalData, type_=kind, name=name, token_authenticated=False)
    entity_writer(DefaultPrincipalData)(buffer, value)
    return _PRINCIPAL_VERSION + buffer.getvalue()
