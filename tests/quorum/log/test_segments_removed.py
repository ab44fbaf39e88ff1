"""Deletion of segments: a commit does not wait for it."""

import errno
from pathlib import Path

import pytest

from chaos.disk.virtual_disk import Fail, Kind, VirtualDisk
from quorum.core.vocabulary import Offset
from quorum.log import filesystem
from quorum.log.segmented_log import SegmentedLog
from tests.contracts.batches import batch

LOG = Path("/log")


def two_large_segments(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[SegmentedLog, int]:
    """A log of three segments, of two and a half of what is freed at once; and how much that is."""
    log = SegmentedLog(folder, segment_bytes_max=1_000)
    for offset in range(3):
        log.append(batch(offset, size=900))
    log.commit()
    size_bytes = log.size_bytes // 3
    monkeypatch.setattr(filesystem, "FREED_BYTES", size_bytes * 2 // 5)
    return log, size_bytes


def sizes(folder: Path) -> dict[str, int]:
    return {each.name: each.stat().st_size for each in folder.iterdir() if each.name != ".lock"}


def test_a_large_segment_is_removed_a_stretch_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that comes meanwhile does not wait until all of it is freed."""
    log, whole = two_large_segments(tmp_path, monkeypatch)
    log.advance_start(Offset(1))
    name, seen = f"{0:020}.log.deleted", []
    while log.remove_obsolete():
        seen.append(sizes(tmp_path)[name])
    first, second, third = seen
    assert first == whole
    assert first - second == second - third > third > 0
    assert sorted(sizes(tmp_path)) == [f"{1:020}.log", f"{2:020}.log"]


@pytest.mark.parametrize("steps", range(1, 6))
@pytest.mark.parametrize("anew", [False, True])
def test_the_rest_of_a_segment_being_removed_is_no_damage_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int, anew: bool
) -> None:
    log, _ = two_large_segments(tmp_path, monkeypatch)
    if anew:
        log.begin_anew(Offset(2))
    else:
        log.advance_start(Offset(2))
    for _ in range(steps):
        assert log.remove_obsolete()
    log.close()
    found = SegmentedLog(tmp_path)
    assert (found.start, found.end.offset) == ((2, 2) if anew else (1 + steps // 5, 3))
    assert not [name for name in sizes(tmp_path) if name.endswith(".deleted")]


def test_segments_in_whose_place_a_log_begins_anew_are_freed_a_stretch_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, _ = two_large_segments(tmp_path, monkeypatch)
    log.advance_start(Offset(1))
    assert log.remove_obsolete()
    log.begin_anew(Offset(2))
    assert sum(name.endswith(".deleted") for name in sizes(tmp_path)) == 3
    log.append(batch(2))
    log.commit()
    while log.remove_obsolete():
        pass
    assert list(sizes(tmp_path)) == [f"{2:020}.log"]
    assert log.read(Offset(2), Offset(3), 1_000) == batch(2)


def test_a_large_segment_is_removed_at_once_where_there_is_no_room_for_another_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = VirtualDisk()
    log = SegmentedLog(LOG, segment_bytes_max=1_000, fs=disk)
    for offset in range(2):
        log.append(batch(offset, size=900))
    log.commit()
    monkeypatch.setattr(filesystem, "FREED_BYTES", 300)
    disk.watch = lambda operation: Fail(errno.ENOSPC) if operation.kind is Kind.RENAME else None
    log.advance_start(Offset(1))
    assert not log.remove_obsolete()
    assert sorted(disk.names(LOG)) == [".lock", f"{1:020}.log"]
