"""A quorum whose controllers trust each other by certificate or password, and nobody else."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from admin.client.admin_client import AdminClient
from quorum.transport.address import Address
from quorum.transport.security.plain import PlainClient, PlainServer
from quorum.transport.security.protocols import ClientSecurity
from quorum.transport.security.secret import Secret
from quorum.transport.security.tls import ClientAuth
from tests.quorum.transport.security.secured import (
    client_tls,
    sasl_client,
    sasl_listener,
    server_tls,
    ssl_client,
    ssl_listener,
    trusting,
)
from tests.support.bell import PATIENCE_SECONDS
from tests.support.controllers import Node, Secured, active, controllers
from tests.support.pem_authority import Authority, Files

FOURTH = 4
PASSWORD = Secret("swordfish")


def mutual(files: Files) -> Secured:
    """A node with this certificate, which wants one of its authority."""
    return Secured(
        ssl_listener(server_tls(files, client_auth=ClientAuth.REQUIRED)),
        ssl_client(client_tls(files)),
    )


def plain(files: Files, password: Secret) -> Secured:
    """A node with this password, over TLS."""
    return Secured(
        sasl_listener({"PLAIN": PlainServer({"node": PASSWORD})}, tls=server_tls(files)),
        sasl_client(PlainClient("node", password), trusting(files.truststore)),
    )


async def topic_made(nodes: dict[int, Node], client: ClientSecurity, name: str) -> None:
    """Every node answers and forwards."""
    for node_id in (1, 2, 3):
        async with AdminClient(
            [nodes[node_id].address], is_controller=True, security=client
        ) as admin:
            status = await admin.describe_quorum()
            assert {each.id for each in status.voters} == {1, 2, 3}, name


@asynccontextmanager
async def three_and_a_fourth(
    folder: Path, good: Callable[[int], Secured], bad: Secured
) -> AsyncIterator[dict[int, Node]]:
    """Three controllers, and an observer with its own idea of security."""

    def security(node_id: int) -> Secured:
        return bad if node_id == FOURTH else good(node_id)

    async with controllers(
        folder, 1, 2, 3, observers=[FOURTH], kraft_version=1, security=security
    ) as nodes:
        yield nodes


async def logged(caplog: pytest.LogCaptureFixture, words: str) -> None:
    """Wait until this is in the log."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while words not in caplog.text:  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("case", "theirs", "own"),
    [
        ("good", "", ""),
        ("another authority", "its certificate is refused", "it refused our certificate"),
        ("expired", "certificate has expired", "it refused our certificate: it has expired"),
        ("no certificate", "it presented no certificate", "it wants a certificate"),
    ],
)
async def test_only_certificates_of_the_authority_take_part(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, case: str, theirs: str, own: str
) -> None:
    authority = Authority()
    files = {each: authority.files(tmp_path, f"node-{each}") for each in (1, 2, 3, FOURTH)}
    bad = mutual(files[FOURTH])
    if case == "another authority":
        foreign = Authority("other").files(tmp_path, "foreign")
        bad = mutual(Files(foreign.keystore, files[1].truststore))
    elif case == "expired":
        bad = mutual(authority.files(tmp_path, "expired", is_expired=True))
    elif case == "no certificate":
        bad = Secured(mutual(files[1]).listener, ssl_client(trusting(files[1].truststore)))
    async with three_and_a_fourth(tmp_path, lambda each: mutual(files[each]), bad) as nodes:
        trusted = [nodes[each] for each in (1, 2, 3)]
        leader = await active(trusted)
        epoch = leader.opened.quorum.node.epoch
        client = ssl_client(client_tls(files[1]))
        await topic_made(nodes, client, "before")
        fourth = nodes[FOURTH].opened.quorum
        if case == "good":
            async with asyncio.timeout(PATIENCE_SECONDS):
                while fourth.leader != leader.node_id:
                    await fourth.leader_changed(within_seconds=0.01)
        else:
            await logged(caplog, theirs)
            await logged(caplog, own)
            assert fourth.leader is None
        await topic_made(nodes, client, "after")
        assert leader.controller.is_active
        assert leader.opened.quorum.node.epoch == epoch
    said = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert not [each for each in said if "Traceback" in each]


async def test_a_wrong_password_does_not_take_part(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = Authority().files(tmp_path, "node")
    bad = plain(files, Secret("guess"))
    async with three_and_a_fourth(tmp_path, lambda _: plain(files, PASSWORD), bad) as nodes:
        leader = await active([nodes[each] for each in (1, 2, 3)])
        await logged(caplog, "authentication with PLAIN failed: the password of user 'node'")
        await logged(caplog, "No secure connection to 127.0.0.1")
        client = sasl_client(PlainClient("node", PASSWORD), trusting(files.truststore))
        await topic_made(nodes, client, "after")
        assert leader.controller.is_active
        assert nodes[FOURTH].opened.quorum.leader is None
    assert "swordfish" not in caplog.text
    assert "guess" not in caplog.text


async def test_a_stranger_without_tls_learns_nothing(tmp_path: Path) -> None:
    from admin.faults import AdminError

    files = Authority().files(tmp_path, "node")
    async with controllers(tmp_path, 1, security=lambda _: mutual(files)) as nodes:
        await active(nodes.values())
        address: Address = nodes[1].address
        async with AdminClient([address], is_controller=True, timeout_ms=500) as admin:
            with pytest.raises(AdminError):
                await admin.describe_quorum()
