"""Kafka's own MetadataQuorumCommand adds and removes our controllers, and its dumper reads the log.

What the command prints is what it prints on Kafka's controllers (tests/data, session.txt).
"""

import asyncio
from pathlib import Path

import pytest

from admin.client.admin_client import AdminClient
from admin.tools.kafka_runtime import RELEASES
from quorum.core.vocabulary import ReplicaId, ReplicaKey, uuid_to_text
from quorum.persistent_state import LOG_FOLDER
from statemachine.commands import Done
from tests.controller.apis.test_kafka_voters import until, votes
from tests.controller.controller_commands import asked
from tests.process.kafka_tools_process import tools_room
from tests.process.test_kafka_dumps_our_log import check_alike
from tests.support.controllers import Node, active, controllers
from tests.support.kafka_tools import runtime

pytestmark = pytest.mark.process

VERSION = "4.2.0"
COMMAND = "kafka-metadata-quorum.sh"


def settings_of(node: Node, folder: Path, file: Path) -> Path:
    """The settings of a Kafka controller in the place of this one."""
    listener = f"CONTROLLER://{node.address}"
    file.write_text(
        f"process.roles=controller\nnode.id={node.node_id}\n"
        f"controller.listener.names=CONTROLLER\nlisteners={listener}\nlog.dirs={folder}\n",
        encoding="utf-8",
    )
    return file


async def test_kafkas_command_adds_and_removes_our_controllers(tmp_path: Path) -> None:
    java = runtime(VERSION)
    with tools_room(java, tmp_path) as tools:
        async with controllers(tmp_path, 1, 2, 3, observers=(4,), kraft_version=1) as nodes:
            leader = await active(nodes.values())
            assert await asked(leader.controller, nodes[4].controller.registration) == Done()
            whom = ("--bootstrap-controller", str(nodes[2].address))
            ids = {each: uuid_to_text(node.opened.directory_id) for each, node in nodes.items()}
            four = settings_of(nodes[4], tmp_path / "node-4", tmp_path / "four.properties")

            added = await asyncio.to_thread(
                tools.run, COMMAND, (*whom, "--command-config", str(four), "add-controller")
            )
            assert added.text == (
                f"Added controller 4 with directory id {ids[4]} and endpoints: "
                f"CONTROLLER://{nodes[4].address}\n"
            )
            await until(nodes.values(), votes(1, 2, 3, 4))

            again = await asyncio.to_thread(
                tools.run, COMMAND, (*whom, "--command-config", str(four), "add-controller")
            )
            assert again.code != 0
            assert "DuplicateVoterException" in again.text
            assert "voter 4 is one already" in again.text

            one = ("--controller-id", "1", "--controller-directory-id", ids[1])
            removed = await asyncio.to_thread(
                tools.run, COMMAND, (*whom, "remove-controller", *one)
            )
            assert removed.text == (f"Removed  KRaft controller 1 with directory id {ids[1]}\n")
            await until(nodes.values(), votes(2, 3, 4))

            described = await asyncio.to_thread(tools.run, COMMAND, (*whom, "describe", "--status"))
            assert f'{{"id": 4, "directoryId": "{ids[4]}", "endpoints": ' in described.text
            observers = described.text.splitlines()[-1]
            assert f'"id": 1, "directoryId": "{ids[1]}"' in observers
        (log,) = (tmp_path / "node-4" / LOG_FOLDER).glob("*.log")
        assert "KRaftVoters" in {each.type for each in check_alike(VERSION, log)}


async def test_kafkas_dumper_reads_voters_with_a_target(tmp_path: Path) -> None:
    """The target and the cluster id travel in tagged fields, which it skips, of either release."""
    for version in RELEASES:
        runtime(version)
    async with controllers(tmp_path, 1, kraft_version=1) as nodes:
        await active(nodes.values())
        async with AdminClient([nodes[1].address], is_controller=True) as client:
            await client.alter_voters([ReplicaKey(ReplicaId(1)), ReplicaKey(ReplicaId(9))])
    (log,) = (tmp_path / "node-1" / LOG_FOLDER).glob("*.log")
    for version in RELEASES:
        named = [each for each in check_alike(version, log) if each.type == "KRaftVoters"]
        assert [each["voterId"] for each in named[-1].data["voters"]] == [1]
