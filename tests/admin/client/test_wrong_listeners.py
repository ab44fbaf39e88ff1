"""Addresses that are not those of a node: what a client says about them, and when."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from admin.client.admin_client import AdminClient, Incompatible
from quorum.transport.address import Address
from quorum.transport.security.tls import ClientTls, TlsSettings
from tests.quorum.transport.security.secured import ssl_client
from tests.support.ports import free_ports

HOST = "127.0.0.1"


async def of_http(inbound: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
    """Answer as a server of HTTP does: once a request has come."""
    # A client that speaks Kafka's protocol never sends the end of one, and closes.
    with suppress(asyncio.IncompleteReadError):
        await inbound.readuntil(b"\r\n\r\n")
        out.write(b"HTTP/1.1 200 OK\r\n\r\n")
    out.close()


async def of_ssh(inbound: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
    out.write(b"SSH-2.0-OpenSSH_9.6\r\n")
    await inbound.read()
    out.close()


async def of_redis(inbound: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
    await inbound.read(1)
    out.write(b"-ERR unknown command\r\n")
    out.close()


@pytest.mark.parametrize(
    ("listener", "name"),
    [(of_http, "HTTP"), (of_ssh, "SSH"), (of_redis, "the protocol of Redis")],
)
async def test_another_protocol_is_named(
    listener: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("admin.client.channels.PROBE_AFTER_SECONDS", 0.05)
    server = await asyncio.start_server(listener, HOST, 0)  # type: ignore[arg-type]
    async with server:
        address = Address(HOST, server.sockets[0].getsockname()[1])
        async with AdminClient([address], is_controller=False, timeout_ms=15_000) as admin:
            with pytest.raises(Incompatible) as raised:
                await admin.describe_topics()
    assert str(raised.value) == (
        f"{address} speaks {name}, not the Kafka protocol: give the port of the Kafka listener of a"
        " broker or controller"
    )


async def test_another_protocol_is_named_to_a_client_with_tls() -> None:
    async def listener(inbound: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        """Answer as a server of HTTP does to what is no request."""
        await inbound.read(1)
        out.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        out.close()

    async with await asyncio.start_server(listener, HOST, 0) as server:
        address = Address(HOST, server.sockets[0].getsockname()[1])
        security = ssl_client(ClientTls(TlsSettings()))
        client = AdminClient([address], is_controller=False, timeout_ms=15_000, security=security)
        async with client as admin:
            with pytest.raises(Incompatible) as raised:
                await admin.describe_topics()
    assert str(raised.value).startswith(f"{address} speaks HTTP, not the Kafka protocol: ")


async def test_refused_connections_are_said_at_once_and_once(tmp_path: Path) -> None:
    said: asyncio.Queue[str] = asyncio.Queue()
    nodes = [Address(HOST, port) for port in free_ports(tmp_path, 2).values()]
    client = AdminClient(nodes, is_controller=False, timeout_ms=600_000, say=said.put_nowait)
    async with client as admin, asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(admin.describe_topics())
        words = await said.get()
        asking.cancel()
    for node in nodes:
        assert f"{node}: Connection refused; " in words
    assert "; trying for 9 min 5" in words
    assert said.empty()
