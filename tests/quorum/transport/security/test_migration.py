"""A listener with TLS that also serves clients without it, while a cluster migrates."""

import asyncio
import dataclasses
import socket
from pathlib import Path

import pytest

from quorum.transport.security.protocols import PLAIN_CLIENT, ListenerSecurity
from quorum.transport.security.tls import ClientAuth
from tests.quorum.transport.conftest import Run
from tests.quorum.transport.loopback import HOST
from tests.quorum.transport.security.secured import (
    client_tls,
    echo,
    refusal,
    secure_channel,
    secured,
    server_tls,
    ssl_client,
    ssl_listener,
)
from tests.support.pem_authority import Authority, Files


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Authority().files(tmp_path, "node")


def migrating(files: Files) -> ListenerSecurity:
    """A listener that wants certificates of those that begin TLS."""
    strict = ssl_listener(server_tls(files, client_auth=ClientAuth.REQUIRED))
    return dataclasses.replace(strict, accepts_plaintext=True)


def test_clients_with_and_without_tls_are_served_at_one_port(run: Run, files: Files) -> None:
    async def go() -> None:
        async with (
            secured(migrating(files)) as (_, port, recorder),
            secure_channel(port, PLAIN_CLIENT) as plain,
            secure_channel(port, ssl_client(client_tls(files))) as secure,
        ):
            for _ in range(2):
                assert await echo(plain) == b"hello"
                assert (recorder.who, recorder.last.listener) == ("User:ANONYMOUS", "SECURE")
                assert await echo(secure) == b"hello"
                assert recorder.who == "User:CN=node,O=Test"
            large = bytes(3_000_000)
            assert await echo(plain, large) == large

    run(go())


def test_without_the_migration_tls_is_needed(run: Run, files: Files) -> None:
    async def go() -> None:
        strict = dataclasses.replace(migrating(files), accepts_plaintext=False)
        async with (
            secured(strict) as (_, port, recorder),
            secure_channel(port, PLAIN_CLIENT) as plain,
        ):
            await refusal(plain)
            assert not recorder.seen

    run(go())


def test_clients_that_say_nothing_hold_up_nobody_and_leave_nothing_open(
    run: Run, files: Files
) -> None:
    async def go() -> None:
        async with secured(migrating(files)) as (server, port, _):
            silent = [socket.create_connection((HOST, port)) for _ in range(3)]
            async with secure_channel(port, PLAIN_CLIENT) as plain:
                assert await echo(plain) == b"hello"
            silent.pop().close()
            async with secure_channel(port, ssl_client(client_tls(files))) as secure:
                assert await echo(secure) == b"hello"
            await server.close(within_ms=1_000)
            for each in silent:
                each.setblocking(False)
                assert await asyncio.get_running_loop().sock_recv(each, 1) == b""
                each.close()

    run(go())
