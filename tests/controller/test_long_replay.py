"""A controller with a long log votes, fetches and leads during its replay, and reports it."""

import asyncio
import random
from itertools import pairwise
from pathlib import Path

from controller.ports import Unavailable
from quorum.core.vocabulary import ElectionState, Offset, ReplicaId
from quorum.log.meta_properties import load_or_create
from quorum.log.quorum_state import QuorumStateFile
from quorum.log.segmented_log import SegmentedLog
from quorum.metadata_loader import STRIDE_BYTES
from quorum.persistent_state import LOG_FOLDER
from quorum.records.encode import encode as batch
from quorum.records.encode import stamp
from statemachine import commands
from statemachine.records import kafka_records
from statemachine.records.codec import encode
from tests.controller.controller_commands import asked, join, looked, topic, topic_id
from tests.controller.logs import folded, log_of
from tests.statemachine.support.reference_checks import contents, indexed, scanned
from tests.support.controllers import CLUSTER_ID, Node, a_controller, active, controllers

CHANGES = 40_000
BATCH_RECORDS = 250
RECORD_BYTES = 40
"""At least, in a batch."""


async def lengthen(folder: Path, *others: int) -> None:
    """Let node 1 have a log with a good deal in it, and the others the same."""
    async with a_controller(folder) as node:
        await join(node.controller, 101, 102)
        await asked(node.controller, topic("a", 101, 102, partitions=20))
    first = SegmentedLog(folder / "node-1" / LOG_FOLDER)
    epoch = first.end.epoch
    for number in range(CHANGES // BATCH_RECORDS):
        isr = (101,) if number % 2 else (101, 102)
        change = kafka_records.PartitionChange(
            partition_id=number % 20, topic_id=topic_id("a"), isr=isr
        )
        more = batch([encode(change, 29)] * BATCH_RECORDS, timestamp_ms=5)
        stamp(more, first.end.offset, epoch)
        first.append(more)
    for each in others:
        rng = random.Random(each)
        load_or_create(folder / f"node-{each}", CLUSTER_ID, ReplicaId(each), rng=rng)
        log = SegmentedLog(folder / f"node-{each}" / LOG_FOLDER)
        log.append(first.read(first.start, first.end.offset, 1 << 30))
        log.close()
        QuorumStateFile(log.folder, cluster_id=CLUSTER_ID).write(ElectionState(epoch))
    first.close()


def knows_what_is_committed(node: Node) -> bool:
    return (node.opened.quorum.node.high_watermark or 0) > CHANGES


async def test_a_leader_replays_in_strides_and_is_then_active(tmp_path: Path) -> None:
    await lengthen(tmp_path)
    async with controllers(tmp_path, 1) as nodes:
        controller, quorum = nodes[1].controller, nodes[1].opened.quorum
        seen: list[Offset] = []
        while not controller.is_active:
            if knows_what_is_committed(nodes[1]):
                assert quorum.node.epoch_start is not None
                if controller.committed not in seen:
                    seen.append(controller.committed)
                stale = looked(controller, lambda image: image.end_offset, stale=True)
                assert stale.result() is Unavailable.NOT_READY
                assert controller.progress.endswith(
                    f"{controller.committed} of {quorum.node.high_watermark} records"
                )
                answer = asked(controller, topic("b", 101))
                assert answer.result() is Unavailable.NOT_ACTIVE
            await asyncio.sleep(0)
        assert controller.progress == ""
        stride = STRIDE_BYTES // RECORD_BYTES
        assert len(seen) >= CHANGES // stride > 3
        assert all(after - before <= stride for before, after in pairwise(seen))
        assert await looked(controller, lambda image: "a" in image.topic_ids, stale=True)
        created = await asked(controller, topic("b", 101))
        assert isinstance(created, commands.TopicsCreated)
        assert contents(controller.image) == contents(folded(log_of(nodes[1])))
        assert indexed(controller.image) == scanned(controller.image)


async def test_voters_elect_fetch_and_commit_while_their_images_are_behind(tmp_path: Path) -> None:
    await lengthen(tmp_path, 2, 3)
    async with controllers(tmp_path, 1, 2, 3) as nodes:
        committed_behind = set()
        while not all(each.controller.committed > CHANGES for each in nodes.values()):
            committed_behind |= {
                each.node_id
                for each in nodes.values()
                if each.controller.is_behind and knows_what_is_committed(each)
            }
            await asyncio.sleep(0)
        assert committed_behind == {1, 2, 3}
        leader = await active(nodes.values())
        end = leader.controller.committed
        for each in nodes.values():
            while each.controller.committed < end:
                await each.opened.quorum.leader_changed(within_seconds=0.005)
            assert each.controller.image.topics.keys() == leader.controller.image.topics.keys()
            assert indexed(each.controller.image) == scanned(each.controller.image)


async def test_a_controller_is_closed_in_the_middle_of_its_log(tmp_path: Path) -> None:
    await lengthen(tmp_path)
    async with controllers(tmp_path, 1) as nodes:
        for _ in iter(lambda: nodes[1].controller.is_behind, True):
            await asyncio.sleep(0)
        assert 0 < nodes[1].controller.committed < CHANGES
        assert nodes[1].controller.snapshot() is None
        await nodes[1].stop()
        assert nodes[1].running.exception() is None
        assert not nodes[1].controller.is_active
