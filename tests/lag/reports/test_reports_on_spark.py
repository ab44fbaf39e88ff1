"""The reports by Spark: a log made by hand with known answers, and that of a real Kafka cluster."""

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")

from tests.lag.fenced_broker import T, check_fenced_broker
from tests.lag.handmade_tables import MadeTables
from tests.lag.twins.report_and_twin import collected

Rows = list[dict[str, Any]]


def by(rows: Rows, *names: str) -> dict[Any, dict[str, Any]]:
    return {tuple(row[name] for name in names) if names[1:] else row[names[0]]: row for row in rows}


# --- by hand -----------------------------------------------------------------------------------


def story() -> MadeTables:
    """20 s of three voters. 1 leads epoch 1 and appends a record each 100 ms, from 10,000 ms on.

    2 has each 10 ms later. 3 has each 20 ms later, but is paused from 13,000 to 16,000 ms. At
    20,000 ms 1 dies, with a record that nobody else has; at 21,500 ms 2 begins epoch 3. The clock
    of 2 is right. A reassignment of t-0 from 101,102 to 101,103 is asked for at 22,000 ms, 103 is
    in sync at 22,700 ms; one of t-1 is cancelled; broker 103 is fenced for 1 s. What becomes of t-2
    is told in `retargeted`.
    """
    made = MadeTables()
    made.epoch(1, 1, 0, 10_000, (1, 2, 3))
    made.epoch(3, 2, 100, 21_500, (2, 3))
    made.voters(0, 10_000, "1", "2", "3")
    for offset in range(100):
        at_ms = 10_000 + 100 * offset
        paused = 13_000 <= at_ms + 20 < 16_000
        made.batch(
            offset, at_ms, {1: at_ms + 1, 2: at_ms + 10, 3: 16_000 if paused else at_ms + 20}
        )
    made.batch(100, 20_000, {1: 20_001})
    for offset in range(100, 120):
        at_ms = 21_500 + 100 * (offset - 100)
        made.batch(offset, at_ms, {2: at_ms + 1, 3: at_ms + 20}, epoch=3)
    topic: dict[str, Any] = {"topic_id": "T"}
    made.record(1, 10_100, "TopicRecord", topic="t", **topic)
    empty: dict[str, Any] = {"adding": [], "removing": []}
    for partition in (0, 1, 2):
        whole = {"replicas": [101, 102], "isr": [101, 102], **empty}
        made.record(2 + partition, 10_200, "PartitionRecord", partition=partition, **topic, **whole)
    grown = {"replicas": [101, 103, 102], "adding": [103], "removing": [102]}
    for partition in (0, 1):
        change = {"partition": partition, **topic, **grown}
        made.record(105 + partition, 22_000, "PartitionChangeRecord", epoch=3, **change)
    done = {"replicas": [101, 103], "isr": [101, 103], **empty}
    made.record(112, 22_700, "PartitionChangeRecord", epoch=3, partition=0, **topic, **done)
    back = {"replicas": [101, 102], "isr": [101, 102], **empty}
    made.record(113, 22_800, "PartitionChangeRecord", epoch=3, partition=1, **topic, **back)
    retargeted(made)
    broker: dict[str, Any] = {"broker_id": 103, "broker_epoch": 5}
    made.record(5, 10_500, "RegisterBrokerRecord", fenced=True, **broker)
    for offset, at_ms, fenced in ((6, 10_600, False), (20, 12_000, True), (30, 13_000, False)):
        made.record(offset, at_ms, "BrokerRegistrationChangeRecord", fenced=fenced, **broker)
    for row in (*made.rows["records"], *made.rows["assignments"]):
        row["replica"] = "2"
    return made


def retargeted(made: MadeTables) -> None:
    """t-2: moves 7 and 8, of which the second waits for its turn; then a controller that knows no
    moves wants 106 as well, and then the same replicas in another order, which is done at once."""

    def is_now(offset: int, at_ms: int, **said: Any) -> None:
        t_2: dict[str, Any] = {"topic_id": "T", "partition": 2}
        made.record(offset, at_ms, "PartitionChangeRecord", epoch=3, **t_2, **said)

    grown = {"replicas": [101, 104, 102], "adding": [104], "removing": [102]}
    is_now(107, 22_200, target=[101, 104], move_id=7, **grown)
    back: dict[str, Any] = {"replicas": [101, 102], "adding": [], "removing": []}
    is_now(109, 22_400, target=[102, 105], move_id=8, **back)
    is_now(111, 22_600, replicas=[101, 102, 106], adding=[106], removing=[])
    is_now(114, 22_900, isr=[101, 102, 106], adding=[], removing=[])
    is_now(115, 23_000, replicas=[102, 101, 106])


