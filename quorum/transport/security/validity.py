"""Warnings about certificates that are not valid, or soon will not be.

OpenSSL loads them like any others, and only the other side of a connection refuses them.
"""

import logging
from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from quorum.log_events import LogEvent
from quorum.transport.security.principal_mapping import subject_of_certificate

logger = logging.getLogger("security")

SOON_DAYS: Final = 30
"""Days before its end from which on a certificate has a warning."""
_TOLD_MAX: Final = 256

_DAY_MS: Final = 24 * 3_600_000


class Validity(NamedTuple):
    """The time in which a certificate is valid, in milliseconds of Unix time."""

    subject: str
    start_ms: float
    end_ms: float

    def holds(self, now_ms: int) -> bool:
        """Return whether the certificate is valid at `now_ms`."""
        return self.start_ms <= now_ms < self.end_ms

    def fault(self, now_ms: int) -> str | None:
        """Return in words that it is not valid, or not for long; None if all is well."""
        if now_ms < self.start_ms:
            return f"is not valid before {_text(self.start_ms)}"
        if now_ms >= self.end_ms:
            return f"has expired on {_text(self.end_ms)}"
        if self.end_ms - now_ms < SOON_DAYS * _DAY_MS:
            return f"expires on {_text(self.end_ms)}"
        return None


def validities(pem: str) -> list[Validity]:
    """Return those of the certificates in a PEM, that of its owner first."""
    # Only nodes with TLS need it.
    from cryptography import x509

    try:
        certificates = x509.load_pem_x509_certificates(pem.encode())
    except ValueError:
        # A key without a certificate, or one that OpenSSL alone can read.
        return []
    return [
        Validity(
            subject_of_certificate(each),
            each.not_valid_before_utc.timestamp() * 1_000,
            each.not_valid_after_utc.timestamp() * 1_000,
        )
        for each in certificates
    ]


class ValidityWarnings:
    """Warns of each certificate once for each version of its file: many listeners may load it."""

    def __init__(self) -> None:
        self._told: OrderedDict[tuple[str, tuple[int, ...]], None] = OrderedDict()
        self._settings: dict[Path, list[str]] = {}
        """The settings that name each file."""
        self.ends: dict[str, float] = {}
        """When the first certificate of each place ends, in seconds of Unix time."""

    @property
    def first_end_s(self) -> float | None:
        """The end of the first certificate of this process; None without any."""
        return min(self.ends.values(), default=None)

    def forget(self) -> None:
        """Forget all files, as a process does that starts."""
        self._settings.clear()
        self.ends.clear()

    def add_setting(self, setting: str, path: Path) -> None:
        """Note that a setting names this file, before the file is checked."""
        settings = self._settings.setdefault(path, [])
        if setting not in settings:
            settings.append(setting)

    def check(
        self, place: str | Path, version: tuple[int, ...], found: Sequence[Validity], now_ms: int
    ) -> None:
        """Log a warning for each certificate that is not valid at `now_ms`, or not for long.

        `place` is the file, or the setting that holds the PEM itself.
        """
        if found:
            self.ends[str(place)] = min(each.end_ms for each in found) / 1_000
        for each in found:
            fault = each.fault(now_ms)
            if fault is not None:
                line = f"{self._named(place)}: the certificate of {each.subject} {fault}"
                self._tell_once(line, version, LogEvent.CERTIFICATE_EXPIRING)

    def keep(
        self, place: Path, version: tuple[int, ...], old: Validity, new: Validity, now_ms: int
    ) -> None:
        """Log that the certificate of before stays in use, because the new one is not valid."""
        line = (
            f"Still using the certificate loaded before, which is valid until {_text(old.end_ms)}: "
            f"{self._named(place)}: the new certificate of {new.subject} {new.fault(now_ms)}"
        )
        self._tell_once(line, version, LogEvent.CERTIFICATE_NOT_LOADED)

    def _named(self, place: str | Path) -> str:
        settings = self._settings.get(place, ()) if isinstance(place, Path) else ()
        return " ".join((", ".join(settings), str(place))) if settings else str(place)

    def _tell_once(self, line: str, version: tuple[int, ...], event: LogEvent) -> None:
        if (line, version) in self._told:
            return
        self._told[line, version] = None
        if len(self._told) > _TOLD_MAX:
            self._told.popitem(last=False)
        logger.warning("%s", line, extra=event.extra)


def _text(time_ms: float) -> str:
    return datetime.fromtimestamp(time_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M UTC")


WARNINGS: Final = ValidityWarnings()
"""Those of this process."""
