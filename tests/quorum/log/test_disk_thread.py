import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch
from quorum.log.disk_thread import DiskThread
from quorum.log.segmented_log import SegmentedLog
from quorum.ports import LogFailure
from tests.contracts.batches import batch
from tests.support.memory_storage import MemoryLog


class GatedLog(MemoryLog):
    """A log on a disk that takes its time: each commit waits until it is let through."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Semaphore(0)
        self.started = threading.Semaphore(0)
        self.commits = 0
        self.broken = False

    def commit(self, *, sync: bool = True) -> OffsetAndEpoch:
        end = self.end  # What has been appended when the commit begins.
        self.commits += 1
        self.started.release()
        assert self.gate.acquire(timeout=10)
        if self.broken:
            raise LogFailure("no space left")
        return end


class Owner:
    """The reports to the owner of the thread."""

    def __init__(self) -> None:
        self.ends: list[OffsetAndEpoch] = []
        self.failures: list[BaseException] = []
        self.disk = DiskThread(asyncio.get_running_loop(), on_failure=self.failures.append)

    def told(self, end: OffsetAndEpoch) -> None:
        assert threading.current_thread() is threading.main_thread()
        self.ends.append(end)


@pytest.fixture
async def owner() -> AsyncIterator[Owner]:
    owner = Owner()
    yield owner
    owner.disk.close()


def end(offset: int) -> OffsetAndEpoch:
    return OffsetAndEpoch(Epoch(1), Offset(offset))


async def started(log: GatedLog) -> None:
    """Return once the disk thread is inside a commit."""
    assert await asyncio.get_running_loop().run_in_executor(None, log.started.acquire, True, 10)


async def test_a_commit_is_reported_in_the_loop_with_the_end_it_wrote(
    owner: Owner, tmp_path: Path
) -> None:
    log = SegmentedLog(tmp_path / "log")
    log.append(batch(0, 3))
    owner.disk.request_commit(log, owner.told)
    await owner.disk.drain()
    assert owner.ends == [end(3)]
    log.close()


async def test_requests_during_a_commit_share_the_next_one(owner: Owner) -> None:
    log = GatedLog()
    log.append(batch(0))
    owner.disk.request_commit(log, owner.told)
    await started(log)
    for offset in range(1, 50):
        log.append(batch(offset))
        owner.disk.request_commit(log, owner.told)
    log.gate.release(2)
    await owner.disk.drain()
    assert log.commits == 2
    assert owner.ends == [end(1), end(50)]


async def test_each_of_several_callables_is_told_once(owner: Owner) -> None:
    log = GatedLog()
    others: list[OffsetAndEpoch] = []
    note = others.append
    owner.disk.request_commit(log, owner.told)
    await started(log)
    for done in (owner.told, note, owner.told, note):
        owner.disk.request_commit(log, done)
    log.gate.release(3)
    await owner.disk.drain()
    assert (len(owner.ends), len(others)) == (2, 1)


async def test_the_loop_runs_while_the_disk_is_busy(owner: Owner) -> None:
    log = GatedLog()
    owner.disk.request_commit(log, owner.told)
    await started(log)
    await asyncio.sleep(0)
    assert owner.ends == []
    log.gate.release()
    await owner.disk.drain()
    assert len(owner.ends) == 1


async def test_two_logs_are_committed_apart(owner: Owner) -> None:
    logs = [MemoryLog(), MemoryLog()]
    for count, log in enumerate(logs, start=1):
        log.append(batch(0, count))
        owner.disk.request_commit(log, owner.told)
    await owner.disk.drain()
    assert owner.ends == [end(1), end(2)]


async def test_a_failed_commit_is_reported_once_and_nothing_is_written_after_it(
    owner: Owner,
) -> None:
    log, other = GatedLog(), MemoryLog()
    log.broken = True
    owner.disk.request_commit(log, owner.told)
    await started(log)
    owner.disk.request_commit(log, owner.told)
    owner.disk.request_commit(other, owner.told)
    log.gate.release(2)
    with pytest.raises(LogFailure, match="no writes after a failure: no space left"):
        await owner.disk.drain()
    owner.disk.request_commit(other, owner.told)
    with pytest.raises(LogFailure):
        await owner.disk.drain()
    assert [str(failure) for failure in owner.failures] == ["no space left"]
    assert (log.commits, owner.ends) == (1, [])


async def test_any_other_error_of_a_commit_is_handed_over_too(owner: Owner) -> None:
    class WrongLog(MemoryLog):
        def commit(self, *, sync: bool = True) -> OffsetAndEpoch:
            raise AssertionError("our own mistake")

    owner.disk.request_commit(WrongLog(), owner.told)
    await owner.disk.drain()
    assert [str(failure) for failure in owner.failures] == ["our own mistake"]


async def test_work_is_performed_in_order_and_reported_in_the_loop(owner: Owner) -> None:
    log = GatedLog()
    log.append(batch(0, 2))
    results: list[object] = []

    def told(result: object) -> None:
        assert threading.current_thread() is threading.main_thread()
        results.append((result, list(owner.ends)))

    owner.disk.request_commit(log, owner.told)
    owner.disk.perform(lambda: log.commits, told)
    assert results == []
    log.gate.release()
    await owner.disk.drain()
    assert results == [(1, [end(2)])]


async def test_work_that_fails_is_handed_over_and_never_reported_as_done(owner: Owner) -> None:
    def fail() -> None:
        raise LogFailure("the vote was not kept")

    results: list[object] = []
    owner.disk.perform(fail, results.append)
    owner.disk.perform(list, results.append)
    with pytest.raises(LogFailure, match="no writes after a failure: the vote was not kept"):
        await owner.disk.drain()
    assert results == []
    assert [str(failure) for failure in owner.failures] == ["the vote was not kept"]


async def test_closing_finishes_what_is_queued(owner: Owner) -> None:
    log = MemoryLog()
    log.append(batch(0, 4))
    owner.disk.request_commit(log, owner.told)
    owner.disk.close()
    log.crash()
    assert log.end == end(4)
