"""Rows of results are in the documented order."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

import pyarrow as pa

from lag.results import sort_rows

NAMES = st.one_of(st.none(), st.sampled_from(["", "a", "a2", "a10", "10", "2", "02", "b2c3", "²"]))
NUMBERS = st.one_of(st.none(), st.integers(-3, 3))


def test_nothing_stands_before_something_and_2_before_10() -> None:
    names = ["kafka10", None, "kafka2", "10", "9", ""]
    assert arranged([(name, 0) for name in names]) == [
        (None, 0),
        ("", 0),
        ("9", 0),
        ("10", 0),
        ("kafka2", 0),
        ("kafka10", 0),
    ]


@given(st.lists(st.tuples(NAMES, NUMBERS)))
def test_the_first_column_counts_first(rows: list[tuple[str | None, int | None]]) -> None:
    found = arranged(rows)
    assert sorted(map(repr, found)) == sorted(map(repr, rows))
    by_name = [name for name, _ in found]
    for each in set(by_name):
        at = [place for place, name in enumerate(by_name) if name == each]
        assert at == list(range(at[0], at[0] + len(at))), "those of one name stand together"
        numbers = [-9 if found[place][1] is None else found[place][1] for place in at]
        assert numbers == sorted(numbers, key=int)


def arranged(rows: list[tuple[str | None, int | None]]) -> list[tuple[Any, ...]]:
    schema = pa.schema([pa.field("name", pa.string()), pa.field("number", pa.int64())])
    table = pa.Table.from_pylist([{"name": name, "number": n} for name, n in rows], schema)
    return [tuple(row.values()) for row in sort_rows(table, ("name", "number"))]
