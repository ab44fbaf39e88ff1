"""Commits of a fast disk run in the loop, in the same order and with the same reports."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quorum.core.vocabulary import OffsetAndEpoch
from quorum.log.disk_thread import (
    FEW_RECORDS,
    FIRST_TRY_AFTER,
    QUICK_SECONDS,
    TRY_AFTER,
    TRY_AFTER_MAX,
    DiskLatency,
    DiskThread,
)
from quorum.log.segmented_log import SegmentedLog
from quorum.ports import DiskFull, LogFailure
from tests.contracts.batches import batch
from tests.support.bell import PATIENCE_SECONDS
from tests.support.memory_storage import MemoryLog


def tries(pace: DiskLatency, seconds: float) -> int:
    """The number of commits of this duration until one is made in the loop."""
    count = 1
    while not pace.may_wait():
        count += 1
    pace.took(seconds)
    return count


def test_a_disk_is_tried_before_it_is_waited_for() -> None:
    pace = DiskLatency()
    assert tries(pace, QUICK_SECONDS / 2) == FIRST_TRY_AFTER
    assert [tries(pace, QUICK_SECONDS / 2) for _ in range(100)] == [1] * 100


def test_a_slow_disk_is_tried_less_and_less_often() -> None:
    pace = DiskLatency()
    counts = [tries(pace, 1.0) for _ in range(12)]
    assert counts[:4] == [FIRST_TRY_AFTER, TRY_AFTER, 2 * TRY_AFTER, 4 * TRY_AFTER]
    assert counts[-1] == TRY_AFTER_MAX


def test_a_disk_that_becomes_slow_holds_the_loop_up_twice() -> None:
    pace = DiskLatency()
    tries(pace, QUICK_SECONDS / 4)
    assert [tries(pace, 2.0), tries(pace, 2.0)] == [1, 1]
    assert tries(pace, QUICK_SECONDS / 4) == TRY_AFTER
    assert tries(pace, QUICK_SECONDS / 4) == 1


def test_one_commit_that_takes_much_longer_changes_nothing() -> None:
    pace = DiskLatency()
    tries(pace, QUICK_SECONDS / 4)
    assert tries(pace, 2.0) == 1
    assert [tries(pace, QUICK_SECONDS / 4) for _ in range(20)] == [1] * 20
    assert tries(pace, 2.0) == 1
    assert tries(pace, QUICK_SECONDS / 4) == 1


def test_a_disk_that_becomes_twice_too_slow_is_found_out_soon() -> None:
    pace = DiskLatency()
    tries(pace, QUICK_SECONDS / 4)
    in_loop = 0
    while tries(pace, 2 * QUICK_SECONDS) == 1:
        in_loop += 1
    assert in_loop < 8


class Noting(MemoryLog):
    """A log that notes who commits."""

    def __init__(self) -> None:
        super().__init__()
        self.in_loop: list[bool] = []
        self.failures: list[Exception] = []

    def commit(self, *, sync: bool = True) -> OffsetAndEpoch:
        self.in_loop.append(threading.current_thread() is threading.main_thread())
        if self.failures:
            raise self.failures.pop(0)
        return super().commit(sync=sync)


class Owner:
    def __init__(self) -> None:
        self.told: list[object] = []
        pace = DiskLatency()
        while not pace.may_wait():
            pass
        pace.took(0.0)
        self.disk = DiskThread(
            asyncio.get_running_loop(),
            on_failure=self.told.append,
            on_room=self.told.append,
            retry_seconds=0.001,
            pace=pace,
        )


@pytest.fixture
async def owner() -> AsyncIterator[Owner]:
    owner = Owner()
    yield owner
    owner.disk.close()


async def test_the_loop_commits_and_reports_after_the_call_that_asked(owner: Owner) -> None:
    log = Noting()
    for _ in range(3):
        log.append(batch(log.end.offset))
        owner.disk.request_commit(log, owner.told.append)
    assert (log.in_loop, owner.told) == ([], [])
    await asyncio.sleep(0)
    assert (log.in_loop, owner.told) == ([True], [log.end])


async def test_an_operation_requested_after_a_commit_is_done_after_it(owner: Owner) -> None:
    """The thread has to make the commit then: it must not overlap a truncation."""
    log = Noting()
    log.append(batch(0, 2))
    owner.disk.request_commit(log, owner.told.append)
    owner.disk.perform(lambda: list(log.in_loop), owner.told.append)
    await owner.disk.drain()
    assert owner.told == [log.end, [False]]
    # The thread counts itself idle only after its last report.
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not log.in_loop[-1]:
            owner.disk.request_commit(log, owner.told.append)
            await asyncio.sleep(0)


async def test_while_the_thread_is_busy_it_makes_the_commits(owner: Owner) -> None:
    log, gate = Noting(), threading.Event()
    owner.disk.perform(gate.wait, owner.told.append)
    owner.disk.request_commit(log, owner.told.append)
    await asyncio.sleep(0)
    assert log.in_loop == []
    gate.set()
    await owner.disk.drain()
    assert (log.in_loop, owner.told) == ([False], [True, log.end])


@pytest.mark.parametrize(
    ("count", "at_once", "in_loop"),
    [(FEW_RECORDS, False, True), (FEW_RECORDS + 1, False, False), (FEW_RECORDS + 1, True, True)],
)
async def test_many_records_are_for_the_thread_unless_nobody_is_to_be_told_first(
    owner: Owner, count: int, at_once: bool, in_loop: bool
) -> None:
    log = Noting()
    owner.disk.request_commit(log, owner.told.append)
    await asyncio.sleep(0)
    log.append(batch(0, count))
    owner.disk.request_commit(log, owner.told.append, at_once=at_once)
    await asyncio.sleep(0)
    await owner.disk.drain()
    assert log.in_loop == [True, in_loop]
    assert owner.told[-1] == log.end


async def test_a_failed_commit_in_the_loop_is_the_end_as_well(owner: Owner) -> None:
    log = Noting()
    log.failures.append(LogFailure("no such device"))
    owner.disk.request_commit(log, owner.told.append)
    await asyncio.sleep(0)
    owner.disk.request_commit(log, owner.told.append)
    with pytest.raises(LogFailure, match="no writes after a failure: no such device"):
        await owner.disk.drain()
    assert [str(each) for each in owner.told] == ["no such device"]
    assert log.in_loop == [True]


async def test_a_commit_without_room_is_retried_by_the_thread(owner: Owner) -> None:
    log = Noting()
    log.append(batch(0))
    log.failures += [DiskFull("full"), DiskFull("full")]
    done: asyncio.Future[OffsetAndEpoch] = asyncio.get_running_loop().create_future()
    owner.disk.request_commit(log, done.set_result)
    assert await done == log.end
    assert log.in_loop == [True, False, False]
    assert owner.told == [False, True]


async def test_operations_that_wait_at_a_close_are_written(tmp_path: Path) -> None:
    owner = Owner()
    log = SegmentedLog(tmp_path / "log")
    log.append(batch(0, 3))
    owner.disk.request_commit(log, owner.told.append)
    owner.disk.close()
    log.close()
    assert SegmentedLog(tmp_path / "log").end.offset == 3
