"""The lag of one replica, with numbers that can be checked by hand."""

from typing import Final

import pytest

pytest.importorskip("numpy", reason="the extra spark is not installed")

from lag.reports.lag import (
    NOTHING_LOST,
    WHOLE,
    Bucket,
    LeaderTimeline,
    Lost,
    percentile,
    samples,
    windows,
)
from lag.reports.scope import Scope

SCOPE = Scope(1, 1_000, 100)
"""Ten windows of 100 ms, a sample each ms."""
# The leader appends record 0 at 100 ms, 1 at 200 ms, ..., 9 at 1,000 ms.
LEADING = LeaderTimeline(
    [None if t < 100 else t // 100 for t in range(1, 1_001)],
    {offset: 100 * (offset + 1) for offset in range(10)},
)


def bucket(at_ms: int, offset: int) -> Bucket:
    """Record `offset` comes at `at_ms`."""
    return Bucket(at_ms, offset + 1, at_ms - 100 * (offset + 1), at_ms, at_ms)


def test_a_replica_that_has_everything_at_once_never_lags() -> None:
    buckets = [bucket(100 * (offset + 1), offset) for offset in range(10)]
    taken = list(samples(buckets, frozenset(), LEADING, SCOPE))
    assert {each.lag_ms for each in taken[99:]} == {0}
    assert {each.behind for each in taken[99:]} == {0}
    assert {each.lag_ms for each in taken[:99]} == {None}, "before the first record nobody knows"


def test_lag_is_how_long_ago_the_leader_had_what_it_waits_for() -> None:
    """It has records 0 to 2, then nothing until all the rest comes at 730 ms."""
    buckets = [
        *(bucket(100 * (offset + 1), offset) for offset in range(3)),
        Bucket(730, 7, 330, 730, 730),
    ]
    at = {each.t_ms: each for each in samples(buckets, frozenset(), LEADING, SCOPE)}
    assert (at[399].lag_ms, at[399].behind) == (0, 0)
    assert (at[450].lag_ms, at[450].behind) == (50, 1)
    assert (at[729].lag_ms, at[729].behind) == (329, 4), "since 400 ms it waits for record 3"
    assert (at[730].lag_ms, at[730].behind) == (0, 0)
    assert (at[1_000].lag_ms, at[1_000].behind) == (200, 3), "since 800 ms it waits for record 7"


def test_a_window_says_the_greatest_lag_exactly_and_when_it_was() -> None:
    buckets = [
        *(bucket(100 * (offset + 1), offset) for offset in range(3)),
        Bucket(730, 7, 330, 730, 730),
    ]
    rows = {row["window"]: row for row in windows(buckets, frozenset(), LEADING, SCOPE)}
    in_pause = rows[5]  # 501 to 600 ms: lags of 101 to 200 ms.
    assert (in_pause["p50_ms"], in_pause["p95_ms"], in_pause["p99_ms"]) == (150, 195, 199)
    assert (in_pause["max_ms"], in_pause["worst_at_ms"]) == (200, 600)
    assert round(in_pause["trend_ms_per_s"]) == 1_000, "it stands still"
    at_its_end = rows[7]
    assert (at_its_end["max_ms"], at_its_end["worst_at_ms"], at_its_end["lag_ms"]) == (330, 730, 0)
    before = rows[2]
    assert (before["max_ms"], before["worst_at_ms"], before["records_behind_max"]) == (0, None, 0)
    whole = rows[WHOLE]
    assert (whole["max_ms"], whole["worst_at_ms"]) == (330, 730)
    assert len(whole["lags"]) == SCOPE.samples
    assert whole["samples"] == 901


def test_nothing_before_a_requested_start_counts() -> None:
    """The leader has record 0 from 10 ms on, and the replica waits for it."""
    leading = LeaderTimeline([None if t < 10 else 1 for t in range(1, 1_001)], {0: 10})
    waits = [Bucket(0, 0, None, None, None)]
    asked = SCOPE._replace(start_ms=51, begins_as_asked=True)
    assert asked.bounds_of(0) == {"window_start_ms": 50, "window_end_ms": 100}
    rows = {row["window"]: row for row in windows(waits, frozenset(), leading, asked)}
    assert (rows[0]["samples"], rows[0]["p50_ms"]) == (50, 65), "lags of 41 to 90 ms"
    assert rows[WHOLE]["samples"] == 950
    assert len(rows[WHOLE]["lags"]) == asked.samples, "one for each, as of every replica"


def test_unknown_values_are_neither_zero_nor_counted() -> None:
    rows = {
        row["window"]: row
        for row in windows([Bucket(1_001, 10, None, None, None)], frozenset(), LEADING, SCOPE)
    }
    for name in ("lag_ms", "p50_ms", "max_ms", "records_behind", "log_end", "trend_ms_per_s"):
        assert rows[WHOLE][name] is None, name
    assert rows[WHOLE]["samples"] == 0


def test_a_batch_that_came_nobody_knows_when_hides_the_lag_until_the_next() -> None:
    """Records 0 and 2 came in time, record 1 at a time that was lost."""
    buckets = [bucket(100, 0), bucket(300, 2)]
    at = {each.t_ms: each for each in samples(buckets, frozenset({1}), LEADING, SCOPE)}
    assert at[150].lag_ms is None
    assert at[250].lag_ms is None
    assert at[300].lag_ms == 0
    assert at[450].lag_ms == 50


HOLE: Final = Lost([(3, 4)])
OF_ELECTION: Final = Lost([(3, 4)], [(3, 4)], clocks_ms=50)
"""The record of a leader whose clock may be 50 ms behind."""


@pytest.mark.parametrize(
    ("lost", "known_until_ms", "lost_until_ms"), [(HOLE, 299, 500), (OF_ELECTION, 249, 550)]
)
def test_a_lost_record_of_another_leader_may_be_older_than_the_one_before_it(
    lost: Lost, known_until_ms: int, lost_until_ms: int
) -> None:
    """No copy has record 3. One replica has all others at once, and one only the first two."""
    ends = [3 if end == 4 else end for end in LEADING.ends]
    unsure = lost.unsure([None, *ends], SCOPE)
    leading = LEADING._replace(ends=ends, lost=lost.ranges, unsure=unsure)
    all_others = [bucket(100 * (offset + 1), offset) for offset in range(10) if offset != 3]
    for buckets in (all_others, all_others[:2]):
        taken = list(samples(buckets, frozenset(), leading, SCOPE, lost))
        unknown = [each.t_ms for each in taken[99:] if each.log_end is None]
        assert unknown == list(range(known_until_ms + 1, 500))
    taken = list(samples(all_others, frozenset(), leading, SCOPE, lost))
    assert [each.t_ms for each in taken if each.is_lost] == [
        *range(known_until_ms + 1, lost_until_ms + 1)
    ]


def test_a_replica_that_is_far_behind_waits_for_none_of_the_records_it_lost_later() -> None:
    """It lost records 5 and 6 with their append times, and had come to them at 760 ms."""
    buckets = [bucket(100, 0), bucket(750, 1), bucket(760, 4), bucket(810, 7)]
    lost = Lost([(5, 7)])
    rows = {row["window"]: row for row in windows(buckets, frozenset(), LEADING, SCOPE, lost)}
    assert rows[6]["max_ms"] == rows[6]["lag_ms"] == 500, "it waits for record 1 since 200 ms"
    assert rows[WHOLE]["lags"][749 - 1] == 549
    assert rows[WHOLE]["lags"][760 - 1 : 809] == [None] * 50
    assert rows[WHOLE]["lags"][810 - 1] == 0
    ends = [5 if end in (6, 7) else end for end in LEADING.ends]
    nobody_has_them = LEADING._replace(ends=ends, lost=lost.ranges)
    taken = list(samples(buckets, frozenset(), nobody_has_them, SCOPE, lost))
    unknown = [each.t_ms for each in taken[99:] if each.log_end is None]
    assert unknown == list(range(500, 810)), "the leader has come to record 5"


def test_the_last_append_is_the_last_that_was_there_by_the_end() -> None:
    """Records came at 100 and 200 ms, the next ones after the report, or nobody knows when."""
    here, later = [bucket(100, 0), bucket(200, 1)], Bucket(1_001, 10, 300, 1_300, 1_300)

    def said(*buckets: Bucket, lost: Lost = NOTHING_LOST) -> object:
        rows = windows(buckets, frozenset(), LEADING, SCOPE, lost)
        (whole,) = (row for row in rows if row["window"] == WHOLE)
        return whole["last_append_ms"]

    assert said(*here, later) == said(later, *reversed(here)) == 200
    # By the clock of an earlier leader, which was ahead, record 0 came at 700 ms.
    assert said(bucket(200, 1), Bucket(700, 1, 0, 700, 700)) == 200
    before_the_report = Bucket(0, 1, None, None, -50)
    assert said(before_the_report) == -50
    assert said(later) is None
    assert said(*here, lost=Lost([(2, 4)])) is None, "2 or 3 may have come as well"
    assert said(*here, lost=Lost([(3, 4)])) == 200


def test_a_percentile_is_a_value_that_was_there() -> None:
    values = list(range(1, 101))
    assert [percentile(values, share) for share in (0.5, 0.95, 0.99, 1)] == [50, 95, 99, 100]
    assert percentile([7], 0.5) == 7
    assert percentile([], 0.5) is None
