"""Host and port as people write them; no name is looked up here."""

import re
from typing import Final, NamedTuple

_PORT_MAX: Final = 65_535

_BRACKETED: Final = re.compile(r"\[([^\[\]]*)\](?::(.*))?")


class BadAddress(ValueError):
    """A text that names no address; the message says what is wrong with it."""


class Address(NamedTuple):
    """Where something listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """The address in `host:port`, where an IPv6 host stands in brackets: `[::1]:9092`.

    Raises `BadAddress`.
    """
    stripped = text.strip()
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
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= _PORT_MAX):
        raise BadAddress(f"{text!r}: a port is a number from 1 to {_PORT_MAX}, not {port!r}")
    return Address(host, int(port))


def peer_name(peername: object) -> str:
    """How the other end of a socket is called in log lines."""
    match peername:
        case (str(host), int(port), *_):
            return str(Address(host, port))
        case _:
            return "unknown peer"
