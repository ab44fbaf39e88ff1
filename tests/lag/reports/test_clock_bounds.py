"""Clock offsets: no more than the logs prove."""

import pytest

pytest.importorskip("numpy", reason="the extra spark is not installed")

from lag.reports.clocks import Bounds, bounds, clocks
from lag.reports.epochs import Leader, Span

LED = {1: Leader(1, "1", None), 2: Leader(3, "3", None)}


def span(replica: str, epoch: int, least_delay_ms: int | None) -> Span:
    """100 batches of that epoch, the fastest of which came so much later."""
    timed = 0 if least_delay_ms is None else 100
    return Span(replica, epoch, 0, 1, 0, 0, 0, 0, least_delay_ms, timed)


def test_a_clock_that_followed_and_led_is_known_in_bounds() -> None:
    """3 is 500 ms ahead; a batch needs 2 ms at least, and 1 ms more is the rounding."""
    found = bounds([span("3", 1, 502), span("1", 2, -498)], LED)
    assert found[("3", "1")] == Bounds(497, 503, 200)
    assert found[("1", "3")] == Bounds(-503, -497, 200)
    ahead, behind = sorted(clocks(found), key=lambda row: str(row["verdict"]))
    assert (ahead["replica"], ahead["estimate_ms"], ahead["error_ms"]) == ("3", 500, 3)
    assert (behind["replica"], behind["estimate_ms"]) == ("1", -500)
    assert found[("3", "1")].certain_ms == 497, "so much is taken out, and no more"


def test_a_follower_that_is_always_late_may_as_well_have_a_clock_that_is_ahead() -> None:
    found = bounds([span("2", 1, 40)], LED)
    assert found[("2", "1")] == Bounds(None, 41, 100)
    assert found[("2", "1")].certain_ms == 0
    (row,) = [row for row in clocks(found) if row["replica"] == "2"]
    assert (row["verdict"], row["estimate_ms"], row["error_ms"]) == ("one-sided", 41, None)


def test_a_batch_that_arrives_before_it_was_sent_proves_a_clock_behind() -> None:
    found = bounds([span("2", 1, -300)], LED)
    assert found[("2", "1")].certain_ms == -299
    assert [row["verdict"] for row in clocks(found) if row["replica"] == "2"] == ["behind"]


def test_bounds_over_a_third_replica_add_up() -> None:
    """2 followed 1 only, 1 followed 3 only: so 2 is known relative to 3."""
    found = bounds([span("2", 1, 4), span("1", 2, 9)], LED)
    assert found[("2", "3")].at_most_ms == 5 + 10


def test_bounds_that_contradict_each_other_say_that_a_clock_was_set() -> None:
    found = bounds([span("3", 1, -100), span("1", 2, -100)], LED)
    assert found[("3", "1")].contradict
    assert found[("3", "1")].certain_ms == 0
    assert {row["verdict"] for row in clocks(found)} == {"stepped"}


def test_without_append_times_nothing_is_said() -> None:
    assert bounds([span("2", 1, None)], LED) == {}
