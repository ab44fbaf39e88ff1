"""The values of `consume --offset`."""

import pytest

from admin.cli.start_offsets import Kind, StartOffset, offset_in, parse_start_offset


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("earliest", 10),
        ("latest", 20),
        ("15", 15),
        ("3", 10),
        ("99", 20),
        ("-3", 17),
        ("-0", 20),
        ("-99", 10),
    ],
)
def test_the_offset_is_inside_of_what_the_partition_holds(text: str, offset: int) -> None:
    assert offset_in(parse_start_offset(text), 10, 20) == offset


def test_a_time_is_looked_up() -> None:
    assert parse_start_offset("s@1970-01-01T00:00:01Z") == StartOffset(Kind.TIME, 1_000)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Earliest", "'Earliest' is no offset: write earliest, latest, 100, -100"),
        ("1.5", "is no offset"),
        ("--3", "is no offset"),
        (str(2**63), "is no offset"),
        ("s@noon", "'noon' is no time: write 2026-01-01T00:00:00Z, or milliseconds since 1970"),
    ],
)
def test_any_other_text_is_refused_with_the_valid_forms(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason.replace("(", r"\(")):
        parse_start_offset(text)
