"""The reports about topics: small logs with known answers."""

from typing import Any

import pytest

pytest.importorskip("numpy", reason="the extra spark is not installed")

from lag.reports.holes import Holes
from lag.reports.quorum_log import Hole
from lag.reports.topics import PartitionsAdded, TopicHistory, topic_history

START = 10
"""The log begins here, after a snapshot."""


def record(offset: int, type_: str, **said: Any) -> dict[str, Any]:
    """A record of the quorum's log, as the report collects it, 1 s after the one before."""
    nothing = dict.fromkeys(("topic", "topic_id", "name", "move_id", "state"))
    return {
        "offset": offset, "append_ms": offset * 1_000, "type": type_, "said": {}, **nothing, **said
    }  # fmt: skip


def config(offset: int, topic: str, name: str, value: str | None) -> dict[str, Any]:
    return record(offset, "ConfigRecord", topic=topic, name=name, said={"value": value})


def owned(offset: int, move_id: int, state: int, name: str) -> dict[str, Any]:
    return record(offset, "ConfigOwned", topic="t", name=name, move_id=move_id, state=state)


def added(topic_id: str, first: int, count: int, at_ms: int | None = None) -> PartitionsAdded:
    at_ms = first * 1_000 if at_ms is None else at_ms
    return PartitionsAdded(topic_id, first, first + count - 1, count, at_ms)


def told(*rows: Any) -> list[tuple[Any, ...]]:
    """The events of these records and partitions: offset, topic, event, what is known of it."""
    records = [row for row in rows if not isinstance(row, PartitionsAdded)]
    parts = [row for row in rows if isinstance(row, PartitionsAdded)]
    return [
        (
            row["offset"],
            row["topic"],
            row["event"],
            row["partitions"] if row["config"] is None else (row["config"], row["value"]),
        )
        for row in topic_history(records, parts, START).events
    ]


def test_a_topic_is_created_grows_and_is_deleted() -> None:
    log: list[Any] = [
        record(20, "TopicRecord", topic="t", topic_id="T"),
        config(21, "t", "retention.ms", "5"),
        added("T", 22, 3, at_ms=20_000),
        # The same request, in the next batch.
        added("T", 25, 2, at_ms=20_001),
        added("T", 30, 1),
        config(31, "t", "retention.ms", None),
        record(40, "RemoveTopicRecord", topic_id="T"),
        record(50, "TopicRecord", topic="t", topic_id="T2"),
        added("T2", 51, 1),
        # Directly behind, and much later.
        added("T2", 52, 1, at_ms=90_000),
    ]
    assert told(*log) == [
        (20, "t", "created", 5),
        (21, "t", "config_set", ("retention.ms", "5")),
        (30, "t", "grown", 6),
        (31, "t", "config_removed", ("retention.ms", None)),
        (40, "t", "deleted", 6),
        (50, "t", "created", 1),
        (52, "t", "grown", 2),
    ]
    records = [row for row in log if not isinstance(row, PartitionsAdded)]
    parts = [row for row in log if isinstance(row, PartitionsAdded)]
    gone, again = topic_history(records, parts, START).topics
    assert gone == {
        "topic_id": "T", "topic": "t", "created_ms": 20_000, "deleted_ms": 40_000, "partitions": 6,
        "partitions_at_first": 5, "grown": 1, "config_changes": 2, "last_change_ms": 40_000,
        "hole": None,
    }  # fmt: skip
    assert (again["topic_id"], again["deleted_ms"], again["partitions"]) == ("T2", None, 2)


def test_what_a_snapshot_tells_is_the_state_before_and_no_event() -> None:
    log = [
        record(9, "TopicRecord", topic="t", topic_id="T"),
        config(9, "t", "retention.ms", "5"),
        added("T", 9, 4),
        added("T", 15, 2),
        record(16, "RemoveTopicRecord", topic_id="T"),
    ]
    assert told(*log) == [(15, "t", "grown", 6), (16, "t", "deleted", 6)]
    (topic,) = topic_history([log[0], log[1], log[4]], [log[2], log[3]], START).topics  # type: ignore[list-item]
    assert (topic["created_ms"], topic["partitions_at_first"], topic["grown"]) == (None, None, 1)


def test_without_a_snapshot_the_partitions_of_an_older_topic_are_unknown() -> None:
    log = [
        added("T", 15, 2),
        config(16, "t", "retention.ms", "5"),
        record(17, "RemoveTopicRecord", topic_id="T"),
    ]
    assert told(*log) == [
        (15, None, "grown", None),
        (16, "t", "config_set", ("retention.ms", "5")),
        (17, None, "deleted", None),
    ]


