"""A web page of another origin can neither act through an operator's browser nor read."""

from pathlib import Path

import pytest

from admin.http.access import foreign_origin, host_in
from admin.http.problems import SECURITY_HEADERS
from tests.admin.http.raw_http import PAUSE, Raw, listening
from tests.support.controllers import HOST, a_controller

TRANSFER = "/v1/quorum/leader:transfer"
EVIL = "http://evil.example"


def check_refused(answer: Raw, status: int) -> None:
    assert answer.status == status
    assert answer.headers["content-type"].startswith("application/problem+json")
    assert answer.data["status"] == status


async def test_a_page_of_another_origin_changes_nothing(tmp_path: Path) -> None:
    """A form of any page can send a POST without a body, and needs nobody's leave."""
    async with a_controller(tmp_path) as node, listening(node) as http:
        for path in (PAUSE, TRANSFER):
            for headers in (
                {"Origin": EVIL},
                {"Origin": "null"},
                {"Origin": f"http://{HOST}:1"},
                {"Origin": f"http://{HOST}"},
                {"Sec_Fetch_Site": "cross-site"},
                {"Sec_Fetch_Site": "same-site"},
                {"Origin": f"http://{HOST}:{http.port}", "Sec_Fetch_Site": "cross-site"},
            ):
                check_refused(await http.ask("POST", path, **headers), 403)
        assert node.controller.image.all_paused is None


async def test_a_program_and_a_page_of_this_node_change_what_they_ask_for(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, listening(node) as http:
        own = f"http://{HOST}:{http.port}"
        for headers in (
            {},
            {"Origin": own, "Sec_Fetch_Site": "same-origin"},
            {"Sec_Fetch_Site": "none"},
        ):
            assert (await http.ask("POST", PAUSE, **headers)).status == 200
            assert (await http.ask("POST", "/v1/reassignments:resume", **headers)).status == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None]
)
async def test_a_body_is_declared_as_json(tmp_path: Path, kind: str | None) -> None:
    async with a_controller(tmp_path) as node, listening(node) as http:
        check_refused(await http.ask("POST", PAUSE, b"{}", Content_Type=kind), 415)
        declared = await http.ask("POST", PAUSE, b"{}", Content_Type="application/json; charset=x")
        assert declared.status == 200


async def test_a_name_that_is_pointed_at_the_node_is_misdirected(tmp_path: Path) -> None:
    """DNS rebinding: the page's own name leads here, and its origin is then its Host."""
    async with a_controller(tmp_path) as node, listening(node, "MQ.Example.com") as http:
        port = http.port
        for method, path in (("GET", "/v1/quorum"), ("POST", PAUSE)):
            for host in (f"evil.example:{port}", "10.0.0.1", "", "a b", "127.0.0.1@evil.example"):
                origin = f"http://{host}"
                check_refused(await http.ask(method, path, Host=host, Origin=origin), 421)
        for host in (
            f"127.0.0.1:{port}",
            f"localhost:{port}",
            "LOCALHOST.",
            f"[::1]:{port}",
            "mq.example.com",
            f"mq.example.com:{port}",
        ):
            assert (await http.ask("GET", "/v1/quorum", Host=host)).status == 200, host
        check_refused(await http.ask("GET", "/v1/quorum", Host=None), 400)


async def test_every_response_is_closed_to_pages(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node, listening(node) as http:
        for method, path, status in [
            ("GET", "/v1/quorum", 200),
            ("GET", "/v2", 404),
            ("OPTIONS", PAUSE, 405),
            ("POST", PAUSE, 403),
        ]:
            answer = await http.ask(method, path, Origin=EVIL, Access_Control_Request_Method="POST")
            assert answer.status == (403 if method == "OPTIONS" else status), path
            for name, value in SECURITY_HEADERS.items():
                assert answer.headers[name.lower()] == value
            assert not [name for name in answer.headers if name.startswith("access-control-")]
        assert (await http.ask("OPTIONS", PAUSE)).status == 405


@pytest.mark.parametrize(
    ("origin", "host", "is_tls", "is_same"),
    [
        ("http://a:80", "a", False, True),
        ("http://a", "a:80", False, True),
        ("https://a", "a:443", True, True),
        # A proxy speaks TLS in front of the listener.
        ("https://a", "a", False, True),
        # Whoever can change what a plain connection carries is not let in by it.
        ("http://a", "a", True, False),
        ("http://a:443", "a", True, False),
        ("ftp://a", "a", False, False),
        ("a", "a", False, False),
        ("http://a.evil", "a", False, False),
        ("http://A:19051", "a:19051", False, True),
    ],
)
def test_the_origin_is_the_address_of_the_request(
    origin: str, host: str, is_tls: bool, is_same: bool
) -> None:
    assert (foreign_origin([origin], [], host, is_tls=is_tls) is None) is is_same


@pytest.mark.parametrize(
    ("authority", "host"),
    [
        ("a.example:1", "a.example"),
        ("A.Example.", "a.example"),
        ("[::0001]:1", "::1"),
        ("[::ffff:127.0.0.1]", "127.0.0.1"),
        ("[::1", None),
        ("a:b", None),
        ("a:123456", None),
        ("user@a", None),
        ("a\x00", None),
        ("", None),
    ],
)
def test_a_host_has_one_form(authority: str, host: str | None) -> None:
    assert host_in(authority) == host
