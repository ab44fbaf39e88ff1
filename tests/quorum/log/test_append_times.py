"""The index of append times: its contents, and crashes."""

import errno
import itertools
import logging
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.disk.virtual_disk import Fail, Kind, Operation, VirtualDisk
from quorum.core.vocabulary import Offset
from quorum.log.append_times import (
    ENTRY_BYTES,
    HEADER_BYTES,
    AppendTime,
    append_times,
    encode_entry,
)
from quorum.log.errors import FileDamaged
from quorum.log.filesystem import opened
from quorum.log.segmented_log import SegmentedLog
from tests.contracts.batches import batch
from tests.quorum.log.damaged_folders import everything
from tests.support.append_times import all_append_times

LOG = Path("/log")
FIRST = LOG / f"{0:020}.appendtime"


Found = tuple[int, int, int | None, int | None]


class Times:
    """A wall clock that is set by hand."""

    def __init__(self) -> None:
        self.now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


class Place:
    """A log on a virtual disk, and what its index says."""

    def __init__(self, segment_bytes_max: int = 1 << 30) -> None:
        self.disk = VirtualDisk()
        self.clock = Times()
        self.segment_bytes_max = segment_bytes_max
        self.log = self.opened()

    def opened(self) -> SegmentedLog:
        return SegmentedLog(
            LOG,
            segment_bytes_max=self.segment_bytes_max,
            wall_clock=self.clock,
            fs=self.disk,
        )

    def reopen(self) -> None:
        self.disk.kill()
        self.log = self.opened()

    def append(self, count: int = 1, *, at_ms: int, epoch: int = 1) -> None:
        self.clock.now_ms = at_ms
        self.log.append(batch(self.log.end.offset, count, epoch=epoch))

    def commit(self, *counts: int, at_ms: int, epoch: int = 1) -> None:
        for count in counts:
            self.append(count, at_ms=at_ms, epoch=epoch)
        self.log.commit()

    @property
    def found(self) -> list[Found]:
        return [(*each,) for each in all_append_times(LOG, self.disk)]


def test_every_append_is_noted_with_its_time_and_epoch() -> None:
    place = Place()
    place.commit(3, at_ms=1_000)
    place.commit(2, at_ms=1_005)
    place.commit(1, at_ms=990, epoch=4)
    assert place.found == [(0, 3, 1, 1_000), (3, 5, 1, 1_005), (5, 6, 4, 990)]
    assert next(append_times(FIRST, place.disk)) == AppendTime(
        base=Offset(0), end=Offset(3), epoch=place.log.epochs[0][0], time_ms=1_000
    )


def test_nothing_is_noted_before_its_records_are_on_disk() -> None:
    place = Place()
    place.append(at_ms=1_000)
    assert place.found == []
    place.log.commit()
    assert len(place.found) == 1


def test_appends_of_one_commit_and_one_moment_share_an_entry() -> None:
    place = Place()
    place.append(1, at_ms=1_000)
    place.append(2, at_ms=1_000)
    place.append(3, at_ms=1_001)
    place.append(4, at_ms=1_001, epoch=2)
    place.log.commit()
    assert place.found == [(0, 3, 1, 1_000), (3, 6, 1, 1_001), (6, 10, 2, 1_001)]


def test_each_segment_has_an_index_of_its_own() -> None:
    place = Place(segment_bytes_max=250)
    place.commit(*[1] * 5, at_ms=1_000)
    place.commit(1, at_ms=1_001)
    assert place.found == [(0, 2, 1, 1_000), (2, 4, 1, 1_000), (4, 5, 1, 1_000), (5, 6, 1, 1_001)]
    assert {name for name in place.disk.names(LOG) if name.endswith(".appendtime")} == {
        f"{base:020}.appendtime" for base in (0, 2, 4)
    }


