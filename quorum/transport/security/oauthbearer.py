"""SASL OAUTHBEARER (RFC 7628): signed tokens, checked with the keys of their issuer.

Only asymmetric signatures count, never `none` and never a shared secret. The keys come from a JWKS
file or address; they are read again after a while, and when a token names a key that is not among
them, which is how an issuer introduces a new one.
"""

import asyncio
import base64
import logging
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import jwt
import orjson

from quorum.log_events import LogEvent
from quorum.protocol.principal import USER, KafkaPrincipal
from quorum.transport.security.mechanisms import (
    OAUTHBEARER,
    Authenticated,
    AuthenticationFailed,
)
from quorum.transport.security.secret import Secret

logger = logging.getLogger("security")

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
FETCH_SECONDS_MAX: Final = 5.0
"""The time that a key server or a token endpoint has to answer."""
EXPIRES_MS_MAX: Final = 253_402_300_799_000
"""The end of the year 9999: a token that is valid for longer ends then."""
FETCHED_BYTES_MAX: Final = 256 * 1024
RETRY_MS_MIN: Final = 1_000
"""Between two attempts to fetch the first keys: whoever connects would cause another one."""
UNKNOWN_KEY_MS_MIN: Final = 10_000
"""Between two fetches because of a key that is not known: strangers can name any."""
MESSAGE_BYTES_MAX: Final = 64 * 1024
"""The longest message with a token of this side."""

_GS2_HEADER: Final = re.compile(rb"n,(?:a=([^,]*))?,")
_TOKEN: Final = re.compile(rb"(?i:auth)=(?i:bearer) +([A-Za-z0-9._~+/\-]+=*)")
_SEPARATOR: Final = b"\x01"
_INVALID_TOKEN: Final = b'{"status":"invalid_token"}'


