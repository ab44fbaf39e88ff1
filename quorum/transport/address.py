"""Addresses: parse and format host and port, and connect to the first one that accepts."""

import asyncio
import ipaddress
import os
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any, Final, NamedTuple

from quorum.core.limits import PORT_MAX
from quorum.transport.security.handshake_alert import sending_alert

_BRACKETED: Final = re.compile(r"\[([^\[\]]*)\](?::(.*))?")

IPV6_NETWORK_BITS: Final = 64
"""One subscriber has at least this much of IPv6: its addresses count as one."""
HANDSHAKE_SECONDS_MAX: Final = 10.0
"""The time limit of a TLS handshake, for both sides."""
SHUTDOWN_SECONDS_MAX: Final = 1.0
"""The time that the peer has to agree that a TLS connection ends."""


class BadAddress(ValueError):
    """An invalid address; the message says what is wrong with it."""


class Address(NamedTuple):
    """The address of a listener."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Parse `host:port`, with an IPv6 host in brackets: `[::1]:9092`. Raises `BadAddress`."""
    stripped = text.strip()
    if "://" in stripped:
        rest = stripped.partition("://")[2].rstrip("/")
        raise BadAddress(f"{text!r} is a URL: write host and port only, as in {rest or 'one:9092'}")
    bracketed = _BRACKETED.fullmatch(stripped)
    if bracketed is not None:
        host, port = bracketed.group(1), bracketed.group(2)
    elif stripped.count(":") > 1:
        raise BadAddress(f"{text!r}: write an IPv6 address in brackets, as in [::1]:9092")
    else:
        host, colon, after = stripped.partition(":")
        port = after if colon else None
    if not host or any(character in "[]/@ " for character in host):
        raise BadAddress(f"{text!r}: a host is missing or has characters that no host has")
    if port is None:
        raise BadAddress(f"{text!r}: a port is missing, as in {stripped}:9092")
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= PORT_MAX):
        raise BadAddress(f"{text!r}: a port is a number from 1 to {PORT_MAX}, not {port!r}")
    return Address(host, int(port))


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Parse a list `host:port,host:port`; raises `BadAddress`, also if an address repeats."""
    found = tuple(map(parse_address, text.split(",")))
    for place, address in enumerate(found):
        if address in found[:place]:
            raise BadAddress(f"{address} is listed twice")
    return found


def peer_name(peername: object) -> str:
    """Name a socket's peer for the log."""
    match peername:
        case (str(host), int(port), *_):
            return str(Address(host, port))
        case _:
            return "unknown peer"


def host_of_peer(peername: object) -> str:
    """The IP address of a socket's peer, without its port and zone; empty if it has none."""
    match peername:
        case (str(host), int(), *_):
            return host.partition("%")[0]
        case _:
            return ""


@lru_cache(maxsize=1_024)
def network_of(host: str) -> str:
    """The address that counts for limits per address: an IPv6 address stands for its /64."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, IPV6_NETWORK_BITS), strict=False))


REFUSALS: Final = (ConnectionRefusedError, ConnectionResetError)
"""The errors of a refused connection."""


LookUp = Callable[[str], Awaitable[Sequence[str]]]
"""Returns at least one address of a host; raises `OSError`, or `ValueError` for a bad name."""


async def addresses_of(host: str) -> Sequence[str]:
    """Return the system resolver's answer; a host that is an address needs none."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(where[0]) for *_, where in found))
    return [host]


async def dial(
    make: Callable[[], asyncio.BaseProtocol],
    address: Address,
    look_up: LookUp = addresses_of,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Connect `make()` to the first address of the host that accepts, over TLS if `tls` is given.

    Raises one of `REFUSALS` if all of them refuse, else another address's error; `OverflowError` or
    `ValueError` for impossible ports and hosts. The event loop's own attempts may hide the errors.
    """
    loop = asyncio.get_running_loop()
    failures: list[OSError] = []
    how: dict[str, Any] = {}
    if tls is not None:
        how = {
            "ssl": tls,
            "server_hostname": address.host,
            "ssl_handshake_timeout": HANDSHAKE_SECONDS_MAX,
            "ssl_shutdown_timeout": SHUTDOWN_SECONDS_MAX,
        }
    for host in await look_up(address.host):
        try:
            async with nullcontext() if tls is None else sending_alert():
                await loop.create_connection(make, host, address.port, **how)
        except OSError as error:
            failures.append(error)
        else:
            return
    raise next((each for each in failures if not isinstance(each, REFUSALS)), failures[0])


def in_words(error: Exception) -> str:
    """Return the system's error text, for any event loop."""
    number = error.errno if isinstance(error, OSError) else None
    # The resolver's errors have negative numbers and their own texts.
    return os.strerror(number) if number is not None and number > 0 else str(error)
