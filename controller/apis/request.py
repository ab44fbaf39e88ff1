"""A request of the Kafka protocol on its way through a controller, and the entry of an API.

Long requests are decoded, and long responses built and encoded, in a thread: 100,000 partitions
take a few tenths of a second. These are pure functions of values that nobody changes.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar

from controller.service import AsOf, Service
from quorum.protocol import envelope
from quorum.protocol.apis import ApiKey, VersionRange
from quorum.protocol.codec import (
    encode_response_body,
    error_code,
    make_known,
    nested,
    response_schema,
)
from quorum.protocol.extension_tags import (
    Consistency,
    Extension,
    decode_extended,
    with_offset,
)
from quorum.protocol.shape import Data
from quorum.transport.inbound import InboundRequest

NO_THROTTLE: Final = timedelta(0)
ANONYMOUS: Final = "User:ANONYMOUS"

MESSAGE_CHARACTERS_MAX: Final = 1_000
"""Of an error message: it may quote the request, which is bounded by its frame only."""

LONG_BODY_BYTES: Final = 32 * 1024
"""Of a request: some thousand partitions, a few milliseconds to decode."""
LONG_PARTS: Final = 500
"""Partitions in a request or a response: a few milliseconds to build and encode."""

DEFAULT_TIMEOUT_MS: Final = 15_000
TIMEOUT_MS_MAX: Final = 60_000
_SHARE_OF_TIME: Final = 0.95
"""Of the client's timeout, the part used here: an error has to reach the client in time."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaRequest:
    """A decoded request: `message` is kio's value of exactly this API and version."""

    api_key: ApiKey
    version: int
    client_id: str | None
    principal: str
    message: Any
    body: Data = b""
    """The bytes of the message, as they came."""
    extension: Extension | None = None
    """Our tagged field; only our own clients send one."""
    envelope_id: int | None = None
    """The correlation id inside the envelope that the request came in, if it did."""

    @property
    def consistency(self) -> Consistency | None:
        """The consistency that the client asks for; None for what is usual for the request."""
        return None if self.extension is None else self.extension.consistency

    @property
    def stale(self) -> bool:
        """True if the client accepts a stale answer of any node."""
        said: bool = getattr(self.message, "stale", False)
        return said or self.consistency is Consistency.STALE

    @property
    def asked_ms(self) -> float | None:
        """The timeout that the client names, if any."""
        asked: timedelta | None = getattr(self.message, "timeout", None)
        if asked is not None:
            return asked.total_seconds() * 1_000
        return None if self.extension is None else self.extension.patience_ms

    @property
    def timeout_ms(self) -> int:
        """Time to try to answer."""
        asked_ms = self.asked_ms
        if asked_ms is None:
            return DEFAULT_TIMEOUT_MS
        return round(max(0.0, min(asked_ms, TIMEOUT_MS_MAX)) * _SHARE_OF_TIME)

    def respond(self, **values: Any) -> Any:
        """Build kio's response to this request, without fields that the version lacks."""
        schema = response_schema(self.api_key, self.version)
        return make_known(schema, throttle_time=NO_THROTTLE, **_bounded(values))

    def part(self, name: str, /, **values: Any) -> Any:
        """Build a structure inside the response, by the name of its class."""
        schema = response_schema(self.api_key, self.version)
        return make_known(nested(schema, name), **_bounded(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminApi:
    """An API for clients: any node takes it and waits, for a bounded time, for a leader."""

    versions: VersionRange
    handle: Callable[[KafkaRequest, Service], Awaitable[Any]]
    """Returns kio's response or its bytes, either of them perhaps `AsOf` an offset."""
    refuse: Callable[[KafkaRequest, int, str], Any]
    """Builds the response with this error code and message wherever the API has them."""
    anywhere: bool = False
    """True if every node answers by itself, unless the client asks for more."""
    reads: bool = False
    """True if it only reads, so that any node may give a stale answer."""
    asks_who_leads: bool = False
    """True if "nobody leads" is an answer, once that is more than a short election."""

    def answers_here(self, request: KafkaRequest) -> bool:
        """Return True if a node that is not the active controller answers by itself."""
        if request.stale:
            return self.reads
        return self.anywhere and request.consistency is None


def decode(api_key: int, version: int, body: Data, principal: str, **values: Any) -> KafkaRequest:
    """Decode a request; raises `Malformed`."""
    message, extension = decode_extended(api_key, version, body)
    return KafkaRequest(
        api_key=ApiKey(api_key),
        version=version,
        principal=principal,
        message=message,
        body=body,
        extension=extension,
        **values,
    )


def decode_inbound(inbound: InboundRequest) -> KafkaRequest:
    """Decode a request of a client; raises `Malformed`."""
    return decode(
        inbound.api_key,
        inbound.api_version,
        inbound.body,
        ANONYMOUS,
        client_id=inbound.client_id,
    )


def encode(request: KafkaRequest, payload: Any) -> bytes:
    """Encode the response to a request, with an envelope around it if the request had one."""
    body = encode_body(request, payload)
    if request.envelope_id is None:
        return body
    return envelope.wrap_response(request.api_key, request.version, request.envelope_id, body)


def encode_body(request: KafkaRequest, payload: Any) -> bytes:
    """Encode the response, which is returned as it is if it is bytes already."""
    value = payload.value if isinstance(payload, AsOf) else payload
    if isinstance(value, bytes):
        body = value
    else:
        body = encode_response_body(request.api_key, request.version, value)
    # A client that sent no field of ours gets none.
    if request.extension is None or not isinstance(payload, AsOf):
        return body
    return with_offset(request.api_key, request.version, body, payload.offset)


async def offload(work: Callable[[], T], parts: int) -> T:
    """Do `work` on so many parts, in a thread if they are many."""
    return work() if parts < LONG_PARTS else await asyncio.to_thread(work)


def bounded(message: str) -> str:
    """Cut a long error message."""
    if len(message) <= MESSAGE_CHARACTERS_MAX:
        return message
    return f"{message[:MESSAGE_CHARACTERS_MAX]}..."


def _bounded(values: dict[str, Any]) -> dict[str, Any]:
    message = values.get("error_message")
    return values if message is None else {**values, "error_message": bounded(message)}


def code(number: int) -> Any:
    """Return kio's name of an error code."""
    return error_code(number)
