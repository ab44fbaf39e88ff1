"""Whole reports over the logs of a real Kafka cluster, from folders to rows and the page."""

from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("jinja2", reason="the extra spark is not installed")

from lag.output.page import page
from lag.output.summary import not_ok, problems, summary
from lag.progress import Steps
from lag.request import InvalidRequest, ReportRequest
from lag.results import Results
from lag.runner import NothingToRead, check_for_logs, collect, read
from lag.watch.positions import Positions
from tests.lag.copied_logs import CUT_BYTES, copy_of
from tests.lag.fenced_broker import BROKER, T

LAST_APPEND_MS: Final = 1_795_236_758_432
"""The append time of the last record at the leader."""


@pytest.fixture(scope="module")
def made(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Logs of three nodes: one whole, one a record behind, one with half a batch at its end."""
    from lag.source.data_source import QuorumLogSource

    spark.dataSource.register(QuorumLogSource)
    folder = tmp_path_factory.mktemp("nodes")
    copy_of(folder, 1)
    copy_of(folder, 2, without_bytes=CUT_BYTES)
    copy_of(folder, 3, without_bytes=CUT_BYTES // 2)
    return collect(spark, ReportRequest(paths=(str(folder),)), Steps(None))


def test_the_report_tells_who_led_and_what_was_moved(made: Results) -> None:
    assert [(row["epoch"], row["leader"]) for row in made.rows("leadership")] == [(1, 1), (3, 3)]
    moves = {(row["topic"], row["partition"]): row["actual"] for row in made.rows("moves")}
    assert moves[("orders", 0)] == [103, 104]
    assert all(row["as_planned"] for row in made.rows("moves") if row["topic"] == "orders")
    assert {row["broker_id"] for row in made.rows("brokers")} == {101, 102, 103, 104}


def test_a_replica_that_is_a_record_behind_is_and_times_are_unknown(made: Results) -> None:
    rows = {row["replica"]: row for row in made.rows("replica_lag")}
    assert [rows[name]["records_behind"] for name in "123"] == [0, 1, 1]
    assert {row["max_ms"] for row in rows.values()} == {None}
    assert "unknown" in summary(made)
    assert "Unknown for 1, 2, 3:" in page(made)


def test_a_report_that_ends_before_logs_without_append_times_do_knows_no_status(
    spark: Any, tmp_path: Path
) -> None:
    """At its end the second leader had begun; 4 was no voter yet, and 104 was fenced."""
    from lag.source.data_source import QuorumLogSource

    spark.dataSource.register(QuorumLogSource)
    copy_of(tmp_path, 1)
    copy_of(tmp_path, 2, without_bytes=CUT_BYTES)
    made = collect(spark, ReportRequest(paths=(str(tmp_path),), until_ms=T + 600_000), Steps(None))
    assert [(row["replica"], row["status"]) for row in made.not_ok] == [
        ("1", "UNKNOWN"),
        ("2", "UNKNOWN"),
    ]
    why = "it has no append times, and the logs go on after the end of the report"
    assert list(not_ok(made)) == [f"replica {name} is UNKNOWN: {why}" for name in "12"]
    assert why in page(made)
    for row in made.rows("replica_lag"):
        assert row["log_end"] is row["last_epoch"] is row["records_behind"] is None
    first, second = made.rows("leadership")
    assert (first["epoch"], first["ended"]) == (1, "restarted")
    assert (second["epoch"], second["ended"]) == (3, "leading")
    assert second["end_offset"] < 493
    assert second["last_append_ms"] <= made.until_ms
    ids = [[each.split("@")[0] for each in row["current"]] for row in made.rows("voters")]
    assert ids == [["1", "2", "3"]]
    assert made.rows("voters")[0]["until_ms"] == made.until_ms
    states = {row["broker_id"]: row["state"] for row in made.rows("brokers")}
    assert states[BROKER] == "fenced"


def test_half_a_batch_is_a_problem_with_its_place(made: Results) -> None:
    [row] = made.rows("problems")
    assert (row["replica"], row["kind"]) == ("3", "torn_tail")
    [line] = problems(made)
    assert f"byte {row['position']}" in line
    assert str(row["reason"]).split(":")[0] in page(made)


def test_a_time_of_which_the_logs_hold_nothing_is_refused(spark: Any, tmp_path: Path) -> None:
    from lag.source.data_source import QuorumLogSource

    spark.dataSource.register(QuorumLogSource)
    path = str(copy_of(tmp_path, 1))
    with pytest.raises(InvalidRequest, match="the logs hold nothing after --since 2100-01-01"):
        collect(spark, ReportRequest(paths=(path,), since_ms=4_102_444_800_000), Steps(None))


def test_folders_without_a_log_are_each_named(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with pytest.raises(NothingToRead) as caught:
        check_for_logs((str(tmp_path / "a"), str(tmp_path / "b")))
    assert str(tmp_path / "a") in str(caught.value)
    assert str(tmp_path / "b") in str(caught.value)
    check_for_logs((str(copy_of(tmp_path, 1)),))


def test_a_micro_batch_comes_down_to_a_row_for_each_replica(spark: Any, tmp_path: Path) -> None:
    """The table that `lag watch` shows after its first read."""
    from lag.source.data_source import QuorumLogSource
    from lag.watch.stream import COLUMNS, reduce_batch

    spark.dataSource.register(QuorumLogSource)
    copy_of(tmp_path, 1)
    copy_of(tmp_path, 2, without_bytes=CUT_BYTES)
    asked = ReportRequest(paths=(str(tmp_path),))
    batches = read(spark, asked, "batches", columns=",".join(COLUMNS), source="log")
    ends, appended = reduce_batch(batches.toArrow())
    standings = Positions()
    standings.take(ends, now_ms=LAST_APPEND_MS)
    standings.learn(appended)
    first, second = standings.at(LAST_APPEND_MS + 3_000)
    assert (first.replica, first.epoch, first.log_end, first.behind) == ("1", 3, 546, 0)
    assert (second.replica, second.epoch, second.log_end, second.behind) == ("2", 3, 545, 1)
    # The leader appended the record that it lacks just then, to a tenth of a second.
    assert second.lag_ms is not None
    assert 3_000 <= second.lag_ms < 3_100
    assert first.appended_ms == LAST_APPEND_MS
