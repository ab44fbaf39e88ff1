"""Snapshots of a running replica: their time, their slices, and retention."""

from pathlib import Path

from quorum.core.effects import InstallSnapshot
from quorum.core.events import SnapshotTaken
from quorum.core.vocabulary import Offset, Snapshot
from quorum.log.checkpoint import checkpoint_name, read_checkpoint
from quorum.log.segmented_log import SegmentedLog
from quorum.snapshotting import (
    NOT_NOW,
    TRY_AGAIN_AFTER_FAILURE_MS,
    TRY_AGAIN_MS,
    SnapshotLimits,
)
from tests.quorum.driver.snapshot_fixture import Bench, id_

NEVER = SnapshotLimits(bytes_between=1 << 40, interval_ms=0)


def test_one_is_taken_step_by_step_and_told_of_when_it_is_durable(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.turns(1, appended=1_000)
    assert bench.disk == [], "the first turn only begins"
    assert bench.turns(10) is None, "the disk is at it"
    assert bench.put == []
    bench.disk.pop(0)()
    assert bench.put == [], "it has no name yet"
    bench.work()
    (event,) = bench.put
    assert isinstance(event, SnapshotTaken)
    assert [each.id for each in event.kept] == [id_(10)]
    checkpoint = read_checkpoint(tmp_path / checkpoint_name(id_(10)))
    assert list(checkpoint.records()) == [b"a", b"b", b"c"]
    assert bench.given_up == 1


def test_none_is_begun_before_enough_was_appended(tmp_path: Path) -> None:
    bench = Bench(tmp_path, SnapshotLimits(bytes_between=1 << 20, interval_ms=0))
    assert bench.turns(10, appended=100) is None
    assert bench.disk == []


def test_or_before_the_time_has_come(tmp_path: Path) -> None:
    bench = Bench(tmp_path, SnapshotLimits(bytes_between=1 << 20, interval_ms=1_000))
    assert bench.turns(1) == 1_000
    bench.now_ms = 1_000
    bench.turns(10)
    bench.work()
    assert len(bench.put) == 1


def test_one_that_is_requested_is_taken_though_none_is_due(tmp_path: Path) -> None:
    bench = Bench(tmp_path, NEVER)
    assert bench.turns(1) is None
    told: list[Snapshot | str] = []
    bench.snapshots.request(told.append)
    bench.turns(10)
    assert told == [], "it is not durable"
    bench.work()
    assert told == list(bench.snapshots.kept)
    assert [each.id for each in bench.snapshots.kept] == [id_(10)]
    assert bench.turns(1) is None


def test_a_request_during_a_snapshot_waits_for_one_that_begins_after_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, NEVER)
    told: list[Snapshot | str] = []
    bench.snapshots.request(told.append)
    bench.turns(2)
    bench.snapshots.request(told.append)
    bench.end = 15
    bench.turns(10)
    bench.work()
    assert len(told) == 1
    bench.turns(10)
    bench.work()
    assert told == list(bench.snapshots.kept)
    assert [each.id for each in bench.snapshots.kept] == [id_(10), id_(15)]


def test_the_newest_snapshot_is_the_answer_if_it_has_everything(tmp_path: Path) -> None:
    bench = Bench(tmp_path, NEVER)
    for end in (20, 20):
        told: list[Snapshot | str] = []
        bench.snapshots.request(told.append)
        bench.end = end
        bench.turns(10)
        bench.work()
        assert told == list(bench.snapshots.kept)
    assert len(bench.put) == 1


def test_a_request_is_told_why_there_is_no_snapshot(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    bench = Bench(folder, NEVER)
    told: list[Snapshot | str] = []
    bench.end = None
    bench.snapshots.request(told.append)
    bench.turns(1)
    assert told == [NOT_NOW]

    bench.end = 10
    bench.snapshots.request(told.append)
    bench.turns(1)
    bench.snapshots.installing(InstallSnapshot(id_(20), is_mixed=False))
    assert told[1:] == ["snapshot 20@1 of the leader replaces it"]
    bench.disk.clear()

    folder.rmdir()
    bench.snapshots.request(told.append)
    bench.turns(10)
    bench.work()
    assert told[2:] == ["snapshot 10@1 could not be written: No such file or directory"]


def test_a_snapshot_that_is_not_possible_now_is_requested_again_later(tmp_path: Path) -> None:
    """For instance in the middle of a transaction (KIP-868)."""
    bench = Bench(tmp_path)
    bench.end = None
    assert bench.turns(1, appended=1_000) == TRY_AGAIN_MS
    bench.end, bench.now_ms = 10, TRY_AGAIN_MS
    bench.turns(10)
    bench.work()
    assert len(bench.put) == 1


def test_a_disk_that_does_not_take_it_is_left_alone_for_a_while(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    bench = Bench(folder)
    folder.rmdir()
    bench.turns(10, appended=1_000)
    bench.work()
    assert bench.put == []
    assert bench.given_up == 1
    assert (bench.turns(1, appended=1_000) or 0) >= TRY_AGAIN_AFTER_FAILURE_MS


def test_the_newest_two_snapshots_stay_and_files_are_deleted_after_the_report(
    tmp_path: Path,
) -> None:
    """Until then a replica may still be given it."""
    bench = Bench(tmp_path, SnapshotLimits(bytes_between=500, retention_bytes=1))
    for end in (5, 10, 15):
        bench.take(end)
    event = bench.put[-1]
    assert isinstance(event, SnapshotTaken)
    assert [each.id for each in event.kept] == [id_(10), id_(15)]
    assert (tmp_path / checkpoint_name(id_(5))).exists()
    bench.turns(1)
    bench.work()
    assert not (tmp_path / checkpoint_name(id_(5))).exists()


def test_more_are_kept_while_there_is_room_and_they_are_young(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for end in (5, 10, 15):
        bench.take(end)
    assert len(bench.store.snapshots) == 3
    bench.now_ms = 1 << 50
    bench.take(18)
    assert [each.id for each in bench.store.snapshots] == [id_(15), id_(18)]


def test_only_segments_below_the_log_start_offset_are_deleted(tmp_path: Path) -> None:
    """Each record has a segment of its own here."""
    bench = Bench(tmp_path, log=SegmentedLog(tmp_path, segment_bytes_max=1))
    bench.snapshots.advance(Offset(10))
    bench.work()
    assert sorted(each.name for each in tmp_path.glob("*.log")) == [
        f"{offset:020}.log" for offset in range(10, 20)
    ]