@pytest.fixture(scope="module")
def told(plain: Any) -> dict[str, Rows]:
    return collected(story().logs(plain))[0]


def test_a_pause_is_seen_to_the_ms_and_nobody_else_lags(told: dict[str, Rows]) -> None:
    whole = by(told["replica_lag"], "replica")
    # What it waited for at 16,000 ms the leader had since 13,000 ms.
    assert (whole["3"]["max_ms"], whole["3"]["worst_at_ms"]) == (3_000, 16_000)
    assert whole["2"]["max_ms"] == 10
    windows = by(told["replication_lag"], "replica", "window_end_ms")
    assert windows[("3", 15_000)]["lag_ms"] == 2_000
    assert windows[("3", 15_000)]["records_behind"] == 21
    assert round(windows[("3", 15_000)]["trend_ms_per_s"]) == 1_000
    assert windows[("3", 12_000)]["p50_ms"] == 0


def test_the_dead_are_as_they_were_last_seen(told: dict[str, Rows]) -> None:
    """1 had records 0 to 99 of those that count; since 21,500 ms it waits for 100."""
    dead = by(told["replica_lag"], "replica")["1"]
    end_ms = 21_500 + 1_900 + 20
    assert (dead["records_behind"], dead["records_diverging"]) == (20, 1)
    assert (dead["waits_since_ms"], dead["lag_ms"]) == (21_500, end_ms - 21_500)
    assert dead["last_append_ms"] == 20_000, "a leader has what it appends"
    windows = by(told["replication_lag"], "replica", "window_end_ms")
    assert windows[("1", 23_000)]["lag_ms"] == 1_500
    status = by(told["status"], "replica")
    assert {name: row["status"] for name, row in status.items()} == {
        "1": "ERR",
        "2": "OK",
        "3": "OK",
    }
    assert status["1"]["rule"] == "diverging"


def test_a_report_that_ends_within_the_pause_tells_of_the_silence_until_then(plain: Any) -> None:
    """3 had its last record at 12,920 ms, and what it waits for the leader had at 13,000 ms. The
    end is no multiple of a sample: what comes to 2 at 15,510 ms is not there yet."""
    told, _ = collected(story().logs(plain), until_ms=15_505)
    (paused,) = (row for row in told["replica_lag"] if row["replica"] == "3")
    assert (paused["last_append_ms"], paused["waits_since_ms"]) == (12_920, 13_000)
    (status,) = (row for row in told["status"] if row["replica"] == "3")
    assert (status["status"], status["rule"]) == ("STALLED", "no_progress")
    assert status["facts"] == (
        "it lacks 26 records, for 2.5 s; it appended last 2.6 s before the end"
    )
    (follower,) = (row for row in told["replica_lag"] if row["replica"] == "2")
    assert (follower["last_append_ms"], follower["records_behind"]) == (15_410, 1)
    assert (follower["waits_since_ms"], follower["lag_ms"]) == (15_500, 5)


def test_leaders_and_the_gap_between_them(told: dict[str, Rows]) -> None:
    first, second = told["leadership"]
    assert (first["leader"], first["end_offset"], first["ended"]) == (1, 100, "gone")
    assert (second["leader"], second["gap_ms"], second["elections_lost"]) == (2, 1_600, 1)


def test_commits_say_when_a_majority_had_each(told: dict[str, Rows]) -> None:
    windows = by(told["commits"], "window_end_ms")
    one = windows[12_000]
    assert (one["batches"], one["records"], one["bytes"]) == (10, 10, 1_000)
    assert (one["records_per_s"], one["records_p50"], one["bytes_max"]) == (10.0, 1.0, 100.0)
    # The second of three has it 10 ms later; and 20 ms later once 1 is dead.
    assert (one["majority_p50_ms"], one["majority_max_ms"], one["majority_known"]) == (10, 10, 10)
    assert windows[23_000]["majority_p99_ms"] == 20


def test_a_window_in_which_nothing_was_appended_is_a_row_of_zeros(told: dict[str, Rows]) -> None:
    """Nobody led from 20,000 to 21,500 ms."""
    ends = [row["window_end_ms"] for row in told["commits"]]
    assert ends == [*range(10_000, 24_000, 1_000), 23_420]
    quiet = by(told["commits"], "window_end_ms")[21_000]
    for name in ("batches", "records", "bytes", "records_per_s", "batches_per_s", "majority_known"):
        assert quiet[name] == 0, name
    for name in ("records_p50", "bytes_max", "majority_p50_ms", "majority_worst_at_ms"):
        assert quiet[name] is None, name


