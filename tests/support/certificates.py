"""Certificates of a test: made by `openssl`, for the time of the test."""

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.controllers import HOST

KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")


@dataclass(frozen=True)
class Authority:
    """An authority of its own; its files are in `folder`."""

    folder: Path
    name: str = "ca"

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        _openssl("req", "-x509", *KEY, "-subj", f"/CN={self.name}", *self._out(self.name))

    @property
    def certificate(self) -> Path:
        return self.folder / f"{self.name}.pem"

    def issue(self, name: str, subject: str) -> Path:
        """A PEM file with a key and its certificate, for a node on loopback or a client."""
        signed = ("-CA", str(self.certificate), "-CAkey", str(self.folder / f"{self.name}.key"))
        more = ("-addext", f"subjectAltName=IP:{HOST}", "-addext", "basicConstraints=CA:FALSE")
        _openssl("req", "-x509", *KEY, "-subj", subject, *signed, *more, *self._out(name))
        both = self.folder / f"{name}.both.pem"
        parts = (self.folder / f"{name}.key", self.folder / f"{name}.pem")
        both.write_text("".join(each.read_text() for each in parts))
        return both

    def client(self, keystore: Path | None = None) -> ssl.SSLContext:
        """The context of a client that trusts this authority."""
        context = ssl.create_default_context(cafile=str(self.certificate))
        if keystore is not None:
            context.load_cert_chain(keystore)
        return context

    def _out(self, name: str) -> tuple[Any, ...]:
        return "-keyout", self.folder / f"{name}.key", "-out", self.folder / f"{name}.pem"


def _openssl(*arguments: Any) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
