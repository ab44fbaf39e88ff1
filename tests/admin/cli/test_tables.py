import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.cli.output import Columns, Json, as_json, as_yaml, columns, kafka_columns


def test_columns_are_as_wide_as_their_widest_cell_and_end_without_spaces() -> None:
    cells: Columns[tuple[int, str]] = {"A": lambda row: row[0], "Title": lambda row: row[1]}
    assert columns([(1, "x"), (1000, "y")], cells) == "A     Title\n1     x\n1000  y"
    assert columns([], cells) == "A  Title"


def test_kafkas_columns_end_with_tabs() -> None:
    cells: Columns[int] = {"A": lambda row: 50 * row, "B": lambda row: row}
    assert kafka_columns([2], cells) == "A  \tB\t\n100\t2\t"


def test_yaml_nests_by_two_spaces() -> None:
    value: Json = {"a": 1, "b": {"c": [1, {"d": "x: y"}], "e": []}, "f": None}
    assert as_yaml(value) == ('a: 1\nb:\n  c:\n    - 1\n    - d: "x: y"\n  e: []\nf: null')


@pytest.mark.parametrize(("value", "shown"), [([], "[]"), ({}, "{}"), ("a", '"a"'), (None, "null")])
def test_yaml_of_nothing_and_of_a_scalar(value: Json, shown: str) -> None:
    assert as_yaml(value) == shown


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.text() | st.integers()), max_size=3))
def test_json_can_be_read_back(value: Json) -> None:
    assert json.loads(as_json(value)) == value
