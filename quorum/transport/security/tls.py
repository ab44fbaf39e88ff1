"""TLS from PEM files, or from PEM in the settings themselves, loaded again when the files change.

A context is asked for at every handshake. If a file has changed since the last one, a new context
is built for this and later handshakes; open connections keep theirs. Files that cannot be used, as
while somebody is half through replacing them, leave the last good context in force. So does, at a
node, a certificate that is not valid now in place of one that is.
"""

import logging
import os
import re
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from quorum.clocks import wall_ms
from quorum.log_events import LogEvent
from quorum.protocol.principal import ANONYMOUS, USER, KafkaPrincipal
from quorum.transport.address import HANDSHAKE_SECONDS_MAX
from quorum.transport.security.handshake_alert import AlertingObject
from quorum.transport.security.principal_mapping import Rule, map_subject, subject_of
from quorum.transport.security.secret import Secret
from quorum.transport.security.validity import WARNINGS, Validity, validities

logger = logging.getLogger("security")

PEM_BYTES_MAX: Final = 1024 * 1024
VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
"""The versions that may be enabled; older ones are broken (RFC 8996)."""

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_HEADER: Final = re.compile(r"(?:Proc-Type|DEK-Info): [^\n]*")


class TlsUnusable(Exception):
    """Keys or certificates cannot be used; the message names setting, file and cause."""


class ClientAuth(Enum):
    """The demand for a certificate of each client (`ssl.client.auth`)."""

    REQUIRED = "required"
    REQUESTED = "requested"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Pem:
    """PEM of one kind: the path of a file, or the text itself. The text never shows."""

    setting: str
    path: Path | None = None
    text: Secret | None = None

    def __str__(self) -> str:
        return self.setting if self.path is None else f"{self.setting} {self.path}"

    def read(self) -> str:
        """Return the text, one block a line break; raises `TlsUnusable`."""
        if self.path is None:
            assert self.text is not None
            return _rewrapped(self.text.reveal(), self)
        try:
            with self.path.open("rb") as file:
                content = file.read(PEM_BYTES_MAX + 1)
        except OSError as error:
            raise TlsUnusable(f"{self} cannot be read: {error.strerror}") from None
        if len(content) > PEM_BYTES_MAX:
            raise TlsUnusable(f"{self} is larger than {PEM_BYTES_MAX} bytes")
        return _rewrapped(content.decode(errors="replace"), self)

    def version(self) -> tuple[int, ...]:
        """Return a value that is another one once the file has been replaced or written to."""
        if self.path is None:
            return ()
        try:
            found = self.path.stat()
        except OSError as error:
            return (error.errno or 0,)
        return found.st_ino, found.st_mtime_ns, found.st_size


