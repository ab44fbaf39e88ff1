"""The log on disk beyond its contract: files, descriptors, failures and threads."""

import os
import threading
from pathlib import Path

import pytest

from quorum.core.vocabulary import Offset
from quorum.log.segment import GROUP_BYTES_MAX
from quorum.log.segmented_log import SegmentedLog
from quorum.ports import LogFailure
from quorum.records.batch import check
from tests.contracts.batches import batch, run
from tests.quorum.log.damaged_folders import contents, everything, filled_folder


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_the_file_holds_the_batches_and_nothing_else(tmp_path: Path) -> None:
    batches = run(0, 2, 1, 3)
    (file,) = filled_folder(tmp_path / "log", batches)
    assert file.name == "00000000000000000000.log"
    assert file.read_bytes() == b"".join(batches)


def test_a_segment_is_named_after_its_first_offset_and_holds_whole_batches(tmp_path: Path) -> None:
    batches = run(0, *[1] * 20)
    size = len(batches[0])
    files = filled_folder(tmp_path / "log", batches, segment_bytes_max=3 * size + 1)
    assert [file.name for file in files] == [f"{base:020}.log" for base in range(0, 20, 3)]
    for file in files:
        data = file.read_bytes()
        assert len(data) <= 3 * size
        check(data, Offset(int(file.stem)))


def test_a_batch_larger_than_a_segment_gets_one_of_its_own(tmp_path: Path) -> None:
    batches = [batch(0), batch(1, size=500), batch(2)]
    files = filled_folder(tmp_path / "log", batches, segment_bytes_max=200)
    assert [file.read_bytes() for file in files] == batches


def test_nothing_is_on_disk_before_a_commit_and_all_of_it_after(tmp_path: Path) -> None:
    log = SegmentedLog(tmp_path / "log", segment_bytes_max=250)
    batches = run(0, *[1] * 5)
    for each in batches:
        log.append(each)
    assert [path.name for path in (tmp_path / "log").iterdir()] == [".lock"]
    log.commit()
    files = sorted((tmp_path / "log").glob("*.log"))
    assert b"".join(file.read_bytes() for file in files) == b"".join(batches)
    assert len(files) > 1
    log.close()


