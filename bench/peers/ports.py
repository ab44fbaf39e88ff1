"""Free ports for the nodes of one cluster."""

import random
import socket
from contextlib import ExitStack

from admin.local_plan import FREE_PORT_HIGHEST, FREE_PORT_LOWEST
from bench.faults import RunFailed
from quorum.transport.address import Address

HOST = "127.0.0.1"
TRIES = 1_000
_RNG = random.SystemRandom()


def free_addresses(count: int) -> list[Address]:
    """So many, below the ports that systems give to outgoing connections; raises `RunFailed`.

    The port of a node that is down for a while stays free for it.
    """
    found: list[Address] = []
    with ExitStack() as bound:
        for _ in range(TRIES):
            if len(found) == count:
                return found
            port = _RNG.randrange(FREE_PORT_LOWEST, FREE_PORT_HIGHEST)
            try:
                bound.enter_context(socket.create_server((HOST, port)))
            except OSError:
                continue
            found.append(Address(HOST, port))
    raise RunFailed(f"no {count} free ports between {FREE_PORT_LOWEST} and {FREE_PORT_HIGHEST}")
