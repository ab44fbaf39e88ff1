"""Kafka's own tools for ACLs and credentials, on our controllers."""

import asyncio
import hashlib
import hmac
from collections.abc import Callable
from pathlib import Path

import pytest

from statemachine.security.authorization import AuthorizerConfig
from tests.process.kafka_tools_process import acl_tool, tools_room
from tests.support.controllers import Node, a_controller
from tests.support.kafka_tools import VERSIONS, runtime

pytestmark = pytest.mark.process

EVERYONE = AuthorizerConfig(super_users=frozenset({"User:ANONYMOUS"}))


async def with_tools(version: str, folder: Path, use: Callable[[Node, "Ask"], object]) -> None:
    """Let `use` ask the tools of this release about a controller, in a thread."""
    with tools_room(runtime(version), folder) as tools:
        async with a_controller(folder, authorizer=EVERYONE) as node:

            def ask(tool: str, *arguments: str) -> str:
                # Not every tool knows controllers; to an ordinary client ours answer too.
                whom = ("--bootstrap-server", str(node.address))
                said = tools.run(tool, (*whom, *arguments))
                assert said.code == 0, said.text
                return said.text

            await asyncio.to_thread(use, node, ask)


Ask = Callable[..., str]


@pytest.mark.parametrize("version", VERSIONS)
async def test_acls_are_added_listed_and_removed(version: str, tmp_path: Path) -> None:
    script = acl_tool(version)

    def use(node: Node, ask: Ask) -> None:
        orders = ("--topic", "orders", "--resource-pattern-type", "prefixed")
        who = ("--allow-principal", "User:alice", "--operation", "Read")
        ask(script, "--add", *who, *orders)
        ask(script, "--add", "--deny-principal", "User:bob", "--operation", "All", "--cluster")
        listed = ask(script, "--list")
        assert "(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)" in listed
        assert "name=orders, patternType=PREFIXED" in listed
        assert "name=kafka-cluster, patternType=LITERAL" in listed
        matching = ask(script, "--list", "--topic", "orders-7", "--resource-pattern-type", "match")
        assert "User:alice" in matching
        assert "User:bob" not in matching
        ask(script, "--remove", "--force", *who, *orders)
        assert [each.principal for each in node.controller.image.acls.values()] == ["User:bob"]

    await with_tools(version, tmp_path, use)


@pytest.mark.parametrize("version", VERSIONS)
async def test_scram_credentials_are_set_described_and_deleted(
    version: str, tmp_path: Path
) -> None:
    def use(node: Node, ask: Ask) -> None:
        user = ("--entity-type", "users", "--entity-name", "alice")
        config = "SCRAM-SHA-512=[iterations=5000,password=wonderland]"
        ask("kafka-configs.sh", "--alter", "--add-config", config, *user)
        (kept,) = node.controller.image.scram_credentials.values()
        password = hashlib.pbkdf2_hmac("sha512", b"wonderland", kept.salt, 5_000)
        client_key = hmac.digest(password, b"Client Key", "sha512")
        assert kept.stored_key == hashlib.sha512(client_key).digest()
        described = ask("kafka-configs.sh", "--describe", *user)
        assert "SCRAM-SHA-512=iterations=5000" in described
        ask("kafka-configs.sh", "--alter", "--delete-config", "SCRAM-SHA-512", *user)
        assert not node.controller.image.scram_credentials

    await with_tools(version, tmp_path, use)
