"""The checkers' durable state follows the disk, whatever happens to a sync."""

import os
from pathlib import Path
from struct import pack

import pytest
from crc32c import crc32c

from chaos.disk.virtual_disk import Fail, Kind, Operation, VirtualDisk
from chaos.invariants.durable_state import DurableState
from chaos.invariants.history import History
from quorum.log.filesystem import opened

LOG = Path("/log")
SEGMENT = LOG / f"{0:020}.log"


def batch(base: int, epoch: int) -> bytes:
    covered = pack(">hi", 0, 0).ljust(40, b"\0")
    length = 9 + len(covered)
    return pack(">qiibI", base, length, epoch, 2, crc32c(covered)) + covered


OLD = b"".join(batch(base, 1) for base in range(4))
ONE = len(batch(0, 1))


@pytest.fixture
def disk() -> VirtualDisk:
    disk = VirtualDisk()
    disk.make_folder(LOG)
    disk.put(SEGMENT, OLD)
    with opened(Path("/"), os.O_RDONLY, disk) as fd:
        disk.fsync(fd)
    return disk


@pytest.fixture
def durable(disk: VirtualDisk) -> DurableState:
    durable = DurableState(LOG, History())
    durable.reread(disk)
    assert durable.end == 4
    return durable


def lose_a_truncation(disk: VirtualDisk) -> None:
    def fails(operation: Operation) -> Fail | None:
        return Fail(5) if operation.kind is Kind.SYNC else None

    disk.watch = fails
    with opened(SEGMENT, os.O_RDWR, disk) as fd:
        disk.ftruncate(fd, 2 * ONE)
        with pytest.raises(OSError, match="Input/output"):
            disk.fsync(fd)
    disk.watch = None


def write(disk: VirtualDisk, position: int, data: bytes) -> None:
    with opened(SEGMENT, os.O_RDWR, disk) as fd:
        disk.pwrite(fd, data, position)
        disk.fsync(fd)


def test_batches_over_a_tail_whose_truncation_was_lost_are_seen(
    disk: VirtualDisk, durable: DurableState
) -> None:
    lose_a_truncation(disk)
    assert not durable.is_another(disk)
    write(disk, 2 * ONE, batch(2, 3))
    assert durable.is_another(disk)
    durable.reread(disk)
    assert [each.epoch for each in durable.batches][:3] == [1, 1, 3]


def test_the_same_bytes_in_the_same_place_are_nothing_else(
    disk: VirtualDisk, durable: DurableState
) -> None:
    write(disk, ONE // 2, OLD[ONE // 2 :])
    assert not durable.is_another(disk)


def test_an_append_is_not_taken_for_a_rewrite(disk: VirtualDisk, durable: DurableState) -> None:
    write(disk, len(OLD), batch(4, 1))
    assert not durable.is_another(disk)
    assert [each.base for each in durable.read_on()] == [4]


def test_damage_without_a_write_is_left_to_the_next_start(
    disk: VirtualDisk, durable: DurableState
) -> None:
    disk.overwrite(SEGMENT, ONE, b"elsewhere")
    assert not durable.is_another(disk)


NEXT = LOG / f"{4:020}.log"
SNAPSHOT = LOG / f"{2:020}-{1:010}.checkpoint"


@pytest.fixture
def rolled(disk: VirtualDisk) -> DurableState:
    disk.put(NEXT, batch(4, 1))
    disk.put(SNAPSHOT, b"whatever it says")
    with opened(LOG, os.O_RDONLY, disk) as fd:
        disk.fsync(fd)
    durable = DurableState(LOG, History())
    durable.reread(disk)
    assert durable.end == 5
    assert [name for name, _ in durable.segments()] == [SEGMENT.name, NEXT.name]
    return durable


def test_a_write_into_a_segment_that_is_complete_is_seen(
    disk: VirtualDisk, rolled: DurableState
) -> None:
    write(disk, ONE + 30, b"elsewhere")
    assert rolled.is_another(disk)


def test_a_write_that_makes_a_file_shorter_is_seen(disk: VirtualDisk, rolled: DurableState) -> None:
    with opened(SEGMENT, os.O_RDWR, disk) as fd:
        disk.ftruncate(fd, 3 * ONE)
        disk.fsync(fd)
    assert rolled.is_another(disk)


def test_a_write_into_a_snapshot_is_seen(disk: VirtualDisk, rolled: DurableState) -> None:
    with opened(SNAPSHOT, os.O_RDWR, disk) as fd:
        disk.pwrite(fd, b"elsewhere", 3)
        disk.fsync(fd)
    assert rolled.is_another(disk)


def test_a_write_into_any_other_file_is_none_to_the_log(
    disk: VirtualDisk, rolled: DurableState
) -> None:
    disk.put(LOG / "quorum-state", b"{}")
    with opened(LOG / "quorum-state", os.O_RDWR, disk) as fd:
        disk.fsync(fd)
        disk.pwrite(fd, b"[]", 0)
        disk.fsync(fd)
    assert not rolled.is_another(disk)


def test_a_batch_that_was_sound_is_looked_at_again_where_it_is_another(
    disk: VirtualDisk, durable: DurableState
) -> None:
    before = durable.batches
    durable.reread(disk)
    assert durable.batches == before
    disk.rot(SEGMENT, 2 * ONE + 30)
    durable.reread(disk)
    assert (durable.end, durable.batches) == (2, before[:2])


def test_batches_that_were_read_while_the_log_grew_are_checked_again(
    disk: VirtualDisk, durable: DurableState
) -> None:
    spoilt = bytearray(batch(4, 1))
    spoilt[-1] ^= 1
    write(disk, len(OLD), bytes(spoilt))
    assert [each.end for each in durable.read_on()] == [5]
    durable.reread(disk)
    assert durable.end == 4
