"""The files of the live page: small, closed to all else, and open to a browser without a token."""

import gzip
import re
from pathlib import Path

import pytest

from admin.capabilities.needs import Role
from admin.http.page.assets import FOLDER, PAGES, POLICY, assets
from admin.http.tokens import TokenFile, create
from tests.admin.http.raw_http import listening
from tests.support.controllers import a_controller

COMPRESSED_BYTES_MAX = 60_000


def test_all_of_it_is_small() -> None:
    assert sum(len(each.compressed) for each in assets().values()) < COMPRESSED_BYTES_MAX


@pytest.mark.parametrize("page", PAGES.values())
def test_nothing_is_fetched_from_elsewhere_and_nothing_stands_inside_the_html(page: str) -> None:
    html = (FOLDER / page).read_text()
    assert "<style" not in html
    assert not re.findall(r"<script(?![^>]*\bsrc=)", html)
    assert not re.findall(r"\son\w+=|\sstyle=", html)
    for path in FOLDER.iterdir():
        addresses = set(re.findall(r"https?://[\w./-]+", path.read_text()))
        assert addresses <= {"http://www.w3.org/2000/svg"}, path.name
        for imported in re.findall(r"from \"\./([\w.]+)\"", path.read_text()):
            assert imported in assets()


async def test_a_file_is_sent_once_and_then_confirmed(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, listening(node) as http:
        assert (await http.ask("GET", "/docs")).body == (FOLDER / "docs.html").read_bytes()
        page = await http.ask("GET", "/")
        assert page.status == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["content-security-policy"] == POLICY
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["referrer-policy"] == "no-referrer"
        packed = await http.ask("GET", "/page/app.js", Accept_Encoding="gzip, br")
        assert packed.headers["content-encoding"] == "gzip"
        assert gzip.decompress(packed.body) == (FOLDER / "app.js").read_bytes()
        again = await http.ask("GET", "/page/app.js", If_None_Match=packed.headers["etag"])
        assert (again.status, again.body) == (304, b"")
        for path in ("/page/none.js", "/page/..%2fassets.py", "/page/assets.py"):
            assert (await http.ask("GET", path)).status == 404


async def test_the_page_needs_no_token_but_a_host_of_the_node(tmp_path: Path) -> None:
    create(tmp_path / "tokens", "page", Role.VIEWER, "User:page")
    async with (
        a_controller(tmp_path) as node,
        listening(node, tokens=TokenFile(tmp_path / "tokens")) as http,
    ):
        assert (await http.ask("GET", "/")).status == 200
        assert (await http.ask("GET", "/page/style.css")).status == 200
        assert (await http.ask("GET", "/v1/quorum")).status == 401
        assert (await http.ask("GET", "/", Host="evil.example")).status == 421
        assert (await http.ask("POST", "/")).status != 200
