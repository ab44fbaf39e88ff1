"""Encode and decode the bodies of requests and responses, as values of kio's classes.

Encoding trusts its caller: an invalid value is our bug and raises kio's error. Decoding trusts
nothing: any error in the bytes raises `Malformed`.
"""

from collections.abc import Callable, Mapping
from dataclasses import Field, fields, is_dataclass
from datetime import timedelta
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from quorum.protocol import shape
from quorum.protocol.apis import SPOKEN, ApiKey, UnsupportedVersion
from quorum.protocol.errors import Malformed
from quorum.protocol.request_limits import limits_of
from quorum.protocol.shape import Data

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode
    from kio.static.protocol import RequestPayload, ResponsePayload


_ZERO: Final = timedelta(0)

T = TypeVar("T")


def build(schema: type[Any], values: Mapping[str, Any]) -> Any:
    """Build a kio value from plain ones: numbers for error codes, mappings for structures.

    Values without a field in this version of the schema are left out. So a field that some versions
    lack must be ignorable in Kafka's schema.
    """
    return _builder(schema)(values)  # type: ignore[arg-type]  # classes are hashable


@cache
def _builder(schema: type[Any]) -> Callable[[Mapping[str, Any]], Any]:
    converters = {field.name: _converter(field) for field in fields(schema)}

    def built(values: Mapping[str, Any]) -> Any:
        known = {}
        for name, value in values.items():
            if name in converters:
                convert = converters[name]
                known[name] = value if convert is None or value is None else convert(value)
        return schema(**known)

    return built


def _converter(field: Field[Any]) -> Callable[[Any], Any] | None:
    """Return the conversion of a plain value for this field; None if it needs none."""
    inner, is_array, _ = shape.type_of(field)
    if field.metadata.get("kafka_type") == "error_code":
        return error_code
    if not is_dataclass(inner):
        return tuple if is_array else None
    of_item = _builder(inner)  # type: ignore[arg-type]  # classes are hashable
    return (lambda items: tuple(map(of_item, items))) if is_array else of_item


@cache
def error_code(code: int) -> "ErrorCode":
    """Return kio's member for a Kafka error code."""
    from kio.schema.errors import ErrorCode

    return ErrorCode(code)


@cache
def request_schema(api_key: int, version: int) -> "type[RequestPayload]":
    """Return the class of the request; raises `UnsupportedVersion`."""
    if version not in SPOKEN.get(api_key, ()):
        raise UnsupportedVersion(api_key, version)
    from quorum.protocol.private import request_class

    return request_class(api_key, version)


@cache
def response_schema(api_key: int, version: int) -> "type[ResponsePayload]":
    """Return the class of the response; raises `UnsupportedVersion`."""
    if version not in SPOKEN.get(api_key, ()):
        raise UnsupportedVersion(api_key, version)
    from quorum.protocol.private import response_class

    return response_class(api_key, version)


def throttle_ms(api_key: int, version: int, body: Data) -> int:
    """Return how long the receiver of this response body is to wait; 0 if it need not.

    Raises `UnsupportedVersion`. The time is the first field of every response that has it.
    """
    if not _begins_with_throttle_time(api_key, version):
        return 0
    return max(0, int.from_bytes(body[:4], "big", signed=True))


@cache
def _begins_with_throttle_time(api_key: int, version: int) -> bool:
    return fields(response_schema(api_key, version))[0].name == "throttle_time"


class HeaderFlexibility(NamedTuple):
    """True if the header of a request, and of its response, ends with tagged fields (KIP-482)."""

    request: bool
    response: bool


@cache
def header_flexibility(api_key: int, version: int) -> HeaderFlexibility:
    """Return the header forms of this API version; raises `UnsupportedVersion`.

    The response to ApiVersions has the plain header at every version (KIP-511), because its
    receiver does not know our versions yet.
    """
    request = request_schema(api_key, version).__header_schema__
    response = response_schema(api_key, version).__header_schema__
    return HeaderFlexibility(request.__flexible__, response.__flexible__)


