"""A Kafka broker joins when the log of our controllers begins behind its first record."""

import asyncio
from pathlib import Path

import pytest

from admin.client.admin_client import AdminClient
from quorum.persistent_state import LOG_FOLDER
from quorum.snapshotting import SnapshotLimits
from statemachine.commands import FenceBrokers
from tests.controller.controller_commands import asked, join, move, topic
from tests.process.one_kafka_broker import BROKER_ID, is_unfenced, kafka_broker, serve
from tests.process.test_kafka_dumps_our_log import check_alike
from tests.support.bell import PATIENCE_SECONDS
from tests.support.controllers import Node, a_controller
from tests.support.kafka_tools import runtime

pytestmark = pytest.mark.process

OFTEN = SnapshotLimits(bytes_between=3_000, retention_bytes=1)
ANOTHER = 102
THIRD = 103


async def until_cut(node: Node) -> None:
    """Let the controller take snapshots until its log no longer begins at 0."""
    number = 0
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not node.opened.log.start:
            number += 1
            await asked(node.controller, topic(f"old-{number}", ANOTHER, THIRD))
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("version", "metadata_version"),
    [
        ("3.9.1", 15),
        ("3.9.1", 21),
        pytest.param("4.2.0", 29, marks=pytest.mark.long),
        ("4.3.1", 30),
    ],
)
async def test_a_broker_boots_from_our_snapshot(
    version: str, metadata_version: int, tmp_path: Path
) -> None:
    """With a move under way and a broker that stops: what only we say lies in tagged fields."""
    java = runtime(version)
    async with a_controller(
        tmp_path,
        metadata_version=metadata_version,
        kraft_version=int(metadata_version >= 21),
        snapshots=OFTEN,
    ) as node:
        await join(node.controller, ANOTHER, THIRD)
        await asked(node.controller, topic("moving", ANOTHER))
        await asked(node.controller, move("moving", THIRD))
        await until_cut(node)
        # Nobody is behind these two: the new topic must not be theirs.
        await asked(node.controller, FenceBrokers(broker_ids=(ANOTHER, THIRD)))
        kept = node.opened.quorum.replica.node
        assert kept.log_end.offset > node.opened.log.start > 0
        async with kafka_broker(
            tmp_path, java, node.address, metadata_version=metadata_version
        ) as broker:
            await broker.until(node, is_unfenced)
            async with AdminClient([broker.address], is_controller=False) as client:
                described = await client.describe_topics(["old-1", "moving"])
                assert set(described) == {"old-1", "moving"}
            await serve(broker, "orders")
            assert broker.complaints == []
            copies = list((broker.storage / LOG_FOLDER).glob("*.checkpoint"))
            assert copies, f"broker {BROKER_ID} has no snapshot"


@pytest.mark.parametrize(("version", "level"), [("3.9.1", 21), ("4.2.0", 29), ("4.3.1", 30)])
async def test_kafkas_dumper_reads_our_snapshot(version: str, level: int, tmp_path: Path) -> None:
    async with a_controller(
        tmp_path, metadata_version=level, snapshots=OFTEN, kraft_version=1
    ) as node:
        await join(node.controller, ANOTHER, THIRD)
        await asked(node.controller, topic("moving", ANOTHER))
        await asked(node.controller, move("moving", THIRD))
        await until_cut(node)
        found = sorted((tmp_path / "node-1" / LOG_FOLDER).glob("*.checkpoint"))
    told = check_alike(version, found[-1])
    assert [each.type for each in told][:3] == ["SnapshotHeader", "KRaftVersion", "KRaftVoters"]
    assert told[-1].type == "SnapshotFooter"
