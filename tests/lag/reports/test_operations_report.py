"""Our moves in the reports: the request, pauses, and steps."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")

from lag.reports.operations import operations
from lag.reports.planned_steps import limits_in_force, steps_needed
from lag.reports.report import report
from statemachine.reassignment.settings import PARALLEL_REPLICAS, REPLICA_MOVEMENTS
from statemachine.vocabulary import MoveKind, MoveOutcome, MoveState
from tests.lag.handmade_tables import MadeTables

TOPIC: dict[str, Any] = {"topic_id": "T", "partition": 0}


class Log:
    """The records of a log, as the reports take them: one more every second from 1,000 ms on."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    @property
    def now_ms(self) -> int:
        return 1_000 + 1_000 * len(self.records)

    def says(self, type_: str, **said: Any) -> None:
        self.records.append(
            {"offset": len(self.records), "append_ms": self.now_ms, "type": type_, "said": said}
        )

    def passes(self) -> None:
        """A second, with a record that means nothing here."""
        self.says("NoOpRecord")

    def begun(self, move_id: int, *, partitions: int = 2, refused: int = 0) -> None:
        self.says(
            "MoveBegun",
            id=move_id,
            kind=MoveKind.REASSIGN,
            who="ann",
            askedAtMs=self.now_ms,
            partitions=partitions,
            refused=refused,
        )

    def state(self, move_id: int, state: MoveState) -> None:
        self.says("MoveChanged", id=move_id, state=state, sinceMs=self.now_ms)

    def paused(self, *, all_: bool) -> None:
        self.says("MovesPaused", paused=all_, who="ann", sinceMs=self.now_ms)

    def ended(self, move_id: int, outcome: MoveOutcome) -> None:
        left = {"completed": 1, "cancelled": 1, "superseded": 0, "gone": 0}
        self.says("MoveEnded", id=move_id, outcome=outcome, atMs=self.now_ms, **left)

    def limited(self, name: str, value: str | None, *, resource: str = "") -> None:
        self.says("ConfigRecord", resourceType=4, resourceName=resource, name=name, value=value)


def test_a_move_is_told_from_asking_to_its_end() -> None:
    log = Log()
    log.begun(7, partitions=2, refused=1)
    log.passes()
    log.ended(7, MoveOutcome.CANCELLED)
    log.passes()
    (row,) = operations(log.records, {7: (900, False)}, log.now_ms)
    assert row == {
        "move_id": 7,
        "kind": "reassign",
        "name": "",
        "who": "ann",
        "asked_ms": 1_000,
        "ended_ms": 3_000,
        "duration_ms": 2_000,
        "outcome": "cancelled",
        "partitions_planned": 2,
        "partitions_refused": 1,
        "partitions_completed": 1,
        "partitions_cancelled": 1,
        "partitions_superseded": 0,
        "partitions_gone": 0,
        "paused_ms": 0,
        "slowest_partition_ms": 900,
        "hole": None,
    }


def test_a_pause_counts_once_whoever_paused() -> None:
    """Move 1 from 3 s to 5 s by itself, all from 4 s to 7 s; move 2 begins at 6 s."""
    log = Log()
    log.begun(1)
    log.passes()
    log.state(1, MoveState.PAUSED)
    log.paused(all_=True)
    log.state(1, MoveState.RUNNING)
    log.begun(2)
    log.paused(all_=False)
    log.passes()
    first, second = operations(log.records, {}, log.now_ms)
    assert (first["paused_ms"], first["outcome"]) == (4_000, "running")
    assert (second["paused_ms"], second["outcome"]) == (1_000, "running")


def test_a_move_paused_at_the_end_is_marked_and_an_ended_one_is_not() -> None:
    log = Log()
    log.begun(1)
    log.begun(2)
    log.begun(3)
    log.state(1, MoveState.PAUSED_BY_ITSELF)
    log.ended(2, MoveOutcome.COMPLETED)
    log.paused(all_=True)
    log.passes()
    told = operations(log.records, {3: (5_000, True)}, log.now_ms)
    assert [row["outcome"] for row in told] == ["paused", "completed", "paused"]
    assert [row["paused_ms"] for row in told] == [4_000, 0, 2_000]
    log.paused(all_=False)
    told = operations(log.records, {3: (5_000, True)}, log.now_ms)
    assert [row["outcome"] for row in told] == ["paused", "completed", "stuck"]


def test_a_pause_lasts_as_long_as_its_records_say_whenever_they_were_appended() -> None:
    """All are paused at 2,900 ms and go on at 4,900 ms; 2 ends at 5,900 ms, while it is paused."""
    log = Log()
    log.begun(1)
    log.begun(2)
    for paused, since_ms in ((True, 2_900), (False, 4_900)):
        log.says("MovesPaused", paused=paused, who="ann", sinceMs=since_ms)
    log.says("MoveChanged", id=2, state=MoveState.PAUSED, sinceMs=4_950)
    left = {"completed": 2, "cancelled": 0, "superseded": 0, "gone": 0}
    log.says("MoveEnded", id=2, outcome=MoveOutcome.COMPLETED, atMs=5_900, **left)
    first, second = operations(log.records, {}, 10_000)
    assert first["paused_ms"] == 2_000
    assert second["paused_ms"] == 2_000 + 950