def request_body(api_key: int, version: int, **values: Any) -> bytes:
    """Build a request from `values`, as `build` does, and encode it."""
    return _write(build(request_schema(api_key, version), values))


def response_body(api_key: int, version: int, **values: Any) -> bytes:
    """Build a response from `values`, as `build` does, and encode it, without a throttle time."""
    return _write(build(response_schema(api_key, version), {"throttle_time": _ZERO, **values}))


def encode_request_body(api_key: int, version: int, payload: "RequestPayload") -> bytes:
    """Encode `payload`, a value of exactly this API and version."""
    assert type(payload) is request_schema(api_key, version), f"{payload} for v{version}"
    return _write(payload)


def encode_response_body(api_key: int, version: int, payload: "ResponsePayload") -> bytes:
    """Encode `payload`, a value of exactly this API and version."""
    assert type(payload) is response_schema(api_key, version), f"{payload} for v{version}"
    return _write(payload)


_WITH_REST: Final = frozenset({ApiKey.METADATA, ApiKey.ALTER_USER_SCRAM_CREDENTIALS})
"""Requests that librdkafka (2.16) sends with bytes too many.

If it asks for all topics, it writes the null array in four bytes, not in one; to credentials it
appends the tagged fields twice.
"""


def decode_request(api_key: int, version: int, data: Data) -> Any:
    """Decode a request that fills `data`; raises `Malformed` or `UnsupportedVersion`.

    Extra bytes after the requests of `_WITH_REST` are ignored, as by Kafka's brokers.
    """
    schema = request_schema(api_key, version)
    elements_max = limits_of(api_key).elements_max
    passes_rest = api_key in _WITH_REST
    decoder = _decoder(schema, passes_rest=passes_rest, elements_max=elements_max)
    return _read(decoder, api_key, version, data)


def decode_response(api_key: int, version: int, data: Data) -> Any:
    """Decode a response that fills `data`; raises `Malformed` or `UnsupportedVersion`."""
    return _read(_decoder(response_schema(api_key, version)), api_key, version, data)


def decode_part(schema: type[T], data: Data, api_key: int, version: int) -> T:
    """Decode a value of `schema` inside a field of this API; raises `Malformed`."""
    decoder = _decoder(schema)  # type: ignore[arg-type]  # classes are hashable
    value: T = _read(decoder, api_key, version, data)
    return value


def encode_part(schema: type[Any], **values: Any) -> bytes:
    """Build a value of `schema` from `values`, as `build` does, and encode it."""
    return _write(build(schema, values))


class _Decoder(NamedTuple):
    check: Callable[[Data], Data]
    """Returns the bytes to read, without unknown tagged fields."""
    read: Callable[[Data, int], tuple[Any, int]]


@cache
def _decoder(
    schema: type[Any], *, passes_rest: bool = False, elements_max: int = shape.UNLIMITED
) -> _Decoder:
    from kio.serial import entity_reader

    check = shape.checker(schema, passes_rest=passes_rest, elements_max=elements_max)
    return _Decoder(check, entity_reader(schema))


def _read(decoder: _Decoder, api_key: int, version: int, data: Data) -> Any:
    try:
        known = decoder.check(data)
        value, size = decoder.read(known, 0)
    except Exception as error:
        # The reader's conversions raise undocumented errors (KeyError, UnicodeError,
        # OverflowError, ...); each means that the bytes are not such a message.
        raise Malformed(api_key, version, str(error) or type(error).__name__) from error
    assert size == len(known), f"walked {len(known)} bytes, read {size}"
    return value


def _write(payload: Any) -> bytes:
    from kio.serial import entity_writer

    buffer = BytesIO()
    entity_writer(type(payload))(buffer, payload)
    return buffer.getvalue()
