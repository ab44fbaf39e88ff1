"""The tables of the lag reports: Spark, Arrow and the page know the same columns."""

from datetime import UTC, datetime

import pytest

from tests.support import real_cluster, tree

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

import pyarrow as pa

from lag.source.batches import moments
from lag.source.invalid_input import InvalidInput
from lag.source.options import options_as_markdown, options_of
from lag.source.problems import kinds_as_markdown
from lag.source.schemas import BATCHES, PUBLIC, TABLES, TIMESTAMP, Column, Table, as_markdown
from tests.lag import handmade_logs


@pytest.mark.parametrize("name", TABLES)
def test_spark_has_the_schema_of_the_arrow_batches(name: str) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    table = TABLES[name]
    schema = StructType.fromJson(table.spark())
    assert to_arrow_schema(schema, timezone="UTC").equals(table.arrow())


def test_the_page_has_tables_options_and_kinds_of_problem_as_they_are() -> None:
    page = (tree.ROOT / "docs" / "lag_tables.md").read_text(encoding="utf-8")
    for part in (as_markdown(), options_as_markdown(), kinds_as_markdown()):
        assert part in page


@pytest.mark.parametrize("table", PUBLIC, ids=lambda table: table.name)
def test_columns_say_what_they_mean_and_whether_they_may_be_null(table: Table) -> None:
    from pyspark.sql.types import StructType

    schema = StructType.fromJson(table.spark())
    for field, column in zip(schema, table.columns, strict=True):
        assert field.metadata == {"comment": column.meaning}
        assert field.nullable == column.is_nullable
    assert any(not column.is_nullable for column in table.columns)
    folder = real_cluster.available(real_cluster.CLUSTER)
    rows = handmade_logs.rows(folder, table.name)
    assert rows
    for column in table.columns:
        if not column.is_nullable:
            assert all(row[column.name] is not None for row in rows), column.name


def test_every_time_is_a_timestamp_too() -> None:
    """In UTC, whatever the time zone of the session is."""
    folder = real_cluster.available(real_cluster.CLUSTER)
    for table in PUBLIC:
        stems = {each.name.removesuffix("_ms") for each in table.columns if each.name[-3:] == "_ms"}
        times = {each.of_ms for each in table.columns if each.type == TIMESTAMP}
        assert times == {f"{stem}_ms" for stem in stems}
        for row in handmade_logs.rows(folder, table.name):
            for name in times:
                moment = row[name.removesuffix("_ms") + "_time"]
                told = None if moment is None else round(moment.timestamp() * 1_000)
                assert told == row[name], (table.name, row)
    (first, *_) = handmade_logs.rows(folder, "epochs", columns="append_time")
    assert first["append_time"] == datetime(2026, 11, 21, 4, 48, 57, 164_000, tzinfo=UTC)


def test_moments_beyond_what_a_timestamp_holds_are_null() -> None:
    assert moments(pa.array([None, -1, 2**62], pa.int64())).to_pylist() == [
        None,
        datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        None,
    ]


def test_a_schema_of_ones_own_has_the_types_of_the_table() -> None:
    options = options_of({"path": "/x", "table": "batches"})
    asked = [Column("epoch", "INT", ""), Column("replica", "STRING", "", is_nullable=False)]
    shown = options.with_columns(asked).shown
    assert [(each.name, each.is_nullable) for each in shown.columns] == [
        ("epoch", True),
        ("replica", False),
    ]
    with pytest.raises(InvalidInput, match="the column epoch of the table batches is INT, not BIG"):
        options.with_columns([Column("epoch", "BIGINT", "")])
    with pytest.raises(InvalidInput, match="the column mark of the table batches may be null"):
        options.with_columns([Column("mark", "STRING", "", is_nullable=False)])


def test_a_table_can_have_fewer_columns_and_says_which_it_does_not_have() -> None:
    assert BATCHES.only(("epoch", "replica")).column_names == ("epoch", "replica")
    with pytest.raises(ValueError, match="the table batches has no column 'offset'; it has replic"):
        BATCHES.only(("offset",))