def test_the_index_of_a_complete_segment_is_on_disk_for_good() -> None:
    place = Place(segment_bytes_max=250)
    place.commit(1, at_ms=1_000)
    place.commit(1, at_ms=2_000)
    place.commit(1, at_ms=3_000)
    assert [each[3] for each in place.found] == [1_000, 2_000, 3_000]
    for seed in range(20):
        image = place.disk.after_power_loss(random.Random(seed))
        assert [each[3] for each in all_append_times(LOG, image)][:2] == [1_000, 2_000]


def test_a_log_that_is_not_asked_for_times_keeps_none() -> None:
    disk = VirtualDisk()
    log = SegmentedLog(LOG, fs=disk)
    log.append(batch(0))
    log.close()
    assert sorted(disk.names(LOG)) == [".lock", f"{0:020}.log"]


@pytest.mark.parametrize("cleanly", [True, False])
def test_a_restarted_log_goes_on_where_its_index_ended(cleanly: bool) -> None:
    place = Place()
    place.commit(3, at_ms=1_000)
    if cleanly:
        place.log.close()
    place.reopen()
    place.commit(2, at_ms=2_000)
    assert place.found == [(0, 3, 1, 1_000), (3, 5, 1, 2_000)]


def test_the_format_is_the_one_that_is_described() -> None:
    place = Place()
    place.commit(3, at_ms=0x0102_0304_0506, epoch=7)
    data = place.disk.content(FIRST)
    assert data[:HEADER_BYTES].hex() == "4d514154" + "0001" + "0000"
    assert data[HEADER_BYTES:-4].hex() == "0000010203040506" + "0000000000000003" + "00000007"
    assert len(data) == HEADER_BYTES + ENTRY_BYTES


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize(
    ("end", "left"),
    [
        (6, [(0, 3, 1, 1_000), (3, 6, 1, 2_000)]),
        (4, [(0, 3, 1, 1_000), (3, 4, 1, 2_000)]),
        (3, [(0, 3, 1, 1_000)]),
        (0, []),
    ],
)
def test_a_truncation_removes_the_times_of_truncated_records(
    end: int, left: list[tuple[int, int, int, int]], written: bool
) -> None:
    place = Place()
    place.commit(3, at_ms=1_000)
    place.commit(1, 2, 1, at_ms=2_000)
    if written:
        place.commit(2, at_ms=3_000)
    place.log.truncate_to(Offset(end))
    assert place.found == (left if end < 6 else [(0, 3, 1, 1_000), (3, 6, 1, 2_000)])
    place.commit(2, at_ms=4_000, epoch=9)
    assert place.found == [*left, (end, end + 2, 9, 4_000)]
    for seed in range(20):
        image = place.disk.after_power_loss(random.Random(seed))
        assert all(each in place.found for each in all_append_times(LOG, image))


def test_removed_segments_take_their_indexes_along() -> None:
    place = Place(segment_bytes_max=250)
    place.commit(*[1] * 10, at_ms=1_000)
    place.log.truncate_to(Offset(5))
    assert place.found == [(0, 2, 1, 1_000), (2, 4, 1, 1_000), (4, 5, 1, 1_000)]
    place.log.advance_start(Offset(3))
    assert not place.log.remove_obsolete()
    assert place.found == [(2, 4, 1, 1_000), (4, 5, 1, 1_000)]
    place.log.begin_anew(Offset(70))
    assert place.found == []
    place.commit(1, at_ms=2_000)
    assert place.found == [(70, 71, 1, 2_000)]


def test_a_log_that_begins_anew_leaves_no_index_of_the_old_one() -> None:
    place = Place(segment_bytes_max=250)
    place.commit(*[1] * 5, at_ms=1_000)
    place.log.begin_anew(Offset(70))
    place.commit(1, at_ms=2_000)
    names = [each for each in place.disk.names(LOG) if each.endswith(".appendtime")]
    assert names == [f"{70:020}.appendtime"]


def test_an_index_without_its_segment_is_removed_when_the_log_is_opened() -> None:
    place = Place()
    place.commit(3, at_ms=1_000)
    place.disk.put(LOG / f"{77:020}.appendtime", b"whatever")
    place.reopen()
    assert place.found == [(0, 3, 1, 1_000)]