def test_a_rate_is_by_what_a_window_really_holds(plain: Any, told: dict[str, Rows]) -> None:
    """The logs end at 23,420 ms, with four records in the last window: it holds no more than that.
    A window that is cut short on request has less time for what it holds."""
    last = told["commits"][-1]
    assert (last["window_start_ms"], last["records"], last["records_per_s"]) == (23_000, 4, 4.0)
    cut, _ = collected(story().logs(plain), since_ms=14_951, until_ms=16_150, window_ms=1_000)
    assert [(row["records"], row["records_per_s"]) for row in cut["commits"]] == [
        (1, 20.0),
        (10, 10.0),
        (1, pytest.approx(1 / 0.15)),
    ]
    lags = cut["replication_lag"]
    assert min(row["window_start_ms"] for row in lags) == 14_950
    found = [row["worst_at_ms"] for row in (*lags, *cut["replica_lag"]) if row["worst_at_ms"]]
    assert found
    assert min(found) >= 14_951, "what was before the requested start does not count"


def test_a_pause_and_a_death_cost_what_could_have_been_survived(told: dict[str, Rows]) -> None:
    """3 lags by 2 s or more from 15,000 to 16,000 ms, 1 from 23,500 ms on, which nobody sees."""
    (row,) = told["voters"]
    assert row["tolerates"] == 1
    assert row["survived_0_ms"] == pytest.approx(1_000, abs=20)
    assert row["survived_1_ms"] == pytest.approx(12_400, abs=50)
    assert row["no_majority_ms"] == 0


def test_a_move_that_is_done_and_one_that_is_cancelled(told: dict[str, Rows]) -> None:
    moves = by([row for row in told["moves"] if row["partition"] < 2], "partition")
    done, cancelled = moves[0], moves[1]
    assert (done["outcome"], done["duration_ms"], done["as_planned"]) == ("completed", 700, True)
    assert (done["topic"], done["from_replicas"], done["planned"]) == ("t", [101, 102], [101, 103])
    assert (done["added"], done["removed"], done["steps"]) == ([103], [102], 1)
    assert (done["slowest"], done["slowest_ms"]) == (103, 700)
    assert (cancelled["outcome"], cancelled["as_planned"]) == ("cancelled", False)
    # 103 never came, and was not waited for any longer.
    assert (cancelled["slowest"], cancelled["slowest_ms"]) == (103, 800)
    steps = by(told["move_steps"], "partition")
    assert (steps[0]["adding"], steps[0]["removing"], steps[0]["catch_up_ms"]) == (
        [103],
        [102],
        700,
    )
    assert steps[1]["catch_up_ms"] is None
    replicas = by(told["move_replicas"], "partition")
    assert (replicas[0]["catch_up_ms"], replicas[1]["catch_up_ms"]) == (700, None)


def test_a_move_that_supersedes_another_ends_its_step_and_is_its_own_move(
    told: dict[str, Rows],
) -> None:
    of_t2 = by([row for row in told["moves"] if row["partition"] == 2], "number")
    ours, waits, kafkas, at_once = (of_t2[number] for number in (1, 2, 3, 4))
    assert (ours["move_id"], ours["outcome"], ours["ended_ms"]) == (7, "superseded", 22_400)
    assert (ours["slowest"], ours["slowest_ms"]) == (104, 200)
    assert (waits["move_id"], waits["outcome"], waits["steps"]) == (8, "superseded", 0)
    assert (kafkas["move_id"], kafkas["outcome"], kafkas["duration_ms"]) == (None, "completed", 300)
    assert (at_once["move_id"], at_once["outcome"], at_once["steps"]) == (None, "completed", 1)
    steps = by([row for row in told["move_steps"] if row["partition"] == 2], "number")
    assert {number: row["ended_ms"] for number, row in steps.items()} == {
        1: 22_400,
        3: 22_900,
        4: 23_000,
    }


def test_a_broker_and_what_happened_to_it(told: dict[str, Rows]) -> None:
    broker = by(told["brokers"], "broker_id")[103]
    assert (broker["state"], broker["registrations"], broker["fencings"]) == ("unfenced", 1, 1)
    assert (broker["fenced_ms"], broker["longest_fenced_ms"]) == (1_100, 1_000)
    assert (broker["isr_expands"], broker["moves_in"], broker["moves_out"]) == (1, 2, 0)
    window = by(told["broker_activity"], "broker_id", "window_end_ms")[(103, 12_000)]
    assert (window["fencings"], window["unfencings"]) == (1, 0)


