"""Leaders, the gaps between them, and voters: small logs with known answers."""

from typing import Any

import pytest

pytest.importorskip("numpy", reason="the extra spark is not installed")

from lag.reports.clocks import EpochPart
from lag.reports.contradictions import Believed
from lag.reports.epochs import EpochSpan, Leader, Span, quorum_epochs, until
from lag.reports.holes import Holes
from lag.reports.leadership import Evidence, Registration, leadership
from lag.reports.quorum_log import Hole, merge
from lag.reports.scope import Scope
from lag.reports.voters import roles, seats, voters
from lag.source.runs import Run

QUORUM = {1: EpochSpan(1, 0, 10, 1_000, 5_000), 3: EpochSpan(3, 10, 20, 8_000, 9_000)}
LED = {1: Leader(1, "1", [1, 2, 3]), 3: Leader(2, "2", [1, 2, 3])}
NOTHING = Evidence(LED, [], [], [], {})


def test_an_epoch_has_its_tenure_and_what_was_before_it() -> None:
    first, second = leadership(QUORUM, NOTHING)
    assert (first["leader"], first["tenure_ms"], first["gap_ms"]) == (1, 4_000, None)
    assert (second["leader"], second["gap_ms"], second["elections_lost"]) == (2, 3_000, 1)
    assert (first["ended"], second["ended"]) == ("unknown", "leading")


def test_a_report_that_ends_within_an_epoch_knows_nothing_of_what_came_later() -> None:
    """At 3,000 ms the log ended at offset 6, and at 8,500 ms at 15."""
    (only,) = leadership(until(QUORUM, 6, 3_000), NOTHING)
    assert (only["epoch"], only["end_offset"], only["last_append_ms"]) == (1, 6, 3_000)
    assert (only["tenure_ms"], only["ended"]) == (2_000, "leading")
    first, second = leadership(until(QUORUM, 15, 8_500), NOTHING)
    assert (first["end_offset"], first["last_append_ms"]) == (10, 5_000)
    assert (second["end_offset"], second["tenure_ms"], second["ended"]) == (15, 500, "leading")
    assert until(QUORUM, 20, 9_000) == QUORUM
    assert leadership(until(QUORUM, 0, None), NOTHING) == []


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


def test_a_leader_is_not_gone_if_damage_at_the_end_of_its_log_may_hide_a_later_epoch() -> None:
    own = [Span("1", 1, 0, 10, 1_000, 5_000, 1_000, 5_000, 0, 10)]
    known = NOTHING._replace(spans=own)
    assert leadership(QUORUM, known)[0]["ended"] == "gone"
    for replica, ended in (("1", "unknown"), ("2", "gone")):
        damaged = known._replace(unknown_ends=frozenset({replica}))
        assert leadership(QUORUM, damaged)[0]["ended"] == ended


def test_an_unknown_end_names_its_hole_even_where_the_reason_is_known() -> None:
    """As in combination 60 of the damaged logs: leader 1 was restarted, and its last records are
    lost."""
    lost = {
        1: EpochSpan(1, 0, 8, 1_000, 4_000, ends_known=False),
        3: EpochSpan(3, 10, 20, 8_000, 9_000),
    }
    hole = Hole(8, 10, 1, 3, 4_000, 8_000)
    restarted = NOTHING._replace(registrations=[Registration(1, 15, 3, 8_700)], holes=Holes([hole]))
    first, second = leadership(lost, restarted)
    assert (first["end_offset"], first["ended"], first["hole"]) == (None, "restarted", "8-9")
    assert second["hole"] == "8-9"


def epochs_of(*runs: Run) -> dict[int, EpochSpan]:
    rows: list[dict[str, Any]] = [
        {"replica": name, "path": name, "snapshots": []} for name in ("1", "2")
    ]
    log = merge(Believed(runs), rows)
    assert log is not None
    return quorum_epochs(log)


def test_records_that_only_a_dead_leader_has_are_no_part_of_the_quorums_log() -> None:
    """1 led epoch 1 and appended up to 14 before it died; 2 and 3 had only the first 10."""
    runs = [
        Run("1", 1, 0, 14, 1_000, 6_000),
        Run("2", 1, 0, 10, 1_000, 5_000),
        Run("2", 3, 10, 20, 8_000, 9_000),
    ]
    assert epochs_of(*runs) == QUORUM


def test_below_its_own_first_record_the_best_copy_is_helped_out() -> None:
    runs = [Run("2", 3, 15, 20, 8_500, 9_000), Run("1", 1, 0, 10, 1_000, 5_000)]
    runs.append(Run("1", 3, 10, 15, 8_000, 8_400))
    assert epochs_of(*runs) == QUORUM


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
    assigned = list(zip(assignments, seats(assignments, replicas), strict=True))
    (row,) = voters(assigned, lags, scope)
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


def test_roles_are_those_of_the_last_voters_in_the_log() -> None:
    replicas: list[dict[str, Any]] = [
        {"replica": "1", "node_id": 1, "directory_id": "A"},
        {"replica": "1#2", "node_id": 1, "directory_id": "B"},
        {"replica": "2", "node_id": 2, "directory_id": None},
        {"replica": "9", "node_id": 9, "directory_id": None},
        {"replica": "copy", "node_id": None, "directory_id": None},
    ]
    assigned = [{"offset": 2, "current": ["1@B", "2@C"]}]
    (sits,) = seats(assigned, replicas)
    found = {"1": "observer", "1#2": "voter", "2": "voter", "9": "observer"}
    assert roles(replicas, sits, [1, 9]) == found
    # A log without assignments, as Kafka wrote it before 3.9, has the voters of each election.
    found = {"1": "voter", "1#2": "observer", "2": "observer", "9": "voter"}
    assert roles(replicas, None, [1, 9]) == found
    assert roles(replicas, None, None) == {}
