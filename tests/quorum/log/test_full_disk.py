"""A full disk: nothing durable is lost, and what had no room is written later."""

import errno
import itertools
import random
from contextlib import suppress
from pathlib import Path

import pytest

from chaos.disk.virtual_disk import Fail, Kind, Operation, VirtualDisk
from quorum.core.vocabulary import ElectionState, Epoch, Offset
from quorum.log import segment_writer
from quorum.log.checkpoint import checkpoint_name
from quorum.log.errors import StorageError
from quorum.log.quorum_state import QuorumStateFile
from quorum.log.segmented_log import SegmentedLog
from quorum.log.snapshot_store import FileSnapshotStore
from quorum.ports import DiskFull, LogFailure, ReceivedSnapshot
from tests.contracts.batches import batch
from tests.quorum.log.damaged_folders import everything
from tests.quorum.log.small_snapshots import id_, parts

LOG = Path("/log")
ROOT = Path("/")


def opened(disk: VirtualDisk, segment_bytes_max: int = 1 << 30) -> SegmentedLog:
    return SegmentedLog(LOG, segment_bytes_max=segment_bytes_max, fs=disk)


def filled(disk: VirtualDisk, log: SegmentedLog, room_bytes: int) -> bytes:
    """Two batches on disk, and five more for which there is only so much room."""
    for offset in range(2):
        log.append(batch(offset, size=700))
    log.commit()
    disk.capacity_bytes = disk.used_bytes + room_bytes
    for offset in range(2, 7):
        log.append(batch(offset, size=700))
    return b"".join(batch(offset, size=700) for offset in range(7))


@pytest.mark.parametrize("room_bytes", [0, 1, 100, 800, 2_000, 3_000])
@pytest.mark.parametrize("segment_bytes_max", [800, 1_700, 1 << 30])
def test_a_commit_that_finds_no_room_can_be_asked_again(
    segment_bytes_max: int, room_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_writer, "GROUP_BYTES_MAX", 1_600)
    disk = VirtualDisk()
    log = opened(disk, segment_bytes_max)
    whole = filled(disk, log, room_bytes)
    for _ in range(3):
        with pytest.raises(DiskFull, match="the log in /log cannot be written: no room is left"):
            log.commit()
    assert everything(log) == whole
    # Whatever happens now, the log opens, and has all that was committed.
    for seed in range(10):
        image = disk.after_power_loss(random.Random(seed))
        image.capacity_bytes = None
        found = everything(opened(image))
        assert whole.startswith(found)
        assert len(found) >= 2 * len(batch(0, size=700))
    disk.capacity_bytes = None
    assert log.commit() == log.end
    log.close()
    assert everything(opened(disk)) == whole


