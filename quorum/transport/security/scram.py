"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), without channel binding as in Kafka.

Neither side sends the password, and the server keeps only what checks it. The rounds of PBKDF2
take a few milliseconds of a processor, so they are computed in a thread. With the extension
`tokenauth=true` the user is the id of a delegation token and its HMAC the password (KIP-48).
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from quorum.protocol.principal import USER, KafkaPrincipal
from quorum.transport.security.credentials import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    Credentials,
    DelegationTokenInfo,
    ScramCredential,
    ScramMechanism,
)
from quorum.transport.security.mechanisms import Authenticated, AuthenticationFailed
from quorum.transport.security.secret import Secret

MECHANISMS: Final = {each.mechanism: each for each in ScramMechanism}

CLIENT_ITERATIONS_MAX: Final = 1_000_000
"""Rounds that a server may ask of a client: about half a second of its processor."""
TOKENS_CACHED_MAX: Final = 1_024
"""Delegation tokens whose credential is kept, instead of computed at each connection."""

_NONCE_BYTES: Final = 24
SALT_BYTES: Final = 18
_NO_BINDING: Final = "n,"

_CLIENT_FIRST: Final = re.compile(
    r"n,(?:a=([^,]*))?,(n=([^,]*),r=([!-+\--~]+)((?:,[A-Za-z]+=[^,]*)*))"
)
_CLIENT_FINAL: Final = re.compile(
    r"(c=([A-Za-z0-9+/=]+),r=([!-+\--~]+)((?:,[A-Za-z]=[^,]*)*)),p=([A-Za-z0-9+/=]+)"
)
_SERVER_FIRST: Final = re.compile(
    r"r=([!-+\--~]+),s=([A-Za-z0-9+/=]+),i=([1-9][0-9]{0,9})((?:,[A-Za-z]=[^,]*)*)"
)
_TOKEN_AUTH: Final = "tokenauth"


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, rounds: int) -> bytes:
    """Return `Hi(password, salt, rounds)`. It takes milliseconds: not in the loop's thread."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, rounds)


def _hmac(mechanism: ScramMechanism, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, mechanism.digest)


def _hash(mechanism: ScramMechanism, data: bytes) -> bytes:
    return hashlib.new(mechanism.digest, data).digest()


def credential_of_salted(
    mechanism: ScramMechanism, salted: bytes, salt: bytes, rounds: int
) -> ScramCredential:
    """Return the credential that a server keeps of a salted password."""
    client_key = _hmac(mechanism, salted, b"Client Key")
    return ScramCredential(
        salt, _hash(mechanism, client_key), _hmac(mechanism, salted, b"Server Key"), rounds
    )


def credential_of(
    mechanism: ScramMechanism, password: str, salt: bytes, rounds: int = ITERATIONS_MIN
) -> ScramCredential:
    """Return the credential of a password. It takes milliseconds: not in the loop's thread."""
    salted = salted_password(mechanism, password, salt, rounds)
    return credential_of_salted(mechanism, salted, salt, rounds)


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise AuthenticationFailed(
            "a SCRAM message that is not base64 where it should be"
        ) from None


