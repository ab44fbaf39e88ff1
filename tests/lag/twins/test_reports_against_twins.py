"""Every other report, beside a slow account of the same definitions: random histories, and Kafka's.

`test_lag_against_twin` does so for lag and commits. The histories are rich enough that every
outcome, event, rule and verdict occurs in them, which is checked as well.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")

from lag.reports.scope import Scope
from lag.reports.status import RULES
from statemachine.records.kafka_records import RegisterBroker
from tests.lag.random_quorum import RandomQuorum
from tests.lag.row_differences import differences
from tests.lag.twins import slow_brokers, slow_operations, slow_topics
from tests.lag.twins.report_and_twin import (
    COMPILED,
    WINDOW_MS,
    History,
    collected,
    history,
    logs_of,
    with_settings,
)
from tests.support import real_cluster

pytestmark = pytest.mark.thorough

SEEDS: Final = (1, 17, 31)
"""Found by trying: of the first 36 these three together have everything."""
OF_MOVE: Final = ("topic_id", "partition", "number")


@pytest.fixture(scope="module")
def histories(plain: Any, tmp_path_factory: pytest.TempPathFactory) -> list[History]:
    """Each seed's, with what Spark says of it; for the last one it compiles the queries."""
    found = []
    for seed in SEEDS:
        root = tmp_path_factory.mktemp(f"quorum-{seed}")
        RandomQuorum(seed).write(root)
        with with_settings(plain, COMPILED if seed == SEEDS[-1] else {}):
            found.append(history(root, collected(logs_of(plain, root), window_ms=WINDOW_MS)))
    return found


def moves(it: History) -> list[str]:
    return differences(it.told["moves"], it.moved["moves"], *OF_MOVE)


def move_steps(it: History) -> list[str]:
    return differences(it.told["move_steps"], it.moved["move_steps"], *OF_MOVE, "step")


def move_replicas(it: History) -> list[str]:
    key = (*OF_MOVE, "step", "broker_id")
    return differences(it.told["move_replicas"], it.moved["move_replicas"], *key)


def operations(it: History) -> list[str]:
    twin = slow_operations.told(it.said, it.moved["moves"], it.end_ms)
    return differences(it.told["operations"], twin, "move_id")


def topic_events(it: History) -> list[str]:
    twin = slow_topics.events(it.said)
    return differences(it.told["topic_events"], twin, "offset")


def topics(it: History) -> list[str]:
    twin = slow_topics.topics(slow_topics.events(it.said))
    return differences(it.told["topics"], twin, "topic_id")


def broker_events(it: History) -> list[str]:
    twin = slow_brokers.events(it.said, it.end_ms)
    return differences(it.told["broker_events"], twin, "broker_id", "offset", "event")


def brokers(it: History) -> list[str]:
    events = slow_brokers.events(it.said, it.end_ms)
    happened = slow_brokers.happened(events, it.partitions.values(), it.moved["moves"], it.end_ms)
    twin = slow_brokers.brokers(events, happened, it.end_ms)
    return differences(it.told["brokers"], twin, "broker_id")


def broker_activity(it: History) -> list[str]:
    events = slow_brokers.events(it.said, it.end_ms)
    happened = slow_brokers.happened(events, it.partitions.values(), it.moved["moves"], it.end_ms)
    twin = slow_brokers.activity(happened, it.time)
    return differences(it.told["broker_activity"], twin, "broker_id", "window_start_ms")


def clocks(it: History) -> list[str]:
    return differences(it.told["clocks"], it.quorum.clocks(), "replica", "relative_to")


def leaders(it: History) -> list[str]:
    twin = it.quorum.leadership(it.end_ms)
    return differences(it.told["leadership"], twin, "epoch", without=["facts"])


def log_ends(it: History) -> list[str]:
    twin = list(it.ends)
    told = [{name: row[name] for name in twin[0]} for row in it.told["replica_lag"]]
    return differences(told, twin, "replica")


def status(it: History) -> list[str]:
    twin = it.quorum.status(it.time, it.ends)
    return differences(it.told["status"], twin, "replica", without=["facts"])


def voters(it: History) -> list[str]:
    return differences(it.told["voters"], it.quorum.voters(it.time), "offset")


Compared = Callable[[History], list[str]]
COMPARED: Final[tuple[Compared, ...]] = (
    moves, move_steps, move_replicas, operations, topic_events, topics, broker_events, brokers,
    broker_activity, clocks, leaders, log_ends, status, voters,
)  # fmt: skip


@pytest.mark.parametrize("compared", COMPARED)
def test_a_report_says_what_its_twin_says(histories: list[History], compared: Compared) -> None:
    for seed, it in zip(SEEDS, histories, strict=True):
        assert compared(it) == [], f"seed {seed}"


@pytest.mark.parametrize("compared", COMPARED)
def test_the_reports_agree_with_the_twins_on_a_real_cluster(
    kafka_history: History, compared: Compared
) -> None:
    assert compared(kafka_history) == []


