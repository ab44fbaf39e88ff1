"""Tell the peer of a TLS handshake why it failed, on either side.

An event loop closes the connection at a failure, and the alert that OpenSSL has written for the
peer is lost: the peer reads only that the connection ended.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final

ALERT_SECONDS_MAX: Final = 0.5
"""The time that a peer has to read why its handshake failed, before the connection is closed."""

_on_failure: ContextVar[Callable[[ssl.SSLError], None] | None] = ContextVar(
    "_on_failure", default=None
)


class AlertingObject(ssl.SSLObject):
    """TLS that sends its peer the alert of a handshake that fails within `sending_alert`.

    The failure is reported, and the loop is told to wait for the peer: then it sends what there is
    to send, and the peer ends the connection.
    """

    _failed = False

    def do_handshake(self) -> None:
        if self._failed:
            raise ssl.SSLWantReadError
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as failure:
            on_failure = _on_failure.get()
            # A peer that has sent an alert reads none.
            if on_failure is None or "_ALERT_" in (failure.reason or ""):
                raise
            self._failed = True
            on_failure(failure)
            raise ssl.SSLWantReadError from None


@asynccontextmanager
async def sending_alert() -> AsyncIterator[None]:
    """A block in which a handshake takes place; raises its failure once the peer can know it."""
    failures: list[ssl.SSLError] = []
    loop = asyncio.get_running_loop()

    def failed(failure: ssl.SSLError) -> None:
        failures.append(failure)
        limit.reschedule(loop.time() + ALERT_SECONDS_MAX)

    token = _on_failure.set(failed)
    try:
        async with asyncio.timeout(None) as limit:
            yield
    except OSError as error:
        raise (failures[0] if failures else error) from None
    finally:
        _on_failure.reset(token)
