"""Axes, ticks, and the text form of times and numbers on the page."""

from hypothesis import given
from hypothesis import strategies as st

from lag.output.scales import (
    Scale,
    decade_ticks,
    merged,
    number_ticks,
    time_step_ms,
    time_ticks,
)
from lag.units import numbered, show_bytes, show_clock, show_count, show_span, show_time

times_ms = st.integers(0, 4_000_000_000_000)


def test_a_scale_keeps_order_and_stays_inside() -> None:
    scale = Scale(10, 20, 100, 200)
    assert [scale.at(value) for value in (0, 10, 15, 20, 99)] == [100, 100, 150, 200, 200]
    assert Scale(5, 5, 100, 200).at(5) == 100


def test_a_logarithmic_scale_begins_at_zero_and_gives_each_decade_its_room() -> None:
    scale = Scale(0, 999_999, 0, 600, is_log=True)
    assert scale.at(0) == 0
    assert [scale.at(10**power - 1) for power in (1, 2, 3, 6)] == [100, 200, 300, 600]


@given(times_ms, st.integers(1, 10**12), st.integers(2, 12))
def test_time_ticks_are_inside_and_not_too_many(low_ms: int, span_ms: int, most: int) -> None:
    ticks = time_ticks(low_ms, low_ms + span_ms, most)
    assert len(ticks) <= most + 1
    assert all(low_ms <= at <= low_ms + span_ms for at, _ in ticks)
    step_ms = time_step_ms(span_ms, most)
    assert all(at % step_ms == 0 for at, _ in ticks)


@given(st.floats(0, 1e12), st.integers(2, 8))
def test_number_ticks_reach_the_highest_value(high: float, most: int) -> None:
    ticks = number_ticks(high, most)
    assert ticks[0] == 0
    assert ticks[-1] >= high
    assert len(ticks) <= most + 2
    assert decade_ticks(high)[-1] >= high


def test_ticks_are_as_exact_as_their_distance_needs() -> None:
    begin = 1_795_236_570_697
    assert [label for _, label in time_ticks(begin, begin + 900, 4)] == [
        "31.000",
        "31.500",
    ]
    assert time_ticks(begin, begin + 60_000, 4)[0][1] == "04:49:45"
    assert time_ticks(begin, begin + 6 * 3_600_000, 4)[0][1] == "06:00"
    assert time_ticks(begin, begin + 40 * 86_400_000, 4)[0][1] == "12-03"


def test_values_are_written_with_their_unit_and_nothing_known_as_unknown() -> None:
    assert show_time(1_795_236_570_697) == "2026-11-21 04:49:30.697"
    assert show_clock(1_795_236_570_697) == "04:49:30.697"
    assert [show_span(ms) for ms in (0, 7, 1_500, 90_000, -20, 86_400_000)] == [
        "0 ms", "7 ms", "1.5 s", "1.5 min", "-20 ms", "1 d",
    ]  # fmt: skip
    assert [show_count(n) for n in (0, 9_999, 12_345, 2_500_000)] == ["0", "9999", "12.3k", "2.5M"]
    assert show_bytes(40_342) == "39.4 KiB"
    assert [numbered(n, "record") for n in (0, 1, 2)] == ["0 records", "1 record", "2 records"]
    for show in (show_time, show_clock, show_span, show_count, show_bytes):
        assert show(None) == "unknown"


def test_times_that_nearly_touch_are_one() -> None:
    assert merged([(50, 60), (0, 10), (12, 20)], 5) == [(0, 20), (50, 60)]
    assert merged([(0, 30), (5, 10)], 5) == [(0, 30)]
