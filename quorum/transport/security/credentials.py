"""The port through which a listener looks up SCRAM credentials and delegation tokens.

A controller implements it over its image, as committed; a broker over its copy of the metadata.
Look-ups change nothing and answer at once.
"""

import asyncio
import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol, TypeVar

from quorum.protocol.principal import KafkaPrincipal
from quorum.transport.security.secret import Secret

ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384
"""Kafka's bounds of the rounds of PBKDF2."""


class ScramMechanism(Enum):
    """A SCRAM mechanism: its number in records, its name, and its hash function in `hashlib`."""

    SHA_256 = 1, "SCRAM-SHA-256", "sha256"
    SHA_512 = 2, "SCRAM-SHA-512", "sha512"

    def __init__(self, number: int, mechanism: str, digest: str) -> None:
        self.number = number
        self.mechanism = mechanism
        self.digest = digest
        self.digest_bytes = hashlib.new(digest).digest_size


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The part of a password that a server keeps: it checks a proof, and cannot log in."""

    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationTokenInfo:
    """A delegation token in force (KIP-48); its HMAC is the password that the client has."""

    token_id: str
    owner: KafkaPrincipal
    hmac: Secret
    """In base64, as the client was given it."""
    expires_ms: int
    """By the wall clock."""


class Credentials(Protocol):
    """Looks up what proves an identity."""

    async def known(self) -> None:
        """Return once a look-up tells the truth: not before the log has been read."""
        ...

    def scram(self, user: str, mechanism: int) -> ScramCredential | None:
        """Return the credential of a user for the mechanism of this number, or None."""
        ...

    def token(self, token_id: str) -> DelegationTokenInfo | None:
        """Return the delegation token, or None if there is none in force."""
        ...


class CredentialsInMemory:
    """Credentials that are given at the start."""

    def __init__(
        self,
        scram: Mapping[tuple[str, int], ScramCredential],
        tokens: Mapping[str, DelegationTokenInfo] | None = None,
    ) -> None:
        self._scram = scram
        self._tokens = tokens or {}

    async def known(self) -> None:
        pass

    def scram(self, user: str, mechanism: int) -> ScramCredential | None:
        return self._scram.get((user, mechanism))

    def token(self, token_id: str) -> DelegationTokenInfo | None:
        return self._tokens.get(token_id)


class StoredScram(Protocol):
    """A record of a SCRAM credential, as a state machine keeps it."""

    @property
    def salt(self) -> bytes: ...
    @property
    def stored_key(self) -> bytes: ...
    @property
    def server_key(self) -> bytes: ...
    @property
    def iterations(self) -> int: ...


class StoredToken(Protocol):
    """A record of a delegation token, as a state machine keeps it; its HMAC is not in it."""

    @property
    def owner(self) -> str: ...
    @property
    def expiration_timestamp_ms(self) -> int: ...


K_contra = TypeVar("K_contra", contravariant=True)
V_co = TypeVar("V_co", covariant=True)


class Table(Protocol[K_contra, V_co]):
    """A table that is looked up by key."""

    def get(self, key: K_contra, /) -> V_co | None: ...


class CredentialTables(Protocol):
    """The tables of an image that credentials are looked up in: only what is committed counts."""

    @property
    def committed_scram_credentials(self) -> Table[tuple[str, int], StoredScram]: ...
    @property
    def committed_delegation_tokens(self) -> Table[str, StoredToken]: ...


class ImageCredentials:
    """The credentials in an image: `LateCredentials.source` of a controller and of a broker."""

    def __init__(
        self, image: Callable[[], CredentialTables], hmac_of: Callable[[str], bytes] | None = None
    ) -> None:
        """`hmac_of` computes the HMAC of a token's id; None where tokens are disabled."""
        self._image = image
        self._hmac_of = hmac_of

    async def known(self) -> None:
        pass

    def scram(self, user: str, mechanism: int) -> ScramCredential | None:
        found = self._image().committed_scram_credentials.get((user, mechanism))
        if found is None:
            return None
        return ScramCredential(found.salt, found.stored_key, found.server_key, found.iterations)

    def token(self, token_id: str) -> DelegationTokenInfo | None:
        found = self._image().committed_delegation_tokens.get(token_id)
        if found is None or self._hmac_of is None:
            return None
        kind, _, name = found.owner.partition(":")
        return DelegationTokenInfo(
            token_id=token_id,
            owner=KafkaPrincipal(kind, name),
            hmac=Secret(base64.b64encode(self._hmac_of(token_id)).decode()),
            expires_ms=found.expiration_timestamp_ms,
        )


class LateCredentials:
    """Credentials of a state that does not exist yet when the listeners are configured.

    Who logs in before the node has read what is committed waits: to call a password wrong then
    would make a client give up, and to go by an old log would let a removed user in.
    """

    def __init__(self) -> None:
        self.source: Credentials | None = None
        """Set before `tell_known` is called."""
        self._known = asyncio.Event()

    def tell_known(self) -> None:
        """Let the look-ups begin: the source has everything that is committed."""
        self._known.set()

    async def known(self) -> None:
        await self._known.wait()

    def scram(self, user: str, mechanism: int) -> ScramCredential | None:
        assert self.source is not None
        return self.source.scram(user, mechanism)

    def token(self, token_id: str) -> DelegationTokenInfo | None:
        assert self.source is not None
        return self.source.token(token_id)
