"""HTTP over TLS: certificates of both sides, loaded again, and handshakes within bounds."""

import asyncio
import logging
import shutil
import ssl
from pathlib import Path

import pytest

from admin.capabilities.needs import Role
from admin.http.limits import HttpLimits
from admin.http.tls import ClientAuth, ServerTls, TlsFiles, TlsUnusable, principal_of
from admin.http.tokens import TokenFile, create
from quorum.process import loop_factory
from tests.admin.http.raw_http import PAUSE, Connection, listening
from tests.support.bell import PATIENCE_SECONDS
from tests.support.certificates import Authority
from tests.support.controllers import HOST, a_controller

ALICE = "/C=DE/O=Acme, Inc./CN=alice"


def server(authority: Authority, client_auth: ClientAuth = ClientAuth.NONE) -> ServerTls:
    keystore = authority.issue("server", "/CN=node")
    return ServerTls(
        TlsFiles(keystore=keystore, truststore=authority.certificate, client_auth=client_auth)
    )


def serial(connection: Connection) -> str:
    certificate = connection.writer.get_extra_info("ssl_object").getpeercert()
    return str(certificate["serialNumber"])


async def test_a_client_certificate_is_the_principal(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    tls = server(authority, ClientAuth.REQUIRED)
    alice = authority.client(authority.issue("alice", ALICE))
    stranger = Authority(tmp_path / "certificates", "other").issue("mallory", "/CN=mallory")
    async with (
        a_controller(tmp_path) as node,
        listening(node, tls=tls, takes_certificates=True) as http,
    ):
        async with http.connected(alice) as connection:
            answer = await connection.ask("POST", PAUSE)
            assert answer.data["all_paused"]["by"] == r"User:CN=alice,O=Acme\, Inc.,C=DE"
            # A browser adds a certificate by itself, so a page could use it.
            refused = await connection.ask("POST", PAUSE, Origin="https://evil.example")
            assert refused.status == 403
            own = f"https://{HOST}:{http.port}"
            assert (await connection.ask("POST", PAUSE, Origin=own)).status == 200
            plain = f"http://{HOST}:{http.port}"
            assert (await connection.ask("POST", PAUSE, Origin=plain)).status == 403
        for client in (authority.client(), authority.client(stranger)):
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                async with http.connected(client) as connection:
                    await connection.ask("GET", "/v1/quorum")
        await http.until_open(0)


async def test_a_token_may_come_in_place_of_a_requested_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    secret = create(tmp_path / "tokens", "ci", Role.VIEWER, "User:ci")
    tls = server(authority, ClientAuth.REQUESTED)
    tokens = TokenFile(tmp_path / "tokens")
    async with (
        a_controller(tmp_path) as node,
        listening(node, tls=tls, tokens=tokens, takes_certificates=True) as http,
    ):
        async with http.connected(authority.client()) as connection:
            assert (await connection.ask("GET", "/v1/quorum")).status == 401
            bearer = f"Bearer {secret}"
            answer = await connection.ask("GET", "/v1/quorum", Authorization=bearer)
            assert answer.status == 200
        async with http.connected(authority.client(authority.issue("a", ALICE))) as connection:
            assert (await connection.ask("GET", "/v1/quorum")).status == 200


async def test_a_new_certificate_is_used_without_a_dropped_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path / "certificates")
    tls = server(authority)
    keystore = tmp_path / "certificates" / "server.both.pem"
    client = authority.client()
    async with (
        a_controller(tmp_path) as node,
        listening(node, tls=tls) as http,
        http.connected(client) as old,
    ):
        keystore.write_text("-----BEGIN CERTIFICATE-----\nhalf a file")
        async with http.connected(client) as same:
            assert serial(same) == serial(old)
        assert "keeps its certificate" in caplog.text
        shutil.copyfile(authority.issue("next", "/CN=node"), keystore)
        async with http.connected(client) as new:
            assert serial(new) != serial(old)
            assert (await new.ask("GET", "/v1/quorum")).status == 200
        assert (await old.ask("GET", "/v1/quorum")).status == 200


async def test_connections_without_a_handshake_are_bounded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path / "certificates")
    limits = HttpLimits(handshake_ms=300, connections_max_per_ip=2)
    async with (
        a_controller(tmp_path) as node,
        listening(node, tls=server(authority), limits=limits) as http,
    ):
        caplog.clear()
        async with http.connected() as silent, http.connected() as plain:
            await http.until_open(2)
            async with http.connected() as third:
                assert await third.rest() == b""
            plain.writer.write(b"GET / HTTP/1.1\r\n\r\n")
            assert b"HTTP/" not in await plain.rest()
            assert await silent.rest() == b""
        await http.until_open(0)
        async with http.connected(authority.client()) as connection:
            assert (await connection.ask("GET", "/v1/quorum")).status == 200
    lines = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(lines) == 3
    assert not [each for each in lines if each.exc_info]


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    keystore = authority.issue("server", "/CN=node")
    empty = tmp_path / "empty.pem"
    empty.touch()
    for files, name in [
        (TlsFiles(keystore=tmp_path / "missing.pem"), "missing.pem"),
        (TlsFiles(keystore=empty), "empty.pem"),
        (TlsFiles(keystore=authority.certificate), "ca.pem"),
        (
            TlsFiles(keystore=keystore, truststore=empty, client_auth=ClientAuth.REQUIRED),
            "empty.pem",
        ),
    ]:
        with pytest.raises(TlsUnusable, match=name):
            ServerTls(files)


def test_a_distinguished_name_is_written_as_java_writes_it() -> None:
    subject = (
        (("countryName", "DE"),),
        (("organizationName", 'a,b+c"d'),),
        (("commonName", " x "), ("organizationalUnitName", "#y")),
    )
    assert principal_of({"subject": subject}) == 'User:CN=\\ x\\ +OU=\\#y,O=a\\,b\\+c\\"d,C=DE'


@pytest.mark.skipif(loop_factory() is None, reason="uvloop is not installed")
def test_the_loop_of_a_node_loses_nothing_of_a_handshake(tmp_path: Path) -> None:
    """uvloop reads a connection from the moment at which it reports it."""

    async def ask() -> None:
        authority = Authority(tmp_path / "certificates")
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            a_controller(tmp_path) as node,
            listening(node, tls=server(authority)) as http,
        ):
            for _ in range(3):
                async with http.connected(authority.client()) as connection:
                    assert (await connection.ask("GET", "/v1/quorum")).status == 200
            await http.until_open(0)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(ask())
