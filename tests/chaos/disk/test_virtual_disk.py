"""The virtual disk: power loss, and the faults that it can inject."""

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.disk.disk_state import SECTOR_BYTES
from chaos.disk.virtual_disk import Fail, Fault, Kind, Misdirect, Operation, Short, VirtualDisk
from quorum.log.filesystem import opened, replace_file, sync_folder, write_all

ROOT = Path("/")
FILE = Path("/file")
NEW = os.O_RDWR | os.O_CREAT
SEEDS = 200


def images(disk: VirtualDisk) -> list[VirtualDisk]:
    return [disk.after_power_loss(random.Random(seed)) for seed in range(SEEDS)]


def contents(disk: VirtualDisk, path: Path = FILE) -> set[bytes | None]:
    """The possible contents of the file after a power loss; None is no such file."""
    return {image.content(path) if image.exists(path) else None for image in images(disk)}


def synced(data: bytes) -> VirtualDisk:
    """A disk with one file that will stay."""
    disk = VirtualDisk()
    with opened(FILE, NEW, disk) as fd:
        disk.pwrite(fd, data, 0)
        disk.fsync(fd)
    sync_folder(ROOT, disk)
    return disk


def test_synced_data_stays() -> None:
    assert contents(synced(b"kept")) == {b"kept"}


def test_a_file_is_lost_with_its_name_unless_the_folder_was_synced() -> None:
    disk = VirtualDisk()
    with opened(FILE, NEW, disk) as fd:
        disk.pwrite(fd, b"kept", 0)
        disk.fsync(fd)
    assert contents(disk) == {None, b"kept"}


def test_a_name_that_was_synced_may_stand_for_less_than_was_written() -> None:
    disk = VirtualDisk()
    with opened(FILE, NEW, disk) as fd:
        disk.pwrite(fd, b"1234", 0)
    sync_folder(ROOT, disk)
    found = contents(disk)
    assert {b"", b"1234", b"\0\0\0\0"} <= found
    assert found <= {b"", *(b"1234"[:n] for n in range(5)), *(bytes(n) for n in range(5))}


def test_sectors_arrive_one_by_one() -> None:
    disk = synced(b"a" * 2 * SECTOR_BYTES)
    with opened(FILE, os.O_RDWR, disk) as fd:
        disk.pwrite(fd, b"b" * 2 * SECTOR_BYTES, 0)
    a, b = b"a" * SECTOR_BYTES, b"b" * SECTOR_BYTES
    assert contents(disk) == {a + a, a + b, b + a, b + b}


def test_unsynced_bytes_behind_a_synced_write_in_one_sector_do_not_tear_it() -> None:
    disk = synced(b"kept")
    with opened(FILE, os.O_RDWR, disk) as fd:
        disk.pwrite(fd, b"more", 4)
    assert {each[:4] for each in contents(disk) if each is not None} == {b"kept"}


def test_a_truncation_happened_or_did_not() -> None:
    disk = synced(b"long text")
    with opened(FILE, os.O_RDWR, disk) as fd:
        disk.ftruncate(fd, 4)
    assert {b"long", b"long text"} <= contents(disk)


def test_a_renaming_happened_or_did_not_but_never_half() -> None:
    disk = synced(b"old")
    new = Path("/new")
    with opened(new, NEW, disk) as fd:
        disk.pwrite(fd, b"new", 0)
        disk.fsync(fd)
    sync_folder(ROOT, disk)
    disk.rename(new, FILE)
    assert {(image.content(FILE), image.exists(new)) for image in images(disk)} == {
        (b"old", True),
        (b"new", False),
    }


def test_a_replaced_file_is_the_old_one_or_the_new_one_whenever_power_goes() -> None:
    disk = synced(b"old")
    found: set[bytes | None] = set()

    def watch(_: Operation) -> Fault | None:
        found.update(contents(disk))
        return None

    disk.watch = watch
    replace_file(FILE, b"new", disk)
    assert found == {b"old", b"new"}
    assert contents(disk) == {b"new"}


def test_a_removed_file_may_be_back() -> None:
    disk = synced(b"data")
    disk.remove(FILE)
    assert contents(disk) == {None, b"data"}
    sync_folder(ROOT, disk)
    assert contents(disk) == {None}


def test_folders_are_names_as_well() -> None:
    disk = VirtualDisk()
    disk.make_folder(Path("/a"))
    disk.make_folder(Path("/a/b"))
    sync_folder(Path("/a"), disk)
    assert {image.exists(Path("/a/b")) for image in images(disk)} == {False, True}
    sync_folder(ROOT, disk)
    assert {image.exists(Path("/a/b")) for image in images(disk)} == {True}


def test_the_same_seed_leaves_the_same() -> None:
    disk = VirtualDisk()
    for name in "cab":
        with opened(ROOT / name, NEW, disk) as fd:
            disk.pwrite(fd, name.encode() * 5_000, 0)
    first, second = (disk.after_power_loss(random.Random(5)) for _ in range(2))
    assert sorted(first.names(ROOT)) == sorted(second.names(ROOT))
    assert all(first.content(ROOT / n) == second.content(ROOT / n) for n in first.names(ROOT))


