"""The log of failed authentications of a client: each address and reason once, until it succeeds.

A channel connects again and again. The peer writes its own line; this one is for whoever reads the
log of the node that was refused.
"""

import logging
from typing import Final

from quorum.log_events import LogEvent

logger = logging.getLogger("security")

ADDRESSES_MAX: Final = 256
"""Addresses whose last failure is remembered; the oldest makes room."""


class ClientLog:
    """The last failure at each address."""

    __slots__ = ("_failures",)

    def __init__(self) -> None:
        self._failures: dict[str, str] = {}

    def failed(self, address: str, reason: str) -> None:
        """Log that no secure connection to `address` came about, unless the log says so already."""
        if self._failures.get(address) == reason:
            return
        self._failures.pop(address, None)
        self._failures[address] = reason
        if len(self._failures) > ADDRESSES_MAX:
            del self._failures[next(iter(self._failures))]
        logger.warning(
            "No secure connection to %s: %s",
            address,
            reason,
            extra=LogEvent.CONNECTION_INSECURE.extra,
        )

    def succeeded(self, address: str) -> None:
        """Log the end of a failure, if there was one."""
        if self._failures and self._failures.pop(address, None) is not None:
            logger.info(
                "The connection to %s is secure again",
                address,
                extra=LogEvent.CONNECTION_SECURE.extra,
            )


class SilentLog(ClientLog):
    """No log: whoever asks gets the reason as the error of each request."""

    def failed(self, address: str, reason: str) -> None:
        pass

    def succeeded(self, address: str) -> None:
        pass
