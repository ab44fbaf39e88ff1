"""The tables of the lag reports: Spark, Arrow and the page know the same columns."""

from typing import Any

import pytest

from tests.support import tree

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

from lag.source.options import options_as_markdown
from lag.source.problems import kinds_as_markdown
from lag.source.schemas import BATCHES, TABLES, as_markdown


@pytest.mark.parametrize("name", TABLES)
def test_spark_has_the_schema_of_the_arrow_batches(spark: Any, name: str) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    table = TABLES[name]
    schema = spark.createDataFrame([], table.ddl()).schema
    assert to_arrow_schema(schema, timezone="UTC").equals(table.arrow())


def test_the_page_has_tables_options_and_kinds_of_problem_as_they_are() -> None:
    page = (tree.ROOT / "docs" / "lag_tables.md").read_text(encoding="utf-8")
    for part in (as_markdown(), options_as_markdown(), kinds_as_markdown()):
        assert part in page


def test_a_table_can_have_fewer_columns_and_says_which_it_does_not_have() -> None:
    assert BATCHES.only(("epoch", "replica")).column_names == ("epoch", "replica")
    with pytest.raises(ValueError, match="the table batches has no column 'offset'; it has replic"):
        BATCHES.only(("offset",))
