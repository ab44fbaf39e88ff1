"""A listener of a node: where it accepts connections, what it is called, and its security."""

from collections.abc import Sequence
from dataclasses import dataclass

from quorum.transport.address import Address
from quorum.transport.security.protocols import UNPROTECTED, ListenerSecurity
from quorum.transport.server import Server


@dataclass(frozen=True, slots=True)
class Listener:
    """One entry of `listeners`."""

    address: Address
    """With port 0 the system chooses one."""
    security: ListenerSecurity = UNPROTECTED
    advertised: Address | None = None
    """The address for clients and other nodes; None for `address` itself."""

    @property
    def name(self) -> str:
        return self.security.name

    @property
    def place(self) -> Address:
        """The address for clients and other nodes."""
        return self.advertised or self.address

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"


async def listen_at(server: Server, listener: Listener) -> Listener:
    """Open the listener; return it with the port that it got.

    Raises `OSError` if the address cannot be had, and `TlsUnusable`.
    """
    port = await server.listen(*listener.address, listener.security)
    return Listener(listener.address._replace(port=port), listener.security, listener.advertised)


def named(listeners: Sequence[Listener], name: str) -> Listener:
    """Return the listener of this name; the configuration has checked that there is one."""
    return next(each for each in listeners if each.name == name)
