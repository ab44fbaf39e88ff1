"""SASL mechanisms have this in common: a conversation on each side, and how it fails.

A message of the peer goes in and the next message comes out; a step may take a thread, or wait for
a key server, but never the loop.
"""

from dataclasses import dataclass
from typing import Final, Protocol

from quorum.protocol.principal import KafkaPrincipal

OAUTHBEARER: Final = "OAUTHBEARER"


class AuthenticationFailed(Exception):
    """The peer did not prove who it is. The message is for the log of this side.

    `told` is what the peer is told, if that may be more than that its credentials are wrong.
    """

    def __init__(self, reason: str, *, told: str | None = None) -> None:
        super().__init__(reason)
        self.told = told


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The outcome of a conversation that succeeded."""

    principal: KafkaPrincipal
    expires_ms: int | None = None
    """The time, by the wall clock, at which what was proved ends; None if it does not."""


class ServerConversation(Protocol):
    """The server's side of one authentication."""

    authenticated: Authenticated | None
    """Set once the client has proved who it is; the message returned with it is the last one."""

    async def answer(self, message: bytes) -> bytes:
        """Return the next message to the client; raises `AuthenticationFailed`."""
        ...


class ServerMechanism(Protocol):
    """A mechanism that a listener has enabled."""

    name: str

    def begin(self) -> ServerConversation:
        """Begin an authentication."""
        ...

    async def close(self) -> None:
        """End what it does in the background."""
        ...


class ClientConversation(Protocol):
    """The client's side of one authentication."""

    async def first(self) -> bytes:
        """Return the first message; raises `AuthenticationFailed`."""
        ...

    async def answer(self, message: bytes) -> bytes | None:
        """Return the next message to the server, or None if the conversation has succeeded.

        Raises `AuthenticationFailed`, above all if it is the server that proved nothing.
        """
        ...


class ClientMechanism(Protocol):
    """A mechanism with the credentials of this side."""

    name: str

    def begin(self) -> ClientConversation:
        """Begin an authentication."""
        ...