@pytest.mark.parametrize("room_bytes", [0, 1, 800, 2_000, 3_000])
@pytest.mark.parametrize("segment_bytes_max", [800, 1_700, 1 << 30])
@pytest.mark.parametrize("kept", [0, 1, 2, 3, 5, 6, 7])
def test_a_log_that_had_no_room_may_be_truncated_and_go_on_with_other_batches(
    kept: int, segment_bytes_max: int, room_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data of the old records must not be found behind the new ones."""
    monkeypatch.setattr(segment_writer, "GROUP_BYTES_MAX", 1_600)
    disk = VirtualDisk()
    log = opened(disk, segment_bytes_max)
    filled(disk, log, room_bytes)
    with pytest.raises(DiskFull):
        log.commit()
    log.truncate_to(Offset(kept))
    disk.capacity_bytes = None
    log.append(batch(kept, size=30, epoch=2))
    log.commit()
    whole = everything(log)
    for seed in range(10):
        image = disk.after_power_loss(random.Random(seed))
        assert everything(opened(image, segment_bytes_max)) == whole


def test_a_log_that_is_closed_without_room_keeps_what_it_had() -> None:
    disk = VirtualDisk()
    log = opened(disk)
    whole = filled(disk, log, 900)
    log.close()
    assert whole.startswith(everything(opened(disk)))


def test_a_vote_without_room_leaves_the_earlier_one() -> None:
    disk = VirtualDisk()
    elections = QuorumStateFile(ROOT, fs=disk)
    elections.write(ElectionState(Epoch(1)))
    for room in itertools.count():
        disk.capacity_bytes = disk.used_bytes + room
        with suppress(DiskFull):
            elections.write(ElectionState(Epoch(2)))
            break
        assert QuorumStateFile(ROOT, fs=disk).read() == ElectionState(Epoch(1))
    assert room > 10
    assert QuorumStateFile(ROOT, fs=disk).read() == ElectionState(Epoch(2))


def failing(number: int, kind: Kind) -> VirtualDisk:
    disk = VirtualDisk()
    opened(disk).close()

    def watch(operation: Operation) -> Fail | None:
        return Fail(number) if operation.kind is kind else None

    disk.watch = watch
    return disk


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_failed_sync_is_final_even_if_it_says_that_there_is_no_room(number: int) -> None:
    """The data is lost, and may look clean to the next fsync."""
    disk = VirtualDisk()
    log = opened(disk)
    log.append(batch(0))
    disk.watch = lambda operation: Fail(number) if operation.kind is Kind.SYNC else None
    for _ in range(2):
        with pytest.raises(LogFailure, match="it could not be synced: ") as caught:
            log.commit()
        assert not isinstance(caught.value, DiskFull)
        disk.watch = None


@pytest.mark.parametrize(
    ("number", "is_full"),
    [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EIO, False), (errno.EROFS, False)],
)
@pytest.mark.parametrize("kind", [Kind.OPEN, Kind.WRITE])
def test_only_want_of_room_is_waited_for(kind: Kind, number: int, is_full: bool) -> None:
    disk = failing(number, kind)
    disk.watch, watch = None, disk.watch
    log = opened(disk)
    log.append(batch(0))
    disk.watch = watch
    with pytest.raises(LogFailure) as caught:
        log.commit()
    assert isinstance(caught.value, DiskFull) == is_full
    disk.watch = None
    if is_full:
        assert log.commit() == log.end
    else:
        with pytest.raises(LogFailure, match="the log in /log cannot be written: "):
            log.commit()


def test_a_snapshot_that_is_received_waits_for_room_and_goes_on_where_it_was() -> None:
    disk = VirtualDisk()
    store = FileSnapshotStore(ROOT, disk)
    whole = b"".join(parts(b"a" * 2_000, b"b" * 2_000))
    store.receive(id_(40), whole[:1_000], 0)
    disk.capacity_bytes = disk.used_bytes + 10
    for _ in range(2):
        with pytest.raises(
            DiskFull, match=r"/0+40-0+3\.checkpoint\.received\.part cannot be written"
        ):
            store.receive(id_(40), whole[1_000:], 1_000)
    disk.capacity_bytes = None
    store.receive(id_(40), whole[1_000:], 1_000)
    assert isinstance(store.install(id_(40), is_mixed=False), ReceivedSnapshot)
    assert disk.content(ROOT / checkpoint_name(id_(40))) == whole


@pytest.mark.parametrize("kind", [Kind.SYNC, Kind.RENAME, Kind.READ])
def test_a_snapshot_that_cannot_be_kept_ends_the_node_with_the_file_and_the_reason(
    kind: Kind,
) -> None:
    disk = VirtualDisk()
    store = FileSnapshotStore(ROOT, disk)
    store.receive(id_(40), b"".join(parts(b"a")), 0)
    disk.watch = lambda operation: Fail(errno.EIO) if operation.kind is kind else None
    with pytest.raises(
        (LogFailure, StorageError), match=r"received\.part: |received\.part cannot"
    ) as caught:
        store.install(id_(40), is_mixed=False)
    assert not isinstance(caught.value, DiskFull)
