"""Snapshot files: complete or absent, read back, and assembled correctly from parts."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.disk.virtual_disk import Fail, Kind, VirtualDisk
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch, Snapshot
from quorum.log import filesystem
from quorum.log.checkpoint import checkpoint_name, read_checkpoint
from quorum.log.snapshot_store import FileSnapshotStore
from quorum.ports import DiskFull, LogFailure, ReceivedSnapshot
from quorum.records.control import ControlType, control_key, encode_snapshot_header
from quorum.records.encode import encode, stamp
from tests.quorum.log.small_snapshots import VOTERS, id_, parts, written


def test_a_written_snapshot_is_read_back_with_its_voters(tmp_path: Path) -> None:
    store = FileSnapshotStore(tmp_path)
    written(store, id_(40), *parts(b"a", b"b"))
    checkpoint = read_checkpoint(tmp_path / checkpoint_name(id_(40)))
    assert list(checkpoint.records()) == [b"a", b"a", b"b", b"b"]
    assert (checkpoint.last_timestamp_ms, checkpoint.kraft_version) == (77, 1)
    assert checkpoint.voters == VOTERS
    assert checkpoint.has_checksum
    again = FileSnapshotStore(tmp_path)
    size_bytes = sum(map(len, parts(b"a", b"b")))
    assert again.snapshots == (Snapshot(id_(40), size_bytes),)
    assert again.read(id_(40), 5, 10) == b"".join(parts(b"a", b"b"))[5:15]
    assert again.read(id_(40), size_bytes, 10) == b""


def test_a_log_that_does_not_say_who_votes_has_a_snapshot_that_does_not(tmp_path: Path) -> None:
    store = FileSnapshotStore(tmp_path)
    written(store, id_(40), *parts(b"a", voters=None))
    checkpoint = read_checkpoint(tmp_path / checkpoint_name(id_(40)))
    assert (checkpoint.voters, checkpoint.kraft_version) == (None, 0)


def test_an_unfinished_snapshot_is_invisible_and_removed_by_a_restart(tmp_path: Path) -> None:
    store = FileSnapshotStore(tmp_path)
    store.write(id_(40), parts(b"a")[0], 0)
    assert FileSnapshotStore(tmp_path).snapshots == ()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("step", ["write", "finish", "remove"])
def test_a_sync_that_fails_is_final_for_a_snapshot_too(step: str, number: int) -> None:
    disk, folder = VirtualDisk(), Path("/")
    store = FileSnapshotStore(folder, disk)
    written(store, id_(20), *parts(b"a"))
    store.write(id_(40), parts(b"a")[0], 0)
    disk.watch = lambda operation: Fail(number) if operation.kind is Kind.SYNC else None
    doing: dict[str, Callable[[], object]] = {
        "write": lambda: store.write(id_(40), b"more", 100),
        "finish": lambda: store.finish(id_(40)),
        "remove": lambda: store.remove(id_(20)),
    }
    with pytest.raises(LogFailure, match="it could not be synced") as caught:
        doing[step]()
    assert not isinstance(caught.value, DiskFull)


def test_a_snapshot_that_cannot_be_written_is_given_up() -> None:
    disk = VirtualDisk()
    store = FileSnapshotStore(Path("/"), disk)
    disk.watch = lambda operation: Fail(errno.ENOSPC) if operation.kind is Kind.WRITE else None
    with pytest.raises(OSError, match="No space left"):
        store.write(id_(40), b"x", 0)


def test_one_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    store = FileSnapshotStore(tmp_path)
    store.write(id_(40), b"x", 0)
    store.abandon(id_(40))
    store.abandon(id_(40))
    assert list(tmp_path.iterdir()) == []


def test_one_that_is_removed_is_gone(tmp_path: Path) -> None:
    store = FileSnapshotStore(tmp_path)
    for offset, epoch in ((40, 3), (100, 2), (70, 3)):
        written(store, id_(offset, epoch), *parts(b"a", epoch=epoch))
    store = FileSnapshotStore(tmp_path)
    assert sorted(each.end for each in store.snapshots) == [40, 70, 100]
    store.forget(id_(40))
    assert not store.remove(id_(40))
    assert id_(40) not in {each.id for each in store.snapshots}
    assert id_(40) not in {each.id for each in FileSnapshotStore(tmp_path).snapshots}


def a_large_one_to_be_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FileSnapshotStore:
    """A snapshot of two and a half of what is freed at once; forgotten already."""
    store = FileSnapshotStore(folder)
    written(store, id_(40), *parts(b"a", b"b"))
    (snapshot,) = store.snapshots
    monkeypatch.setattr(filesystem, "FREED_BYTES", snapshot.size_bytes * 2 // 5)
    store.forget(id_(40))
    return store


def test_a_large_one_is_removed_a_stretch_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that comes meanwhile does not wait until all of it is freed."""
    store = a_large_one_to_be_removed(tmp_path, monkeypatch)
    sizes = []
    while store.remove(id_(40)):
        (left,) = tmp_path.iterdir()
        sizes.append(left.stat().st_size)
    whole, once, twice = sizes
    assert whole - once == once - twice > twice > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_rest_of_a_snapshot_being_removed_is_no_snapshot_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    store = a_large_one_to_be_removed(tmp_path, monkeypatch)
    for _ in range(steps):
        assert store.remove(id_(40))
    assert FileSnapshotStore(tmp_path).snapshots == ()
    assert list(tmp_path.iterdir()) == []


