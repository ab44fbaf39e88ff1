"""Recovery of a log: records that are accepted, cut and refused."""

import os
import re
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch
from quorum.log.errors import FolderInUse, FolderUnusable, LogDamaged
from quorum.log.recovery import SECTOR_BYTES
from quorum.log.segment import GROUP_BYTES_MAX, SCAN_BYTES, TORN_BYTES_MAX
from quorum.log.segmented_log import SegmentedLog
from quorum.records.batch import headers
from tests.contracts.batches import batch, run
from tests.quorum.log.damaged_folders import contents, everything, filled_folder, flip
from tests.support.parameters import at_most_in_quick

BATCHES = run(0, 2, 1, 3, 2)
LAST = len(BATCHES[-1])
KEPT = b"".join(BATCHES[:-1])
ALL = b"".join(BATCHES)


def test_an_undamaged_log_is_opened_as_it_was_left(tmp_path: Path) -> None:
    (file,) = filled_folder(tmp_path / "log", BATCHES)
    log = SegmentedLog(tmp_path / "log")
    assert everything(log) == ALL == file.read_bytes()
    assert log.cut is None
    assert log.end == OffsetAndEpoch(Epoch(1), Offset(8))
    assert str(log) == (f"{tmp_path}/log: offsets [0, 8), epoch 1, {len(ALL)} bytes in 1 segments")
    log.close()


@pytest.mark.parametrize("missing", range(1, LAST + 1))
def test_a_last_batch_that_was_cut_anywhere_is_removed_and_reported(
    tmp_path: Path, missing: int
) -> None:
    (file,) = filled_folder(tmp_path / "log", BATCHES)
    os.truncate(file, len(ALL) - missing)
    log = SegmentedLog(tmp_path / "log")
    assert everything(log) == KEPT
    assert file.read_bytes() == KEPT
    cut = log.cut
    if missing == LAST:
        assert cut is None
    else:
        assert cut is not None
        assert (cut.file, cut.position, cut.offset) == (file, len(KEPT), 6)
        assert cut.bytes_cut == LAST - missing
        found = f"cut {LAST - missing} bytes from {file} at byte {len(KEPT)}, offset 6: "
        assert str(cut).startswith(found)
    log.append(batch(6, 1, epoch=2))
    log.close()
    again = SegmentedLog(tmp_path / "log")
    assert everything(again) == KEPT + batch(6, 1, epoch=2)
    assert again.cut is None
    again.close()


@pytest.mark.parametrize("position", range(0, LAST, 3))
def test_a_flipped_bit_in_the_last_batch_makes_it_a_torn_tail(
    tmp_path: Path, position: int
) -> None:
    """But in its epoch, which no checksum covers."""
    (file,) = filled_folder(tmp_path / "log", BATCHES)
    flip(file, len(KEPT) + position)
    log = SegmentedLog(tmp_path / "log")
    if not 12 <= position < 16:
        assert everything(log) == KEPT == file.read_bytes()
        assert log.cut is not None
        assert log.cut.bytes_cut == LAST
    log.close()


@pytest.mark.parametrize("damaged", [0, 1, 2])
@pytest.mark.parametrize("position", [3, 8, 9, 10, 11, 16, 17, 22, 26, 40, 60, 61, 70, 80])
def test_damage_before_a_sound_batch_is_refused_and_nothing_is_changed(
    tmp_path: Path, damaged: int, position: int
) -> None:
    (file,) = filled_folder(tmp_path / "log", BATCHES)
    start = sum(map(len, BATCHES[:damaged]))
    flip(file, start + position)
    before = contents(tmp_path / "log")
    offset = [0, 2, 3][damaged]
    with pytest.raises(LogDamaged) as caught:
        SegmentedLog(tmp_path / "log")
    assert (caught.value.file, caught.value.position, caught.value.offset) == (file, start, offset)
    text = str(caught.value)
    assert text.startswith(f"{file} is damaged at byte {start}, offset {offset}: ")
    assert "move this node's whole folder away, `meta.properties` with it" in text
    assert "joins as a new directory" in text
    assert "sound batches follow from byte" in text
    assert contents(tmp_path / "log") == before


