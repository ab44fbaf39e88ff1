"""A disk thread on a full disk: it retries in order, and reports it."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chaos.disk.virtual_disk import VirtualDisk
from quorum.core.vocabulary import ElectionState, Epoch, OffsetAndEpoch
from quorum.log.disk_thread import DiskThread
from quorum.log.quorum_state import QuorumStateFile
from quorum.log.segmented_log import SegmentedLog
from tests.contracts.batches import batch
from tests.quorum.log.damaged_folders import everything


class Scene:
    """A log and an election on a disk that is full, and what their owner was told."""

    def __init__(self) -> None:
        self.disk = VirtualDisk()
        self.log = SegmentedLog(Path("/log"), fs=self.disk)
        self.elections = QuorumStateFile(Path("/log"), fs=self.disk)
        self.told: list[object] = []
        self.heard = asyncio.Event()
        self.thread = DiskThread(
            asyncio.get_running_loop(),
            on_failure=self.told.append,
            on_room=self._hear,
            retry_seconds=0.001,
        )

    def _hear(self, room: bool) -> None:
        self.told.append("room" if room else "full")
        self.heard.set()

    async def hears(self) -> None:
        async with asyncio.timeout(10):
            await self.heard.wait()
        self.heard.clear()

    def fill(self) -> None:
        self.disk.capacity_bytes = self.disk.used_bytes + 10


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    scene.thread.close()
    scene.log.close()


async def test_an_operation_without_room_is_done_in_order_once_there_is_room(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.fill()
    scene.log.append(batch(0, size=700))
    with caplog.at_level(logging.INFO):
        scene.thread.request_commit(scene.log, lambda end: scene.told.append(end.offset))
        scene.thread.perform(
            lambda: scene.elections.write(ElectionState(Epoch(7))),
            lambda _: scene.told.append("vote"),
        )
        await scene.hears()
        scene.log.append(batch(1))
        assert scene.told == ["full"]
        scene.disk.capacity_bytes = None
        await scene.hears()
        await scene.thread.drain()
    assert scene.told == ["full", "room", 1, "vote"] or scene.told == ["full", "room", 2, "vote"]
    assert scene.elections.read() == ElectionState(Epoch(7))
    assert caplog.messages == [
        "the log in /log cannot be written: no room is left on its disk. Retrying until "
        "there is room",
        "The disk has space again; nothing was lost",
    ]


async def test_a_vote_waits_for_room(scene: Scene) -> None:
    scene.fill()
    scene.thread.perform(
        lambda: scene.elections.write(ElectionState(Epoch(7))), lambda _: scene.told.append("vote")
    )
    await scene.hears()
    assert scene.elections.read() == ElectionState()
    scene.disk.capacity_bytes = None
    await scene.hears()
    await scene.thread.drain()
    assert scene.told == ["full", "room", "vote"]


async def test_nobody_waits_for_room_when_the_process_is_to_end(scene: Scene) -> None:
    scene.log.append(batch(0))
    scene.thread.request_commit(scene.log, lambda _: None)
    await scene.thread.drain()
    kept = everything(scene.log)
    scene.fill()
    scene.log.append(batch(1, size=700))
    reported: list[OffsetAndEpoch] = []
    scene.thread.request_commit(scene.log, reported.append)
    async with asyncio.timeout(10):
        await scene.thread.drain()
        await scene.thread.drain()
    scene.thread.close()
    scene.log.close()
    assert reported == []
    scene.disk.kill()
    scene.log = SegmentedLog(Path("/log"), fs=scene.disk)
    assert everything(scene.log) == kept


async def test_any_other_error_is_still_final(scene: Scene) -> None:
    def fail() -> None:
        raise OSError(5, "Input/output error")

    scene.thread.perform(fail, scene.told.append)
    await scene.thread.drain()
    assert [str(each) for each in scene.told] == ["[Errno 5] Input/output error"]
