"""The tables read from the logs of a real Kafka cluster, without Spark."""

import json
from typing import Any

import pytest

from tests.lag.fenced_broker import T, check_fenced_broker
from tests.support import real_cluster

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

from lag.reports import brokers, clocks, epochs, lag, leadership, status, voters
from lag.reports.clocks import parts
from lag.reports.contradictions import Believed
from lag.reports.quorum_log import merge
from lag.reports.scope import scope_of
from lag.source.options import options_of
from lag.source.planner import plan
from lag.source.reader import read
from lag.source.runs import Run


def table(name: str) -> list[dict[str, Any]]:
    """The rows of a table of the source that are of logs."""
    path = str(real_cluster.available(real_cluster.CLUSTER))
    options = options_of({"table": name, "path": path, "json": "few"})
    rows = [
        row for task in plan(options) for batch in read(task, options) for row in batch.to_pylist()
    ]
    return [row for row in rows if row.get("source", "log") == "log"]


def runs() -> list[Run]:
    """The runs of each replica."""
    found: dict[tuple[str, int], Run] = {}
    for row in table("batches"):
        assert row["local_append_ms"] is None
        key, at_ms = (row["replica"], row["epoch"]), row["leader_append_ms"]
        had = found.get(key, Run(*key, row["base_offset"], 0, at_ms, at_ms))
        found[key] = had._replace(end=row["last_offset"] + 1, last_ms=at_ms)
    return list(found.values())


@pytest.fixture(scope="module")
def told() -> dict[str, list[dict[str, Any]]]:
    held, replicas = epochs.spans(runs()), table("replicas")
    log = merge(Believed(tuple(runs())), replicas)
    assert log is not None
    quorum = epochs.quorum_epochs(log)
    led = epochs.leaders(table("epochs"), replicas, quorum)
    bounds = clocks.bounds(held, led)
    known = parts(held, log.shared, led, bounds)
    assigned = voters.in_order(row for row in table("assignments") if row["replica"] == "3")
    records = [row for row in table("records") if row["replica"] == "3"]
    for row in records:
        row["said"] = json.loads(row["json"] or "{}")
    started = leadership.registrations(records)
    scope = scope_of(quorum[1].first_ms, quorum[3].last_ms)
    appended_ms = {row["base_offset"]: row["leader_append_ms"] for row in table("batches")}
    ends = lag.ends(held, known, log, appended_ms, scope.end_ms)
    replica_lag = lag.replica_lag([], ends, replicas, known)
    events = brokers.broker_events((row for row in records if row["broker_id"]), scope.end_ms)
    return {
        "leadership": leadership.leadership(
            quorum, leadership.Evidence(led, assigned, started, held, known)
        ),
        "voters": voters.voters(
            list(zip(assigned, voters.seats(assigned, replicas), strict=True)), {}, scope
        ),
        "replica_lag": replica_lag,
        "status": status.status(replica_lag, [], scope.end_ms),
        "broker_events": events,
        "brokers": brokers.brokers(events, brokers.event_counts(events, scope)),
        "clocks": clocks.clocks(bounds),
    }


def test_it_had_two_leaders_and_a_gap_at_the_kill(told: dict[str, Any]) -> None:
    first, second = told["leadership"]
    assert (first["epoch"], first["leader"], first["start_offset"]) == (1, 1, 0)
    assert (second["epoch"], second["leader"], second["start_offset"]) == (3, 3, 124)
    assert (first["elected_at_ms"], second["elected_at_ms"]) == (T + 537_164, T + 574_332)
    assert (first["last_append_ms"], second["gap_ms"]) == (T + 570_867, 3_465)
    assert second["elections_lost"] == 1, "nobody won epoch 2"
    assert first["ended"] == "restarted"
    assert first["facts"] == "it registered anew at offset 135, 5.4 s after the next leader began"
    assert second["ended"] == "leading"


def test_its_voters_changed_and_nobody_knows_who_kept_up(told: dict[str, Any]) -> None:
    ids = [[each.split("@")[0] for each in row["current"]] for row in told["voters"]]
    assert ids == [["1", "2", "3"], ["1", "2", "3", "4"], ["2", "3", "4"]]
    assert [row["offset"] for row in told["voters"]] == [2, 493, 499]
    for row in told["voters"]:
        assert row["unknown_ms"] == row["duration_ms"], row
        assert not row["survived_0_ms"] | row["survived_1_ms"] | row["no_majority_ms"], row


def test_a_broker_was_fenced_and_came_back(told: dict[str, Any]) -> None:
    check_fenced_broker(told["brokers"], told["broker_events"])


def test_controller_2_ends_a_record_behind(told: dict[str, Any]) -> None:
    ends = {row["replica"]: (row["log_end"], row["records_behind"]) for row in told["replica_lag"]}
    assert ends == {
        "1": (546, 1),
        "2": (546, 1),
        "3": (547, 0),
        "4": (546, 1),
        "broker-104": (531, 16),
    }
    said = {row["replica"]: row["facts"] for row in told["status"]}
    assert (
        said["2"] == "it lacks 1 record, appended at the end of the report; it has no append times"
    )


def test_columns_that_need_append_times_are_unknown(told: dict[str, Any]) -> None:
    for row in told["replica_lag"]:
        assert row["p50_ms"] is row["max_ms"] is row["last_append_ms"] is None, row
    assert told["clocks"] == []
