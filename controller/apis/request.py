"""One request on its way through the door, and what an API has to offer to be served."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from controller.service import AsOf, Service
from quorum.protocol.apis import ApiKey, VersionRange
from quorum.protocol.codec import (
    decode_request,
    encode_response_body,
    error_code,
    make_known,
    nested,
    response_schema,
)
from quorum.protocol.extension_tags import Consistency, consistency_of, patience_of, with_offset
from quorum.transport.inbound import InboundRequest

NO_THROTTLE: Final = timedelta(0)
ANONYMOUS: Final = "User:ANONYMOUS"

MESSAGE_CHARACTERS_MAX: Final = 1_000
"""Of an error message: it may repeat what was asked, and that has no bound but the frame's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaRequest:
    """A request that could be read: `message` is kio's value of exactly this API and version."""

    api_key: ApiKey
    version: int
    client_id: str | None
    principal: str
    message: Any
    consistency: Consistency | None = None
    """What the asker says that the answer must be; None is what is usual for the request."""
    patience_ms: int | None = None
    """How long the asker waits, of a request that has no field for it; None if it does not say."""

    @property
    def asked_ms(self) -> float | None:
        """How long the asker says that it waits."""
        asked: timedelta | None = getattr(self.message, "timeout", None)
        return self.patience_ms if asked is None else asked.total_seconds() * 1_000

    @property
    def stale(self) -> bool:
        """Whether what any node knows will do."""
        said: bool = getattr(self.message, "stale", False)
        return said or self.consistency is Consistency.STALE

    def respond(self, **values: Any) -> Any:
        """kio's response for this request; fields that the version lacks are left out."""
        schema = response_schema(self.api_key, self.version)
        return make_known(schema, throttle_time=NO_THROTTLE, **_bounded(values))

    def part(self, name: str, /, **values: Any) -> Any:
        """A structure inside the response, by the name of its class."""
        schema = response_schema(self.api_key, self.version)
        return make_known(nested(schema, name), **_bounded(values))


Refuse = Callable[[KafkaRequest, int, str], Any]
"""The response that says, at every place where the API can, this error code and message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminApi:
    """A capability that any client may ask of any node; the wait for a leader is bounded."""

    versions: VersionRange
    handle: Callable[[KafkaRequest, Service], Awaitable[Any]]
    refuse: Refuse
    anywhere: bool = False
    """Whether every node answers by itself, the active one or not, unless asked otherwise."""
    reads: bool = False
    """Whether it only reads, so that a stale answer may be asked for, of any node."""

    asks_who_leads: bool = False
    """Whether that nobody does is an answer, once it is no matter of an election any more."""

    def answers_here(self, call: KafkaRequest) -> bool:
        """Whether a node that is not the active controller answers by itself."""
        if call.stale:
            return self.reads
        return self.anywhere and call.consistency is None

    def timeout_ms(self, call: KafkaRequest) -> int:
        asked_ms = call.asked_ms
        if asked_ms is None:
            return DEFAULT_TIMEOUT_MS
        return round(max(0.0, min(asked_ms, TIMEOUT_MS_MAX)) * _SHARE_OF_TIME)


DEFAULT_TIMEOUT_MS: Final = 15_000
TIMEOUT_MS_MAX: Final = 60_000
_SHARE_OF_TIME: Final = 0.95
"""Of the time that the asker gives, what is used up here: that nobody leads has to get there."""


def bounded(message: str) -> str:
    """The message of an error, or its beginning."""
    if len(message) <= MESSAGE_CHARACTERS_MAX:
        return message
    return f"{message[:MESSAGE_CHARACTERS_MAX]}..."


def _bounded(values: dict[str, Any]) -> dict[str, Any]:
    message = values.get("error_message")
    return values if message is None else {**values, "error_message": bounded(message)}


def code(number: int) -> Any:
    """kio's name of an error code."""
    return error_code(number)


def parse_request(request: InboundRequest, principal: str) -> KafkaRequest:
    """What `principal` asks for; raises `Malformed`."""
    return KafkaRequest(
        api_key=ApiKey(request.api_key),
        version=request.api_version,
        client_id=request.client_id,
        principal=principal,
        message=decode_request(request.api_key, request.api_version, request.body),
        consistency=consistency_of(request.api_key, request.api_version, request.body),
        patience_ms=patience_of(request.api_key, request.api_version, request.body),
    )


def respond_to(request: InboundRequest, call: KafkaRequest, payload: Any) -> None:
    """Answer the request that `call` was read from."""
    request.respond(encode_answer(call, payload))


def encode_answer(call: KafkaRequest, payload: Any) -> bytes:
    """The body of kio's response, or of one in bytes; one that is as of an offset says so."""
    if isinstance(payload, bytes):
        return payload
    if not isinstance(payload, AsOf):
        return encode_response_body(call.api_key, call.version, payload)
    body = encode_response_body(call.api_key, call.version, payload.value)
    return with_offset(call.api_key, call.version, body, payload.offset)
