"""Warnings about certificates that are not valid, or soon will not be.

OpenSSL loads them like any others, and only the other side of a connection refuses them.
"""

import logging
from collections import OrderedDict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from quorum.log_events import LogEvent
from quorum.transport.security.principal_mapping import subject_of_certificate

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

logger = logging.getLogger("security")

SOON_DAYS: Final = 30
"""Days before its end from which on a certificate has a warning."""
_TOLD_MAX: Final = 256

_DAY_SECONDS: Final = 24 * 3_600


class ValidityWarnings:
    """Warns of each certificate once for each version of its file: many listeners may load it."""

    def __init__(self) -> None:
        self._told: OrderedDict[tuple[str, tuple[int, ...]], None] = OrderedDict()
        self.ends: dict[str, float] = {}
        """When the first certificate of each place ends, in seconds of Unix time."""

    @property
    def first_end_s(self) -> float | None:
        """The end of the first certificate of this process; None without any."""
        return min(self.ends.values(), default=None)

    def check(self, place: str, version: tuple[int, ...], text: str, now_ms: int) -> None:
        """Log a warning for each certificate in a PEM that is not valid at `now_ms`, or not for
        long. `place` names setting and file."""
        # Only nodes with TLS need it.
        from cryptography import x509

        try:
            certificates = x509.load_pem_x509_certificates(text.encode())
        except ValueError:
            # A key without a certificate, or one that OpenSSL alone can read.
            return
        ends = [each.not_valid_after_utc.timestamp() for each in certificates]
        if ends:
            self.ends[place] = min(ends)
        for each in certificates:
            fault = _fault(each, datetime.fromtimestamp(now_ms / 1_000, UTC))
            if fault is None:
                continue
            line = f"{place}: the certificate of {subject_of_certificate(each)} {fault}"
            if (line, version) in self._told:
                continue
            self._told[line, version] = None
            if len(self._told) > _TOLD_MAX:
                self._told.popitem(last=False)
            logger.warning("%s", line, extra=LogEvent.CERTIFICATE_EXPIRING.extra)


def _fault(certificate: "Certificate", now: datetime) -> str | None:
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < start:
        return f"is not valid before {_text(start)}"
    if now >= end:
        return f"has expired on {_text(end)}"
    days = int((end - now).total_seconds() // _DAY_SECONDS)
    if days < SOON_DAYS:
        return f"expires on {_text(end)}"
    return None


def _text(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC")


WARNINGS: Final = ValidityWarnings()
"""Those of this process."""