def test_a_process_that_is_killed_loses_its_descriptors_and_locks_and_nothing_else() -> None:
    disk = VirtualDisk()
    fd = disk.open(FILE, NEW)
    disk.pwrite(fd, b"data", 0)
    disk.lock(fd)
    disk.kill()
    with pytest.raises(OSError, match="Bad file descriptor"):
        disk.pwrite(fd, b"more", 0)
    with opened(FILE, os.O_RDWR, disk) as again:
        disk.lock(again)
        assert disk.pread(again, 10, 0) == b"data"


def test_a_copy_goes_its_own_way() -> None:
    disk = synced(b"data")
    backup = disk.copy()
    replace_file(FILE, b"later", disk)
    assert backup.content(FILE) == b"data"
    assert contents(backup) == {b"data"}


def test_a_full_disk_takes_what_fits_and_then_nothing() -> None:
    disk = VirtualDisk(capacity_bytes=6)
    with opened(FILE, NEW, disk) as fd:
        assert disk.pwrite(fd, b"1234", 0) == 4
        assert disk.pwrite(fd, b"5678", 4) == 2
        with pytest.raises(OSError, match="No space left on device"):
            disk.pwrite(fd, b"78", 6)
        with pytest.raises(OSError, match="No space left on device"):
            disk.open(Path("/other"), NEW)
        assert disk.pwrite(fd, b"abcdef", 0) == 6
        disk.ftruncate(fd, 2)
        with pytest.raises(OSError, match="No space left on device"):
            write_all(fd, b"1234567", 2, disk)
    assert disk.content(FILE) == b"ab1234"
    disk.remove(FILE)
    assert disk.used_bytes == 0


def on(kind: Kind, fault: Fault) -> VirtualDisk:
    """A disk with a file that goes wrong at every operation of one kind."""
    disk = synced(b"old data")
    disk.watch = lambda operation: fault if operation.kind is kind else None
    return disk


CALLS: dict[Kind, Callable[[VirtualDisk, int], object]] = {
    Kind.READ: lambda disk, fd: disk.pread(fd, 8, 0),
    Kind.WRITE: lambda disk, fd: disk.pwrite(fd, b"new data", 0),
    Kind.SYNC: lambda disk, fd: disk.fsync(fd),
    Kind.TRUNCATE: lambda disk, fd: disk.ftruncate(fd, 1),
}


@pytest.mark.parametrize("kind", CALLS)
def test_an_operation_fails_and_does_nothing(kind: Kind) -> None:
    disk = on(kind, Fail(errno.EIO))
    with opened(FILE, os.O_RDWR, disk) as fd, pytest.raises(OSError, match="Input/output error"):
        CALLS[kind](disk, fd)
    assert contents(disk) == {b"old data"}


def test_data_of_a_failed_sync_is_shown_and_not_kept_by_the_next_sync() -> None:
    """As Linux has it: the pages count as clean."""
    disk = on(Kind.SYNC, Fail(errno.EIO))
    with opened(FILE, os.O_RDWR, disk) as fd:
        disk.pwrite(fd, b"new", 0)
        with pytest.raises(OSError, match="Input/output error"):
            disk.fdatasync(fd)
        disk.watch = None
        disk.fdatasync(fd)
        assert disk.pread(fd, 8, 0) == b"new data"
        assert contents(disk) == {b"old data"}
        disk.pwrite(fd, b"new", 0)
        disk.fdatasync(fd)
    assert contents(disk) == {b"new data"}


def test_reads_and_writes_may_be_short() -> None:
    disk = on(Kind.WRITE, Short(3))
    with opened(FILE, os.O_RDWR, disk) as fd:
        assert disk.pwrite(fd, b"new data", 0) == 3
        write_all(fd, b"12345678", 0, disk)
    assert disk.content(FILE) == b"12345678"


def test_a_misdirected_write_shows_only_when_it_is_read_from_the_disk() -> None:
    disk = on(Kind.WRITE, Misdirect(4))
    with opened(FILE, os.O_RDWR, disk) as fd:
        disk.pwrite(fd, b"new ", 0)
        disk.fsync(fd)
    assert disk.content(FILE) == b"new data"
    assert contents(disk) == {b"old new "}


def test_a_bit_rots_in_the_cache_and_on_the_disk() -> None:
    disk = synced(b"data")
    disk.rot(FILE, 1, 0x20)
    assert disk.content(FILE) == b"dAta"
    assert contents(disk) == {b"dAta"}


def test_an_operation_can_be_read() -> None:
    disk = synced(b"")
    seen: list[str] = []
    disk.watch = lambda operation: seen.append(str(operation))
    replace_file(FILE, b"1234", disk)
    assert seen == [
        "open /file.tmp",
        "write /file.tmp 4 bytes at 0",
        "sync /file.tmp",
        "rename /file.tmp",
        "open /",
        "sync /",
    ]
