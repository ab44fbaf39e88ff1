"""Warnings about listeners that more than this machine can reach, for the log of a node's start."""

import ipaddress
from collections.abc import Iterable, Iterator
from typing import Final

from quorum.transport.listener import Listener
from quorum.transport.security.mechanisms import OAUTHBEARER
from quorum.transport.security.plain import PLAIN
from quorum.transport.security.protocols import SecurityProtocol
from quorum.transport.security.tls import ClientAuth

_CLEAR: Final = {PLAIN: "passwords", OAUTHBEARER: "tokens"}
"""The secrets that a mechanism sends as they are."""


def is_local(host: str) -> bool:
    """Return True if only this machine reaches a listener at `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def exposures(listeners: Iterable[Listener]) -> Iterator[str]:
    """Yield a sentence for each listener that is open without authentication, or shows secrets."""
    for each in listeners:
        if is_local(each.address.host):
            continue
        protocol, security = each.security.protocol, each.security
        where = f"Listener {each} is open to other machines"
        if security.accepts_plaintext:
            yield f"{where} without authentication until security.migration is removed"
        elif protocol is SecurityProtocol.PLAINTEXT:
            yield f"{where} without authentication and encryption (PLAINTEXT)"
        elif security.sasl is None:
            assert security.tls is not None
            if security.tls.client_auth is not ClientAuth.REQUIRED:
                yield f"{where} without authentication: ssl.client.auth is not required"
        elif security.tls is None:
            shown = [what for name, what in _CLEAR.items() if name in security.sasl.mechanisms]
            if shown:
                yield f"{where} and takes {' and '.join(shown)} without TLS ({protocol.name})"
