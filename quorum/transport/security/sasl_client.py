"""The client's side of SASL on a connection: SaslHandshake (17), SaslAuthenticate (36), KIP-368."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from quorum.protocol.api_versions import negotiate
from quorum.protocol.apis import SPOKEN, ApiKey, VersionRange
from quorum.protocol.codec import decode_response, request_body
from quorum.protocol.errors import ErrorCode
from quorum.protocol.shape import Data
from quorum.transport.security.mechanisms import AuthenticationFailed, ClientMechanism

HANDSHAKE_VERSION: Final = 1
STEPS_MAX: Final = 8
"""Messages of one authentication; the longest mechanism has three."""
RENEWED_AFTER: Final = 0.85, 0.95
"""The share of a lifetime after which the session is renewed, drawn between these (KIP-368)."""

TAKES_NO_SASL: Final = "it takes no SASL: the protocol of its listener is another"

Ask = Callable[[int, int, bytes], Awaitable[Data]]
"""Sends a request of this API and version on the connection; returns the body of the answer."""


@dataclass(frozen=True, slots=True, eq=False)
class ClientSasl:
    """The mechanism of a client, with its credentials."""

    mechanism: ClientMechanism

    async def authenticate(self, ask: Ask, offered: Mapping[int, VersionRange]) -> int:
        """Prove who this side is; return the ms that the proof lasts, 0 for ever.

        Raises `AuthenticationFailed`, or `Malformed` for an answer that cannot be read.
        """
        version = negotiate(SPOKEN[ApiKey.SASL_AUTHENTICATE], offered.get(ApiKey.SASL_AUTHENTICATE))
        handshakes = offered.get(ApiKey.SASL_HANDSHAKE)
        if version is None or handshakes is None or HANDSHAKE_VERSION not in handshakes:
            raise AuthenticationFailed(TAKES_NO_SASL)
        await self._choose_mechanism(ask)
        conversation = self.mechanism.begin()
        message = await conversation.first()
        for _ in range(STEPS_MAX):
            answer = await self._step(ask, version, message)
            following = await conversation.answer(answer.auth_bytes)
            if following is None:
                lifetime = getattr(answer, "session_lifetime", None)
                return 0 if lifetime is None else round(lifetime.total_seconds() * 1_000)
            message = following
        raise AuthenticationFailed(f"no end of it after {STEPS_MAX} messages")

    async def _choose_mechanism(self, ask: Ask) -> None:
        name = self.mechanism.name
        body = request_body(ApiKey.SASL_HANDSHAKE, HANDSHAKE_VERSION, mechanism=name)
        data = await ask(ApiKey.SASL_HANDSHAKE, HANDSHAKE_VERSION, body)
        answer = decode_response(ApiKey.SASL_HANDSHAKE, HANDSHAKE_VERSION, data)
        if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            enabled = ", ".join(answer.mechanisms) or "none"
            raise AuthenticationFailed(f"it does not enable {name}; enabled are: {enabled}")
        if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            # Kafka's brokers offer SASL at every listener.
            raise AuthenticationFailed(TAKES_NO_SASL)
        if answer.error_code.value != 0:
            raise AuthenticationFailed(f"it answered {answer.error_code.name} to SaslHandshake")

    async def _step(self, ask: Ask, version: int, message: bytes) -> Any:
        body = request_body(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=message)
        data = await ask(ApiKey.SASL_AUTHENTICATE, version, body)
        answer = decode_response(ApiKey.SASL_AUTHENTICATE, version, data)
        if answer.error_code.value != 0:
            raise AuthenticationFailed(answer.error_message or answer.error_code.name)
        return answer
