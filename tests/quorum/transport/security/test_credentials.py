"""Credentials that are looked up in the tables of an image."""

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass, field

from quorum.protocol.principal import KafkaPrincipal
from quorum.transport.security.credentials import (
    ImageCredentials,
    LateCredentials,
    ScramCredential,
    ScramMechanism,
)
from quorum.transport.security.mechanisms import AuthenticationFailed
from quorum.transport.security.scram import ScramClient, ScramServer, credential_of
from quorum.transport.security.secret import Secret


@dataclass(frozen=True)
class Token:
    owner: str
    expiration_timestamp_ms: int


@dataclass
class Tables:
    """An image with nothing but credentials."""

    committed_scram_credentials: Mapping[tuple[str, int], ScramCredential] = field(
        default_factory=dict
    )
    committed_delegation_tokens: Mapping[str, Token] = field(default_factory=dict)


async def proved(server: ScramServer, client: ScramClient) -> KafkaPrincipal | None:
    """Let the client prove itself; return who it is, or None."""
    there, here = server.begin(), client.begin()
    try:
        proof = await here.answer(await there.answer(await here.first()))
        assert proof is not None
        await there.answer(proof)
    except AuthenticationFailed:
        return None
    assert there.authenticated is not None
    return there.authenticated.principal


async def test_credentials_come_and_go_with_the_image() -> None:
    tables, late = Tables(), LateCredentials()
    mechanism = ScramMechanism.SHA_512
    server = ScramServer(mechanism, late, wall_clock=lambda: 1_000)
    alice = ScramClient(mechanism, "alice", Secret("swordfish"))
    late.source = ImageCredentials(lambda: tables)
    late.tell_known()
    assert await proved(server, alice) is None
    tables.committed_scram_credentials = {
        ("alice", 2): credential_of(mechanism, "swordfish", b"salt")
    }
    assert await proved(server, alice) == KafkaPrincipal("User", "alice")
    tables.committed_scram_credentials = {
        ("alice", 1): credential_of(mechanism, "swordfish", b"salt")
    }
    assert await proved(server, alice) is None


async def test_who_logs_in_before_the_log_is_read_waits_for_it() -> None:
    tables, late = Tables(), LateCredentials()
    mechanism = ScramMechanism.SHA_256
    server = ScramServer(mechanism, late, wall_clock=lambda: 1_000)
    late.source = ImageCredentials(lambda: tables)
    alice = ScramClient(mechanism, "alice", Secret("new"))
    waiting = asyncio.get_running_loop().create_task(proved(server, alice))
    await asyncio.sleep(0)
    # The old password is not tried in the meantime, and nobody is called unknown.
    tables.committed_scram_credentials = {("alice", 1): credential_of(mechanism, "old", b"salt")}
    await asyncio.sleep(0)
    assert not waiting.done()
    tables.committed_scram_credentials = {("alice", 1): credential_of(mechanism, "new", b"salt")}
    late.tell_known()
    assert await waiting == KafkaPrincipal("User", "alice")


async def test_a_token_counts_until_it_expires_and_where_its_key_is_known() -> None:
    tables = Tables(
        committed_delegation_tokens={"id": Token("User:bob", 1_001), "old": Token("User:b", 999)}
    )
    mechanism = ScramMechanism.SHA_256

    def password(token_id: str) -> Secret:
        return Secret(base64.b64encode(b"hmac of " + token_id.encode()).decode())

    def client(token_id: str) -> ScramClient:
        return ScramClient(mechanism, token_id, password(token_id), is_token=True)

    def server(source: ImageCredentials) -> ScramServer:
        return ScramServer(mechanism, source, wall_clock=lambda: 1_000)

    knows = server(ImageCredentials(lambda: tables, lambda each: b"hmac of " + each.encode()))
    assert await proved(knows, client("id")) == KafkaPrincipal("User", "bob", True)
    assert await proved(knows, client("old")) is None
    assert await proved(knows, client("none")) is None
    assert await proved(server(ImageCredentials(lambda: tables)), client("id")) is None
