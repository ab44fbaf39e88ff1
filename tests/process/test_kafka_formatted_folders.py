"""Our controllers start in folders that Kafka's tool has formatted."""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from admin.client.admin_client import AdminClient
from admin.tools.dump import entries
from controller.quorum_description import QuorumDescription
from quorum.core.vocabulary import uuid_to_text
from quorum.log.meta_properties import look
from quorum.persistent_state import LOG_FOLDER
from quorum.protocol.apis import ApiKey
from tests.process.joining_nodes import Nodes
from tests.process.kafka_tools_process import ToolsRoom, tools_room
from tests.process.one_kafka_controller import FORMAT
from tests.support.kafka_client import Form, kafka_client
from tests.support.kafka_tools import runtime

pytestmark = pytest.mark.process

VERSION: Final = "4.2.0"
CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"
DIRECTORIES: Final = {1: "AAAAAAAAAAAAAAAAAAAB0Q", 2: "AAAAAAAAAAAAAAAAAAAB0w"}
LEVELS: Final = {"metadata.version": 25, "transaction.version": 1, "kraft.version": 1}


def format_folder(tools: ToolsRoom, nodes: Nodes, node: int, *how: str) -> None:
    settings = nodes.folder / f"{node}.properties"
    settings.write_text(
        f"process.roles=controller\nnode.id={node}\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=CONTROLLER://{nodes.address(node)}\nlog.dirs={nodes.data(node)}\n"
        f"controller.quorum.bootstrap.servers={nodes.address(1)}\n",
        encoding="utf-8",
    )
    said = tools.run(FORMAT, ("format", "-t", CLUSTER_ID, "-c", str(settings), *how))
    assert said.code == 0, said.text


def format_two(tools: ToolsRoom, nodes: Nodes) -> None:
    """As two controllers of Kafka would be, at a level and with a feature of their own."""
    voters = ",".join(f"{each}@{nodes.address(each)}:{id}" for each, id in DIRECTORIES.items())
    how = ("--initial-controllers", voters, "--release-version", "4.0")
    for each in DIRECTORIES:
        format_folder(tools, nodes, each, *how, "--feature", "transaction.version=1")


def have_all(found: QuorumDescription) -> bool:
    return all(each.log_end_offset >= found.high_watermark > 0 for each in found.voters)


async def features(nodes: Nodes, node: int) -> dict[str, int | None]:
    async with AdminClient([nodes.address(node)], is_controller=True) as client:
        return {each.name: each.level for each in (await client.describe_features()).features}


async def scram_users(nodes: Nodes, node: int) -> dict[str, int]:
    """The users with SCRAM credentials, and the mechanism of each."""
    form = Form(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0)
    async with kafka_client(nodes.address(node)) as client:
        answer = await client.send(form, form.request(users=None))
    return {each.user: each.credential_infos[0].mechanism for each in answer.results}


async def test_controllers_start_with_the_format_of_their_folders(
    tmp_path: Path,
) -> None:
    """Nothing is set but where to ask: voters, their directories and levels are in the folders."""
    java = runtime(VERSION)
    async with Nodes(tmp_path) as nodes:
        nodes.reserve(1, 2, 3)
        with tools_room(java, tmp_path) as tools:
            await asyncio.to_thread(format_two, tools, nodes)
            scram = ("--add-scram", "SCRAM-SHA-256=[name=alice,password=secret]")
            await asyncio.to_thread(format_folder, tools, nodes, 3, "--standalone", *scram)
        for each in DIRECTORIES:
            await nodes.start(each, bootstrap_servers=str(nodes.address(3 - each)))
        # A quorum of its own, which knows no other node.
        await nodes.start(3, bootstrap_servers=str(nodes.address(3)))
        quorum = await nodes.until(lambda: nodes.quorum(1), have_all)
        assert {v.id: uuid_to_text(v.directory_id) for v in quorum.voters} == DIRECTORIES
        assert quorum.cluster_id == CLUSTER_ID
        await nodes.until(lambda: features(nodes, 2), lambda found: LEVELS.items() <= found.items())
        await nodes.until(lambda: features(nodes, 3), bool)
        assert await scram_users(nodes, 3) == {"alice": 1}

    (log,) = (nodes.data(2) / LOG_FOLDER).glob("*.log")
    (first,) = [each for each in list(entries(log))[:3] if each.type == "KRaftVoters"]
    named = {v["voterId"]: uuid_to_text(v["voterDirectoryId"]) for v in first.data["voters"]}
    assert named == DIRECTORIES
    meta = look(nodes.data(1))
    assert meta is not None
    assert uuid_to_text(meta.directory_id) == DIRECTORIES[1]
