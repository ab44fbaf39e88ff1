import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.units import (
    parse_duration_ms,
    parse_size_bytes,
    parse_time_ms,
    show_duration,
    show_size,
    show_time,
)


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("5s", 5_000),
        ("500ms", 500),
        ("1.5 s", 1_500),
        ("2min", 120_000),
        ("42", 42),
        ("1h", 3_600_000),
    ],
)
def test_a_duration_is_a_number_with_or_without_a_unit(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("8MiB", 8 << 20), ("64KiB", 65_536), ("1GB", 10**9), ("7", 7), ("3 B", 3)],
)
def test_a_size_is_a_number_with_or_without_a_unit(text: str, size_bytes: int) -> None:
    assert parse_size_bytes(text) == size_bytes


@pytest.mark.parametrize("text", ["", "s", "5 seconds", "5S", "1e3", "0.5", "0.1ms", "٣s", "5s "])
def test_any_other_value_is_refused_with_the_valid_form(text: str) -> None:
    with pytest.raises(ValueError, match=r"like 500ms or 5s|write ms, s, min|whole number of ms"):
        parse_duration_ms(text)


@given(st.integers(0, 10**12))
def test_a_bare_number_is_itself(number: int) -> None:
    assert parse_duration_ms(str(number)) == number
    assert parse_size_bytes(f"{number}B") == number


@pytest.mark.parametrize(
    ("duration_ms", "shown"),
    [(0, "0 ms"), (999, "999 ms"), (1_234, "1.2 s"), (125_000, "2 min 5 s")],
)
def test_a_duration_is_shown_in_the_unit_that_fits(duration_ms: int, shown: str) -> None:
    assert show_duration(duration_ms) == shown


@pytest.mark.parametrize(
    ("size_bytes", "shown"),
    [(12, "12 B"), (1_536, "1.5 KiB"), (3 << 20, "3.0 MiB"), (5 << 30, "5.0 GiB")],
)
def test_a_size_is_shown_in_the_unit_that_fits(size_bytes: int, shown: str) -> None:
    assert show_size(size_bytes) == shown


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1767225600000", 1_767_225_600_000),
        ("2026-01-01T00:00:00Z", 1_767_225_600_000),
        ("2026-01-01T01:00:00+01:00", 1_767_225_600_000),
        ("1970-01-01T00:00:00.0001Z", 1),
        ("1969-01-01T00:00:00Z", 0),
    ],
)
def test_a_time_is_a_date_with_a_zone_or_milliseconds(text: str, time_ms: int) -> None:
    assert parse_time_ms(text) == time_ms


@given(st.integers(0, 253_402_300_799_999))
def test_a_time_that_is_shown_is_read_again(time_ms: int) -> None:
    assert parse_time_ms(show_time(time_ms, "milliseconds")) == time_ms


def test_a_date_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match=r"has no time zone: write 2026-01-01T00:00:00Z for UTC"):
        parse_time_ms("2026-01-01T00:00:00")