@pytest.mark.parametrize("position", [1, 8, 9, 11, 12, 30])
def test_a_later_batch_that_was_written_over_an_earlier_one_too_is_damage(
    tmp_path: Path, position: int
) -> None:
    """The rest of the earlier batch may be zeros; no lost sector ends so early."""
    (file,) = filled_folder(tmp_path / "log", [batch(0, size=500), *run(1, *[1] * 8)])
    whole = file.read_bytes()
    last = bytes(batch(8, 1))
    file.write_bytes(whole[:position] + last + whole[position + len(last) :])
    before = contents(tmp_path / "log")
    with pytest.raises(LogDamaged, match="sound batches follow from byte"):
        SegmentedLog(tmp_path / "log")
    assert contents(tmp_path / "log") == before


def test_damage_is_found_wherever_the_next_sound_batch_lies(tmp_path: Path) -> None:
    """The search goes on over many windows of the file."""
    far = [*run(0, 1, 1), batch(2, 1, size=3 * SCAN_BYTES), batch(3)]
    (file,) = filled_folder(tmp_path / "log", far)
    flip(file, len(far[0]) + len(far[1]) + 10)
    with pytest.raises(LogDamaged, match=f"from byte {file.stat().st_size - len(far[-1])} on"):
        SegmentedLog(tmp_path / "log")


def test_a_bad_tail_that_no_single_write_can_have_left_is_refused(tmp_path: Path) -> None:
    (file,) = filled_folder(tmp_path / "log", BATCHES)
    with file.open("ab") as stream:
        stream.write(b"\x55" * (TORN_BYTES_MAX + 1))
    with pytest.raises(LogDamaged, match=f"{TORN_BYTES_MAX + 1} bytes follow, more than one write"):
        SegmentedLog(tmp_path / "log")
    os.truncate(file, len(ALL) + TORN_BYTES_MAX)
    log = SegmentedLog(tmp_path / "log")
    assert everything(log) == ALL
    log.close()


def test_zeros_behind_the_last_batch_are_cut(tmp_path: Path) -> None:
    """A file system may have made a file longer before it wrote what belongs there."""
    (file,) = filled_folder(tmp_path / "log", BATCHES)
    os.truncate(file, len(ALL) + 10_000)
    log = SegmentedLog(tmp_path / "log")
    assert everything(log) == ALL == file.read_bytes()
    log.close()


