"""Open the HTTP listener of a node by its settings."""

from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack

from aiohttp import web

from admin.config import HttpConfig
from admin.http.access import Access, known_hosts
from admin.http.listener import HttpListener
from admin.http.tokens import InvalidTokens, TokenFile
from quorum.clocks import monotonic_ms
from quorum.process import StartError, binding
from quorum.transport.exposure import is_local
from quorum.transport.refusal_log import RefusalLog
from quorum.transport.security.tls import TlsUnusable


async def listen_http(
    http: HttpConfig,
    make_app: Callable[[Access], web.Application],
    parts: AsyncExitStack,
    *,
    close_ms: int,
) -> None:
    """Serve the application that is made for the access rules; `parts` closes the listener.

    Raises `StartError` for an unavailable port, unusable keys or unreadable tokens.
    """
    try:
        if http.tls is not None:
            http.tls.check()
        tokens = None if http.tokens is None else TokenFile(http.tokens)
    except (TlsUnusable, InvalidTokens) as error:
        raise StartError(str(error)) from None
    refusals = RefusalLog("http", monotonic_ms)
    access = Access(
        known_hosts=known_hosts(*http.hosts),
        tokens=tokens,
        tls=http.tls,
        refusals=refusals,
    )
    listener = HttpListener(
        make_app(access),
        limits=http.limits,
        refusals=refusals,
        tls=http.tls,
        close_ms=close_ms,
    )
    parts.push_async_callback(listener.close)
    with binding("http.listener", http.listener):
        await listener.start(*http.listener)


def http_exposures(http: HttpConfig | None) -> Iterator[str]:
    """Yield a sentence if the HTTP listener is open without authentication or shows tokens."""
    if http is None or is_local(http.listener.host):
        return
    where = f"The HTTP listener {http.listener} is open to other machines"
    if http.tokens is None and not http.takes_certificates:
        yield f"{where} without authentication: http.tokens.file is not set"
    elif http.tokens is not None and http.tls is None:
        yield f"{where} and takes bearer tokens without TLS"
