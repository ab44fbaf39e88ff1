"""The contract of `quorum.ports.Log`, for every implementation."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch
from quorum.ports import OffsetOutOfRange
from quorum.records.encode import ClientRecord, encode_client
from tests.contracts.batches import FIRST_MS, batch, outline, run
from tests.contracts.log_worlds import NO_LIMIT, WORLDS, AnyLog, World


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    world = WORLDS[request.param](tmp_path)
    yield world
    world.log.close()


@pytest.fixture
def log(world: World) -> AnyLog:
    return world.log


def filled(log: AnyLog) -> list[bytes]:
    """Append ten batches of two records, the first half committed, in epochs 1, 1, 3, 3, 3, ..."""
    batches = []
    for index in range(10):
        batches.append(batch(2 * index, 2, epoch=1 if index < 2 else 3))
        log.append(batches[-1])
        if index == 4:
            log.commit()
    return batches


def test_an_empty_log_ends_where_it_starts(log: AnyLog) -> None:
    assert log.start == 0
    assert log.end == OffsetAndEpoch(Epoch(0), Offset(0))
    assert list(log.epochs) == []
    assert log.size_bytes == 0
    assert log.read(Offset(0), Offset(0), NO_LIMIT) == b""
    assert log.read(Offset(0), Offset(9), NO_LIMIT) == b""
    assert log.commit() == log.end
    log.truncate_to(Offset(0))
    assert log.offset_for_timestamp(0) is None


def test_appended_batches_are_outlined_and_readable_at_once(log: AnyLog) -> None:
    assert list(log.append(batch(0, 3))) == [outline(0, 3, 1)]
    assert log.end == OffsetAndEpoch(Epoch(1), Offset(3))
    assert log.read(Offset(0), Offset(3), NO_LIMIT) == batch(0, 3)
    assert log.size_bytes == len(batch(0, 3))


def test_several_batches_are_appended_at_once_from_any_buffer(log: AnyLog) -> None:
    first, second, third = run(0, 2, 1, 4, epoch=2)
    assert list(log.append(bytearray(first + second))) == [outline(0, 2, 2), outline(2, 3, 2)]
    assert list(log.append(memoryview(third))) == [outline(3, 7, 2)]
    assert list(log.append(b"")) == []
    log.commit()
    assert log.read(Offset(0), Offset(7), NO_LIMIT) == first + second + third


def test_a_read_begins_with_the_batch_that_holds_the_start_and_ends_at_or_below_the_end(
    log: AnyLog,
) -> None:
    batches = filled(log)
    for start, end in product(range(21), range(25)):
        whole = b"".join(batches[start // 2 : min(end, 20) // 2]) if start < end else b""
        assert log.read(Offset(start), Offset(end), NO_LIMIT) == whole, (start, end)


@pytest.mark.parametrize("spare", [-1, 0, 1])
def test_a_read_is_cut_at_its_size_but_holds_at_least_one_batch(log: AnyLog, spare: int) -> None:
    """KIP-74."""
    batches = filled(log)
    for start, count in product([0, 5, 18], range(1, 11)):
        wanted = batches[start // 2 : start // 2 + count]
        max_bytes = sum(map(len, wanted)) + spare
        if spare < 0 and len(wanted) > 1:
            wanted = wanted[:-1]
        assert log.read(Offset(start), Offset(20), max_bytes) == b"".join(wanted), (start, count)


def test_a_read_of_no_bytes_still_holds_one_batch(log: AnyLog) -> None:
    batches = filled(log)
    assert log.read(Offset(6), Offset(20), 0) == batches[3]


@pytest.mark.parametrize("start", [-1, 21, 1000])
def test_a_read_outside_the_log_is_refused(log: AnyLog, start: int) -> None:
    filled(log)
    with pytest.raises(OffsetOutOfRange, match=rf"offset {start} is outside .* \[0, 20\]"):
        log.read(Offset(start), Offset(2000), NO_LIMIT)


def test_each_epoch_is_listed_with_its_first_offset(log: AnyLog) -> None:
    filled(log)
    assert list(log.epochs) == [(1, 0), (3, 4)]
    assert log.end == OffsetAndEpoch(Epoch(3), Offset(20))


def test_a_commit_says_what_it_wrote(log: AnyLog) -> None:
    log.append(batch(0, 3))
    assert log.commit() == OffsetAndEpoch(Epoch(1), Offset(3))
    log.append(batch(3, 1, epoch=2))
    assert log.commit(sync=False) == OffsetAndEpoch(Epoch(2), Offset(4))


def test_committed_records_survive_a_crash_and_others_do_not(world: World) -> None:
    batches = filled(world.log)
    log = world.crash()
    assert log.end == OffsetAndEpoch(Epoch(3), Offset(10))
    assert list(log.epochs) == [(1, 0), (3, 4)]
    assert log.read(Offset(0), Offset(10), NO_LIMIT) == b"".join(batches[:5])
    log.append(batch(10, 2, epoch=4))
    log.commit()
    assert world.crash().end == OffsetAndEpoch(Epoch(4), Offset(12))


def test_a_closed_log_lost_nothing(world: World) -> None:
    batches = filled(world.log)
    world.log.close()
    world.log.close()
    log = world.crash()
    assert log.read(Offset(0), Offset(20), NO_LIMIT) == b"".join(batches)


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("end", [0, 2, 4, 6, 10, 12, 18, 20])
def test_a_truncated_log_ends_at_the_given_offset_and_continues_there(
    world: World, end: int, committed: bool
) -> None:
    log = world.log
    batches = filled(log)
    if committed:
        log.commit()
    log.truncate_to(Offset(end))
    kept = b"".join(batches[: end // 2])
    epoch = 0 if end == 0 else 1 if end <= 4 else 3
    assert log.end == OffsetAndEpoch(Epoch(epoch), Offset(end))
    assert list(log.epochs) == [(1, 0), (3, 4)][: (end > 0) + (end > 4)]
    assert log.size_bytes == len(kept)
    assert log.read(Offset(0), Offset(end), NO_LIMIT) == kept
    with pytest.raises(OffsetOutOfRange):
        log.read(Offset(end + 1), Offset(end + 2), NO_LIMIT)
    log.append(batch(end, 3, epoch=5))
    assert log.read(Offset(0), Offset(end + 3), NO_LIMIT) == kept + batch(end, 3, epoch=5)
    log.commit()
    log = world.crash()
    assert log.read(Offset(0), Offset(end + 3), NO_LIMIT) == kept + batch(end, 3, epoch=5)


@pytest.mark.parametrize("end", [0, 2, 4, 8, 10, 12, 20])
def test_a_truncation_is_durable_when_it_returns_and_commits_nothing(
    world: World, end: int
) -> None:
    batches = filled(world.log)
    world.log.truncate_to(Offset(end))
    log = world.crash()
    assert log.end.offset == min(end, 10)
    assert log.read(Offset(0), Offset(20), NO_LIMIT) == b"".join(batches[: min(end, 10) // 2])


@pytest.mark.parametrize("end", [1, 9, 15, -1, 21])
def test_a_truncation_elsewhere_than_at_a_boundary_is_our_own_mistake(
    log: AnyLog, end: int
) -> None:
    filled(log)
    with pytest.raises(AssertionError):
        log.truncate_to(Offset(end))
    assert log.end.offset == 20


@pytest.mark.parametrize(
    "wrong", [batch(19), batch(21), batch(20, epoch=2), batch(20, epoch=3) + batch(22, epoch=3)]
)
def test_an_append_that_does_not_continue_the_log_is_our_own_mistake_and_changes_nothing(
    log: AnyLog, wrong: bytes
) -> None:
    batches = filled(log)
    with pytest.raises(AssertionError):
        log.append(wrong)
    assert log.end == OffsetAndEpoch(Epoch(3), Offset(20))
    assert log.read(Offset(0), Offset(30), NO_LIMIT) == b"".join(batches)


def test_a_log_may_start_elsewhere_than_at_0(world: World) -> None:
    log = world.open_at(Offset(400))
    world.log.close()
    world.log = log
    assert (log.start, log.end) == (400, OffsetAndEpoch(Epoch(0), Offset(400)))
    log = world.crash()
    assert (log.start, log.end) == (400, OffsetAndEpoch(Epoch(0), Offset(400)))
    log.append(batch(400, 2, epoch=7))
    log.commit()
    log = world.crash()
    assert (log.start, log.end) == (400, OffsetAndEpoch(Epoch(7), Offset(402)))
    assert list(log.epochs) == [(7, 400)]
    with pytest.raises(OffsetOutOfRange):
        log.read(Offset(399), Offset(402), NO_LIMIT)
    log.truncate_to(Offset(400))
    assert (world.crash().start, log.end.offset) == (400, 400)


def cleaned(log: AnyLog, start: int) -> None:
    """Cut the log at its start, and let go of what is below."""
    log.advance_start(Offset(start))
    while log.remove_obsolete():
        pass


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("start", [0, 2, 4, 8, 10, 12, 20])
def test_a_log_that_was_cut_at_its_start_holds_the_rest_and_goes_on(
    world: World, start: int, committed: bool
) -> None:
    log = world.log
    batches = filled(log)
    if committed:
        log.commit()
    cleaned(log, start)
    kept = b"".join(batches[start // 2 :])
    assert (log.start, log.end) == (start, OffsetAndEpoch(Epoch(3), Offset(20)))
    epochs = {0: [(1, 0), (3, 4)], 2: [(1, 2), (3, 4)], 20: []}
    assert list(log.epochs) == epochs.get(start, [(3, start)])
    assert log.read(Offset(start), Offset(20), NO_LIMIT) == kept
    for below in range(start):
        with pytest.raises(OffsetOutOfRange):
            log.read(Offset(below), Offset(20), NO_LIMIT)
    log.append(batch(20, 3, epoch=3))
    log.commit()
    assert log.read(Offset(start), Offset(23), NO_LIMIT) == kept + batch(20, 3, epoch=3)
    # What was below may be found again, but never less than what is above.
    log = world.crash()
    assert log.start <= start
    log.advance_start(Offset(start))
    assert log.end == OffsetAndEpoch(Epoch(3), Offset(23))
    assert log.read(Offset(start), Offset(23), NO_LIMIT) == kept + batch(20, 3, epoch=3)


@pytest.mark.parametrize("end", [8, 10, 14])
def test_a_log_that_was_cut_at_its_start_can_be_truncated_down_to_it(
    world: World, end: int
) -> None:
    batches = filled(world.log)
    world.log.commit()
    cleaned(world.log, 8)
    with pytest.raises(AssertionError):
        world.log.truncate_to(Offset(6))
    world.log.truncate_to(Offset(end))
    assert (world.log.start, world.log.end) == (8, OffsetAndEpoch(Epoch(3), Offset(end)))
    assert world.log.read(Offset(8), Offset(20), NO_LIMIT) == b"".join(batches[4 : end // 2])


@pytest.mark.parametrize("start", [0, 6, 20, 400])
def test_a_log_that_begins_anew_holds_nothing_of_the_old_one(world: World, start: int) -> None:
    log = world.log
    filled(log)
    log.begin_anew(Offset(start))
    assert (log.start, log.end) == (start, OffsetAndEpoch(Epoch(0), Offset(start)))
    assert log.commit() == log.end
    log = world.crash()
    assert (log.start, log.end, log.epochs) == (start, OffsetAndEpoch(Epoch(0), Offset(start)), ())
    log.append(batch(start, 2, epoch=7))
    log.commit()
    log = world.crash()
    assert log.read(Offset(start), Offset(start + 2), NO_LIMIT) == batch(start, 2, epoch=7)


def test_an_offset_is_found_by_time(log: AnyLog) -> None:
    """KIP-79: the first record in the order of offsets that is at least as young."""
    for index, timestamp_ms in enumerate([500, 900, 700, 1_300]):
        log.append(batch(2 * index, 2, timestamp_ms=timestamp_ms))
    log.commit()
    records = [ClientRecord(time_ms, None, b"v") for time_ms in (1_400, 2_000, 1_900)]
    spread = encode_client(records)
    spread[0:8] = (8).to_bytes(8, "big")
    spread[12:16] = (1).to_bytes(4, "big")
    log.append(spread)
    asked = [0, 500, 501, 900, 901, 1_300, 1_301, 1_400, 1_401, 2_000, 2_001]
    assert [log.offset_for_timestamp(each) for each in asked] == [
        (0, 500),
        (0, 500),
        (2, 900),
        (2, 900),
        (6, 1_300),
        (6, 1_300),
        (8, 1_400),
        (8, 1_400),
        (9, 2_000),
        (9, 2_000),
        None,
    ]


def test_records_that_cannot_be_decompressed_are_found_by_the_time_of_their_batch(
    log: AnyLog,
) -> None:
    squeezed = bytearray(batch(1, 3, timestamp_ms=FIRST_MS))
    squeezed[22] |= 4  # zstd, which a log stores and does not read
    log.append(batch(0, timestamp_ms=5))
    log.append(squeezed)
    assert log.offset_for_timestamp(6) == (1, FIRST_MS)


def test_a_time_is_looked_for_in_vain_after_its_record_was_truncated(log: AnyLog) -> None:
    log.append(batch(0, timestamp_ms=5))
    log.append(batch(1, timestamp_ms=50))
    log.commit()
    log.truncate_to(Offset(1))
    assert log.offset_for_timestamp(6) is None
    log.append(batch(1, timestamp_ms=7))
    assert log.offset_for_timestamp(6) == (1, 7)