def _decoded(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed("a SCRAM message that is not UTF-8") from None


def _name_on_wire(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _name_from_wire(name: str) -> str:
    if re.search(r"=(?!2C|3D)", name):
        raise AuthenticationFailed("a user name with = that is neither =2C nor =3D")
    return name.replace("=2C", ",").replace("=3D", "=")


class ScramServer:
    """One SCRAM mechanism of a listener."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        credentials: Credentials,
        *,
        wall_clock: Callable[[], int],
    ) -> None:
        self.name = mechanism.mechanism
        self.mechanism = mechanism
        self.credentials = credentials
        self.wall_clock = wall_clock
        # Invents salts for users that do not exist, always the same one for a name.
        self._pepper = secrets.token_bytes(32)
        self._of_tokens: OrderedDict[str, tuple[Secret, ScramCredential]] = OrderedDict()

    def begin(self) -> "ScramServerConversation":
        return ScramServerConversation(self)

    async def close(self) -> None:
        pass

    def credential_of_nobody(self, user: str) -> ScramCredential:
        """Return a credential that no password fits, so that a stranger cannot list the users."""
        seed = hmac.digest(self._pepper, user.encode(), "sha512")
        size = len(_hash(self.mechanism, b""))
        return ScramCredential(seed[:SALT_BYTES], bytes(size), bytes(size), ITERATIONS_MIN)

    async def credential_of_token(self, token: DelegationTokenInfo) -> ScramCredential:
        """Return the credential of a token, whose HMAC is the password."""
        cached = self._of_tokens.get(token.token_id)
        if cached is not None and cached[0] == token.hmac:
            return cached[1]
        salt = secrets.token_bytes(SALT_BYTES)
        credential = await asyncio.to_thread(
            credential_of, self.mechanism, token.hmac.reveal(), salt
        )
        self._of_tokens[token.token_id] = token.hmac, credential
        if len(self._of_tokens) > TOKENS_CACHED_MAX:
            self._of_tokens.popitem(last=False)
        return credential


@dataclass(frozen=True, slots=True)
class _Challenge:
    """The state between the server's first message and the client's proof."""

    user: str
    is_known: bool
    token: DelegationTokenInfo | None
    credential: ScramCredential
    nonce: str
    said: str
    """client-first-message-bare "," server-first-message"""


class ScramServerConversation:
    """Two messages of the client: its name and nonce, then its proof."""

    def __init__(self, server: ScramServer) -> None:
        self._server = server
        self._challenge: _Challenge | None = None
        self.authenticated: Authenticated | None = None

    async def answer(self, message: bytes) -> bytes:
        text = _decoded(message)
        if self._challenge is None:
            return await self._challenged(text)
        return self._proved(text, self._challenge)

    async def _challenged(self, text: str) -> bytes:
        found = _CLIENT_FIRST.fullmatch(text)
        if found is None:
            raise AuthenticationFailed("the first SCRAM message is malformed")
        authorization, bare, wire_name, nonce, extensions = found.groups()
        user = _name_from_wire(wire_name)
        if not user:
            raise AuthenticationFailed("the first SCRAM message has no user name")
        if _name_from_wire(authorization or "") not in ("", user):
            raise AuthenticationFailed(
                f"user {user!r} wants to act as {authorization!r}",
                told="Authentication failed: Client requested an authorization id that is "
                "different from username",
            )
        credential, token = await self._credential(user, extensions)
        known = credential or self._server.credential_of_nobody(user)
        nonce += secrets.token_urlsafe(_NONCE_BYTES)
        first = f"r={nonce},s={_text(known.salt)},i={known.iterations}"
        self._challenge = _Challenge(
            user, credential is not None, token, known, nonce, f"{bare},{first}"
        )
        return first.encode()

    async def _credential(
        self, user: str, extensions: str
    ) -> tuple[ScramCredential | None, DelegationTokenInfo | None]:
        server = self._server
        await server.credentials.known()
        if f"{_TOKEN_AUTH}=true" not in extensions.lower().split(","):
            return server.credentials.scram(user, server.mechanism.number), None
        token = server.credentials.token(user)
        if token is None or token.expires_ms <= server.wall_clock():
            return None, None
        return await server.credential_of_token(token), token

    def _proved(self, text: str, challenge: _Challenge) -> bytes:
        found = _CLIENT_FINAL.fullmatch(text)
        if found is None:
            raise AuthenticationFailed("the last SCRAM message is malformed")
        without_proof, binding, nonce, _, proof_text = found.groups()
        if not hmac.compare_digest(nonce.encode(), challenge.nonce.encode()):
            raise AuthenticationFailed("the last SCRAM message has another nonce")
        if not _bytes(binding).decode(errors="replace").startswith(_NO_BINDING):
            raise AuthenticationFailed("channel binding is not supported")
        mechanism, credential = self._server.mechanism, challenge.credential
        said = f"{challenge.said},{without_proof}".encode()
        signature = _hmac(mechanism, credential.stored_key, said)
        proof = _bytes(proof_text)
        if len(proof) != len(signature):
            raise AuthenticationFailed("a proof of another hash function")
        stored_key = _hash(mechanism, _xor(signature, proof))
        matches = hmac.compare_digest(stored_key, credential.stored_key)
        if not challenge.is_known:
            raise AuthenticationFailed(f"there is no credential of {challenge.user!r}")
        if not matches:
            raise AuthenticationFailed(f"the password of {challenge.user!r} is wrong")
        self.authenticated = _identity(challenge)
        return b"v=" + base64.b64encode(_hmac(mechanism, credential.server_key, said))


def _identity(challenge: _Challenge) -> Authenticated:
    token = challenge.token
    if token is None:
        return Authenticated(KafkaPrincipal(USER, challenge.user))
    owner = KafkaPrincipal(token.owner.kind, token.owner.name, token_authenticated=True)
    return Authenticated(owner, token.expires_ms)


class ScramClient:
    """One SCRAM mechanism with a user and a password, or a token's id and HMAC."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        user: str,
        password: Secret,
        *,
        is_token: bool = False,
    ) -> None:
        self.name = mechanism.mechanism
        self.mechanism = mechanism
        self.user = user
        self.is_token = is_token
        self._password = password
        self._salted: tuple[bytes, int, bytes] | None = None

    def begin(self) -> "ScramClientConversation":
        return ScramClientConversation(self)

    async def salted_password(self, salt: bytes, rounds: int) -> bytes:
        """Return the salted password: that of the last connection, if the salt is the same."""
        if self._salted is not None and self._salted[:2] == (salt, rounds):
            return self._salted[2]
        salted = await asyncio.to_thread(
            salted_password, self.mechanism, self._password.reveal(), salt, rounds
        )
        self._salted = salt, rounds, salted
        return salted


class ScramClientConversation:
    """A name and a nonce, then the proof; the server then proves that it knows the user."""

    def __init__(self, client: ScramClient) -> None:
        self._client = client
        self._nonce = secrets.token_urlsafe(_NONCE_BYTES)
        extension = f",{_TOKEN_AUTH}=true" if client.is_token else ""
        self._bare = f"n={_name_on_wire(client.user)},r={self._nonce}{extension}"
        self._server_signature: bytes | None = None

    async def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    async def answer(self, message: bytes) -> bytes | None:
        text = _decoded(message)
        if self._server_signature is None:
            return await self._proof(text)
        if text.startswith("e="):
            raise AuthenticationFailed(f"the server reports {text[2:]!r}")
        if not text.startswith("v=") or not hmac.compare_digest(
            _bytes(text[2:]), self._server_signature
        ):
            raise AuthenticationFailed("the server did not prove that it knows the password")
        return None

    async def _proof(self, text: str) -> bytes:
        found = _SERVER_FIRST.fullmatch(text)
        if found is None:
            raise AuthenticationFailed("the first SCRAM message of the server is malformed")
        nonce, salt_text, rounds_text, _ = found.groups()
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationFailed("the server answered with a nonce of another conversation")
        rounds = int(rounds_text)
        if not ITERATIONS_MIN <= rounds <= CLIENT_ITERATIONS_MAX:
            # Fewer would make the password easy to guess for a false server.
            raise AuthenticationFailed(f"the server asks for {rounds} iterations")
        mechanism = self._client.mechanism
        salted = await self._client.salted_password(_bytes(salt_text), rounds)
        client_key = _hmac(mechanism, salted, b"Client Key")
        without_proof = f"c=biws,r={nonce}"
        said = f"{self._bare},{text},{without_proof}".encode()
        signature = _hmac(mechanism, _hash(mechanism, client_key), said)
        server_key = _hmac(mechanism, salted, b"Server Key")
        self._server_signature = _hmac(mechanism, server_key, said)
        return f"{without_proof},p={_text(_xor(client_key, signature))}".encode()


assert ITERATIONS_MIN <= ITERATIONS_MAX <= CLIENT_ITERATIONS_MAX
