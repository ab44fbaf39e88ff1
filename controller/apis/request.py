"""A request of the Kafka protocol on its way through a controller: decode, refuse, encode.

Long requests are decoded, and long responses built and encoded, in a thread: 100,000 partitions
take a few tenths of a second. These are pure functions of values that nobody changes.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import asdict

from controller.service import AsOf
from quorum.protocol import codec, envelope
from quorum.protocol.apis import ApiKey, api_name
from quorum.protocol.extension import Consistency, Extension, Origin, extension_of, with_extension
from quorum.protocol.principal import KafkaPrincipal
from quorum.protocol.refusals import build_refusal, error_fields
from quorum.protocol.shape import Data
from quorum.transport.audit_log import Requester
from quorum.transport.inbound import InboundRequest
from statemachine.commands import Result
from statemachine.errors import Error

LONG_BODY_BYTES: Final = 32 * 1024
"""A longer request body is decoded in a thread: some thousand partitions, a few milliseconds."""
LONG_PARTS: Final = 500
"""Partitions in a request or a response: a few milliseconds to build and encode."""
FREED_AT_ONCE: Final = 2_000
"""Items freed in one turn of the event loop: less than half a millisecond."""

DEFAULT_TIMEOUT_MS: Final = 15_000
TIMEOUT_MS_MAX: Final = 60_000
_SHARE_OF_TIME: Final = 0.95
"""The part of the client's timeout used here: an error has to reach the client in time."""

CAPABILITY_CHARACTERS_MAX: Final = 100
"""Characters of the name of a capability that the audit log shows."""

T = TypeVar("T")


class KafkaRequest(Struct, frozen=True, kw_only=True):
    """A decoded request: `message` is kio's value of exactly this API and version."""

    api_key: ApiKey
    version: int
    client_id: str | None
    principal: KafkaPrincipal
    """Who asks: the client of the node that forwarded it, if one did."""
    message: Any
    body: Data = b""
    """The bytes of the message, as they came; empty for a request that was made here."""
    extension: Extension | None = None
    """The extension, which only our clients send."""
    envelope_id: int | None = None
    """The correlation id inside the envelope that the request came in, if it did."""
    has_key: bool = False
    """True if it has an idempotency key and may be repeated."""
    host: str = "127.0.0.1"
    """The IP address of the client that asks."""
    peer: str = ""
    """The host and port that the request came from, for the log."""
    listener: str = ""
    """The name of the listener that it came to."""
    door: Origin = Origin.KAFKA

    @property
    def requester(self) -> Requester:
        """The sender, for the authorizer and the audit log."""
        if self.api_key is ApiKey.CAPABILITY:
            request = self.message.name[:CAPABILITY_CHARACTERS_MAX]
        else:
            request = api_name(self.api_key)
        return Requester(str(self.principal), self.host, self.listener, self.door, request)

    @property
    def sender(self) -> str:
        """The client and the connection that its request came on, for the log."""
        if self.envelope_id is None:
            return self.peer or self.host
        return f"{self.host}, forwarded by {self.peer}"

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
        """The time for all attempts to answer."""
        asked_ms = self.asked_ms
        if asked_ms is None:
            return DEFAULT_TIMEOUT_MS
        return round(max(0.0, min(asked_ms, TIMEOUT_MS_MAX)) * _SHARE_OF_TIME)

    def respond(self, **values: Any) -> Any:
        """Build kio's response to this request from plain values (`codec.build`)."""
        schema = codec.response_schema(self.api_key, self.version)
        return codec.build(schema, {"throttle_time": timedelta(0), **values})


@dataclass(frozen=True, slots=True)
class Extended:
    """A response, or its bytes, with an extension for our clients."""

    value: Any
    extension: Extension


def outcome(result: Result, **values: Any) -> dict[str, Any]:
    """Return a result as fields of a response: its error and message, its own, and these."""
    fields = asdict(result)
    error: Error = fields.pop("error")
    return error_fields(error.code, **(fields | values))


def refuse(request: KafkaRequest, error: int, message: str, **values: Any) -> Any:
    """Build the response with this error and message; other fields are empty, unless given."""
    return build_refusal(
        request.api_key, request.version, request.message, error, message, **values
    )


def decode(
    api_key: int, version: int, body: Data, principal: KafkaPrincipal, **values: Any
) -> KafkaRequest:
    """Decode a request; raises `Malformed`."""
    message = codec.decode_request(api_key, version, body)
    return KafkaRequest(
        api_key=ApiKey(api_key),
        version=version,
        principal=principal,
        message=message,
        body=body,
        extension=extension_of(message),
        **values,
    )


def decode_inbound(inbound: InboundRequest) -> KafkaRequest:
    """Decode a request of a client; raises `Malformed`."""
    return decode(
        inbound.api_key,
        inbound.api_version,
        inbound.body,
        inbound.principal,
        client_id=inbound.client_id,
        host=inbound.client_host,
        peer=inbound.peer,
        listener=inbound.listener,
    )


def encode(request: KafkaRequest, payload: Any) -> bytes:
    """Encode the response to a request, with an envelope around it if the request had one."""
    body = encode_body(request, payload)
    if request.envelope_id is None:
        return body
    return envelope.wrap_response(request.api_key, request.version, request.envelope_id, body)


def encode_body(request: KafkaRequest, payload: Any) -> bytes:
    """Encode the response, unless it is encoded already."""
    if isinstance(payload, AsOf):
        payload = Extended(payload.value, Extension(as_of=payload.offset))
    if isinstance(payload, Extended):
        body = encode_body(request, payload.value)
        if request.extension is None:
            # A client that sent no extension gets none.
            return body
        schema = codec.response_schema(request.api_key, request.version)
        return with_extension(schema, body, payload.extension)
    if isinstance(payload, bytes):
        return payload
    return codec.encode_response_body(request.api_key, request.version, payload)


async def offload(work: Callable[[], T], parts: int) -> T:
    """Do `work` on `parts` items, in a thread if they are many."""
    return work() if parts < LONG_PARTS else await asyncio.to_thread(work)


def free_in_slices(*lists: Iterable[object]) -> None:
    """Hold the items of `lists` beyond the caller, and free them over several turns of the loop.

    A request for 100,000 partitions and its answer take 20 ms to free at once.
    """
    items = [each for some in lists for each in some]
    if len(items) < LONG_PARTS:
        return
    loop = asyncio.get_running_loop()

    def free() -> None:
        del items[-FREED_AT_ONCE:]
        if items:
            loop.call_soon(free)

    loop.call_soon(free)
