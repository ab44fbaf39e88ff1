"""TLS of the HTTP listener: PEM files, loaded again when they change, and names in certificates."""

import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

logger = logging.getLogger("http")

_SHORT_NAMES: Final = {
    "commonName": "CN",
    "organizationalUnitName": "OU",
    "organizationName": "O",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_ESCAPED: Final = frozenset(',+"\\<>;=')


class ClientAuth(StrEnum):
    """The demand for certificates of clients (`ssl.client.auth`)."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


class TlsUnusable(ValueError):
    """The files of a TLS listener cannot be used; the message names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The files of a TLS listener."""

    keystore: Path
    """The private key and the certificate chain, in PEM."""
    truststore: Path | None = None
    """The authorities of clients' certificates, in PEM."""
    client_auth: ClientAuth = ClientAuth.NONE


class ServerTls:
    """The server's TLS context, made again when one of its files changes.

    Connections that are open keep theirs. Files that cannot be used change nothing, and are logged
    once: a certificate may be replaced by writing its parts one after the other.
    """

    def __init__(self, files: TlsFiles) -> None:
        """Raises `TlsUnusable`."""
        self._files = files
        self._seen = self._stamp()
        self._context = make_context(files)

    def context(self) -> ssl.SSLContext:
        """The context for the next connection."""
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp
            try:
                self._context = make_context(self._files)
            except TlsUnusable as error:
                logger.error("The HTTP listener keeps its certificate: %s", error)
            else:
                logger.info("The HTTP listener has loaded %s again", self._files.keystore)
        return self._context

    def _stamp(self) -> object:
        return tuple([_stamp(path) for path in (self._files.keystore, self._files.truststore)])


def make_context(files: TlsFiles) -> ssl.SSLContext:
    """Return the context of these files; raises `TlsUnusable`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A resumed session would not look at the client's certificate again.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    try:
        # With a password, OpenSSL does not ask the terminal for one.
        context.load_cert_chain(files.keystore, password="")
    except (OSError, ValueError) as error:
        reason = _reason(error)
        raise TlsUnusable(
            f"{files.keystore} has no usable private key with its certificates in PEM ({reason})"
        ) from None
    if files.client_auth is ClientAuth.NONE:
        return context
    required = files.client_auth is ClientAuth.REQUIRED
    context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    try:
        context.load_verify_locations(files.truststore)
    except (OSError, ValueError, TypeError) as error:
        raise TlsUnusable(
            f"{files.truststore} has no certificates in PEM ({_reason(error)})"
        ) from None
    return context


def principal_of(certificate: Mapping[str, Any]) -> str:
    """The principal of a client's certificate: its distinguished name, as Kafka writes it.

    `certificate` is the value of `SSLObject.getpeercert()`.
    """
    parts = [
        "+".join(f"{_SHORT_NAMES.get(key, key)}={_escaped(value)}" for key, value in name)
        for name in reversed(certificate.get("subject", ()))
    ]
    return f"User:{','.join(parts)}"


def _escaped(value: str) -> str:
    """A value of a distinguished name by RFC 2253."""
    text = "".join(f"\\{each}" if each in _ESCAPED else each for each in value)
    if text.startswith(("#", " ")):
        text = "\\" + text
    return f"{text[:-1]}\\ " if len(value) > 1 and value.endswith(" ") else text


def _reason(error: Exception) -> str:
    match error:
        case ssl.SSLError(reason=str(reason)):
            return reason
        case OSError(strerror=str(reason)):
            return reason
        case _:
            return str(error)


def _stamp(path: Path | None) -> object:
    """A value that changes with the file."""
    try:
        found = None if path is None else path.stat()
    except OSError:
        return "missing"
    return found and (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
