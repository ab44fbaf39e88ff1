"""The offsets of a stream: append, roll, truncate, restart, lose segments."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

from lag.source.stream_offsets import Follower, common_end, tasks_between
from tests.lag import handmade_logs


class Stream:
    """Spark's calls to a stream, without Spark; each is made as by a new process."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.options = handmade_logs.asked(path, **options)
        self.offset: dict[str, Any] = {}

    def look(self, bytes_max: int | None = None) -> list[dict[str, Any]]:
        """The rows that have come since the last look."""
        start = json.loads(json.dumps(self.offset))
        latest = Follower(self.options).latest(start, bytes_max)
        self.offset = json.loads(json.dumps(latest))
        return handmade_logs.rows_of(self.options, tasks_between(start, self.offset, self.options))


def offsets(rows: list[dict[str, Any]]) -> list[int]:
    return [row["base_offset"] for row in rows]


def test_appended_records_come_once(tmp_path: Path) -> None:
    made = handmade_logs.batches([3, 2, 5])
    stream = Stream(tmp_path)
    handmade_logs.write_segment(tmp_path, 0, made[:2])
    assert offsets(stream.look()) == [0, 3]
    assert stream.look() == []
    handmade_logs.write_segment(tmp_path, 0, made)
    assert offsets(stream.look()) == [5]


def test_an_end_that_is_not_whole_waits(tmp_path: Path) -> None:
    made = handmade_logs.batches([3, 2])
    stream = Stream(tmp_path)
    handmade_logs.write_segment(tmp_path, 0, [made[0], made[1][:-1]])
    assert offsets(stream.look()) == [0]
    assert stream.look() == []
    handmade_logs.write_segment(tmp_path, 0, made)
    assert offsets(stream.look()) == [3]


