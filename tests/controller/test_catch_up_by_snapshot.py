"""Controllers with a cut log, and replicas that need the missing part: the real parts."""

import asyncio
import random
from contextlib import AsyncExitStack
from pathlib import Path

from quorum.clocks import monotonic_ms
from quorum.core.vocabulary import Offset
from quorum.log.checkpoint import checkpoints
from quorum.persistent_state import LOG_FOLDER
from quorum.snapshotting import SnapshotLimits
from tests.controller.controller_commands import anything, asked, join, topic
from tests.statemachine.support.reference_checks import check_image, contents
from tests.support.bell import PATIENCE_SECONDS
from tests.support.controllers import Node, a_controller, a_place, active, controllers, start

OFTEN = SnapshotLimits(bytes_between=4_000, retention_bytes=1)
BROKERS = (101, 102, 103, 104)


async def until_cut(node: Node, *, start: int = 0) -> None:
    """Let things happen until the log begins behind `start`."""
    rng = random.Random(7)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while node.opened.log.start <= start:
            await asked(node.controller, anything(node.controller, rng))
            await asyncio.sleep(0)


async def until(node: Node, end: Offset) -> None:
    """Wait for the node to have everything below `end`."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while node.controller.committed < end:
            await node.opened.quorum.leader_changed(within_seconds=0.005)


def folder(tmp_path: Path, node_id: int) -> Path:
    return tmp_path / f"node-{node_id}" / LOG_FOLDER


async def test_the_log_begins_where_the_older_of_two_snapshots_ends(tmp_path: Path) -> None:
    async with a_controller(tmp_path, snapshots=OFTEN) as node:
        await join(node.controller, *BROKERS)
        await until_cut(node)
        found = checkpoints(folder(tmp_path, 1))
        assert len(found) >= 2
        assert node.opened.log.start in [id_.offset for id_, _ in found]


async def test_a_controller_goes_on_from_its_snapshot_and_the_log_behind_it(tmp_path: Path) -> None:
    async with a_controller(tmp_path, snapshots=OFTEN, kraft_version=1) as node:
        await join(node.controller, *BROKERS)
        await until_cut(node)
        await asked(node.controller, topic("last", 101))
        before = contents(node.controller.image)
        await node.stop()
    for _ in range(2):
        async with a_controller(tmp_path, snapshots=OFTEN, kraft_version=1) as node:
            assert node.controller.kraft_version == 1
            after = contents(node.controller.image)
            check_image(node.controller.image)
            for name in ("topics", "brokers", "configs", "features", "index", "next_producer_id"):
                assert after[name] == before[name]
            await node.stop()


async def test_a_voter_that_joins_late_takes_the_snapshot_and_then_the_log(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1, 2, voters=(3,), snapshots=OFTEN) as nodes:
        leader = await active(nodes.values())
        await join(leader.controller, *BROKERS)
        await until_cut(leader)
        place = await a_place()
        addresses = {node_id: node.address for node_id, node in nodes.items()}
        async with AsyncExitStack() as parts:
            parts.push_async_callback(place.server.close, within_ms=100)
            late = await start(
                3,
                place,
                addresses | {3: place.address},
                tmp_path / "node-3",
                parts,
                session_clock=monotonic_ms,
                snapshots=OFTEN,
            )
            await asked(leader.controller, topic("late", 101))
            await until(late, leader.controller.committed)
            assert late.opened.log.start > 0
            assert contents(late.controller.image) == contents(leader.controller.image)
            check_image(late.controller.image)