def test_a_configuration_that_a_move_sets_is_by_whom_began_the_move() -> None:
    """ann's move 7 and bob's move 8 take a list in turns; in between a user changes it."""
    name = "leader.replication.throttled.replicas"
    records = [
        record(11, "TopicRecord", topic="t", topic_id="T"),
        record(20, "MoveBegun", said={"id": 7, "who": "ann"}),
        owned(21, 7, 1, name),
        config(22, "t", name, ""),
        config(23, "t", "retention.ms", "5"),
        record(30, "MoveBegun", said={"id": 8, "who": "bob"}),
        owned(31, 8, 1, name),
        config(32, "t", name, ""),
        owned(40, 7, 1, name),
        config(41, "t", name, ""),
        owned(50, 7, 0, name),
        config(51, "t", name, ""),
        owned(60, 8, 0, name),
        config(61, "t", name, None),
        config(70, "t", name, ""),
        owned(80, 9, 1, name),
        owned(81, 9, 2, name),
        config(82, "t", name, None),
    ]
    events = topic_history(records, [], START).events
    by = {row["offset"]: (row["move_id"], row["who"]) for row in events if row["config"]}
    nobody = (None, None)
    assert by == {
        22: (7, "ann"),
        23: nobody,
        32: (8, "bob"),
        41: nobody,
        51: (7, "ann"),
        61: (8, "bob"),
        70: nobody,
        82: nobody,
    }
    assert {row["value"] for row in events if row["config"] == name} == {None}


def told_around(hole: Hole, *rows: Any) -> TopicHistory:
    records = [row for row in rows if not isinstance(row, PartitionsAdded)]
    parts = [row for row in rows if isinstance(row, PartitionsAdded)]
    return topic_history(records, parts, START, Holes([hole]))


def test_what_a_hole_may_have_changed_of_a_topic_is_unknown() -> None:
    hole = Hole(30, 40, 1, 1, 29_000, 40_000)
    found = told_around(
        hole,
        record(20, "TopicRecord", topic="gone", topic_id="G"),
        added("G", 21, 1),
        record(22, "RemoveTopicRecord", topic_id="G"),
        record(25, "TopicRecord", topic="t", topic_id="T"),
        added("T", 26, 2, at_ms=25_000),
        # Directly behind the hole: the first of them may be in it.
        added("T", 40, 1),
        added("T", 45, 1),
        # The topic of this name may be another one by now, and these the first of their topic.
        config(46, "gone", "retention.ms", "5"),
        added("N", 47, 1),
        config(48, "t", "retention.ms", "5"),
    )
    unknown = dict.fromkeys(("partitions", "grown", "config_changes", "last_change_ms"))
    gone, kept, new = found.topics
    assert (gone["hole"], gone["partitions"], gone["deleted_ms"]) == (None, 1, 22_000)
    assert kept == {
        "topic_id": "T", "topic": "t", "created_ms": 25_000, "deleted_ms": None,
        "partitions_at_first": 2, "hole": "30-39", **unknown,
    }  # fmt: skip
    assert (new["topic"], new["partitions_at_first"], new["hole"]) == (None, None, "30-39")
    events = [(row["offset"], row["topic_id"], row["event"], row["hole"]) for row in found.events]
    assert events[3:] == [
        (40, "T", None, "30-39"),
        (45, "T", "grown", "30-39"),
        (46, None, "config_set", "30-39"),
        (47, "N", None, "30-39"),
        (48, "T", "config_set", None),
    ]


def test_behind_a_hole_only_moves_that_began_there_are_known_to_hold_a_configuration() -> None:
    name = "leader.replication.throttled.replicas"
    log: list[Any] = [
        record(20, "TopicRecord", topic="t", topic_id="T"),
        added("T", 21, 1),
        record(22, "MoveBegun", said={"id": 1, "who": "ann"}),
        record(40, "MoveBegun", said={"id": 2, "who": "bob"}),
        # It says that the topic of this name is still the same.
        added("T", 41, 1),
        owned(42, 1, 1, name),
        config(43, "t", name, "1:1"),
        owned(44, 2, 1, name),
        config(45, "t", name, "1:2"),
    ]
    hole = Hole(30, 40, 1, 1, 29_000, 40_000)
    before, after = told_around(hole, *log).events[-2:]
    assert (before["move_id"], before["who"], before["hole"]) == (None, None, "30-39")
    assert (after["move_id"], after["who"], after["hole"]) == (2, "bob", None)


def test_a_topic_may_have_been_created_with_more_partitions_in_a_hole() -> None:
    hole = Hole(22, 40, 1, 1, 20_000, 40_000)
    found = told_around(
        hole, record(20, "TopicRecord", topic="t", topic_id="T"), added("T", 21, 1, at_ms=20_000)
    )
    (created,) = found.events
    (topic,) = found.topics
    assert (created["event"], created["partitions"], created["hole"]) == ("created", None, "22-39")
    assert (topic["partitions_at_first"], topic["created_ms"]) == (None, 20_000)
