"""Connections to a host by its name: each of its addresses is tried, in the order they are found.

It never asks twice and never waits: when to try again is the channel's decision.
"""

import asyncio
import ipaddress
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from quorum.transport.address import Address

REFUSALS: Final = (ConnectionRefusedError, ConnectionResetError)
"""How the other machine says that nobody accepts connections there."""


LookUp = Callable[[str], Awaitable[Sequence[str]]]
"""The addresses of a host, at least one; raises `OSError`, or `ValueError` for no name at all."""


async def addresses_of(host: str) -> Sequence[str]:
    """What the system's resolver says; a host that is an address needs none."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(where[0]) for *_, where in found))
    return [host]


async def dial(
    make: Callable[[], asyncio.BaseProtocol], address: Address, look_up: LookUp = addresses_of
) -> None:
    """Connect `make()` to the first address of the host that accepts.

    Raises one of `REFUSALS` if all of them refuse, else why one of them could not be reached; and
    `OverflowError` or `ValueError` for ports and hosts that cannot exist. The event loop could try
    all addresses by itself, but some releases then say no more than that several things failed.
    """
    loop = asyncio.get_running_loop()
    failures: list[OSError] = []
    for host in await look_up(address.host):
        try:
            await loop.create_connection(make, host, address.port)
        except OSError as error:
            failures.append(error)
        else:
            return
    raise next((each for each in failures if not isinstance(each, REFUSALS)), failures[0])


def in_words(error: Exception) -> str:
    """What the system says of it, whichever event loop has raised it."""
    number = error.errno if isinstance(error, OSError) else None
    # The resolver's own errors have numbers below zero, and words of their own.
    return os.strerror(number) if number is not None and number > 0 else str(error)
