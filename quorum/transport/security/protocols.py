"""The security of a listener and of a channel: the protocol, and what it needs.

A listener without TLS and SASL is as it always was: its connections are anonymous, and no request
of theirs costs a call more.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from quorum.protocol.principal import ANONYMOUS
from quorum.transport.security.client_log import ClientLog
from quorum.transport.security.sasl_client import ClientSasl
from quorum.transport.security.sasl_server import ServerSasl
from quorum.transport.security.tls import ClientTls, ServerTls


class SecurityProtocol(IntEnum):
    """Kafka's security protocols, with their numbers in records and registrations."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ListenerSecurity:
    """The name of a listener, and what its clients must prove before their first request."""

    name: str
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: ServerTls | None = None
    sasl: ServerSasl | None = None
    accepts_plaintext: bool = False
    """True while a cluster migrates: a client that does not begin TLS is anonymous."""

    def __post_init__(self) -> None:
        assert (self.tls is not None) == self.protocol.has_tls
        assert (self.sasl is not None) == self.protocol.has_sasl
        assert not self.accepts_plaintext or self.protocol.has_tls

    @property
    def plaintext(self) -> "ListenerSecurity":
        """The same listener for a client that does not begin TLS."""
        return ListenerSecurity(name=self.name)

    def check(self) -> None:
        """Raise `TlsUnusable` if the keys or certificates cannot be used."""
        if self.tls is not None:
            self.tls.check()


UNKNOWN_PRINCIPAL: Final = "this client"
"""In place of a principal that only the node knows: of a certificate, a token."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClientSecurity:
    """The checks that a client makes of the node that it connects to, and its own proof.

    Shared by all channels of a process to one kind of listener, so that a refusal is logged once.
    """

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: ClientTls | None = None
    sasl: ClientSasl | None = None
    log: ClientLog = field(default_factory=ClientLog)
    principal: str = UNKNOWN_PRINCIPAL
    """The principal of the connections, as an error names it."""

    def __post_init__(self) -> None:
        assert (self.tls is not None) == self.protocol.has_tls
        assert (self.sasl is not None) == self.protocol.has_sasl

    def check(self) -> None:
        """Raise `TlsUnusable` if the keys or certificates cannot be used."""
        if self.tls is not None:
            self.tls.check()


UNPROTECTED: Final = ListenerSecurity(name="PLAINTEXT")
"""A listener that is given nothing."""

PLAIN_CLIENT: Final = ClientSecurity(principal=str(ANONYMOUS))
"""A client that is given nothing."""