class Unavailable(Exception):
    """Keys or a token could not be had; the message says from where and why."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses to be sent on: `urllib` would take the credentials of this side along."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        raise Unavailable(f"{req.full_url} redirects to {newurl}: name that address")


def fetch(request: urllib.request.Request | str) -> bytes:
    """Return what a `file:` or `http(s):` address holds. It blocks: not in the loop's thread.

    Raises `Unavailable`.
    """
    url = request if isinstance(request, str) else request.full_url
    try:
        # Without proxies of the environment: the address is the one that the operator named.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects())
        with opener.open(request, timeout=FETCH_SECONDS_MAX) as answer:
            found: bytes = answer.read(FETCHED_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise Unavailable(f"{url} cannot be read: {reason}") from None
    if len(found) > FETCHED_BYTES_MAX:
        raise Unavailable(f"{url} has more than {FETCHED_BYTES_MAX} bytes")
    return found


def checked_url(url: str) -> str:
    """Return the address if it is of a kind that is supported; raises `ValueError`."""
    if urllib.parse.urlsplit(url).scheme not in ("file", "http", "https"):
        raise ValueError(f"{url!r} begins with neither file:, http: nor https:")
    return url


class KeySource:
    """The keys of a JWKS file or address, fetched when they are needed."""

    def __init__(
        self,
        url: str,
        *,
        refresh_ms: int,
        clock_ms: Callable[[], int],
    ) -> None:
        self._url = checked_url(url)
        self._refresh_ms = refresh_ms
        self._clock_ms = clock_ms
        self._keys: Mapping[str | None, jwt.PyJWK] = {}
        self._fetched_ms: int | None = None
        self._failed: tuple[int, Unavailable] | None = None
        """The time of the last attempt, if no keys have ever been fetched, and its failure."""
        self._lock = asyncio.Lock()

    async def key(self, key_id: str | None) -> jwt.PyJWK | None:
        """Return the key of this id, or the only one for None; None if there is none.

        Raises `Unavailable` if no keys have ever been fetched.
        """
        if self._is_due(key_id):
            async with self._lock:
                if self._failed is not None and self._clock_ms() < self._failed[0] + RETRY_MS_MIN:
                    raise self._failed[1]
                if self._is_due(key_id):
                    await self._fetch()
        if key_id is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(key_id)

    def _is_due(self, key_id: str | None) -> bool:
        if self._fetched_ms is None:
            return True
        age_ms = self._clock_ms() - self._fetched_ms
        is_unknown = key_id is not None and key_id not in self._keys
        return age_ms >= (UNKNOWN_KEY_MS_MIN if is_unknown else self._refresh_ms)

    async def _fetch(self) -> None:
        try:
            self._keys = _keys_in(await asyncio.to_thread(fetch, self._url), self._url)
        except Unavailable as error:
            if self._fetched_ms is None:
                self._failed = self._clock_ms(), error
                raise
            logger.warning(
                "Still using the keys fetched before: %s",
                error,
                extra=LogEvent.KEYS_NOT_FETCHED.extra,
            )
        self._failed, self._fetched_ms = None, self._clock_ms()


def _keys_in(content: bytes, url: str) -> Mapping[str | None, jwt.PyJWK]:
    try:
        found = jwt.PyJWKSet.from_dict(orjson.loads(content)).keys
    except (orjson.JSONDecodeError, jwt.PyJWTError, AttributeError, TypeError) as error:
        raise Unavailable(f"{url} holds no JWKS with keys: {error}") from None
    # A key for encryption signs nothing (RFC 7517, section 4.2).
    return {each.key_id: each for each in found if each.public_key_use in (None, "sig")}


class OAuthBearerServer:
    """OAUTHBEARER of a listener."""

    name = OAUTHBEARER

    def __init__(
        self,
        keys: KeySource,
        *,
        audience: Sequence[str],
        issuer: str | None,
        subject_claim: str,
        skew_seconds: int,
    ) -> None:
        self._keys = keys
        self._audience = audience
        self._issuer = issuer
        self._subject_claim = subject_claim
        self._skew_seconds = skew_seconds

    def begin(self) -> "OAuthBearerServerConversation":
        return OAuthBearerServerConversation(self)

    async def close(self) -> None:
        pass

    async def identity(self, token: str) -> Authenticated:
        """Return whose token it is and until when; raises `AuthenticationFailed`."""
        try:
            head = jwt.get_unverified_header(token)
            algorithm = head.get("alg")
            if algorithm not in ALGORITHMS:
                raise AuthenticationFailed(f"a token signed with {algorithm!r}")
            key = await self._keys.key(head.get("kid"))
            if key is None:
                raise AuthenticationFailed(
                    f"a token signed with the unknown key {head.get('kid')!r}"
                )
            claims = self._claims(token, key, algorithm)
        except Unavailable as error:
            raise AuthenticationFailed(str(error)) from None
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError) as error:
            raise AuthenticationFailed(f"a token that does not count: {error}") from None
        subject = claims.get(self._subject_claim)
        if not isinstance(subject, str) or not subject:
            raise AuthenticationFailed(f"a token without the claim {self._subject_claim!r}")
        expires_ms = int(min(float(claims["exp"]) * 1_000, EXPIRES_MS_MAX))
        return Authenticated(KafkaPrincipal(USER, subject), expires_ms)

    def _claims(self, token: str, key: jwt.PyJWK, algorithm: str) -> Mapping[str, Any]:
        claims: Mapping[str, Any] = jwt.decode(
            token,
            key.key,
            algorithms=[algorithm],
            audience=list(self._audience) or None,
            issuer=self._issuer,
            leeway=self._skew_seconds,
            options={
                "require": ["exp", "iat"],
                "verify_aud": bool(self._audience),
                "verify_iss": self._issuer is not None,
                # The claim of the name may be another one, and need not be a text there.
                "verify_sub": False,
            },
        )
        return claims


class OAuthBearerServerConversation:
    """The token; if it does not count, the reason, to which the client says that it heard it."""

    def __init__(self, server: OAuthBearerServer) -> None:
        self._server = server
        self._failure: AuthenticationFailed | None = None
        self.authenticated: Authenticated | None = None

    async def answer(self, message: bytes) -> bytes:
        if self._failure is not None:
            raise self._failure
        authorization, token = _token_in(message)
        try:
            found = await self._server.identity(token)
            if authorization not in ("", found.principal.name):
                raise AuthenticationFailed(f"{found.principal} wants to act as {authorization!r}")
        except AuthenticationFailed as failure:
            self._failure = failure
            return _INVALID_TOKEN
        self.authenticated = found
        return b""


def _token_in(message: bytes) -> tuple[str, str]:
    head, _, fields = message.partition(_SEPARATOR)
    found = _GS2_HEADER.fullmatch(head)
    if found is None or not fields.endswith(_SEPARATOR * 2):
        raise AuthenticationFailed("a malformed OAUTHBEARER message")
    for each in fields.split(_SEPARATOR):
        token = _TOKEN.fullmatch(each)
        if token is not None:
            return (found[1] or b"").decode(errors="replace"), token[1].decode()
    raise AuthenticationFailed("an OAUTHBEARER message without a token")


class TokenSource:
    """The token of this side: a file, or a token endpoint (the grant of client credentials)."""

    def __init__(
        self,
        url: str,
        *,
        client_id: str | None = None,
        client_secret: Secret | None = None,
        scope: str | None = None,
    ) -> None:
        self._url = checked_url(url)
        self._client_id = client_id
        self._client_secret = client_secret
        self._scope = scope
        if not url.startswith("file:") and (client_id is None or client_secret is None):
            raise ValueError("a token endpoint needs clientId and clientSecret in sasl.jaas.config")

    async def token(self) -> str:
        """Return a token that is valid now; raises `Unavailable`."""
        return await asyncio.to_thread(self.fetched)

    def fetched(self) -> str:
        """Return a token that is valid now, and block meanwhile; raises `Unavailable`."""
        if self._url.startswith("file:"):
            return fetch(self._url).decode(errors="replace").strip()
        assert self._client_id is not None
        assert self._client_secret is not None
        pair = f"{self._client_id}:{self._client_secret.reveal()}".encode()
        values = {"grant_type": "client_credentials"}
        if self._scope is not None:
            values["scope"] = self._scope
        request = urllib.request.Request(
            self._url,
            data=urllib.parse.urlencode(values).encode(),
            headers={"Authorization": f"Basic {base64.b64encode(pair).decode()}"},
        )
        try:
            token = orjson.loads(fetch(request))["access_token"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            raise Unavailable(f"{self._url} answered without an access_token") from None
        return str(token)


def expires_at(token: str) -> float:
    """Return when a token says that it ends, in seconds since 1970; 0 if it does not say so.

    Nothing of it is checked: only the other side has the keys.
    """
    try:
        return float(jwt.decode(token, options={"verify_signature": False})["exp"])
    except (jwt.InvalidTokenError, KeyError, TypeError, ValueError):
        return 0.0


class OAuthBearerClient:
    """OAUTHBEARER of a client."""

    name = OAUTHBEARER

    def __init__(self, tokens: TokenSource) -> None:
        self._tokens = tokens

    def begin(self) -> "OAuthBearerClientConversation":
        return OAuthBearerClientConversation(self._tokens)


class OAuthBearerClientConversation:
    """The token; and an empty message for a server that says why it does not count."""

    def __init__(self, tokens: TokenSource) -> None:
        self._tokens = tokens

    async def first(self) -> bytes:
        try:
            token = await self._tokens.token()
        except Unavailable as error:
            raise AuthenticationFailed(str(error)) from None
        message = f"n,,\x01auth=Bearer {token}\x01\x01".encode()
        if len(message) > MESSAGE_BYTES_MAX:
            raise AuthenticationFailed(f"the token has {len(token)} characters")
        return message

    async def answer(self, message: bytes) -> bytes | None:
        # A refusal follows, with error 58.
        return _SEPARATOR if message else None
