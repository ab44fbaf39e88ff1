"""Segments read by byte ranges: any division gives the same batches and the same damage."""

import dataclasses
import json
import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

from lag.source.byte_ranges import WINDOW_BYTES
from lag.source.files import LocalFile
from lag.source.options import Options
from lag.source.tasks import Slice, Task
from quorum.records.batch import HEADER_BYTES
from tests.lag import handmade_logs
from tests.support.parameters import at_most_in_quick

SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=12)
# The folder of a test is written anew for each example.
SAME_FOLDER = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=at_most_in_quick(60)
)
EPOCH = range(12, 16)
"""The position of the epoch in a batch; no checksum covers it, so that a leader can stamp it,"""
COUNT_AT = 60
"""and that of the last byte of the number of records."""


def test_a_log_is_told_batch_by_batch(tmp_path: Path) -> None:
    handmade_logs.write_segment(tmp_path, 0, handmade_logs.batches([3, 1, 20]))
    found = handmade_logs.rows(tmp_path, "batches")
    assert [(row["base_offset"], row["last_offset"], row["records"]) for row in found] == [
        (0, 2, 3),
        (3, 3, 1),
        (4, 23, 20),
    ]
    assert [row["leader_append_ms"] - handmade_logs.BEGIN_MS for row in found] == [0, 3, 4]
    assert handmade_logs.rows(tmp_path, "problems") == []


def divided(options: Options, cuts: list[int]) -> list[Task]:
    """The tasks of a reading, those of files divided at these places as well."""
    tasks: list[Task] = []
    for task in handmade_logs.opened(options):
        if not isinstance(task, Slice):
            tasks.append(task)
            continue
        places = sorted({task.low, task.high, *(c for c in cuts if task.low < c < task.high)})
        places = places if len(places) > 1 else [task.low, task.high]
        tasks += [dataclasses.replace(task, low=low, high=high) for low, high in pairwise(places)]
    return tasks


def test_an_impossible_base_offset_is_a_problem_in_any_division(tmp_path: Path) -> None:
    """No checksum covers the base offset."""
    first, second = handmade_logs.batches([1, 1])
    handmade_logs.write_segment(tmp_path, 0, [first, b"\x01" + second[1:]])
    options = handmade_logs.asked(tmp_path, table="problems")
    whole = handmade_logs.rows_of(options)
    assert [row["position"] for row in whole] == [len(first)]
    assert "base offset of 72057594037927937 is impossible" in whole[0]["reason"]
    assert handmade_logs.rows_of(options, divided(options, [1])) == whole


