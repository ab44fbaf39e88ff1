"""The look for nodes of before: what a command knows of each address, and what it says."""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from admin.tools import living_nodes
from admin.tools.living_nodes import Presence, Seen, look_for_nodes
from quorum.persistent_state import LOG_FOLDER
from quorum.transport.address import Address, dial
from tests.admin.backup.stored_backups import TAKEN_MS, backed_up
from tests.admin.recover.recovered_folders import command, started, voters
from tests.admin.tools.old_controllers import old, without_voters
from tests.quorum.transport.security.secured import (
    server_tls,
    ssl_client,
    ssl_listener,
    trusting,
)
from tests.support.controllers import Secured, active, controllers
from tests.support.pem_authority import Authority
from tests.support.real_cluster import CLUSTER_ID

NOBODY = Address("127.0.0.1", 1)


async def test_a_refusal_and_a_silent_network_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    partitioned, unknown = Address("10.0.0.1", 9093), Address("nowhere", 9093)

    async def no_route(make: object, address: Address) -> None:
        if address == partitioned:
            await asyncio.get_running_loop().create_future()
        if address == unknown:
            raise OSError("Name or service not known")
        await dial(make, address)  # type: ignore[arg-type]

    monkeypatch.setattr(living_nodes, "dial", no_route)
    monkeypatch.setattr(living_nodes, "ASK_MS", 500)
    seen = await look_for_nodes([unknown, NOBODY, partitioned], CLUSTER_ID)
    assert seen.found == {
        partitioned: Presence.UNREACHABLE,
        NOBODY: Presence.REFUSED,
        unknown: Presence.UNREACHABLE,
    }
    assert [*seen.lines([3])] == [
        "10.0.0.1:9093: unreachable, and a network partition looks the same: make sure that no "
        "controller of this cluster runs there.",
        "127.0.0.1:1: refused, nothing listens there.",
        "nowhere:9093: unreachable, and a network partition looks the same: make sure that no "
        "controller of this cluster runs there.",
        "Voter 3: its address is not known, so it was not checked.",
    ]
    assert seen.living == []


async def test_a_node_that_wants_tls_is_asked_with_it(tmp_path: Path) -> None:
    """Without --command-config the command does not know what listens there."""
    files = Authority().files(tmp_path, "node")
    secured = Secured(ssl_listener(server_tls(files)), ssl_client(trusting(files.truststore)))
    config = tmp_path / "client.properties"
    config.write_text(f"security.protocol=SSL\nssl.truststore.location={files.truststore}\n")
    async with controllers(tmp_path, 1, kraft_version=1, security=lambda _: secured) as nodes:
        node = await active(nodes.values())
        copy = await asyncio.to_thread(shutil.copytree, tmp_path / "node-1", tmp_path / "copy")
        (copy / LOG_FOLDER / "quorum-state").unlink()
        without = await asyncio.to_thread(command, "recover", copy, stdin="no\n")
        given = ("--command-config", config)
        result = await asyncio.to_thread(command, "recover", copy, *given, stdin="no\n")
        await asyncio.to_thread(backed_up, copy, tmp_path / "to")
        restore = ("restore", tmp_path / "to", "--dir", tmp_path / "new")
        restored = await asyncio.to_thread(command, *restore, *given)
        other = await look_for_nodes([node.address], "another", secured.client)
    assert f"- {node.address}: something listens, and does not say what it is" in without.stderr
    assert f"answers at {node.address}: it is not lost" in result.stderr
    assert f"answers at {node.address}: stop all controllers of before" in restored.stderr
    assert other == Seen({node.address: Presence.OTHER})


def test_recover_says_what_is_at_each_address_before_it_asks(tmp_path: Path) -> None:
    result = command("recover", old(tmp_path, 2), stdin="no\n")
    assert "nothing was changed" in result.stderr
    # Another cluster may be at these addresses, which are those of a real log.
    for port in (19002, 19003, 19004):
        assert f"- 127.0.0.1:{port}: " in result.stderr


def test_voters_without_an_address_in_the_log_are_named(tmp_path: Path) -> None:
    """With kraft.version 0 it has none."""
    source = old(tmp_path, 2, log=without_voters())
    given = ("--voters", "2@127.0.0.1:1")
    result = command("recover", source, *given, stdin="no\n")
    assert "nothing was changed" in result.stderr
    for id_ in (1, 2, 3):
        line = f"- Voter {id_}: its address is not known, so it was not checked.\n"
        assert line in result.stderr
    backed_up(source, tmp_path / "to")
    controllers = ("--controllers", "2@127.0.0.1:1")
    restored = command("restore", tmp_path / "to", "--dir", tmp_path / "new", *controllers)
    assert restored.exit_code == 0, restored.stderr
    assert "- Voter 3: its address is not known, so it was not checked.\n" in restored.stdout


async def test_no_earlier_backup_is_restored_while_the_voters_of_a_later_one_live(
    tmp_path: Path,
) -> None:
    """Those of the earlier one were replaced, and nobody is at their addresses any more."""
    place, new = tmp_path / "to", tmp_path / "new"
    source = old(tmp_path, 2)
    first = (await asyncio.to_thread(backed_up, source, place)).manifest

    def make(addresses: Mapping[int, Address]) -> Mapping[int, Path]:
        result = command("restore", place, "--dir", new, "--controllers", voters(addresses))
        assert result.exit_code == 0, result.stderr
        return {node_id: new / f"controller-{node_id}" / "data" for node_id in addresses}

    async with started(make, 7, 8) as nodes:
        await active(nodes.values())
        folder = new / "controller-7" / "data"
        copy = await asyncio.to_thread(shutil.copytree, folder, tmp_path / "copy")
        await asyncio.to_thread(backed_up, copy, place, now_ms=TAKEN_MS + 1)
        damaged = place / "backup-20261121T000000.000Z.json"
        damaged.write_text("{}")
        earlier = ("restore", place, first.id, "--dir", tmp_path / "2")
        refused = await asyncio.to_thread(command, *earlier)
        beside = await asyncio.to_thread(command, *earlier, "--new-cluster")
    assert refused.exit_code == 1
    for node in nodes.values():
        assert str(node.address) in refused.stderr
    assert f"a node of cluster {CLUSTER_ID} answers at" in refused.stderr
    assert beside.exit_code == 0, beside.stderr