def test_clocks_are_told_in_bounds(told: dict[str, Rows]) -> None:
    clocks = by(told["clocks"], "replica", "relative_to")
    assert clocks[("2", "1")]["at_most_ms"] == 11
    assert clocks[("2", "1")]["verdict"] == "one-sided", "1 never followed 2"


# --- Kafka's -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kafkas(kafkas_report: Any) -> dict[str, Rows]:
    tables: dict[str, Rows] = kafkas_report[0]
    return tables


def test_the_real_cluster_had_two_leaders_and_a_gap_at_the_kill(kafkas: dict[str, Rows]) -> None:
    first, second = kafkas["leadership"]
    assert (first["epoch"], first["leader"], first["start_offset"]) == (1, 1, 0)
    assert (second["epoch"], second["leader"], second["start_offset"]) == (3, 3, 124)
    assert (first["elected_at_ms"], second["elected_at_ms"]) == (T + 537_164, T + 574_332)
    assert second["gap_ms"] == second["elected_at_ms"] - first["last_append_ms"] > 2_000
    assert second["elections_lost"] == 1, "nobody won epoch 2"
    assert first["ended"] == "restarted"
    assert "offset 135" in first["facts"]
    assert second["ended"] == "leading"


def test_the_real_cluster_changed_its_voters(kafkas: dict[str, Rows]) -> None:
    ids = [[each.split("@")[0] for each in row["current"]] for row in kafkas["voters"]]
    assert ids == [["1", "2", "3"], ["1", "2", "3", "4"], ["2", "3", "4"]]
    assert [row["offset"] for row in kafkas["voters"]] == [2, 493, 499]
    first = kafkas["voters"][0]
    assert first["at_ms"] == T + 537_164
    assert first["duration_ms"] == 741_945 - 537_164
    assert first["unknown_ms"] > 0, "without append times nobody knows who kept up"
    assert first["survived_1_ms"] == 0


def test_the_real_cluster_moved_orders(kafkas: dict[str, Rows]) -> None:
    moves = by(kafkas["moves"], "topic", "partition")
    assert set(moves) == {("orders", partition) for partition in range(4)}
    assert {row["outcome"] for row in moves.values()} == {"completed"}
    assert all(row["as_planned"] and row["started_ms"] == T + 563_456 for row in moves.values())
    assert [moves[("orders", each)]["duration_ms"] for each in range(4)] == [331, 438, 260, 438]
    assert moves[("orders", 0)]["added"] == [103, 104]
    assert moves[("orders", 0)]["removed"] == [101, 102]
    assert moves[("orders", 3)]["removed"] == []
    catch_up = by(kafkas["move_replicas"], "partition", "broker_id")
    assert {key: row["catch_up_ms"] for key, row in catch_up.items()} == {
        (0, 103): 331,
        (0, 104): 260,
        (1, 101): 160,
        (1, 104): 438,
        (2, 104): 260,
        (3, 102): 438,
    }
    assert kafkas["operations"] == []


def test_the_real_cluster_fenced_a_broker_that_came_back(kafkas: dict[str, Rows]) -> None:
    check_fenced_broker(kafkas["brokers"], kafkas["broker_events"])


def test_controller_2_of_the_real_cluster_ends_a_record_behind(kafkas: dict[str, Rows]) -> None:
    replicas = by(kafkas["replica_lag"], "replica")
    assert (replicas["2"]["log_end"], replicas["2"]["records_behind"]) == (546, 1)
    assert (replicas["3"]["log_end"], replicas["3"]["records_behind"]) == (547, 0)


def test_columns_that_need_append_times_are_unknown_for_the_real_cluster(
    kafkas: dict[str, Rows],
) -> None:
    for row in kafkas["replica_lag"]:
        assert row["p50_ms"] is row["max_ms"] is row["last_append_ms"] is None, row
    for row in kafkas["replication_lag"]:
        assert row["lag_ms"] is row["records_behind"] is row["trend_ms_per_s"] is None, row
    for row in kafkas["commits"]:
        assert row["majority_known"] == 0
        assert row["majority_p50_ms"] is row["majority_max_ms"] is None
    assert kafkas["clocks"] == []
    for row in kafkas["status"]:
        assert row["facts"].endswith("it has no append times"), row
