"""Rising numbers equal those of a plain count."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from statemachine.records.row_codec import rising


@given(
    first=st.integers(0, 1 << 20) | st.integers((1 << 16) - 9, (1 << 16) + 9),
    count=st.integers(0, 20) | st.integers(65_530, 65_540),
)
def test_they_are_as_if_counted(first: int, count: int) -> None:
    assert rising(first, count) == array("I", range(first, first + count))


def test_the_input_may_be_changed_afterwards() -> None:
    some = rising(5, 3)
    some[0] = 9
    assert rising(5, 3) == array("I", [5, 6, 7])
