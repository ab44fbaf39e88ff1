"""The files of the live page and of the HTTP reference: read once, compressed once, and named by
their content.

They hold nothing secret, so they need no credential: the page itself asks for the token. Its policy
lets it run and load only what comes from this node, and nothing that stands inside the HTML.
"""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from aiohttp import web

FOLDER: Final = Path(__file__).parent / "files"
PAGES: Final[Mapping[str, str]] = {"/": "index.html", "/docs": "docs.html"}
"""The pages by their paths: the live page, and the HTTP reference."""
PREFIX: Final = "/page/"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
TYPES: Final[Mapping[str, str]] = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file of the page."""

    content_type: str
    body: bytes
    compressed: bytes
    etag: str


@cache
def assets() -> Mapping[str, Asset]:
    """The files by their names."""
    return {path.name: _read(path) for path in sorted(FOLDER.iterdir()) if path.suffix in TYPES}


def _read(path: Path) -> Asset:
    body = path.read_bytes()
    etag = hashlib.sha256(body).hexdigest()[:32]
    return Asset(TYPES[path.suffix], body, gzip.compress(body, 9, mtime=0), etag)


def add_page(router: web.UrlDispatcher) -> None:
    """Add the routes of the pages."""
    for path in PAGES:
        router.add_get(path, get_page)
    router.add_get(PREFIX + "{name}", get_page)


def is_of_page(request: web.Request) -> bool:
    """True if a request is for a file of the page."""
    return request.match_info.handler is get_page


async def get_page(request: web.Request) -> web.Response:
    """Answer with a file of the page, unless the browser has it."""
    name = request.match_info.get("name") or PAGES[request.path]
    found = assets().get(name)
    if found is None:
        raise web.HTTPNotFound
    headers = {
        "Content-Security-Policy": POLICY,
        # The browser keeps it, and asks each time whether it is still the same.
        "Cache-Control": "no-cache",
        "ETag": f'"{found.etag}"',
        "Vary": "Accept-Encoding",
    }
    matched = request.if_none_match or ()
    if any(each.value == found.etag for each in matched):
        return web.Response(status=304, headers=headers)
    body = found.body
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        body, headers["Content-Encoding"] = found.compressed, "gzip"
    return web.Response(
        body=body, content_type=found.content_type, charset="utf-8", headers=headers
    )