def test_a_commit_larger_than_a_group_is_written_whole(tmp_path: Path) -> None:
    log = SegmentedLog(tmp_path / "log", tail_bytes_max=0)
    batches = [batch(at, size=GROUP_BYTES_MAX // 3) for at in range(7)]
    batches.append(batch(7, size=2 * GROUP_BYTES_MAX))
    for each in batches:
        log.append(each)
    log.commit()
    log.close()
    assert contents(tmp_path / "log")[f"{0:020}.log"] == b"".join(batches)


def test_fresh_batches_are_read_without_the_disk(tmp_path: Path) -> None:
    """Followers that keep up must not make the leader's disk read."""
    log = SegmentedLog(tmp_path / "log", tail_bytes_max=4_000)
    for offset in range(100):
        log.append(batch(offset))
        log.commit()
    (tmp_path / "log" / f"{0:020}.log").unlink()
    size = len(batch(0))
    fresh = 4_000 // size // 2
    assert log.read(Offset(100 - fresh), Offset(100), 1 << 20) == b"".join(
        batch(offset) for offset in range(100 - fresh, 100)
    )
    with pytest.raises(LogFailure, match=r"0\.log cannot be read: No such file or directory"):
        log.read(Offset(0), Offset(100), 1 << 20)
    log.close()


def test_memory_holds_what_is_not_written_yet_and_little_else(tmp_path: Path) -> None:
    log = SegmentedLog(tmp_path / "log", tail_bytes_max=1_000)
    batches = run(0, *[1] * 50)
    for each in batches:
        log.append(each)
    assert everything(log) == b"".join(batches)
    log.commit()
    log.append(batch(50))
    # From here on the written ones come from the file again.
    os.truncate(tmp_path / "log" / f"{0:020}.log", 0)
    with pytest.raises(LogFailure, match="the file ends before it"):
        log.read(Offset(0), Offset(50), 1 << 20)
    assert log.read(Offset(50), Offset(51), 1 << 20) == batch(50)


def test_a_file_that_shrank_under_a_running_node_is_a_failure(tmp_path: Path) -> None:
    (file,) = filled_folder(tmp_path / "log", run(0, 1, 1, 1))
    log = SegmentedLog(tmp_path / "log")
    os.truncate(file, file.stat().st_size - 1)
    with pytest.raises(LogFailure, match="does not hold what was written"):
        everything(log)
    log.close()


def test_logs_that_nobody_writes_to_hold_no_descriptor(tmp_path: Path) -> None:
    before = descriptors()
    logs = [SegmentedLog(tmp_path / f"p{n}", synced=False, lock=False) for n in range(20)]
    assert descriptors() == before
    for log in logs[:5]:
        log.append(batch(0))
        log.commit(sync=False)
        everything(log)
    assert descriptors() == before + 5
    for log in logs:
        log.close()
    assert descriptors() == before


def test_rolling_holds_one_descriptor(tmp_path: Path) -> None:
    log = SegmentedLog(tmp_path / "log", segment_bytes_max=1, lock=False)
    before = descriptors()
    for offset in range(10):
        log.append(batch(offset))
        log.commit()
    assert descriptors() == before + 1
    log.close()


def test_a_failed_write_makes_the_log_unusable_for_good(tmp_path: Path) -> None:
    """Data that a failed fsync did not write may look clean to the next one."""
    log = SegmentedLog(tmp_path / "log")
    log.append(batch(0))
    obstacle = tmp_path / "log" / f"{0:020}.log"
    obstacle.mkdir()
    with pytest.raises(LogFailure, match=r"/log cannot be written: Is a directory"):
        log.commit()
    obstacle.rmdir()
    log.append(batch(1))
    for _ in range(2):
        with pytest.raises(LogFailure, match="cannot be written: Is a directory"):
            log.commit()
    with pytest.raises(LogFailure, match="cannot be written: Is a directory"):
        log.truncate_to(Offset(0))
    log.close()
    assert [path.name for path in (tmp_path / "log").iterdir()] == [".lock"]


def test_truncation_removes_later_segments_and_shortens_the_one_it_hits(tmp_path: Path) -> None:
    batches = run(0, *[1] * 9)
    files = filled_folder(tmp_path / "log", batches, segment_bytes_max=3 * len(batches[0]))
    log = SegmentedLog(tmp_path / "log")
    log.truncate_to(Offset(4))
    assert sorted((tmp_path / "log").glob("*.log")) == files[:2]
    assert files[1].read_bytes() == batches[3]
    log.close()


def test_truncation_at_the_start_of_a_segment_leaves_it_empty_and_in_use(tmp_path: Path) -> None:
    batches = run(0, *[1] * 9)
    files = filled_folder(tmp_path / "log", batches, segment_bytes_max=3 * len(batches[0]))
    log = SegmentedLog(tmp_path / "log")
    log.truncate_to(Offset(3))
    assert files[1].read_bytes() == b""
    log.append(batch(3, epoch=2))
    log.close()
    assert files[1].read_bytes() == batch(3, epoch=2)


def test_a_writer_thread_and_the_owner_do_not_get_into_each_others_way(tmp_path: Path) -> None:
    """Every commit ends where a run of whole appends ends, and nothing is lost between two."""
    log = SegmentedLog(tmp_path / "log", segment_bytes_max=5_000, tail_bytes_max=2_000)
    stop = threading.Event()
    ends: list[int] = []

    def commit_on() -> None:
        while not stop.is_set():
            ends.append(log.commit().offset)

    writer = threading.Thread(target=commit_on)
    writer.start()
    try:
        batches = []
        for offset in range(0, 3_000, 2):
            batches.append(batch(offset, 2))
            log.append(batches[-1])
            start = max(0, offset - 200)
            assert log.read(Offset(start), Offset(offset + 2), 1 << 20) == b"".join(
                batches[start // 2 :]
            )
    finally:
        stop.set()
        writer.join(timeout=10)
    log.close()
    assert ends == sorted(ends)
    assert all(end % 2 == 0 for end in ends)
    again = SegmentedLog(tmp_path / "log", check_all=True)
    assert everything(again) == b"".join(batches)
    again.close()