def test_new_segments_and_new_replicas_are_picked_up(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    handmade_logs.write_segment(tmp_path / "a", 0, handmade_logs.batches([3]))
    assert offsets(stream.look()) == [0]
    handmade_logs.write_segment(tmp_path / "a", 3, handmade_logs.batches([2], base=3))
    handmade_logs.write_segment(tmp_path / "b", 7, handmade_logs.batches([2], base=7))
    found = stream.look()
    assert [(row["replica"], row["base_offset"]) for row in found] == [("a", 3), ("b", 7)]


def test_a_truncation_by_a_new_leader_is_marked_and_what_replaced_it_told(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    kept, gone = handmade_logs.batches([3, 2]), handmade_logs.batches([4], base=5)
    handmade_logs.write_segment(tmp_path, 0, [*kept, *gone])
    assert [row["generation"] for row in stream.look()] == [0, 0, 0]
    new = handmade_logs.batches([1, 1], base=5, epoch=4)
    handmade_logs.write_segment(tmp_path, 0, [*kept, *new])
    mark, *others = stream.look()
    assert (mark["mark"], mark["base_offset"], mark["last_offset"]) == ("truncated", 5, 8)
    assert (mark["generation"], mark["epoch"]) == (1, 4)
    assert [(row["mark"], row["base_offset"], row["generation"]) for row in others] == [
        (None, 5, 1),
        (None, 6, 1),
    ]
    assert stream.look() == []


def test_segments_that_were_removed_before_they_were_read_are_marked(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    first = handmade_logs.write_segment(tmp_path, 0, handmade_logs.batches([3]))
    assert offsets(stream.look()) == [0]
    first.unlink()
    handmade_logs.write_segment(tmp_path, 9, handmade_logs.batches([2], base=9))
    mark, row = stream.look()
    assert (mark["mark"], mark["base_offset"], mark["last_offset"]) == ("missing", 3, 8)
    assert (row["mark"], row["base_offset"]) == (None, 9)


def test_damage_is_marked(tmp_path: Path) -> None:
    one, two, three = handmade_logs.batches([3, 2, 5])
    handmade_logs.write_segment(tmp_path, 0, [one])
    stream = Stream(tmp_path)
    assert offsets(stream.look()) == [0]
    handmade_logs.write_segment(tmp_path, 0, [one, two[:-3] + b"\0\1\2", three])
    found = stream.look()
    assert [(row["mark"], row["base_offset"], row["last_offset"]) for row in found] == [
        ("missing", 3, 4),
        (None, 5, 9),
    ]


def test_a_batch_that_failed_is_read_again_as_it_was(tmp_path: Path) -> None:
    """Spark plans a batch again from the offsets in its checkpoint, when the log has grown."""
    made = handmade_logs.batches([3, 2, 5])
    handmade_logs.write_segment(tmp_path, 0, made[:2])
    stream = Stream(tmp_path)
    first = stream.look()
    handmade_logs.write_segment(tmp_path, 0, made)
    again = handmade_logs.rows_of(stream.options, tasks_between({}, stream.offset, stream.options))
    assert again == first


def test_a_look_can_be_limited_in_bytes_of_each_log(tmp_path: Path) -> None:
    for base in range(0, 30, 10):
        handmade_logs.write_segment(tmp_path, base, handmade_logs.batches([10], base=base))
    stream = Stream(tmp_path)
    assert [offsets(stream.look(bytes_max=1)) for _ in range(4)] == [[0], [10], [20], []]


def test_a_stream_that_is_to_stop_where_logs_are_now_sees_nothing_later(tmp_path: Path) -> None:
    first, second, third = handmade_logs.batches([3, 2, 5])
    handmade_logs.write_segment(tmp_path / "a", 0, [first])
    handmade_logs.write_segment(tmp_path / "a", 3, [second])
    follower = Follower(handmade_logs.asked(tmp_path))
    follower.stop_here()
    handmade_logs.write_segment(tmp_path / "a", 3, [second, third])
    handmade_logs.write_segment(tmp_path / "a", 10, handmade_logs.batches([1], base=10))
    handmade_logs.write_segment(tmp_path / "b", 0, [first])
    looks: list[dict[str, Any]] = [{}]
    for _ in range(3):
        looks.append(json.loads(json.dumps(follower.latest(looks[-1], bytes_max=1))))
    ends = [{path: log["end"] for path, log in look["logs"].items()} for look in looks[1:]]
    assert ends == [{str(tmp_path / "a"): 3}, {str(tmp_path / "a"): 5}, {str(tmp_path / "a"): 5}]
    assert looks[2] == looks[3]


def test_a_log_that_is_truncated_before_a_stream_stopped_there_comes_to_an_end(
    tmp_path: Path,
) -> None:
    kept, gone = handmade_logs.batches([3, 2])
    handmade_logs.write_segment(tmp_path, 0, [kept, gone])
    follower = Follower(handmade_logs.asked(tmp_path))
    first = follower.latest({})
    follower.stop_here()
    handmade_logs.write_segment(tmp_path, 0, [kept, *handmade_logs.batches([1], base=3, epoch=2)])
    second = json.loads(json.dumps(follower.latest(first)))
    assert second["logs"][str(tmp_path)]["generation"] == 1
    assert follower.latest(second) == Follower(handmade_logs.asked(tmp_path)).latest(second)


def test_times_that_come_just_behind_are_told_with_their_batches(tmp_path: Path) -> None:
    segment = handmade_logs.write_segment(tmp_path, 0, handmade_logs.batches([3, 2]))
    handmade_logs.write_index(segment, [(100, 3, 1), (-1, 5, -1)])
    assert [row["local_append_ms"] for row in Stream(tmp_path).look()] == [100, None]


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[tuple[int, int]], int]:
    """The epochs of a log that began at offset 0, and its end."""
    offset, epochs = 0, []
    for epoch in sorted(draw(st.sets(st.integers(1, 9), min_size=1, max_size=4))):
        epochs.append((epoch, offset))
        offset += draw(st.integers(1, 5))
    return epochs, offset


@given(histories(), histories())
def test_logs_are_the_same_as_far_as_their_epochs_are(
    some: tuple[list[tuple[int, int]], int], others: tuple[list[tuple[int, int]], int]
) -> None:
    """Beside a slow twin that writes out the epoch of every record."""

    def written_out(epochs: list[tuple[int, int]], end: int) -> list[int]:
        return [max(epoch for epoch, start in epochs if start <= at) for at in range(end)]

    same = 0
    for one, other in zip(written_out(*some), written_out(*others), strict=False):
        if one != other:
            break
        same += 1
    assert common_end(tuple(some[0]), some[1], tuple(others[0]), others[1]) == same
