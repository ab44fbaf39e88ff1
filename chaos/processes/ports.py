"""Free ports for the nodes of one cluster, which keep them while they are down for a moment."""

import random
import socket
from contextlib import ExitStack
from typing import Final

from chaos.processes.network import NetworkFault
from quorum.transport.address import Address

HOST: Final = "127.0.0.1"
# Below the range from which systems take the ports of outgoing connections.
LOWEST: Final = 10_000
HIGHEST: Final = 32_000
TRIES: Final = 1_000
_RNG: Final = random.SystemRandom()


def free_addresses(count: int) -> list[Address]:
    """So many addresses of this machine, each with another port; raises `NetworkFault`."""
    found: list[Address] = []
    # Bound all at once, so that no two get the same.
    with ExitStack() as bound:
        for _ in range(TRIES):
            if len(found) == count:
                return found
            port = _RNG.randrange(LOWEST, HIGHEST)
            try:
                bound.enter_context(socket.create_server((HOST, port)))
            except OSError:
                continue
            found.append(Address(HOST, port))
    raise NetworkFault(f"no {count} free ports between {LOWEST} and {HIGHEST}")