def test_an_index_that_lost_its_end_says_that_nobody_knows() -> None:
    place = Place()
    place.commit(3, at_ms=1_000)
    place.commit(2, at_ms=2_000)
    with opened(FIRST, os.O_RDWR, place.disk) as fd:
        place.disk.ftruncate(fd, HEADER_BYTES + ENTRY_BYTES + 5)
    assert place.found == [(0, 3, 1, 1_000)]
    place.reopen()
    place.commit(1, at_ms=3_000)
    assert place.found == [(0, 3, 1, 1_000), (3, 5, None, None), (5, 6, 1, 3_000)]


@pytest.mark.parametrize("size_bytes", [HEADER_BYTES - 5, HEADER_BYTES])
def test_an_index_of_which_only_a_part_of_the_first_bytes_was_left_begins_anew(
    size_bytes: int,
) -> None:
    place = Place()
    place.commit(3, at_ms=1_000)
    with opened(FIRST, os.O_RDWR, place.disk) as fd:
        place.disk.ftruncate(fd, HEADER_BYTES - 4)
        place.disk.ftruncate(fd, size_bytes)
    assert place.found == []
    place.reopen()
    place.commit(1, at_ms=2_000)
    assert place.found == [(0, 3, None, None), (3, 4, 1, 2_000)]


def test_an_index_that_is_gone_begins_anew() -> None:
    place = Place()
    place.commit(3, at_ms=1_000)
    place.disk.kill()
    place.disk.remove(FIRST)
    place.reopen()
    place.commit(1, at_ms=2_000)
    assert place.found == [(0, 3, None, None), (3, 4, 1, 2_000)]


@pytest.mark.parametrize("seed", range(60))
def test_no_power_loss_makes_an_index_report_wrong_times(seed: int) -> None:
    """It may say less; and the log never suffers."""
    rng = random.Random(seed)
    place = Place(segment_bytes_max=rng.choice([250, 1 << 30]))
    for moment in range(rng.randint(1, 12)):
        place.commit(*[1] * rng.randint(1, 3), at_ms=moment, epoch=moment + 1)
        if rng.random() < 0.2:
            place.log.truncate_to(Offset(rng.randint(0, place.log.end.offset)))
    whole, true = everything(place.log), place.found
    place.disk = place.disk.after_power_loss(rng)
    left = place.found
    assert all(each in true for each in left if each[3] is not None)
    place.log = place.opened()
    assert everything(place.log) == whole
    place.commit(1, at_ms=99, epoch=99)
    *known, last = (each for each in place.found if each[3] is not None)
    assert last == (place.log.end.offset - 1, place.log.end.offset, 99, 99)
    assert {each for each in left if each[3] is not None} <= set(known) <= set(true)


def test_records_that_recovery_cuts_lose_their_times() -> None:
    place = Place()
    place.commit(3, at_ms=1_000)
    place.commit(2, at_ms=2_000)
    place.disk.rot(LOG / f"{0:020}.log", len(batch(0, 3)) + 70)
    place.reopen()
    assert place.log.end.offset == 3
    assert place.found == [(0, 3, 1, 1_000)]


def test_the_time_of_a_damaged_entry_is_unknown() -> None:
    place = Place()
    for moment in (1_000, 2_000, 3_000, 4_000):
        place.commit(1, at_ms=moment)
    place.disk.rot(FIRST, HEADER_BYTES + ENTRY_BYTES + 3)
    found = [(0, 1, 1, 1_000), (1, 3, None, None), (3, 4, 1, 4_000)]
    assert place.found == found
    place.reopen()
    place.commit(1, at_ms=5_000)
    assert place.found == [*found, (4, 5, 1, 5_000)]


FOREIGN = [
    (b"KAFK" + bytes(4), "not an index of append times"),
    (b"MQAT" + b"\0\2\0\0" + encode_entry(1, 5, 1), "an index of version 2, only version 1 is kn"),
]


