"""HTTP over TLS: certificates of both sides, loaded again, and handshakes within bounds."""

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from admin.capabilities.needs import Role
from admin.http.limits import HttpLimits
from admin.http.tokens import TokenFile, create
from quorum.process import loop_factory
from quorum.transport.security.principal_mapping import parse_rules
from quorum.transport.security.tls import ClientAuth, Pem, ServerTls, TlsSettings
from tests.admin.http.raw_http import PAUSE, Connection, listening
from tests.support.bell import PATIENCE_SECONDS
from tests.support.controllers import HOST, a_controller
from tests.support.pem_authority import Authority, Files, common_name, named

ALICE = named(
    (NameOID.COUNTRY_NAME, "DE"),
    (NameOID.ORGANIZATION_NAME, "Acme, Inc."),
    (NameOID.COMMON_NAME, "alice"),
)


def server(files: Files, **more: Any) -> ServerTls:
    return ServerTls(
        TlsSettings(
            chain=Pem("keystore", files.keystore),
            trusted=Pem("truststore", files.truststore),
            **more,
        )
    )


def trusting(files: Files) -> ssl.SSLContext:
    """A client that trusts the authority of the node, and has no certificate."""
    return ssl.create_default_context(cafile=str(files.truststore))


def known(files: Files, authority: Authority, subject: x509.Name = ALICE) -> ssl.SSLContext:
    """A client with a certificate of this authority."""
    keystore = files.keystore.with_name("client.pem")
    keystore.write_text(authority.issue("client", subject=subject).both)
    context = trusting(files)
    context.load_cert_chain(keystore)
    return context


def serial(connection: Connection) -> str:
    certificate = connection.writer.get_extra_info("ssl_object").getpeercert()
    return str(certificate["serialNumber"])


async def test_a_client_certificate_is_the_principal(tmp_path: Path) -> None:
    authority = Authority()
    files = authority.files(tmp_path, "node")
    tls = server(files, client_auth=ClientAuth.REQUIRED)
    alice, stranger = known(files, authority), known(files, Authority("other"))
    async with a_controller(tmp_path) as node, listening(node, tls=tls) as http:
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
        for client in (trusting(files), stranger):
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                async with http.connected(client) as connection:
                    await connection.ask("GET", "/v1/quorum")
        await http.until_open(0)


async def test_a_token_may_come_in_place_of_a_requested_certificate(tmp_path: Path) -> None:
    authority = Authority()
    files = authority.files(tmp_path, "node")
    secret = create(tmp_path / "tokens", "ci", Role.VIEWER, "User:ci")
    tls = server(files, client_auth=ClientAuth.REQUESTED)
    tokens = TokenFile(tmp_path / "tokens")
    async with (
        a_controller(tmp_path) as node,
        listening(node, tls=tls, tokens=tokens) as http,
    ):
        async with http.connected(trusting(files)) as connection:
            assert (await connection.ask("GET", "/v1/quorum")).status == 401
            bearer = f"Bearer {secret}"
            answer = await connection.ask("GET", "/v1/quorum", Authorization=bearer)
            assert answer.status == 200
        async with http.connected(known(files, authority)) as connection:
            assert (await connection.ask("GET", "/v1/quorum")).status == 200


async def test_a_new_certificate_is_used_without_a_dropped_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority()
    files = authority.files(tmp_path, "node")
    tls, client = server(files), trusting(files)
    async with (
        a_controller(tmp_path) as node,
        listening(node, tls=tls) as http,
        http.connected(client) as old,
    ):
        files.keystore.write_text("-----BEGIN CERTIFICATE-----\nhalf a file")
        async with http.connected(client) as same:
            assert serial(same) == serial(old)
        assert "Still using the certificates loaded before" in caplog.text
        files.keystore.write_text(authority.issue("next").both)
        async with http.connected(client) as new:
            assert serial(new) != serial(old)
            assert (await new.ask("GET", "/v1/quorum")).status == 200
        assert (await old.ask("GET", "/v1/quorum")).status == 200


async def test_connections_without_a_handshake_are_bounded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = Authority().files(tmp_path, "node")
    limits = HttpLimits(handshake_ms=300, connections_max_per_ip=2)
    async with (
        a_controller(tmp_path) as node,
        listening(node, tls=server(files), limits=limits) as http,
    ):
        caplog.clear()
        async with http.connected() as silent, http.connected() as plain:
            await http.until_open(2)
            async with http.connected() as third:
                assert await third.rest() == b""
            plain.write("GET", "/")
            assert (await plain.rest()).startswith(b"HTTP/1.1 400 ")
            assert await silent.rest() == b""
        await http.until_open(0)
        async with http.connected(trusting(files)) as connection:
            assert (await connection.ask("GET", "/v1/quorum")).status == 200
    lines = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(lines) == 3
    assert not [each for each in lines if each.exc_info]


async def test_a_request_without_tls_is_told_so_and_gets_nothing_else(tmp_path: Path) -> None:
    files = Authority().files(tmp_path, "node")
    async with a_controller(tmp_path) as node, listening(node, tls=server(files)) as http:
        async with http.connected() as plain:
            answer = await plain.ask("POST", PAUSE, b"{}")
            assert (answer.status, answer.data["title"]) == (400, "TLS is needed")
            assert "write https:// in place of http://" in answer.data["detail"]
            assert await plain.rest() == b""
        await http.until_open(0)
        async with http.connected(trusting(files)) as connection:
            assert not (await connection.ask("GET", "/v1/reassignments")).data["all_paused"]


async def test_the_rules_for_subjects_hold_for_http_too(tmp_path: Path) -> None:
    authority = Authority()
    files = authority.files(tmp_path, "node")
    rules = parse_rules("RULE:^CN=alice,.*$/alice/")
    tls = server(files, client_auth=ClientAuth.REQUIRED, rules=rules)
    bob = known(files, authority, common_name("bob"))
    async with a_controller(tmp_path) as node, listening(node, tls=tls) as http:
        async with http.connected(bob) as connection:
            assert (await connection.ask("GET", "/v1/quorum")).status == 401
        async with http.connected(known(files, authority)) as connection:
            answer = await connection.ask("POST", PAUSE)
            assert answer.data["all_paused"]["by"] == "User:alice"


async def test_no_session_is_resumed(tmp_path: Path) -> None:
    files = Authority().files(tmp_path, "node")
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        client = trusting(files)
        client.maximum_version = version
        async with (
            a_controller(tmp_path) as node,
            listening(node, tls=server(files)) as http,
            http.connected(client) as connection,
        ):
            assert (await connection.ask("GET", "/v1/quorum")).status == 200
            session = connection.writer.get_extra_info("ssl_object").session
            assert session is None or not session.has_ticket


@pytest.mark.skipif(loop_factory() is None, reason="uvloop is not installed")
def test_the_loop_of_a_node_loses_nothing_of_a_handshake(tmp_path: Path) -> None:
    """uvloop reads a connection from the moment at which it reports it."""

    async def ask() -> None:
        files = Authority().files(tmp_path, "node")
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            a_controller(tmp_path) as node,
            listening(node, tls=server(files)) as http,
        ):
            for _ in range(3):
                assert (await http.ask("GET", "/v1/quorum")).status == 400
                async with http.connected(trusting(files)) as connection:
                    assert (await connection.ask("GET", "/v1/quorum")).status == 200
            await http.until_open(0)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(ask())