def test_moves_that_do_not_begin_in_the_log_are_left_out() -> None:
    log = Log()
    log.state(9, MoveState.PAUSED)
    log.ended(9, MoveOutcome.COMPLETED)
    assert operations(log.records, {}, log.now_ms) == []


def test_steps_are_planned_with_the_limits_of_that_time() -> None:
    log = Log()
    log.limited(PARALLEL_REPLICAS, "1", resource="101")
    log.limited(PARALLEL_REPLICAS, "1")
    log.limited(PARALLEL_REPLICAS, "2")
    log.limited(REPLICA_MOVEMENTS, "1")
    log.limited(REPLICA_MOVEMENTS, None)
    log.limited(PARALLEL_REPLICAS, "none")
    changes = limits_in_force(log.records)
    assert [each.offset for each in changes] == [1, 2, 3, 4, 5]
    steps = [steps_needed((1, 2, 3), (4, 5, 6), offset, changes) for offset in range(6)]
    # The preferred leader comes first and by itself, wherever replicas of a step are counted.
    assert steps == [1, 4, 3, 3, 3, 1]
    kept = [steps_needed((1, 2, 3), (1, 4, 5), offset, changes) for offset in range(6)]
    assert kept == [1, 2, 1, 2, 1, 1]
    assert steps_needed((1, 2), (2, 1), 1, changes) == 1
    assert steps_needed((1, 2), (1, 2), 1, changes) == 0


@pytest.fixture
def told(spark: Any) -> Iterator[dict[str, list[dict[str, Any]]]]:
    """A move of t-0 from 1, 2 to 3, 4, a replica at a time; and it was paused for half a second."""
    made = MadeTables()
    made.epoch(1, 1, 0, 10_000, (1,))
    for offset in range(20):
        made.batch(offset, 10_000 + 100 * offset, {1: 10_000 + 100 * offset})

    def says(offset: int, type_: str, said: dict[str, Any] | None = None, **columns: Any) -> None:
        text = None if said is None else json.dumps(said)
        made.record(offset, 10_000 + 100 * offset, type_, json=text, **columns)

    def is_now(offset: int, replicas: list[int], isr: list[int], **columns: Any) -> None:
        moved = {"target": [3, 4], "move_id": 7, "replicas": replicas, "isr": isr, **columns}
        says(offset, "PartitionChangeRecord", **moved, **TOPIC)

    says(1, "TopicRecord", topic="t", topic_id="T")
    says(2, "PartitionRecord", replicas=[1, 2], isr=[1, 2], adding=[], removing=[], **TOPIC)
    limit = {"resourceType": 4, "resourceName": "", "name": PARALLEL_REPLICAS, "value": "1"}
    says(3, "ConfigRecord", limit, name=PARALLEL_REPLICAS)
    begun = {"id": 7, "kind": 0, "who": "ann", "askedAtMs": 10_400, "partitions": 1, "refused": 0}
    says(4, "MoveBegun", {"moveBegun": begun}, move_id=7)
    is_now(5, [1, 2, 3], [1, 2], adding=[3], removing=[])
    says(6, "MovesPaused", {"movesPaused": {"paused": True, "who": "ann", "sinceMs": 10_600}})
    is_now(7, [3, 1, 2], [3, 1, 2], adding=[], removing=[])
    says(11, "MovesPaused", {"movesPaused": {"paused": False, "who": "ann", "sinceMs": 11_100}})
    is_now(12, [3, 1, 2, 4], [3, 1, 2], adding=[4], removing=[1, 2])
    is_now(14, [3, 4], [3, 4], adding=[], removing=[], target=[], move_id=0)
    ended = {"id": 7, "outcome": 0, "atMs": 11_400, "completed": 1, "cancelled": 0}
    ended |= {"superseded": 0, "gone": 0}
    says(14, "MoveEnded", {"moveEnded": ended}, move_id=7)
    found = report(made.logs(spark))
    assert found is not None
    names = ("moves", "move_steps", "operations")
    yield {n: [row.asDict(recursive=True) for row in found.tables[n].collect()] for n in names}
    found.release()


def test_one_of_our_moves_through_spark(told: dict[str, list[dict[str, Any]]]) -> None:
    (move,) = told["moves"]
    assert (move["move_id"], move["outcome"], move["as_planned"]) == (7, "completed", True)
    assert (move["from_replicas"], move["planned"]) == ([1, 2], [3, 4])
    assert (move["steps"], move["steps_planned"]) == (2, 3)
    steps = sorted(told["move_steps"], key=lambda row: row["step"])
    assert [(row["adding"], row["catch_up_ms"]) for row in steps] == [([3], 200), ([4], 200)]
    (operation,) = told["operations"]
    assert (operation["outcome"], operation["paused_ms"]) == ("completed", 500)
    assert (operation["duration_ms"], operation["slowest_partition_ms"]) == (1_000, 900)
