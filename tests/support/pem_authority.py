"""A small authority that makes certificates for a test: none is in the tree."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOSTS = ("localhost", "127.0.0.1")
DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, as PEM."""

    certificate: str
    key: str

    @property
    def both(self) -> str:
        """The contents of a key store."""
        return self.key + self.certificate

    def encrypted(self, password: str) -> "Issued":
        """The same with the key encrypted."""
        key = serialization.load_pem_private_key(self.key.encode(), None)
        return Issued(
            self.certificate,
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(password.encode()),
            ).decode(),
        )


def named(*attributes: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    """A subject, its most general attribute first."""
    return x509.Name([x509.NameAttribute(kind, value) for kind, value in attributes])


def common_name(name: str) -> x509.Name:
    return named((NameOID.ORGANIZATION_NAME, "Test"), (NameOID.COMMON_NAME, name))


class Authority:
    """Signs certificates that are valid from yesterday on, and long enough for no warning."""

    def __init__(self, name: str = "authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = common_name(name)
        now = datetime.datetime.now(datetime.UTC)  # noqa: TID251 - OpenSSL reads this clock
        self._now = now
        self.certificate = _pem(
            x509.CertificateBuilder()
            .subject_name(self._subject)
            .issuer_name(self._subject)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + 60 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def issue(
        self,
        name: str,
        *,
        hosts: tuple[str, ...] = HOSTS,
        subject: x509.Name | None = None,
        is_expired: bool = False,
        days: tuple[float, float] = (-1, 60),
    ) -> Issued:
        """A certificate for these hosts, valid from and until `days` from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        start, end = (self._now + each * DAY for each in days)
        if is_expired:
            end = self._now - DAY / 24
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject or common_name(name))
            .issuer_name(self._subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(end)
        )
        if hosts:
            names = x509.SubjectAlternativeName(list(map(_host, hosts)))
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        text = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode()
        return Issued(_pem(certificate), text)

    def files(self, folder: Path, name: str, *, is_expired: bool = False) -> "Files":
        """A key store of a new certificate, and a trust store with this authority."""
        issued = self.issue(name, is_expired=is_expired)
        found = Files(folder / f"{name}.keystore.pem", folder / f"{name}.truststore.pem")
        found.keystore.write_text(issued.both)
        found.truststore.write_text(self.certificate)
        return found


@dataclass(frozen=True)
class Files:
    """The files of a node."""

    keystore: Path
    truststore: Path

    @property
    def settings(self) -> dict[str, str]:
        """The settings that name them."""
        return {
            "ssl.keystore.location": str(self.keystore),
            "ssl.truststore.location": str(self.truststore),
        }


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
