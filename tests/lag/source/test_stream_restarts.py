"""A stream into Parquet, through Spark: stopped or killed in the middle of a batch, and gone on
with from its checkpoint when its logs are no longer what they were."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

from tests.lag import parquet_streams
from tests.lag.growing_logs import RECORDS, Node, without_times
from tests.support.tree import ROOT

OFFSET: Final = {"batches": "base_offset", "records": "offset"}


@pytest.fixture
def quorumlog(spark: Any) -> Any:
    """The session, with the source registered."""
    from lag.source.data_source import QuorumLogSource

    spark.dataSource.register(QuorumLogSource)
    return spark


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[Node]]:
    """Two replicas with four segments each."""
    made = [Node(tmp_path / "logs" / name) for name in ("1", "2")]
    for node in made:
        node.commit(12, epoch=1)
    yield made
    for node in made:
        node.log.close()


def rule(table: str) -> str:
    """The query of docs/lag_tables.md that drops void rows, for this table."""
    page = (ROOT / "docs" / "lag_tables.md").read_text(encoding="utf-8")
    (query,) = re.findall(r"```sql\n(SELECT \* FROM told.*?)```", page, re.DOTALL)
    return str(query).replace("base_offset", OFFSET[table])


def shown(rows: Any, table: str) -> list[tuple[Any, ...]]:
    """Replica, offset and epoch, in order; the same row as often as it is there."""
    return sorted(
        (row["replica"], row[OFFSET[table]], row["epoch"], row["generation"], row["mark"])
        for row in rows.collect()
    )


def through_it_all(spark: Any, nodes: list[Node], place: Path, table: str) -> None:
    """While nobody reads, logs grow and roll, another replica comes, and a new leader has the first
    one truncated; then the query goes on, and is judged by what the logs hold."""
    first, second = nodes
    before = spark.read.parquet(str(place / "out"))
    # A batch is whole or not there: of each log a segment, and nothing of what was underway.
    a_segment = 15 if table == "records" else 3
    assert before.groupBy("replica").count().orderBy("replica").collect() == [
        ("1", a_segment),
        ("2", a_segment),
    ]
    void = shown(before.where(f"replica = '1' and {OFFSET[table]} >= 10"), table)
    assert void
    first.truncate(10)
    first.commit(7, epoch=4)
    second.commit(5, epoch=1)
    third = Node(place / "logs" / "3")
    third.commit(4, epoch=1)
    third.log.close()

    parquet_streams.run(
        spark,
        place / "logs",
        place,
        table=table,
        max_bytes_per_trigger=parquet_streams.SEGMENT_A_BATCH,
    )

    told = spark.read.parquet(str(place / "out"))
    told.createOrReplaceTempView("told")
    valid = shown(spark.sql(rule(table)), table)
    there = spark.read.format("quorumlog").option("table", table).load(str(place / "logs"))
    holds = [row[:3] for row in shown(there, table)]
    assert [row[:3] for row in valid] == holds
    generations = {(row[0], row[1] >= 10): row[3] for row in valid}
    assert {key: made for key, made in generations.items() if made} == {("1", True): 1}
    (mark,) = told.where("mark = 'truncated'").collect()
    assert (mark["replica"], mark[OFFSET[table]], mark["epoch"]) == ("1", 10, 4)
    assert mark["generation"] == 1
    dropped = [row for row in shown(told.where("mark is null"), table) if row not in valid]
    assert dropped == void


def test_a_stream_that_was_stopped_tells_the_rest_once(
    quorumlog: Any, nodes: list[Node], tmp_path: Path
) -> None:
    index, there = without_times(nodes[0], 1)
    options = {
        "max_bytes_per_trigger": parquet_streams.SEGMENT_A_BATCH,
        "settle_ms": parquet_streams.FOR_EVER_MS,
    }
    logs = tmp_path / "logs"
    query = parquet_streams.start(quorumlog, logs, tmp_path, table="batches", ends=False, **options)
    try:
        parquet_streams.until_underway(query, tmp_path, 1)
    finally:
        query.stop()
    index.write_bytes(there)
    through_it_all(quorumlog, nodes, tmp_path, "batches")


@pytest.mark.process
def test_a_stream_that_was_killed_tells_the_rest_once(
    quorumlog: Any, nodes: list[Node], tmp_path: Path
) -> None:
    index, there = without_times(nodes[0], 1)
    parquet_streams.killed_underway(tmp_path / "logs", tmp_path, table="records", batch=1)
    index.write_bytes(there)
    through_it_all(quorumlog, nodes, tmp_path, "records")


def test_a_query_for_what_is_there_ends_though_the_log_grows(
    quorumlog: Any, nodes: list[Node], tmp_path: Path
) -> None:
    query = parquet_streams.start(
        quorumlog, tmp_path / "logs", tmp_path, table="batches", ends=True
    )
    try:
        for _ in range(parquet_streams.LOOKS_MAX):
            # Faster than batches end: whenever it looks, there is more than when it looked last.
            nodes[0].commit(1, epoch=1)
            if query.awaitTermination(parquet_streams.LOOK_SECONDS):
                break
        else:
            raise AssertionError(f"it goes on: {query.status}")
    finally:
        query.stop()
    told = shown(quorumlog.read.parquet(str(tmp_path / "out")).where("replica = '1'"), "batches")
    assert [row[1] for row in told] == [RECORDS * at for at in range(len(told))]
    assert len(told) >= 12
