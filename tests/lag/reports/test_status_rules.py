"""The status of a replica: each rule, and the order of the rules."""

from typing import Any

import pytest

from lag.reports.status import RULES, status

END_MS = 100_000


def replica(behind: int | None = 0, **said: Any) -> dict[str, Any]:
    """A row of `replica_lag`: all is well unless said otherwise."""
    return {
        "replica": "2",
        "records_behind": behind,
        "records_diverging": 0,
        "lag_ms": 0,
        "last_append_ms": END_MS - 10,
        "waits_since_ms": None,
        "has_append_times": True,
        **said,
    }


@pytest.mark.parametrize(
    ("row", "lags", "rule", "is_"),
    [
        (replica(None, lag_ms=None, last_append_ms=None), [], "unknown", "UNKNOWN"),
        (replica(), [], "caught_up", "OK"),
        (replica(records_diverging=None), [], "caught_up", "OK"),
        (replica(last_append_ms=0), [], "caught_up", "OK"),
        (replica(5, lag_ms=30_000, last_append_ms=70_000), [], "silent", "STOPPED"),
        (replica(records_diverging=2), [], "diverging", "ERR"),
        (replica(3, records_lost=3), [], "damaged", "ERR"),
        (replica(5, records_lost=3, lag_ms=3_000, last_append_ms=97_000), [], "damaged", "ERR"),
        (replica(5, lag_ms=30_000, last_append_ms=None), [], "short_log", "STOPPED"),
        (replica(1, lag_ms=0, last_append_ms=None), [], "nearly_there", "OK"),
        (replica(5, lag_ms=3_000, last_append_ms=97_000), [], "no_progress", "STALLED"),
        (replica(5, lag_ms=30_000), [], "far_behind", "ERR"),
        (replica(5, lag_ms=900), [100, 500, 500, 900], "falls_behind", "WARN"),
        (replica(5, lag_ms=900), [100, 500, 400, 900], "keeps_up", "OK"),
        (replica(5, lag_ms=900), [900, 900, 900], "keeps_up", "OK"),
        (replica(1, lag_ms=10), [0, 0, 0, 10], "keeps_up", "OK"),
        (replica(5, lag_ms=1_000), [], "slow", "WARN"),
        (replica(1, lag_ms=5), [], "keeps_up", "OK"),
    ],
)
def test_a_rule_fires(row: dict[str, Any], lags: list[int], rule: str, is_: str) -> None:
    windows = [{"replica": "2", "lag_ms": lag} for lag in lags]
    (found,) = status([row], windows, END_MS)
    assert (found["rule"], found["status"]) == (rule, is_), found


def test_each_rule_is_tried_above() -> None:
    (mark,) = test_a_rule_fires.pytestmark
    assert {case[2] for case in mark.args[1]} == {rule.name for rule in RULES}


def test_the_facts_are_a_sentence_with_the_figures() -> None:
    (found,) = status([replica(5, lag_ms=30_000, last_append_ms=70_000)], [], END_MS)
    assert found["facts"] == ("it lacks 5 records, for 30 s; it appended last 30 s before the end")


def test_unknown_has_a_reason() -> None:
    nothing: dict[str, Any] = {"lag_ms": None, "last_append_ms": None, "records_diverging": None}
    (empty,) = status([replica(None, **nothing)], [], END_MS)
    assert empty["facts"] == "no batch of its log could be read"
    (cut,) = status([replica(None, **nothing)], [], END_MS, is_cut=True)
    assert cut["facts"] == "when it appended what it held at the end of the report is unknown"
    kafkas = replica(None, **nothing, has_append_times=False)
    (cut,) = status([kafkas], [], END_MS, is_cut=True)
    assert cut["facts"] == "it has no append times, and the logs go on after the end of the report"
    assert (cut["records_behind"], cut["lag_ms"], cut["since_ms"]) == (None, None, None)


def test_records_that_its_files_lost_are_told_apart() -> None:
    (found,) = status([replica(5, records_lost=3, lag_ms=20)], [], END_MS)
    assert found["facts"].startswith("it lacks 5 records, for 20 ms, 3 of them before the end of")
    (found,) = status([replica(3, records_lost=3)], [], END_MS)
    assert found["facts"].startswith(
        "its files lack 3 records before the end of its log: damaged, or gone;"
    )