@pytest.fixture(scope="module")
def kafka_history(kafkas_report: Any) -> History:
    """That of the real cluster: its logs lie in folders as those of a random quorum do."""
    return history(real_cluster.available(real_cluster.CLUSTER), kafkas_report)


ENDED: Final = {
    "replica_lag": ("last_append_ms", "worst_at_ms"),
    "replication_lag": ("window_end_ms",),
    "leadership": ("elected_at_ms", "last_append_ms"),
    "commits": ("window_end_ms",),
    "voters": ("at_ms", "until_ms"),
    "moves": ("started_ms", "ended_ms", "last_progress_ms"),
    "move_steps": ("started_ms", "ended_ms", "caught_up_ms"),
    "move_replicas": ("added_ms", "in_sync_ms"),
    "operations": ("asked_ms", "ended_ms"),
    "topics": ("created_ms", "deleted_ms", "last_change_ms"),
    "topic_events": ("at_ms",),
    "brokers": ("state_since_ms", "last_registered_ms"),
    "broker_events": ("at_ms", "until_ms"),
    "broker_activity": ("window_end_ms",),
}
"""The moments in each table that a report cannot go beyond."""


@pytest.mark.parametrize("share", [pytest.param(0.35, marks=pytest.mark.long), 0.8])
def test_a_report_that_is_over_before_the_logs_are_says_it_too(
    plain: Any, share: float, tmp_path: Path
) -> None:
    RandomQuorum(SEEDS[0]).write(tmp_path)
    logs = logs_of(plain, tmp_path)
    log = history(tmp_path, ({}, Scope(0, 0, 1))).quorum.log
    until_ms = int(log[0].at_ms + share * (log[-1].at_ms - log[0].at_ms))
    it = history(tmp_path, collected(logs, window_ms=WINDOW_MS, until_ms=until_ms))
    assert it.end_ms == until_ms
    assert [each for compared in COMPARED for each in compared(it)] == []
    assert "unknown" in {row["rule"] for row in it.told["status"]}
    for table, columns in ENDED.items():
        times = [row[name] for row in it.told[table] for name in columns if row[name] is not None]
        assert max(times, default=0) <= until_ms, table


def all_of(histories: Iterable[History], table: str, column: str) -> set[Any]:
    return {row[column] for each in histories for row in each.told[table]}


def test_the_histories_have_everything(histories: list[History]) -> None:
    """A rule that no history meets would be compared in vain."""
    outcomes = {"completed", "cancelled", "superseded", "gone", "running", "stuck"}
    assert all_of(histories, "moves", "outcome") == outcomes
    assert all_of(histories, "operations", "outcome") == {*outcomes, "paused"}
    assert all_of(histories, "operations", "kind") == {"reassign", "drain", "rollback"}
    assert all_of(histories, "moves", "steps") >= {0, 1, 2, 3}
    assert all_of(histories, "moves", "steps_planned") >= {0, 1, 2, 3, 4, 5}
    assert all_of(histories, "moves", "as_planned") == {True, False}
    assert {type(each) for each in all_of(histories, "moves", "move_id")} == {int, type(None)}
    assert all_of(histories, "move_replicas", "stuck") == {True, False}
    told = {"created", "grown", "deleted", "config_set", "config_removed"}
    assert all_of(histories, "topic_events", "event") == told
    events = {"registered", "fenced", "unfenced", "stopping", "unregistered"}
    assert all_of(histories, "broker_events", "event") == events
    assert all_of(histories, "brokers", "state") == events - {"registered"}
    # Unknown is what a report says that ends before the logs do. Damaged logs are another
    # test.
    rules = {rule.name for rule in RULES} - {"unknown", "damaged"}
    assert all_of(histories, "status", "rule") == rules
    ways = {"leading", "removed", "restarted", "gone", "away", "followed", "unknown"}
    assert all_of(histories, "leadership", "ended") == ways
    assert any(
        sorted(row["actual"]) == sorted(row["planned"]) and not row["as_planned"]
        for each in histories
        for row in each.told["moves"]
    ), "the order counts"
    registrations = [e for h in histories for e in h.said if isinstance(e.said, RegisterBroker)]
    starts = sum(row["registrations"] for each in histories for row in each.told["brokers"])
    assert len(registrations) > starts > 0, "some register again without a start"
    verdicts = {"agree", "ahead", "behind", "one-sided", "stepped"}
    assert all_of(histories, "clocks", "verdict") == verdicts
    for column in (
        "survived_2_ms",
        "survived_1_ms",
        "survived_0_ms",
        "no_majority_ms",
        "unknown_ms",
    ):
        assert len(all_of(histories, "voters", column)) > 1, column
    for column in ("isr_shrinks", "isr_expands", "moves_in", "moves_out", "longest_fenced_ms"):
        assert max(all_of(histories, "brokers", column)) > 1, column
    assert max(all_of(histories, "operations", "paused_ms")) > 0
    assert max(each for each in all_of(histories, "leadership", "elections_lost") if each) > 0
