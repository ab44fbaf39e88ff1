"""SASL PLAIN (RFC 4616): user and password as they are, so only over TLS.

The users are in the listener's settings, as `user_NAME` options of Kafka's PlainLoginModule.
"""

from collections.abc import Mapping
from typing import Final

from quorum.protocol.principal import USER, KafkaPrincipal
from quorum.transport.security.mechanisms import Authenticated, AuthenticationFailed
from quorum.transport.security.secret import Secret

PLAIN: Final = "PLAIN"

_NOBODY: Final = Secret("")


class PlainServer:
    """PLAIN of a listener."""

    name = PLAIN

    def __init__(self, users: Mapping[str, Secret]) -> None:
        self._users = users

    def begin(self) -> "PlainServerConversation":
        return PlainServerConversation(self._users)

    async def close(self) -> None:
        pass


class PlainServerConversation:
    """One message: authorization id, user and password, with NUL between them."""

    def __init__(self, users: Mapping[str, Secret]) -> None:
        self._users = users
        self.authenticated: Authenticated | None = None

    async def answer(self, message: bytes) -> bytes:
        authorization, user, password = _fields(message)
        known = self._users.get(user)
        # An unknown user takes as long as a wrong password.
        matches = (known or _NOBODY).matches(password)
        if known is None:
            raise AuthenticationFailed(f"there is no user {user!r}")
        if not matches:
            raise AuthenticationFailed(f"the password of user {user!r} is wrong")
        if authorization not in ("", user):
            raise AuthenticationFailed(
                f"user {user!r} wants to act as {authorization!r}",
                told="Authentication failed: Client requested an authorization id that is "
                "different from username",
            )
        self.authenticated = Authenticated(KafkaPrincipal(USER, user))
        return b""


def _fields(message: bytes) -> tuple[str, str, bytes]:
    parts = message.split(b"\0")
    if len(parts) != 3:
        raise AuthenticationFailed(f"a PLAIN message of {len(parts)} fields, not 3")
    try:
        authorization, user = parts[0].decode(), parts[1].decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed("a PLAIN message that is not UTF-8") from None
    if not user or not parts[2]:
        missing = "password" if user else "user"
        raise AuthenticationFailed(f"a PLAIN message without a {missing}")
    return authorization, user, parts[2]


class PlainClient:
    """PLAIN of a client; every message is the same."""

    name = PLAIN

    def __init__(self, user: str, password: Secret) -> None:
        self._user = user
        self._password = password

    def begin(self) -> "PlainClient":
        return self

    async def first(self) -> bytes:
        return f"\0{self._user}\0{self._password.reveal()}".encode()

    async def answer(self, message: bytes) -> None:
        return None