def _rewrapped(text: str, pem: Pem) -> str:
    """Return the blocks of a PEM text with line breaks where OpenSSL wants them.

    Kafka takes PEM in a setting on one line, with blanks for line breaks.
    """
    blocks = []
    for kind, content in _BLOCK.findall(text):
        headers = "".join(f"{each}\n" for each in _HEADER.findall(content))
        base64 = "".join(_HEADER.sub("", content).split())
        lines = "\n".join(base64[at : at + 64] for at in range(0, len(base64), 64))
        gap = f"{headers}\n" if headers else ""
        blocks.append(f"-----BEGIN {kind}-----\n{gap}{lines}\n-----END {kind}-----\n")
    if not blocks:
        raise TlsUnusable(f"{pem} holds no PEM: no -----BEGIN ...----- is in it")
    return "".join(blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """The settings of TLS of one listener, or of one client."""

    chain: Pem | None = None
    """The certificate of this side with its chain; with `key` None it holds the key too."""
    key: Pem | None = None
    key_password: Secret | None = None
    trusted: Pem | None = None
    """The authorities whose certificates are accepted; None for those of the system."""
    versions: Sequence[str] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: Sequence[str] = ()
    """Names as OpenSSL or as IANA has them; empty for OpenSSL's own choice."""
    client_auth: ClientAuth = ClientAuth.NONE
    rules: Sequence[Rule] = field(default=(Rule(),))
    alpn: Sequence[str] = ()
    """The protocols inside of TLS that a listener speaks; empty where clients name none."""
    verifies_host: bool = True
    """Whether a client compares the certificate with the host that it connects to."""

    @property
    def pems(self) -> tuple[Pem, ...]:
        return tuple(each for each in (self.chain, self.key, self.trusted) if each is not None)


class _Contexts:
    """The context in force, built again when a file of it has changed."""

    def __init__(self, settings: TlsSettings, *, is_server: bool, is_node: bool) -> None:
        self._settings = settings
        self._is_server = is_server
        self._is_node = is_node
        self._versions: tuple[tuple[int, ...], ...] | None = None
        self._context: ssl.SSLContext | None = None
        self._validity: Validity | None = None
        """That of the certificate of this side."""
        self._due_ms: float | None = None
        """When the certificate in the file begins to be valid, if it is kept back until then."""
        if is_node:
            for each in settings.pems:
                if each.path is not None:
                    WARNINGS.add_setting(each.setting, each.path)

    def current(self) -> ssl.SSLContext:
        """Return the context for a new handshake; raises `TlsUnusable` if there never was one."""
        versions = tuple(each.version() for each in self._settings.pems)
        is_due = self._due_ms is not None and wall_ms() >= self._due_ms
        if self._context is not None and versions == self._versions and not is_due:
            return self._context
        try:
            built = _build(self._settings, is_server=self._is_server)
            found = [validities(each.read()) for each in self._settings.pems if self._is_node]
        except TlsUnusable as error:
            if self._context is None:
                raise
            # Tried again once the files change again.
            self._versions = versions
            logger.warning(
                "Still using the certificates loaded before: %s",
                error,
                extra=LogEvent.CERTIFICATE_NOT_LOADED.extra,
            )
            return self._context
        # The first PEM is that of the certificate of this side, if it has one.
        validity = found[0][0] if self._settings.chain and found and found[0] else None
        if self._context is not None and self._keeps(validity, versions):
            return self._context
        if self._context is not None:
            logger.info(
                "Loaded certificates again for new connections: %s",
                ", ".join(str(each) for each in self._settings.pems if each.path is not None),
                extra=LogEvent.CERTIFICATE_LOADED.extra,
            )
        self._versions, self._context = versions, built
        self._validity, self._due_ms = validity, None
        if self._is_node:
            for pem, version, each in zip(self._settings.pems, versions, found, strict=True):
                WARNINGS.check(pem.path or pem.setting, version, each, wall_ms())
        return built

    def _keeps(self, new: Validity | None, versions: tuple[tuple[int, ...], ...]) -> bool:
        """Return whether the certificate in use stays: it is valid now, and the new one is not."""
        old, chain, now_ms = self._validity, self._settings.chain, wall_ms()
        if old is None or new is None or chain is None or chain.path is None:
            return False
        if not old.holds(now_ms) or new.holds(now_ms):
            return False
        WARNINGS.keep(chain.path, versions[0], old, new, now_ms)
        self._versions = versions
        self._due_ms = new.start_ms if now_ms < new.start_ms else None
        return True


def _build(settings: TlsSettings, *, is_server: bool) -> ssl.SSLContext:
    protocol = ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT
    context = ssl.SSLContext(protocol)
    context.sslobject_class = AlertingObject
    if is_server:
        # A resumed session would not show the certificate of the client again.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        if settings.alpn:
            context.set_alpn_protocols(list(settings.alpn))
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    _limit_versions(context, settings)
    if settings.chain is not None:
        _load_chain(context, settings.chain, settings)
    elif is_server:
        raise TlsUnusable(
            "a listener with TLS needs a certificate: set ssl.keystore.location, or "
            "ssl.keystore.certificate.chain and ssl.keystore.key"
        )
    _set_trust(context, settings, is_server=is_server)
    return context


def _limit_versions(context: ssl.SSLContext, settings: TlsSettings) -> None:
    versions = [VERSIONS[each] for each in settings.versions]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if not settings.cipher_suites:
        return
    older = [_openssl_name(each) for each in settings.cipher_suites if not _is_of_1_3(each)]
    if len(older) == len(settings.cipher_suites):
        # None of 1.3 is wanted, and OpenSSL does not let its own be left out.
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        if older:
            context.set_ciphers(":".join(older))
        else:
            context.minimum_version = ssl.TLSVersion.TLSv1_3
    except ssl.SSLError:
        names = ", ".join(settings.cipher_suites)
        raise TlsUnusable(f"ssl.cipher.suites: OpenSSL knows none of {names}") from None
    if context.minimum_version > context.maximum_version:
        raise TlsUnusable(
            "ssl.cipher.suites and ssl.enabled.protocols exclude each other: no version is left"
        )


def _is_of_1_3(suite: str) -> bool:
    return suite.startswith("TLS_") and "_WITH_" not in suite


def _openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a cipher suite that IANA, and so Kafka, calls `TLS_..._WITH_...`."""
    if not suite.startswith("TLS_"):
        return suite
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = re.sub(r"(AES|CAMELLIA)_(\d+)", r"\1\2", cipher).replace("_CBC", "")
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    prefix = "" if exchange == "RSA" else exchange + "-"
    return (prefix + cipher).replace("_", "-")


def _load_chain(context: ssl.SSLContext, chain: Pem, settings: TlsSettings) -> None:
    with ExitStack() as files:
        certificates = files.enter_context(_as_file(chain))
        key = settings.key
        keys = certificates if key is None else files.enter_context(_as_file(key))
        password = settings.key_password
        try:
            context.load_cert_chain(
                certificates,
                keys,
                # Without one, OpenSSL would ask for it on the terminal.
                password=lambda: "" if password is None else password.reveal(),
            )
        except (ssl.SSLError, ValueError, OSError) as error:
            raise TlsUnusable(f"{key or chain}: {_unusable_key(error, settings)}") from None


def _unusable_key(error: Exception, settings: TlsSettings) -> str:
    reason = getattr(error, "reason", None)
    if reason == "KEY_VALUES_MISMATCH":
        return "the key is not the one of the certificate"
    keys = settings.key or settings.chain
    if reason is None and keys is not None and "ENCRYPTED" in keys.read():
        if settings.key_password is None:
            return "the key is encrypted, and ssl.key.password is not set"
        return "the key cannot be decrypted with ssl.key.password"
    return f"no certificate with its private key can be read from it ({reason or 'not PEM'})"


def _set_trust(context: ssl.SSLContext, settings: TlsSettings, *, is_server: bool) -> None:
    if is_server:
        context.verify_mode = {
            ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
            ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
            ClientAuth.NONE: ssl.CERT_NONE,
        }[settings.client_auth]
        if settings.client_auth is ClientAuth.NONE:
            return
        if settings.trusted is None:
            # The system's authorities vouch for web servers, and for nobody's rights here.
            raise TlsUnusable(
                f"ssl.client.auth is {settings.client_auth.value}: set ssl.truststore.location or "
                "ssl.truststore.certificates, the authorities of the clients' certificates"
            )
    else:
        context.check_hostname = settings.verifies_host
        # A name that somebody calls themselves by is not a host (RFC 9525).
        context.hostname_checks_common_name = False
    if settings.trusted is None:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(cadata=settings.trusted.read())
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or "not PEM"
        raise TlsUnusable(f"{settings.trusted}: no certificate can be read ({reason})") from None


@contextmanager
def _as_file(pem: Pem) -> Iterator[str]:
    """The path of the PEM for OpenSSL, which reads only files; a text gets a private one."""
    if pem.path is not None:
        pem.read()
        yield str(pem.path)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "pem")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(pem.read())
        yield path


class ServerTls:
    """TLS of a listener."""

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        self._contexts = _Contexts(settings, is_server=True, is_node=True)

    @property
    def client_auth(self) -> ClientAuth:
        """The demand for a certificate of each client."""
        return self._settings.client_auth

    def check(self) -> None:
        """Load everything; raises `TlsUnusable`."""
        self._contexts.current()

    def context(self) -> ssl.SSLContext:
        """Return the context of the next handshake."""
        return self._contexts.current()

    def principal_of(self, certificate: bytes | None) -> KafkaPrincipal:
        """Return the principal of a client by its certificate, DER or None.

        Raises `NoRuleMatches`, or `ValueError` for a certificate that cannot be read.
        """
        if certificate is None or self._settings.client_auth is ClientAuth.NONE:
            return ANONYMOUS
        return KafkaPrincipal(USER, map_subject(self._settings.rules, subject_of(certificate)))


class ClientTls:
    """TLS of the connections to other nodes."""

    def __init__(self, settings: TlsSettings, *, is_node: bool = False) -> None:
        """A node warns of certificates that are not valid; a command only sees its peer refuse."""
        self._contexts = _Contexts(settings, is_server=False, is_node=is_node)

    def check(self) -> None:
        """Load everything; raises `TlsUnusable`."""
        self._contexts.current()

    def context(self) -> ssl.SSLContext:
        """Return the context of the next handshake."""
        return self._contexts.current()


def handshake_failure(error: Exception) -> str:
    """Return in words why a TLS handshake failed, or why TLS ended a connection."""
    match error:
        case ssl.SSLCertVerificationError():
            # Some of OpenSSL's messages are whole sentences.
            reason = (error.verify_message or error.reason).rstrip(".")
            return f"{CERTIFICATE_REFUSED}: {reason}"
        case ssl.SSLError():
            return _ALERTS.get(error.reason or "") or _plain(error)
        case TimeoutError():
            return "the TLS handshake took too long"
        case ConnectionAbortedError() if "handshake" in str(error):
            return f"the TLS handshake took longer than {HANDSHAKE_SECONDS_MAX:.0f} s"
        case ConnectionError():
            return ENDED_HANDSHAKE
        case _:
            return str(error) or type(error).__name__


def _plain(error: ssl.SSLError) -> str:
    reason = (error.reason or "unknown").lower().replace("_", " ")
    return f"the TLS handshake failed: {reason}"


CERTIFICATE_REFUSED: Final = "its certificate is refused"
NO_TLS: Final = "it does not speak TLS"
ENDED_HANDSHAKE: Final = "it ended the TLS handshake"
_ALERTS: Final = {
    "WRONG_VERSION_NUMBER": NO_TLS,
    "HTTP_REQUEST": f"{NO_TLS}: it sent an HTTP request",
    "UNKNOWN_PROTOCOL": NO_TLS,
    "PACKET_LENGTH_TOO_LONG": NO_TLS,
    "RECORD_LAYER_FAILURE": NO_TLS,
    "UNEXPECTED_EOF_WHILE_READING": ENDED_HANDSHAKE,
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it presented no certificate",
    "NO_SHARED_CIPHER": "no cipher suite is common",
    "UNSUPPORTED_PROTOCOL": "no TLS version is common",
    "TLSV1_ALERT_PROTOCOL_VERSION": "no TLS version is common",
    "TLSV1_ALERT_UNKNOWN_CA": "it refused our certificate: it does not know the authority",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it refused our certificate: it has expired",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it refused our certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it refused our certificate: it is not valid yet, or not for "
    "the host that was connected to",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants a certificate, and none is configured here",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "it refused the TLS handshake",
}