@pytest.mark.thorough
@SAME_FOLDER
@given(SIZES, st.lists(st.integers(1, 6_000), max_size=6), st.data())
def test_any_division_tells_the_same_as_none(
    tmp_path: Path, sizes: list[int], cuts: list[int], data: st.DataObject
) -> None:
    content = bytearray(b"".join(handmade_logs.batches(sizes)))
    for _ in range(data.draw(st.integers(0, 2))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    handmade_logs.write_segment(tmp_path, 0, [bytes(content)])
    for table in ("batches", "problems", "records"):
        options = handmade_logs.asked(tmp_path, table=table)
        # The rows of a table have no order.
        whole = sorted(handmade_logs.rows_of(options), key=repr)
        parts = sorted(handmade_logs.rows_of(options, divided(options, cuts)), key=repr)
        assert parts == whole


def sound_batches(sizes: list[int]) -> list[tuple[int, int, int]]:
    """Start, end and base offset of each batch in the file."""
    found, position, base = [], 0, 0
    for size, made in zip(sizes, handmade_logs.batches(sizes), strict=True):
        found.append((position, position + len(made), base))
        position, base = position + len(made), base + size
    return found


@SAME_FOLDER
@given(SIZES, st.data())
def test_damaged_bytes_are_a_problem_and_the_rest_is_there(
    tmp_path: Path, sizes: list[int], data: st.DataObject
) -> None:
    """Any stretch of bytes is overwritten: every batch outside it is told, and what is inside is a
    row of problems, unless nothing has changed but an epoch, which no checksum covers."""
    content = bytearray(b"".join(handmade_logs.batches(sizes)))
    low = data.draw(st.integers(0, len(content) - 1))
    noise = data.draw(st.binary(min_size=1, max_size=min(200, len(content) - low)))
    changed = [at for at, byte in enumerate(noise, start=low) if content[at] != byte]
    content[low : low + len(noise)] = noise
    handmade_logs.write_segment(tmp_path, 0, [bytes(content)])
    told = {row["position"]: row["base_offset"] for row in handmade_logs.rows(tmp_path, "batches")}
    problems = handmade_logs.rows(tmp_path, "problems")
    for begin, end, base in sound_batches(sizes):
        if not any(begin <= at < end for at in changed):
            assert told[begin] == base
    epochs = {begin + at for begin, _, _ in sound_batches(sizes) for at in EPOCH}
    if not epochs.issuperset(changed):
        assert problems != []
        assert problems[0]["path"].endswith(".log")


@SAME_FOLDER
@given(SIZES, st.data())
def test_a_log_that_is_cut_off_is_whole_up_to_there(
    tmp_path: Path, sizes: list[int], data: st.DataObject
) -> None:
    content = b"".join(handmade_logs.batches(sizes))
    cut = data.draw(st.integers(0, len(content)))
    path = handmade_logs.write_segment(tmp_path, 0, [content[:cut]])
    whole = [base for _, end, base in sound_batches(sizes) if end <= cut]
    assert [row["base_offset"] for row in handmade_logs.rows(tmp_path, "batches")] == whole
    ends = [0, *(end for _, end, _ in sound_batches(sizes))]
    expected = [] if cut in ends else [("torn_tail", max(end for end in ends if end <= cut))]
    problems = handmade_logs.rows(tmp_path, "problems")
    assert [(row["kind"], row["position"]) for row in problems] == expected
    assert all(row["path"] == str(path) for row in problems)


@SAME_FOLDER
@example(sizes=[1, 1, 1], others=[1])
@given(SIZES, SIZES)
def test_a_segment_that_is_missing_is_a_gap(
    tmp_path: Path, sizes: list[int], others: list[int]
) -> None:
    for path in tmp_path.glob("*.log"):
        path.unlink()
    middle, end = sum(sizes), sum(sizes) + sum(others)
    handmade_logs.write_segment(tmp_path, 0, handmade_logs.batches(sizes))
    handmade_logs.write_segment(tmp_path, end, handmade_logs.batches([1], base=end))
    (problem,) = handmade_logs.rows(tmp_path, "problems")
    assert (problem["kind"], problem["offset"]) == ("gap", middle)
    assert f"offset {middle}, the next segment begins at {end}" in problem["reason"]


def test_segments_that_were_swapped_are_told_and_still_read(tmp_path: Path) -> None:
    first, second = handmade_logs.batches([5]), handmade_logs.batches([7], base=5)
    handmade_logs.write_segment(tmp_path, 0, second)
    handmade_logs.write_segment(tmp_path, 5, first)
    found = handmade_logs.rows(tmp_path, "problems")
    assert {row["kind"] for row in found} == {"misplaced", "duplicate"}
    assert [row["base_offset"] for row in handmade_logs.rows(tmp_path, "batches")] == [5, 0]


def test_offsets_that_repeat_and_epochs_that_fall_are_told(tmp_path: Path) -> None:
    made = [
        *handmade_logs.batches([4], epoch=3),
        *handmade_logs.batches([2], base=2, epoch=3),
        *handmade_logs.batches([2], base=9, epoch=2),
    ]
    handmade_logs.write_segment(tmp_path, 0, made)
    found = handmade_logs.rows(tmp_path, "problems")
    assert [row["kind"] for row in found] == ["duplicate", "gap", "epoch"]


def test_a_batch_of_an_older_format_is_named(tmp_path: Path) -> None:
    (made,) = handmade_logs.batches([3])
    old = made[:16] + b"\x01" + made[17:]
    handmade_logs.write_segment(tmp_path, 0, [old, *handmade_logs.batches([3], base=3)])
    (problem,) = handmade_logs.rows(tmp_path, "problems")
    assert problem["kind"] == "format"
    assert "magic 1, only 2 is known" in problem["reason"]
    assert "offsets 0 to 2 are lost" in problem["reason"]


def test_an_end_that_is_still_written_is_no_torn_tail(tmp_path: Path) -> None:
    """The rest of the batch arrives between two looks: it is then whole, and told."""
    from lag.source.byte_ranges import Damage, RangeReader, ValidBatches

    content = b"".join(handmade_logs.batches([4, 4]))
    path = handmade_logs.write_segment(tmp_path, 0, [content[:-10]])

    def rest_arrives(size: int) -> bool:
        path.write_bytes(content)
        return size < len(content)

    fd = os.open(path, os.O_RDONLY)
    try:
        size = len(content) - 10
        reader = RangeReader(LocalFile(fd), 0, size, planned_size=size, look_again=rest_arrives)
        found = list(reader)
    finally:
        os.close(fd)
    assert sum(len(each.starts) for each in found if isinstance(each, ValidBatches)) == 2
    assert not any(isinstance(each, Damage) for each in found)


def test_batches_larger_than_a_window_are_read(tmp_path: Path) -> None:
    large = handmade_logs.batch(0, [bytes(range(256)) * 20_000])
    handmade_logs.write_segment(tmp_path, 0, [large, *handmade_logs.batches([2], base=1)])
    for partition_bytes in (1 << 20, 1 << 30):
        found = handmade_logs.rows(tmp_path, "batches", partition_bytes=partition_bytes)
        assert [row["base_offset"] for row in found] == [0, 1]
    assert handmade_logs.rows(tmp_path, "problems", partition_bytes=1 << 20) == []


@pytest.mark.parametrize("length", [-1, 6 * WINDOW_BYTES], ids=["impossible", "cut off"])
def test_damage_is_read_by_windows_unless_it_may_be_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    """A header whose length is wrong, before many bytes that are nothing."""
    (made,) = handmade_logs.batches([1])
    head = made[:8] + length.to_bytes(4, "big", signed=True) + made[12:]
    path = handmade_logs.write_segment(tmp_path, 0, [head])
    os.truncate(path, 5 * WINDOW_BYTES)
    pread, sizes = os.pread, list[int]()

    def counted(fd: int, size: int, position: int) -> bytes:
        data = pread(fd, size, position)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counted)
    options = handmade_logs.asked(tmp_path, table="problems", partition_bytes=1 << 30)
    (problem,) = handmade_logs.rows_of(options)
    assert problem["position"] == 0
    large = [size for size in sizes if size > WINDOW_BYTES + HEADER_BYTES]
    # A batch that is cut off is read to find that out, and to say why.
    assert large == ([] if length < 0 else 2 * [5 * WINDOW_BYTES])