@pytest.mark.parametrize(("data", "reason"), FOREIGN)
def test_a_foreign_index_is_refused_by_name_left_alone_and_done_without(
    data: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place()
    place.commit(3, at_ms=1_000)
    place.disk.kill()
    place.disk.put(FIRST, data)
    with pytest.raises(FileDamaged, match=f"{FIRST}: {reason}"):
        place.found  # noqa: B018 - reading it is what fails
    with caplog.at_level(logging.WARNING):
        place.reopen()
        place.commit(1, at_ms=2_000)
        place.commit(1, at_ms=2_000)
    assert place.disk.content(FIRST) == data
    assert len(caplog.messages) == 1
    assert f"Append times cannot be stored in {FIRST}: {FIRST}: {reason}" in caplog.messages[0]


def test_an_index_that_was_unreadable_at_a_truncation_reports_no_time_of_replaced_records() -> None:
    """Damage that is in memory alone is gone with the power; what it hid is there again."""
    for seed in range(20):
        place = Place(segment_bytes_max=250)
        place.commit(1, at_ms=1_000)
        place.commit(1, at_ms=2_000)
        place.commit(1, at_ms=3_000)
        place.disk.scribble(FIRST, 0, b"KAFK")
        place.log.truncate_to(Offset(1))
        place.commit(1, at_ms=4_000, epoch=2)
        assert place.found == [(0, 1, None, None), (1, 2, 2, 4_000)]
        image = place.disk.after_power_loss(random.Random(seed))
        told = [(*each,) for each in all_append_times(LOG, image)]
        assert told in ([], [(0, 1, None, None)], [(0, 1, None, None), (1, 2, 2, 4_000)])


KINDS = [Kind.OPEN, Kind.WRITE, Kind.SYNC, Kind.TRUNCATE, Kind.REMOVE, Kind.READ]


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_that_cannot_be_written_stops_nothing_and_is_gone_on_with_later(
    kind: Kind, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place(segment_bytes_max=250)
    place.commit(1, at_ms=1_000)

    def watch(operation: Operation) -> Fail | None:
        is_index = operation.path.suffix == ".appendtime"
        return Fail(errno.ENOSPC) if is_index and operation.kind is kind else None

    with caplog.at_level(logging.WARNING):
        place.disk.watch = watch
        place.reopen()
        for moment in range(2_000, 2_008):
            place.commit(1, at_ms=moment)
        place.log.truncate_to(Offset(5))
        place.log.truncate_to(Offset(4))
        place.commit(1, at_ms=2_100, epoch=2)
    assert all("ppend times " in message for message in caplog.messages)
    place.disk.watch = None
    place.commit(1, at_ms=3_000, epoch=2)
    assert place.found[-1] == (5, 6, 2, 3_000)
    assert everything(place.log) == b"".join(
        [*(batch(offset) for offset in range(4)), batch(4, epoch=2), batch(5, epoch=2)]
    )
    assert list(no_gaps(place.found))


def no_gaps(found: list[Found]) -> Iterator[bool]:
    """Each entry begins where the one before ended."""
    for (_, end, _, _), (base, _, _, _) in itertools.pairwise(found):
        assert base == end
        yield True


def test_an_index_that_goes_does_not_keep_the_one_that_is_cut_from_it() -> None:
    """Records of one time are in place of others, whatever the disk makes of what is removed."""
    place = Place(segment_bytes_max=250)
    for moment in range(1_000, 1_006):
        place.commit(1, at_ms=moment)
    newest = LOG / f"{4:020}.appendtime"

    def watch(operation: Operation) -> Fail | None:
        fails = operation.kind is Kind.SYNC and operation.path == newest
        return Fail(errno.EIO) if fails else None

    place.disk.watch = watch
    place.log.truncate_to(Offset(3))
    kept = place.disk.content(LOG / f"{2:020}.appendtime")
    assert len(kept) == HEADER_BYTES + ENTRY_BYTES
    place.commit(1, at_ms=2_000, epoch=2)
    assert place.found[-1] == (3, 4, 2, 2_000)
