"""A log whose start was cut: a snapshot supplies the state before it."""

import json
from typing import Any, Final

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")

from lag.reports.contradictions import Believed
from lag.reports.quorum_log import Snapshot, merge
from lag.reports.report import report
from lag.source.runs import Run
from statemachine.reassignment.settings import PARALLEL_REPLICAS
from tests.lag.handmade_tables import MadeTables

Rows = dict[str, list[dict[str, Any]]]

SNAPSHOT: Final = "00000000000000000100-0000000001.checkpoint"
LATER: Final = "00000000000000000110-0000000001.checkpoint"
EARLIER: Final = "00000000000000000040-0000000001.checkpoint"
T0: Final[dict[str, Any]] = {"topic_id": "T", "partition": 0}


def log_from_100() -> MadeTables:
    """20 records from 10,000 ms on; a move of t-0 that was asked for before ends in it."""
    made = MadeTables()
    made.epoch(1, 1, 0, 10_000, (1,))
    for offset in range(100, 120):
        made.batch(offset, 10_000 + 100 * (offset - 100), {1: 10_000 + 100 * (offset - 100)})
    grown: dict[str, Any] = {"replicas": [1, 2, 3], "isr": [1, 2], "adding": [3], "removing": [2]}
    moved: dict[str, Any] = {**T0, "target": [1, 3], "move_id": 7}
    made.record(105, 10_500, "PartitionChangeRecord", **moved, **grown)
    done: dict[str, Any] = {"replicas": [1, 3], "isr": [1, 3], "adding": [], "removing": []}
    made.record(109, 10_900, "PartitionChangeRecord", **{**moved, "target": []}, **done)
    left = {"completed": 1, "cancelled": 0, "superseded": 0, "gone": 0}
    made.record(109, 10_900, "MoveEnded", json=said(id=7, outcome=0, atMs=10_900, **left))
    made.record(112, 11_200, "FenceBrokerRecord", broker_id=2, broker_epoch=5)
    return made


def said(**fields: Any) -> str:
    return json.dumps({"ofOurs": fields})


def with_snapshot() -> MadeTables:
    made = log_from_100()
    limit = {"resourceType": 4, "resourceName": "", "name": PARALLEL_REPLICAS, "value": "1"}
    broker: dict[str, Any] = {"broker_id": 2, "broker_epoch": 5, "fenced": False}
    begun = said(id=7, kind=0, who="ann", askedAtMs=9_000, partitions=1, refused=0)
    made.state(SNAPSHOT, "TopicRecord", topic="t", topic_id="T")
    made.state(SNAPSHOT, "PartitionRecord", **T0, replicas=[1, 2], isr=[1, 2])
    made.state(SNAPSHOT, "ConfigRecord", name=PARALLEL_REPLICAS, json=json.dumps(limit))
    made.state(SNAPSHOT, "RegisterBrokerRecord", **broker)
    made.state(SNAPSHOT, "MoveBegun", json=begun)
    made.state(SNAPSHOT, "MoveChanged", json=said(id=7, state=1, sinceMs=9_500))
    made.record(104, 10_400, "MoveChanged", json=said(id=7, state=0, sinceMs=10_400))
    # It says what the log says as well, and would say it twice.
    made.state(LATER, "PartitionRecord", **T0, replicas=[1, 3], isr=[1, 3])
    seats = {"replica": "1", "source": "snapshot", "kind": "voters", "epoch": 1}
    for name, current in ((SNAPSHOT, ["1"]), (LATER, ["9"])):
        end = int(name.partition("-")[0])
        made.rows["assignments"].append(
            {**seats, "offset": end, "current": current, "path": f"/logs/1/{name}"}
        )
    return made


def collected(made: MadeTables, spark: Any) -> Rows:
    found = report(made.logs(spark))
    assert found is not None
    names = ("moves", "operations", "voters", "broker_events", "brokers")
    rows = {n: [row.asDict(recursive=True) for row in found.tables[n].collect()] for n in names}
    found.release()
    return rows


def test_a_snapshot_says_what_was_before(spark: Any) -> None:
    told = collected(with_snapshot(), spark)
    (move,) = told["moves"]
    assert (move["topic"], move["from_replicas"], move["planned"]) == ("t", [1, 2], [1, 3])
    assert (move["added"], move["removed"], move["outcome"]) == ([3], [2], "completed")
    (operation,) = told["operations"]
    assert (operation["asked_ms"], operation["duration_ms"]) == (9_000, 1_900)
    assert (operation["outcome"], operation["paused_ms"]) == ("completed", 900)
    (voters,) = told["voters"]
    assert (voters["current"], voters["at_ms"], voters["offset"]) == (["1"], 10_000, 100)
    # What happened is told by the log alone.
    assert [row["event"] for row in told["broker_events"]] == ["fenced"]
    assert told["brokers"][0]["registrations"] == 0


def test_without_it_what_was_before_is_unknown(spark: Any) -> None:
    told = collected(log_from_100(), spark)
    (move,) = told["moves"]
    assert (move["topic"], move["from_replicas"], move["steps_planned"]) == (None, None, None)
    assert (move["planned"], move["outcome"]) == ([1, 3], "completed")
    assert told["operations"] == []
    assert told["voters"] == []


def replica(name: str, start: int, end: int, *snapshots: str) -> tuple[Run, dict[str, Any]]:
    run = Run(name, 1, start, end, 1_000, 2_000)
    return run, {"replica": name, "path": f"/logs/{name}", "snapshots": list(snapshots)}


def start_snapshot(*copies: tuple[Run, dict[str, Any]], damaged: str = "") -> Snapshot | None:
    runs, rows = zip(*copies, strict=True)
    found = merge(Believed(runs), rows, frozenset({damaged}))
    assert found is not None
    return found.state


def test_the_oldest_snapshot_that_reaches_the_log_is_taken_whosever_it_is() -> None:
    short = replica("1", 90, 120, LATER)
    assert start_snapshot(short) == Snapshot("1", LATER, 110, 1)
    also = replica("2", 110, 120, EARLIER, SNAPSHOT, LATER)
    assert start_snapshot(short, also) == Snapshot("2", SNAPSHOT, 100, 1)
    whole = replica("3", 0, 95)
    assert start_snapshot(short, also, whole) is None
    assert start_snapshot(replica("1", 90, 120, EARLIER)) is None, "what is between is unknown"
    assert start_snapshot(replica("1", 90, 95, LATER)) is None


def test_a_damaged_snapshot_is_not_taken() -> None:
    copies = replica("1", 90, 120, LATER), replica("2", 110, 120, SNAPSHOT, LATER)
    damaged = f"/logs/2/{SNAPSHOT}"
    assert start_snapshot(*copies, damaged=damaged) == Snapshot("1", LATER, 110, 1)
