"""The result tables document the meaning, unit and name of every column."""

import pytest

from lag.reports import schemas, status
from lag.reports.schemas import RESULTS, ResultTable
from tests.support import tree

TYPES = {"BIGINT", "INT", "DOUBLE", "STRING", "BOOLEAN", "ARRAY<INT>", "ARRAY<STRING>"}


def test_every_table_has_a_name_of_its_own() -> None:
    names = [table.name for table in RESULTS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("table", RESULTS, ids=lambda table: table.name)
def test_every_column_has_one_name_a_type_a_meaning_and_its_unit(table: ResultTable) -> None:
    assert len(set(table.names)) == len(table.names)
    for column in table.columns:
        assert column.type in TYPES, column
        assert column.meaning, column
        assert not column.name.endswith("_ms") or column.unit in {"ms", "time"}, column
        assert column.unit not in {"ms", "time"} or column.name.endswith("_ms"), column


def test_the_pages_have_the_tables_and_the_rules_as_they_are() -> None:
    docs = tree.ROOT / "docs"
    assert schemas.as_markdown() in (docs / "lag_tables.md").read_text(encoding="utf-8")
    assert status.as_markdown() in (docs / "lag.md").read_text(encoding="utf-8")