def received(store: FileSnapshotStore, of: OffsetAndEpoch, *data: bytes, at: int = 0) -> int:
    """Receive these bytes; returns where they end."""
    for each in data:
        store.receive(of, each, at)
        at += len(each)
    return at


def test_a_partly_received_snapshot_is_continued_after_a_restart(tmp_path: Path) -> None:
    first, *rest = parts(b"a", b"b")
    at = received(FileSnapshotStore(tmp_path), id_(40), first)
    store = FileSnapshotStore(tmp_path)
    assert store.partial == (id_(40), at)
    received(store, id_(40), *rest, at=at)
    assert store.snapshots == ()
    installed = store.install(id_(40), is_mixed=True)
    assert isinstance(installed, ReceivedSnapshot)
    assert installed.voters == VOTERS
    assert list(installed.records()) == [b"a", b"a", b"b", b"b"]
    assert [each.id for each in FileSnapshotStore(tmp_path).snapshots] == [id_(40)]
    assert FileSnapshotStore(tmp_path).partial is None


def test_parts_of_two_snapshots_are_not_taken_for_one(tmp_path: Path) -> None:
    """Every batch of it is sound, and they follow each other: only the whole is nobody's."""
    store = FileSnapshotStore(tmp_path)
    one, other = parts(b"a", b"b"), parts(b"x", b"c")
    received(store, id_(40), *one[:2], *other[2:])
    problem = store.install(id_(40), is_mixed=True)
    assert isinstance(problem, str)
    assert "checksum" in problem
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", [slice(20, 24), slice(70, 80), slice(-5, None)])
def test_damaged_and_missing_parts_of_a_snapshot_are_found(tmp_path: Path, damage: slice) -> None:
    whole = bytearray(b"".join(parts(b"a", b"b")))
    whole[damage] = bytes(len(whole[damage]))
    store = FileSnapshotStore(tmp_path)
    received(store, id_(40), bytes(whole))
    assert isinstance(store.install(id_(40), is_mixed=False), str)
    received(store, id_(40), b"".join(parts(b"a"))[:-1])
    assert isinstance(store.install(id_(40), is_mixed=False), str)
    assert store.snapshots == ()
    assert list(tmp_path.iterdir()) == []


def test_kafkas_snapshots_have_no_checksum_and_must_come_from_one_leader(tmp_path: Path) -> None:
    store = FileSnapshotStore(tmp_path)
    header = encode(
        [encode_snapshot_header(77)],
        timestamp_ms=1,
        control_keys=[control_key(ControlType.SNAPSHOT_HEADER)],
    )
    footer = encode(
        [bytes(3)], timestamp_ms=1, control_keys=[control_key(ControlType.SNAPSHOT_FOOTER)]
    )
    stamp(header, Offset(0), Epoch(3))
    stamp(footer, Offset(1), Epoch(3))
    received(store, id_(40), bytes(header), bytes(footer))
    problem = store.install(id_(40), is_mixed=True)
    assert problem == "it came in parts of several replicas, and has no checksum"
    received(store, id_(40), bytes(header), bytes(footer))
    assert isinstance(store.install(id_(40), is_mixed=False), ReceivedSnapshot)


def test_another_snapshot_takes_the_place_of_one_that_was_not_whole(tmp_path: Path) -> None:
    store = FileSnapshotStore(tmp_path)
    received(store, id_(40), b"half")
    received(store, id_(70), *parts(b"a"))
    assert isinstance(store.install(id_(70), is_mixed=False), ReceivedSnapshot)
    assert [path.name for path in tmp_path.iterdir()] == [checkpoint_name(id_(70))]