@st.composite
def interrupted_groups(draw: st.DrawFn) -> tuple[list[bytes], int, bytes]:
    """Batches, how many of them were synced, and a file after power was lost while the rest was
    written: any of its sectors may be missing, and the file may be too short."""
    sizes = draw(st.lists(st.sampled_from([0, 1, 30, 400, 451, 3_000]), min_size=1, max_size=25))
    base = draw(st.sampled_from([0, 1, 200, 70_000, 2**33]))
    batches = [batch(base + at, 1, size=size) for at, size in enumerate(sizes)]
    synced = draw(st.integers(0, len(batches) - 1))
    ends = [0, *accumulate(map(len, batches))]
    data = bytearray(b"".join(batches))
    first = ends[synced] // SECTOR_BYTES
    for sector in range(first, len(data) // SECTOR_BYTES + 1):
        if draw(st.booleans()):
            start = max(ends[synced], sector * SECTOR_BYTES)
            end = min(len(data), (sector + 1) * SECTOR_BYTES)
            data[start:end] = bytes(end - start)
    length = draw(st.just(len(data)) | st.integers(ends[synced], len(data)))
    return batches, synced, bytes(data[:length])


@settings(max_examples=at_most_in_quick(100))
@given(interrupted_groups())
def test_a_power_loss_during_a_write_keeps_synced_records_and_the_log_opens(
    tmp_path_factory: pytest.TempPathFactory, interrupted: tuple[list[bytes], int, bytes]
) -> None:
    batches, synced, data = interrupted
    folder = tmp_path_factory.mktemp("torn")
    base = next(header.base_offset for _, header in headers(batches[0]))
    file = folder / f"{base:020}.log"
    file.write_bytes(data)
    whole = b"".join(batches)
    log = SegmentedLog(folder)
    kept = everything(log)
    assert whole.startswith(kept)
    assert kept == file.read_bytes()
    assert len(kept) >= sum(map(len, batches[:synced]))
    # No batch is given up that arrived whole and has all others before it.
    assert kept == whole or not data.startswith(kept + batches[_count(batches, kept)])
    log.close()


def _count(batches: list[bytes], kept: bytes) -> int:
    return [0, *accumulate(map(len, batches))].index(len(kept))


def test_a_missing_sector_far_from_the_end_is_damage_for_it_was_synced(tmp_path: Path) -> None:
    batches = [batch(at, 1, size=2_000) for at in range(GROUP_BYTES_MAX // 2_000 + 10)]
    (file,) = filled_folder(tmp_path / "log", batches[:1])
    with file.open("ab") as stream:
        stream.write(b"".join(batches[1:]))
    data = bytearray(file.read_bytes())
    data[2 * SECTOR_BYTES : 3 * SECTOR_BYTES] = bytes(SECTOR_BYTES)
    file.write_bytes(data)
    with pytest.raises(LogDamaged, match="byte 0, offset 0"):
        SegmentedLog(tmp_path / "log")
    os.truncate(file, GROUP_BYTES_MAX)
    log = SegmentedLog(tmp_path / "log")
    assert log.cut is not None
    assert "a sector of it is missing" in log.cut.reason
    assert log.end.offset == 0
    log.close()


SEGMENTED = run(0, 2, 1, 3, 2, 1, 1)


def segments(tmp_path: Path) -> list[Path]:
    """Three segments of two batches each."""
    files = filled_folder(tmp_path / "log", SEGMENTED, segment_bytes_max=300)
    assert [file.name for file in files] == [f"{base:020}.log" for base in (0, 3, 8)]
    return files


def test_a_missing_segment_is_refused(tmp_path: Path) -> None:
    _, middle, last = segments(tmp_path)
    middle.unlink()
    with pytest.raises(
        LogDamaged,
        match=re.escape(
            f"{last} is damaged at byte 0, offset 3: it begins at offset 8, the segment before "
            "ends at 3: records are missing"
        ),
    ):
        SegmentedLog(tmp_path / "log")


def test_overlapping_segments_are_refused(tmp_path: Path) -> None:
    _, middle, last = segments(tmp_path)
    last.rename(last.with_name(f"{6:020}.log"))
    with pytest.raises(LogDamaged, match=r"begins at offset 6, .* ends at 8: the two overlap"):
        SegmentedLog(tmp_path / "log")
    assert middle.exists()


def test_a_segment_that_was_renamed_is_refused(tmp_path: Path) -> None:
    first, middle, last = segments(tmp_path)
    middle.unlink()
    last.unlink()
    first.rename(first.with_name(f"{1:020}.log"))
    with pytest.raises(LogDamaged, match="its base offset is 0, expected 1"):
        SegmentedLog(tmp_path / "log")


def test_a_torn_batch_is_damage_where_a_segment_follows(tmp_path: Path) -> None:
    """A segment is synced before the next one is created."""
    first, _, _ = segments(tmp_path)
    os.truncate(first, first.stat().st_size - 1)
    before = contents(tmp_path / "log")
    with pytest.raises(LogDamaged) as caught:
        SegmentedLog(tmp_path / "log")
    assert (caught.value.file, caught.value.offset) == (first, 2)
    assert contents(tmp_path / "log") == before


def test_checksums_of_older_segments_are_checked_only_when_asked_for(tmp_path: Path) -> None:
    first, _, _ = segments(tmp_path)
    flip(first, 70)
    SegmentedLog(tmp_path / "log").close()
    with pytest.raises(LogDamaged, match=f"{first} is damaged at byte 0, offset 0: its checksum"):
        SegmentedLog(tmp_path / "log", check_all=True)


def test_an_empty_newest_segment_is_what_a_crash_while_rolling_leaves(tmp_path: Path) -> None:
    *_, last = segments(tmp_path)
    newest = last.with_name(f"{10:020}.log")
    newest.touch()
    log = SegmentedLog(tmp_path / "log")
    assert everything(log) == b"".join(SEGMENTED)
    log.append(batch(10))
    log.close()
    assert newest.read_bytes() == batch(10)
    flip(last, 70)
    newest.write_bytes(b"")
    with pytest.raises(LogDamaged, match=f"{last} is damaged"):
        SegmentedLog(tmp_path / "log")


def test_an_empty_file_elsewhere_is_refused(tmp_path: Path) -> None:
    first, middle, _ = segments(tmp_path)
    middle.write_bytes(b"")
    with pytest.raises(LogDamaged, match="records are missing"):
        SegmentedLog(tmp_path / "log")
    first.write_bytes(b"")
    with pytest.raises(LogDamaged, match="begins at offset 3, the segment before ends at 0"):
        SegmentedLog(tmp_path / "log")


@pytest.mark.parametrize("index", [0, 1, 2])
def test_an_unsynced_log_is_cut_at_any_damage_and_says_so(tmp_path: Path, index: int) -> None:
    files = segments(tmp_path)
    total = sum(file.stat().st_size for file in files)
    flip(files[index], 10)
    log = SegmentedLog(tmp_path / "log", synced=False)
    kept = b"".join(SEGMENTED[: 2 * index])
    assert everything(log) == kept
    assert log.cut is not None
    assert log.cut.bytes_cut == total - len(kept)
    assert sorted((tmp_path / "log").glob("*.log")) == files[: index + 1]
    log.append(batch([0, 3, 8][index], 1, epoch=9))
    log.close()
    again = SegmentedLog(tmp_path / "log")
    assert everything(again) == kept + batch([0, 3, 8][index], 1, epoch=9)
    again.close()


def test_an_unsynced_log_is_cut_at_a_gap(tmp_path: Path) -> None:
    first, middle, last = segments(tmp_path)
    middle.unlink()
    log = SegmentedLog(tmp_path / "log", synced=False)
    assert everything(log) == b"".join(SEGMENTED[:2]) == first.read_bytes()
    assert log.cut is not None
    assert "records are missing" in log.cut.reason
    assert not last.exists()
    log.close()


def test_files_of_others_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    segments(tmp_path)
    folder = tmp_path / "log"
    leftovers = {
        "00000000000000000003.index": b"i",
        "00000000000000000105-0000000001.checkpoint": b"c",
        "123.log": b"another kind of name",
        "leader-epoch-checkpoint": b"0",
        "partition.metadata": b"version: 0",
        "quorum-state.tmp": b"{",
    }
    for name, data in leftovers.items():
        (folder / name).write_bytes(data)
    log = SegmentedLog(folder)
    assert everything(log) == b"".join(SEGMENTED)
    log.truncate_to(Offset(0))
    log.close()
    assert {name: (folder / name).read_bytes() for name in leftovers} == leftovers


def test_a_folder_with_the_name_of_a_segment_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"{0:020}.log").mkdir()
    with pytest.raises(FolderUnusable, match=r"0\.log: has the name of a segment, but is no file"):
        SegmentedLog(tmp_path)


def test_a_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderUnusable, match=r"/file: File exists"):
        SegmentedLog(tmp_path / "file")
    with pytest.raises(FolderUnusable, match=r"/file/log: Not a directory"):
        SegmentedLog(tmp_path / "file" / "log")
    with pytest.raises(FolderUnusable, match=r"/absent/log: No such file or directory"):
        SegmentedLog(tmp_path / "absent" / "log")


def test_a_folder_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir(mode=0o555)
    superuser = os.geteuid() == 0
    if superuser:
        os.chmod(tmp_path, 0o755)
        os.seteuid(65534)  # Nobody: permissions mean nothing to the superuser.
    try:
        with pytest.raises(FolderUnusable, match="Permission denied"):
            SegmentedLog(tmp_path / "log")
    finally:
        if superuser:
            os.seteuid(0)


def test_a_second_process_is_told_which_file_is_locked(tmp_path: Path) -> None:
    log = SegmentedLog(tmp_path / "log")
    with pytest.raises(
        FolderInUse, match=re.escape(f"{tmp_path}/log/.lock is locked: another process uses")
    ):
        SegmentedLog(tmp_path / "log")
    log.close()
    SegmentedLog(tmp_path / "log").close()


def test_a_log_that_is_refused_leaves_its_folder_unlocked(tmp_path: Path) -> None:
    (file,) = filled_folder(tmp_path / "log", BATCHES)
    flip(file, 70)
    for _ in range(2):
        with pytest.raises(LogDamaged):
            SegmentedLog(tmp_path / "log")
