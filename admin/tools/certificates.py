"""A small certificate authority in a folder, for a first installation.

The folder has `ca.pem`, the certificate that every node and client trusts, and `ca.key`. A node or
a client gets one PEM file with its private key and its certificate, as `ssl.keystore.location`
takes it. Keys are readable by their owner only, and no file is ever overwritten.
"""

import datetime
import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_FILE: Final = "ca.pem"
AUTHORITY_KEY_FILE: Final = "ca.key"

BACKDATED: Final = datetime.timedelta(minutes=10)
"""A new certificate is valid on a machine whose clock is this much behind."""

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""A common name has at most 64 characters, and here it names a file too."""
HOST_NAME: Final = re.compile(
    r"(?=.{1,253}$)(\*\.)?([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*"
    r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
)

_KEY_MODE: Final = 0o600
_OPEN_MODE: Final = 0o644


class CertificateError(Exception):
    """A certificate cannot be made; the message names the file or the value, and the reason."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its private key, as PEM, and its end."""

    key: bytes
    certificate: bytes
    valid_until: datetime.datetime


class Authority:
    """Signs certificates of nodes and clients."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @property
    def pem(self) -> bytes:
        """The certificate that nodes and clients trust."""
        return _pem(self._certificate)

    @property
    def key_pem(self) -> bytes:
        return _key_pem(self._key)

    @property
    def valid_until(self) -> datetime.datetime:
        return self._certificate.not_valid_after_utc

    @classmethod
    def new(cls, name: str, *, days: int, now: datetime.datetime) -> "Authority":
        """Make an authority that signs itself; raises `CertificateError`."""
        key, subject = ec.generate_private_key(ec.SECP256R1()), _subject(name)
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        certificate = (
            _builder(subject, subject, key.public_key(), now, now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(identifier, critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(key, certificate)

    @classmethod
    def load(cls, folder: Path) -> "Authority":
        """Load the authority of a folder; raises `CertificateError`."""
        path, key_path = folder / AUTHORITY_FILE, folder / AUTHORITY_KEY_FILE
        try:
            certificate = x509.load_pem_x509_certificate(_read(path))
        except ValueError:
            raise CertificateError(f"{path} holds no certificate as PEM") from None
        try:
            key = serialization.load_pem_private_key(_read(key_path), None)
        except (ValueError, TypeError):
            raise CertificateError(f"{key_path} holds no private key as PEM") from None
        public = key.public_key()
        if not isinstance(key, ec.EllipticCurvePrivateKey) or public != certificate.public_key():
            raise CertificateError(f"{key_path} is not the key of {path}")
        return cls(key, certificate)

    def issue_node(
        self, name: str, hosts: Sequence[str], *, days: int, now: datetime.datetime
    ) -> Issued:
        """Issue a certificate for a node, which accepts connections and makes some itself."""
        assert hosts
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return self._issue(name, usages, hosts, days, now)

    def issue_client(self, name: str, *, days: int, now: datetime.datetime) -> Issued:
        """Issue a certificate for a client, which cannot pose as a node."""
        return self._issue(name, [ExtendedKeyUsageOID.CLIENT_AUTH], (), days, now)

    def _issue(
        self,
        name: str,
        usages: list[x509.ObjectIdentifier],
        hosts: Sequence[str],
        days: int,
        now: datetime.datetime,
    ) -> Issued:
        if now >= self.valid_until:
            raise CertificateError(
                f"the authority has expired on {self.valid_until:%Y-%m-%d}: create another one"
            )
        subject = _subject(name)
        if subject == self._certificate.subject:
            # OpenSSL would take it for its own issuer, and refuse it as self-signed.
            raise CertificateError(f"{name} is the name of the authority itself: use another")
        key = ec.generate_private_key(ec.SECP256R1())
        # A certificate is of no use after its authority.
        until = min(now + datetime.timedelta(days=days), self.valid_until)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            _builder(subject, self._certificate.subject, key.public_key(), now, until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(issuer, critical=False)
        )
        if hosts:
            names = x509.SubjectAlternativeName([_host(each) for each in hosts])
            builder = builder.add_extension(names, critical=False)
        return Issued(_key_pem(key), _pem(builder.sign(self._key, hashes.SHA256())), until)


def write_authority(folder: Path, authority: Authority) -> None:
    """Write an authority into its folder; raises `CertificateError` if there is one."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / AUTHORITY_FILE
    if path.exists():
        raise CertificateError(f"{path} exists; nothing was overwritten: choose another --dir")
    write_new(folder / AUTHORITY_KEY_FILE, authority.key_pem, _KEY_MODE)
    write_new(path, authority.pem, _OPEN_MODE)


def write_issued(path: Path, issued: Issued) -> None:
    """Write a key and its certificate into one new file; raises `CertificateError`."""
    write_new(path, issued.key + issued.certificate, _KEY_MODE)


def write_new(path: Path, content: bytes, mode: int = _KEY_MODE) -> None:
    """Write a file that does not exist yet; raises `CertificateError`."""
    try:
        # The mode holds from the first moment, whatever the umask is.
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode & _KEY_MODE)
    except FileExistsError:
        raise CertificateError(f"{path} exists; nothing was overwritten") from None
    except OSError as error:
        raise CertificateError(f"{path} cannot be written: {error.strerror}") from None
    with os.fdopen(file, "wb") as out:
        out.write(content)
        out.flush()
        os.fchmod(file, mode)
        os.fsync(file)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
    until: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(until)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _subject(name: str) -> x509.Name:
    if not NAME.fullmatch(name):
        raise CertificateError(
            f"{name!r} is no name for a certificate: at most 64 letters, digits, dots, dashes and "
            "underscores, of which the first is a letter or a digit"
        )
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not HOST_NAME.fullmatch(host):
            raise CertificateError(f"{host!r} is neither a host name nor an IP address") from None
        return x509.DNSName(host)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise CertificateError(
            f"{path} does not exist: run `metaquorum certs create-authority` first"
        ) from None
    except OSError as error:
        raise CertificateError(f"{path} cannot be read: {error.strerror}") from None


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
