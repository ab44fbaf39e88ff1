import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.cli.output import Columns, Json, as_json, as_yaml, columns, kafka_columns


def test_columns_are_as_wide_as_their_widest_cell_and_end_without_spaces() -> None:
    cells: Columns[tuple[int, str]] = {"A": lambda row: row[0], "Title": lambda row: row[1]}
    assert columns([(1, "x"), (1000, "y")], cells) == "A     Title\n1     x\n1000  y"
    assert columns([], cells) == "A  Title"


WIDE: Columns[tuple[int, str, str]] = {
    "Id": lambda row: row[0],
    "Replicas": lambda row: row[1],
    "Reason": lambda row: row[2],
}


def test_a_wide_table_fits_the_terminal_and_loses_nothing() -> None:
    rows = [(1, "101,102,103,104", "waits for a free place"), (2, "101", "-")]
    assert columns(rows, WIDE, 30).splitlines() == [
        "Id  Replicas      Reason",
        "1   101,102,103,  waits for a",
        "    104           free place",
        "2   101           -",
    ]
    # No number and no word is ever broken.
    assert columns([(7, "123456789012", "unbreakable")], WIDE, 10).splitlines() == [
        "Id  Replicas      Reason",
        "7   123456789012  unbreakable",
    ]


def test_the_width_is_that_of_the_terminal_or_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(1, "101,102,103,104", "waits for a free place")]
    monkeypatch.delenv("COLUMNS", raising=False)
    assert len(columns(rows, WIDE).splitlines()) == 2, "a pipe has no width"
    monkeypatch.setenv("COLUMNS", "30")
    fitted = columns(rows, WIDE).splitlines()
    assert len(fitted) == 3
    assert max(map(len, fitted)) <= 30


@given(
    st.lists(st.tuples(st.integers(), st.text("ab, ", max_size=30), st.text("c,d ", max_size=30))),
    st.integers(1, 80),
)
def test_no_word_of_a_fitted_table_is_lost(rows: list[tuple[int, str, str]], width: int) -> None:
    def letters(text: str) -> str:
        return "".join(sorted(text.replace(" ", "").replace("\n", "")))

    assert letters(columns(rows, WIDE, width)) == letters(columns(rows, WIDE, 10_000))


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
