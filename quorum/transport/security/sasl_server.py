"""The server's side of SASL on a connection: SaslHandshake (17), SaslAuthenticate (36), KIP-368.

Until a client has proved who it is, its connection takes ApiVersions and these two requests, in
small frames and for a limited time. A failure is answered after a delay, as by Kafka, and ends the
connection; the client is told no more than that its credentials are wrong.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Final, Protocol

from quorum.log_events import LogEvent
from quorum.protocol.api_versions import write_offer
from quorum.protocol.apis import SPOKEN, ApiKey, VersionRange, api_name
from quorum.protocol.codec import decode_request, response_body
from quorum.protocol.errors import ErrorCode
from quorum.protocol.principal import KafkaPrincipal
from quorum.protocol.shape import Data
from quorum.transport.security.mechanisms import (
    Authenticated,
    AuthenticationFailed,
    ServerConversation,
    ServerMechanism,
)

logger = logging.getLogger("security")

SASL_APIS: Final[Mapping[int, VersionRange]] = MappingProxyType(
    {key: SPOKEN[key] for key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)}
)

AUTHENTICATION_MS_MAX: Final = 10_000
"""The time that a client has from its connection to the proof, and for each re-authentication."""
FAILURE_DELAY_MS: Final = 100
"""The default of `connection.failed.authentication.delay.ms`."""
RECEIVE_BYTES_MAX: Final = 512 * 1024
"""The default of `sasl.server.max.receive.size`."""
GREETINGS_MAX: Final = 4
"""ApiVersions requests before the proof: one, and as many again for clients that are too new."""

_RAW_VERSION: Final = 0
"""After SaslHandshake v0 the messages of the mechanism follow as bare frames."""


class SaslRequest(Protocol):
    """A request of the connection, as it came."""

    api_key: int
    api_version: int
    body: Data

    @property
    def is_gone(self) -> bool:
        """True if an answer would reach nobody."""
        ...

    def respond(self, body: Data) -> None:
        """Answer with this body."""
        ...

    def reject(self, reason: str) -> None:
        """Close the connection, and log the reason."""
        ...


class SaslConnection(Protocol):
    """The connection that a session is of."""

    peer: str

    @property
    def offered(self) -> Mapping[int, VersionRange]:
        """The APIs of the listener, without those of SASL."""
        ...

    def authenticated(self, principal: KafkaPrincipal) -> None:
        """Serve the client's requests from now on."""
        ...

    def must_authenticate(self) -> None:
        """Serve no request before another proof."""
        ...

    def take_raw(self, is_raw: bool) -> None:
        """Take bare frames, or requests again."""
        ...

    def send_raw(self, message: bytes) -> None:
        """Send a bare frame."""
        ...

    def close_because(self, reason: str) -> None:
        """Close the connection, and log the reason."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServerSasl:
    """SASL of a listener: its mechanisms by name, and its limits."""

    mechanisms: Mapping[str, ServerMechanism]
    reauth_ms: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """`connections.max.reauth.ms` of a mechanism; without one, or 0, a proof lasts for ever."""
    failure_delay_ms: int = FAILURE_DELAY_MS
    receive_bytes_max: int = RECEIVE_BYTES_MAX
    """`sasl.server.max.receive.size`: of a request before the proof, and of each SASL message."""
    wall_clock: Callable[[], int]

    def session(self, connection: SaslConnection) -> "ServerSession":
        """Begin the session of a connection."""
        return ServerSession(self, connection)

    async def close(self) -> None:
        """End what the mechanisms do in the background."""
        for each in self.mechanisms.values():
            await each.close()


class ServerSession:
    """The authentication of the client of one connection."""

    def __init__(self, sasl: ServerSasl, connection: SaslConnection) -> None:
        self._sasl = sasl
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._mechanism: ServerMechanism | None = None
        self._conversation: ServerConversation | None = None
        self._authenticated: Authenticated | None = None
        self._greetings = 0
        self._is_over = False
        self._step: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._delay: asyncio.TimerHandle | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._allow_time()

    # What the connection calls.

    def handle(self, request: SaslRequest) -> None:
        """Take a request before the proof, or one of SASL after it; raises `Malformed`."""
        if self._is_over:
            # What is pipelined behind a failure waits for the end of the connection.
            return
        match request.api_key:
            case ApiKey.API_VERSIONS:
                self._greet(request)
            case ApiKey.SASL_HANDSHAKE:
                self._begin(request)
            case ApiKey.SASL_AUTHENTICATE:
                self._authenticate(request)
            case _:
                name = api_name(request.api_key)
                request.reject(f"{name} came before the client had authenticated")

    def handle_raw(self, message: Data) -> None:
        """Take a message of a mechanism that came as a bare frame, after SaslHandshake v0."""
        if not self._is_over:
            self._take_step(message, None)

    def handle_expired(self, request: SaslRequest) -> None:
        """Take the first request after the proof has ended, which is not a re-authentication."""
        request.reject("its authentication has expired, and it did not re-authenticate")

    def close(self) -> None:
        """The connection is gone."""
        self._is_over = True
        for timer in (self._deadline, self._delay, self._expiry):
            if timer is not None:
                timer.cancel()
        if self._step is not None:
            self._step.cancel()

    # Inside.

    def _greet(self, request: SaslRequest) -> None:
        decode_request(request.api_key, request.api_version, request.body)
        self._greetings += 1
        if self._greetings > GREETINGS_MAX:
            request.reject(f"{self._greetings} ApiVersions before the client had authenticated")
            return
        offered = {**self._connection.offered, **SASL_APIS}
        request.respond(write_offer(request.api_version, offered))

    def _begin(self, request: SaslRequest) -> None:
        if self._conversation is not None or self._step is not None:
            request.reject("SaslHandshake in the middle of an authentication")
            return
        wanted: str = decode_request(request.api_key, request.api_version, request.body).mechanism
        mechanism = self._sasl.mechanisms.get(wanted)
        before = self._mechanism
        if mechanism is None:
            self._refuse_mechanism(request, f"SASL mechanism {wanted!r} is not enabled")
            return
        if before is not None and mechanism is not before:
            self._refuse_mechanism(
                request, f"it re-authenticates with {wanted}, and began with {before.name}"
            )
            return
        self._mechanism = mechanism
        self._conversation = mechanism.begin()
        if self._authenticated is not None:
            self._allow_time()
        request.respond(self._handshake_answer(request.api_version, ErrorCode.NONE))
        if request.api_version == _RAW_VERSION:
            self._connection.take_raw(True)

    def _handshake_answer(self, version: int, error: int) -> bytes:
        mechanisms = tuple(sorted(self._sasl.mechanisms))
        return response_body(
            ApiKey.SASL_HANDSHAKE, version, error_code=error, mechanisms=mechanisms
        )

    def _refuse_mechanism(self, request: SaslRequest, reason: str) -> None:
        refusal = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        request.respond(self._handshake_answer(request.api_version, refusal))
        self._is_over = True
        self._connection.close_because(reason)

    def _authenticate(self, request: SaslRequest) -> None:
        if self._conversation is None:
            request.reject("SaslAuthenticate without SaslHandshake before it")
            return
        message = decode_request(request.api_key, request.api_version, request.body).auth_bytes
        self._take_step(message, request)

    def _take_step(self, message: Data, request: SaslRequest | None) -> None:
        if self._step is not None:
            self._fail(
                AuthenticationFailed("a SASL message before the last one was answered"), request
            )
            return
        self._step = self._loop.create_task(self._answer(bytes(message), request))

    async def _answer(self, message: bytes, request: SaslRequest | None) -> None:
        conversation = self._conversation
        assert conversation is not None
        try:
            bytes_max = self._sasl.receive_bytes_max
            if len(message) > bytes_max:
                raise AuthenticationFailed(
                    f"a SASL message of {len(message)} bytes, at most {bytes_max} are allowed"
                )
            answer = await conversation.answer(message)
            if conversation.authenticated is not None:
                self._succeed(conversation.authenticated)
        except AuthenticationFailed as failure:
            self._step = None
            self._fail(failure, request)
            return
        except Exception:
            # A fault of a mechanism lets nobody in, and ends one connection only.
            logger.exception(
                "An authentication of %s failed",
                self._connection.peer,
                extra=LogEvent.REQUEST_FAILED.extra,
            )
            self._step = None
            self._fail(AuthenticationFailed("the mechanism failed; see the log"), request)
            return
        self._step = None
        if self._is_over:
            return
        is_done = conversation.authenticated is not None
        lifetime_ms = (self._lifetime_ms() or 0) if is_done else 0
        if request is None:
            self._connection.send_raw(answer)
            if is_done:
                self._connection.take_raw(False)
            return
        request.respond(
            response_body(
                ApiKey.SASL_AUTHENTICATE,
                request.api_version,
                error_code=ErrorCode.NONE,
                error_message=None,
                auth_bytes=answer,
                session_lifetime=timedelta(milliseconds=lifetime_ms),
            )
        )

    def _succeed(self, found: Authenticated) -> None:
        before = self._authenticated
        if before is not None and before.principal != found.principal:
            raise AuthenticationFailed(
                f"it re-authenticates as {found.principal}, and was {before.principal}",
                told="Cannot change principals during re-authentication",
            )
        self._conversation = None
        self._authenticated = found
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        lifetime_ms = self._lifetime_ms()
        if lifetime_ms is not None and lifetime_ms <= 0:
            raise AuthenticationFailed("its credentials have expired")
        if self._expiry is not None:
            self._expiry.cancel()
        if lifetime_ms is not None:
            self._expiry = self._loop.call_later(lifetime_ms / 1_000, self._expire)
        self._connection.authenticated(found.principal)

    def _lifetime_ms(self) -> int | None:
        """Return how long the proof lasts from now on; None for ever."""
        found, mechanism = self._authenticated, self._mechanism
        if found is None or mechanism is None:
            return None
        limit_ms = self._sasl.reauth_ms.get(mechanism.name) or None
        if found.expires_ms is None:
            return limit_ms
        left_ms = found.expires_ms - self._sasl.wall_clock()
        return left_ms if limit_ms is None else min(left_ms, limit_ms)

    def _expire(self) -> None:
        self._connection.must_authenticate()

    def _fail(self, failure: AuthenticationFailed, request: SaslRequest | None) -> None:
        """Answer with the error after a delay, which makes guessing slow, and close."""
        if self._is_over:
            return
        self._is_over = True
        delay_seconds = self._sasl.failure_delay_ms / 1_000
        self._delay = self._loop.call_later(delay_seconds, self._tell_failure, failure, request)

    def _tell_failure(self, failure: AuthenticationFailed, request: SaslRequest | None) -> None:
        assert self._mechanism is not None
        name = self._mechanism.name
        told = failure.told or (
            f"Authentication failed during authentication due to invalid credentials with SASL "
            f"mechanism {name}"
        )
        if request is not None and not request.is_gone:
            request.respond(
                response_body(
                    ApiKey.SASL_AUTHENTICATE,
                    request.api_version,
                    error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                    error_message=told,
                    auth_bytes=b"",
                )
            )
        self._connection.close_because(f"authentication with {name} failed: {failure}")

    def _allow_time(self) -> None:
        self._deadline = self._loop.call_later(AUTHENTICATION_MS_MAX / 1_000, self._time_out)

    def _time_out(self) -> None:
        self._is_over = True
        self._connection.close_because(f"no authentication within {AUTHENTICATION_MS_MAX} ms")
