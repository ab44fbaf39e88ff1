"""Leaders, the gaps between them, and voters: small logs with known answers."""

from typing import Any

import pytest

from lag.reports.clocks import EpochPart
from lag.reports.epochs import EpochSpan, Leader, Span, best_copy, quorum_epochs
from lag.reports.leadership import Evidence, Registration, leadership
from lag.reports.scope import Scope
from lag.reports.voters import seats, voters

QUORUM = {1: EpochSpan(1, 0, 10, 1_000, 5_000), 3: EpochSpan(3, 10, 20, 8_000, 9_000)}
LED = {1: Leader(1, "1", [1, 2, 3]), 3: Leader(2, "2", [1, 2, 3])}
NOTHING = Evidence(LED, [], [], [], {})


def test_an_epoch_has_its_tenure_and_what_was_before_it() -> None:
    first, second = leadership(QUORUM, NOTHING)
    assert (first["leader"], first["tenure_ms"], first["gap_ms"]) == (1, 4_000, None)
    assert (second["leader"], second["gap_ms"], second["elections_lost"]) == (2, 3_000, 1)
    assert (first["ended"], second["ended"]) == ("unknown", "leading")


def test_the_proven_offset_of_the_next_leaders_clock_is_no_part_of_the_gap() -> None:
    ahead = NOTHING._replace(known={("2", 1): EpochPart("2", 1, 10, False, 500)})
    assert leadership(QUORUM, ahead)[1]["gap_ms"] == 2_500
    behind = NOTHING._replace(known={("2", 1): EpochPart("2", 1, 10, False, -500)})
    assert leadership(QUORUM, behind)[1]["gap_ms"] == 3_500


def test_the_log_gives_the_reason_for_the_end_of_an_epoch() -> None:
    removed = NOTHING._replace(assignments=[{"epoch": 1, "offset": 9, "current": ["2@x", "3@y"]}])
    assert leadership(QUORUM, removed)[0]["ended"] == "removed"
    restarted = NOTHING._replace(registrations=[Registration(1, 15, 3, 8_700)])
    row = leadership(QUORUM, restarted)[0]
    assert row["ended"] == "restarted"
    assert row["facts"] == "it registered anew at offset 15, 700 ms after the next leader began"
    much_later = NOTHING._replace(registrations=[Registration(1, 15, 3, 98_700)])
    assert leadership(QUORUM, much_later)[0]["ended"] == "unknown"


def test_its_own_append_times_tell_whether_a_leader_lived() -> None:
    def after(*first_here_ms: int | None) -> str:
        own = [Span("1", 1, 0, 10, 1_000, 5_000, 1_000, 5_000, 0, 10)]
        for at_ms in first_here_ms:
            own.append(Span("1", 3, 10, 20, 8_000, 9_000, at_ms))
        known = {("1", 3): EpochPart("1", 3, 20, False, 0)}
        row = leadership(QUORUM, NOTHING._replace(spans=own, known=known))[0]
        return str(row["ended"])

    assert after(8_020) == "followed"
    assert after(14_000) == "away"
    assert after() == "gone"
    assert after(None) == "unknown", "it goes on, and nobody knows since when"


def test_records_that_only_a_dead_leader_has_are_no_part_of_the_quorums_log() -> None:
    """1 led epoch 1 and appended up to 14 before it died; 2 and 3 had only the first 10."""
    spans = [
        Span("1", 1, 0, 14, 1_000, 6_000),
        Span("2", 1, 0, 10, 1_000, 5_000),
        Span("2", 3, 10, 20, 8_000, 9_000),
    ]
    assert best_copy(spans) == "2"
    assert quorum_epochs(spans) == QUORUM


def test_below_its_own_first_record_the_best_copy_is_helped_out() -> None:
    spans = [Span("2", 3, 12, 20, 8_200, 9_000), Span("1", 1, 0, 10, 1_000, 5_000)]
    spans.append(Span("1", 3, 10, 15, 8_000, 8_500))
    assert quorum_epochs(spans) == QUORUM


def test_survivable_failures_are_counted_with_their_time() -> None:
    """Three voters for 10 s; 3 is out of touch in the last 4, 2 is unknown in the last second."""
    scope = Scope(1, 10_000, 10_000)
    row: dict[str, Any] = {"offset": 0, "epoch": 1, "append_ms": 0, "kind": "change"}
    assignments = [{**row, "current": ["1", "2", "3"], "target": None}]
    replicas = [{"replica": name, "node_id": int(name)} for name in "123"]
    never: list[Any] = [0] * 100
    lags = {
        "1": never,
        "2": never[:90] + [None] * 10,
        "3": never[:60] + [5_000] * 40,
    }
    (row,) = voters(assignments, seats(assignments, replicas), lags, scope)
    assert row["tolerates"] == 1
    assert row["survived_1_ms"] == pytest.approx(6_000, abs=1)
    assert row["survived_0_ms"] == pytest.approx(3_000, abs=1)
    assert row["unknown_ms"] == 1_000
    assert (row["survived_2_ms"], row["no_majority_ms"]) == (0, 0)


def test_a_voter_is_one_directory_and_not_whatever_has_its_id() -> None:
    rows = [{"offset": 0, "current": ["1@a", "2@b", "3"]}]
    replicas = [
        {"replica": "1", "node_id": 1, "directory_id": "other"},
        {"replica": "1#2", "node_id": 1, "directory_id": "a"},
        {"replica": "3", "node_id": 3, "directory_id": "c"},
    ]
    assert [(seat.replica, seat.seat) for seat in seats(rows, replicas)[0]] == [
        ("1#2", 1),
        ("3", 3),
    ]