def test_a_wrong_number_of_records_is_mended_in_a_batch_of_many_windows(tmp_path: Path) -> None:
    """The checksum says which of the two numbers is right."""
    made = bytearray(handmade_logs.batch(0, [b"x" * WINDOW_BYTES] * 2))
    made[COUNT_AT] ^= 4
    handmade_logs.write_segment(tmp_path, 0, [bytes(made), *handmade_logs.batches([1], base=2)])
    walked = handmade_logs.rows(tmp_path, "walk")
    runs = [json.loads(row["said"]) for row in walked if row["kind"] == "runs"]
    assert [(run["first"], run["end"], run["batches"]) for run in runs] == [(0, 2, 0), (2, 3, 1)]


def ends(tmp_path: Path, *tail: bytes) -> tuple[list[tuple[int, int]], bool]:
    """Of a log that ends with these bytes: offset and epoch of the damaged batches that are known,
    and whether there may be more."""
    sound = handmade_logs.batches([1, 1], epoch=3)
    handmade_logs.write_segment(tmp_path, 0, [*sound, *tail])
    walked = handmade_logs.rows(tmp_path, "walk")
    runs = [json.loads(row["said"]) for row in walked if row["kind"] == "runs"]
    damaged = [(run["first"], run["epoch"]) for run in runs if not run["batches"]]
    return damaged, any(row["kind"] == "unknown_end" for row in walked)


def flipped(made: bytes, at: int, bit: int = 1) -> bytes:
    return made[:at] + bytes([made[at] ^ 1 << bit]) + made[at + 1 :]


def test_damaged_batches_at_the_end_of_a_log_are_known_by_their_headers(tmp_path: Path) -> None:
    """The record of the next leader, and a batch behind it."""
    elected = handmade_logs.leader_change(2, epoch=4, leader=1, at_ms=handmade_logs.BEGIN_MS)
    (last,) = handmade_logs.batches([2], base=3, epoch=4)
    body, length, top = len(elected) - 1, 9, 0
    for at in (body, length, top):
        known, is_open = ends(tmp_path, flipped(elected, at), flipped(last, len(last) - 1))
        assert (known, is_open) == ([(2, 4), (3, 4)], False), at


def test_the_end_of_a_log_may_have_been_of_a_later_epoch_unless_a_header_says(
    tmp_path: Path,
) -> None:
    elected = handmade_logs.leader_change(2, epoch=4, leader=1, at_ms=handmade_logs.BEGIN_MS)
    (last,) = handmade_logs.batches([2], base=2, epoch=3)
    assert ends(tmp_path) == ([], False)
    assert ends(tmp_path, last) == ([], False)
    assert ends(tmp_path, last[:-1]) == ([], False), "cut off, and of the same epoch"
    assert ends(tmp_path, elected[:-1]) == ([], True)
    assert ends(tmp_path, last[:20]) == ([], True)
    assert ends(tmp_path, bytes(512)) == ([], True)
    assert ends(tmp_path, last[:20] + bytes(512)) == ([], True), "half of the header is zeros"
    assert ends(tmp_path, flipped(last, len(last) - 1)) == ([(2, 3)], False)
    assert ends(tmp_path, flipped(last, len(last) - 1), bytes(512)) == ([(2, 3)], True)
