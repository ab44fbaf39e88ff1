"""Numbers are what their halves say, and those that rise are those that counting gives."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from statemachine.records.row_codec import HALF_BITS, LOWER, UPPER, joined, rising, split_uint32


@given(
    first=st.integers(0, 1 << 20) | st.integers((1 << 16) - 9, (1 << 16) + 9),
    count=st.integers(0, 20) | st.integers(65_530, 65_540),
)
def test_they_are_as_if_counted(first: int, count: int) -> None:
    assert rising(first, count) == array("I", range(first, first + count))


def test_what_is_given_may_be_changed() -> None:
    some = rising(5, 3)
    some[0] = 9
    assert rising(5, 3) == array("I", [5, 6, 7])


@given(st.lists(st.integers(0, (1 << 32) - 1)))
def test_they_are_their_halves_joined(numbers: list[int]) -> None:
    split = split_uint32(array("I", numbers))
    assert list(split[UPPER::2]) == [each >> HALF_BITS for each in numbers]
    assert list(split[LOWER::2]) == [each & 0xFFFF for each in numbers]
    assert joined(split).tolist() == numbers
