"""What a message quotes of a value from outside is short, whatever the value is."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.units import SHOWN_CHARACTERS_MAX, excerpt

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def nested(depth: int) -> Any:
    """A list in a list, so many times."""
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


@given(VALUES)
def test_a_short_value_is_quoted_as_json_has_it_and_of_a_long_one_the_beginning(value: Any) -> None:
    whole = json.dumps(value)
    if len(whole) <= SHOWN_CHARACTERS_MAX:
        assert excerpt(value) == whole
    else:
        assert excerpt(value) == f"{whole[: SHOWN_CHARACTERS_MAX - 3]}..."


@pytest.mark.parametrize("value", [nested(100_000), {"a": [nested(5_000)]}, ["x"] * 1_000_000])
def test_of_what_is_large_or_deeply_nested_the_beginning_is_quoted(value: Any) -> None:
    assert len(excerpt(value)) == SHOWN_CHARACTERS_MAX
