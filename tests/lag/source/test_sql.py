"""The data source in SQL: a temporary view, a table, and options for one query."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import real_cluster

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

from lag.source.schemas import EPOCHS


@pytest.fixture(scope="module")
def sql(spark: Any) -> Iterator[Any]:
    """A function that runs SQL in the session; the tables that it creates are dropped."""
    from lag.source.data_source import QuorumLogSource

    spark.dataSource.register(QuorumLogSource)
    yield spark.sql
    # Spark's catalog cannot list them where expressions are interpreted.
    for table in spark.sql("SHOW TABLES").collect():
        spark.sql(f"DROP {'VIEW' if table.isTemporary else 'TABLE'} {table.tableName}")


def controller() -> Path:
    """The folder of a node with the whole log."""
    return real_cluster.controller(3)


def test_a_temporary_view_is_queried_by_plain_sql(sql: Any) -> None:
    sql(
        "CREATE TEMPORARY VIEW in_view USING quorumlog "
        f"OPTIONS (path '{controller()}', table 'epochs')"
    )
    rows = sql("SELECT epoch, leader FROM in_view WHERE append_time > TIMESTAMP '2026-11-01'")
    assert sorted(map(tuple, rows.collect())) == [(1, 1), (3, 3)]


def test_a_table_keeps_its_options_and_says_what_its_columns_mean(sql: Any) -> None:
    sql(
        "CREATE TABLE led USING quorumlog COMMENT 'who led' TBLPROPERTIES (ours.is = 'ignored') "
        f"OPTIONS (path '{controller()}', table 'epochs')"
    )
    assert sorted(map(tuple, sql("SELECT epoch, leader FROM led").collect())) == [(1, 1), (3, 3)]
    told = {row["col_name"]: row["comment"] for row in sql("DESCRIBE led").collect()}
    assert told == {column.name: column.meaning for column in EPOCHS.columns}
    assert sql("SELECT count(*) FROM led WHERE epoch = 3").first()[0] == 1


def test_a_table_may_have_a_location_or_several_paths_and_fewer_columns(sql: Any) -> None:
    sql(f"CREATE TABLE placed USING quorumlog OPTIONS (table 'replicas') LOCATION '{controller()}'")
    assert [row["replica"] for row in sql("SELECT * FROM placed").collect()] == ["3"]
    paths = f'["{controller()}", "{real_cluster.controller(2)}"]'
    sql(
        "CREATE TABLE both USING quorumlog "
        f"OPTIONS (paths '{paths}', table 'replicas', columns 'replica,log_end')"
    )
    assert sorted(map(tuple, sql("SELECT * FROM both").collect())) == [("2", 546), ("3", 547)]


def test_options_for_one_query_override_those_of_the_table(sql: Any) -> None:
    sql(f"CREATE TABLE one_query USING quorumlog OPTIONS (path '{controller()}', table 'epochs')")
    assert sql("SELECT * FROM one_query").count() == 2
    assert sql("SELECT * FROM one_query WITH (since = '2026-11-21T04:49:30Z')").count() == 1
    with pytest.raises(Exception, match="no log is of the cluster nowhere"):
        sql("SELECT * FROM one_query WITH (cluster = 'nowhere')").collect()


def test_a_table_can_be_streamed(spark: Any, sql: Any, tmp_path: Path) -> None:
    sql(f"CREATE TABLE streamed USING quorumlog OPTIONS (path '{controller()}', table 'epochs')")
    query = (
        spark.readStream.table("streamed")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination()
    assert spark.read.parquet(str(tmp_path / "out")).count() == 2


def test_a_wrong_table_is_refused_where_it_is_created(sql: Any) -> None:
    for options, message in (
        (f"path '{controller()}', tabel 'epochs'", "there is no option 'tabel'; there are"),
        ("path '/nope'", "/nope: it does not exist: name the folder of a log"),
        ("table 'epochs'", "no folder is named: load"),
    ):
        with pytest.raises(Exception, match=message):
            sql(f"CREATE TABLE wrong USING quorumlog OPTIONS ({options})")


def test_a_table_with_columns_of_its_own_cannot_keep_its_options_and_says_so(sql: Any) -> None:
    """Spark does not ask the source when it is created, nor tells it the options later."""
    sql(
        "CREATE TABLE own_columns (replica STRING, epoch INT) USING quorumlog "
        f"OPTIONS (path '{controller()}', table 'epochs')"
    )
    with pytest.raises(
        Exception, match=r"no folder is named: .* a table is created without a list"
    ):
        sql("SELECT * FROM own_columns").collect()
