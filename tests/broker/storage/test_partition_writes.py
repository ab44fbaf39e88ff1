"""The disk thread of a broker: groups of writes, and the end at the first error."""

import asyncio

import pytest

from broker.storage.disk_thread import DiskThread
from quorum.core.vocabulary import OffsetAndEpoch
from quorum.ports import LogFailure
from tests.contracts.batches import batch
from tests.support.memory_storage import MemoryLog


class CountingLog(MemoryLog):
    """A log that counts its commits, and may fail them."""

    commits = 0
    is_broken = False

    def commit(self, *, sync: bool = True) -> OffsetAndEpoch:
        self.commits += 1
        if self.is_broken:
            raise LogFailure("the log cannot be written")
        return super().commit(sync=sync)


class Grown:
    """A partition, as far as the disk thread knows it."""

    def __init__(self) -> None:
        self.log = CountingLog()
        self.is_open = True
        self.ends: list[int] = []

    def wrote(self, end: int) -> None:
        self.ends.append(end)


async def test_appends_of_one_turn_are_written_together() -> None:
    disk, first, second, closed = DiskThread(), Grown(), Grown(), Grown()
    closed.is_open = False
    writing = asyncio.get_running_loop().create_task(disk.run())
    for offset in range(3):
        for each in (first, second, closed):
            each.log.append(batch(offset))
            disk.write_soon(each)
    await disk.written()
    assert (first.ends, second.ends, closed.ends) == ([3], [3], [])
    assert (first.log.commits, second.log.commits, closed.log.commits) == (1, 1, 0)
    await disk.written()
    assert first.log.commits == 1
    writing.cancel()
    disk.close()


async def test_the_first_error_ends_the_writing() -> None:
    disk, grown = DiskThread(), Grown()
    grown.log.is_broken = True
    disk.write_soon(grown)
    with pytest.raises(LogFailure, match="cannot be written"):
        await disk.run()
    assert grown.ends == []
    disk.close()
