"""The data source in a Spark session: tables, paths, columns, filters, and a stream."""

from pathlib import Path
from typing import Any

import pytest

from tests.support import real_cluster

pytest.importorskip("pyarrow", reason="the extra spark is not installed")


@pytest.fixture(scope="session")
def quorumlog(spark: Any) -> Any:
    """The session, with the source registered."""
    from lag.source.data_source import QuorumLogSource

    spark.dataSource.register(QuorumLogSource)
    return spark


def cluster() -> str:
    return str(real_cluster.available(real_cluster.CLUSTER))


def test_a_real_cluster_becomes_tables(quorumlog: Any) -> None:
    reader = quorumlog.read.format("quorumlog")
    epochs = reader.option("table", "epochs").load(cluster())
    found = {(row.replica, row.epoch, row.leader) for row in epochs.collect()}
    assert {(epoch, leader) for _, epoch, leader in found} == {(1, 1), (3, 3)}
    assert {replica for replica, _, _ in found} == {"1", "2", "3", "broker-104"}


def test_several_paths_and_fewer_columns(quorumlog: Any) -> None:
    paths = [f"{cluster()}/controller-2", f"{cluster()}/controller-3"]
    reader = quorumlog.read.format("quorumlog").option("source", "log")
    batches = reader.schema("replica STRING, last_offset BIGINT").load(paths)
    assert batches.columns == ["replica", "last_offset"]
    ends = {row[0]: row[1] for row in batches.groupBy("replica").max("last_offset").collect()}
    assert ends == {"2": 545, "3": 546}


def test_a_wrong_option_is_named(quorumlog: Any) -> None:
    with pytest.raises(Exception, match="the option table is 'lags'; it can be batches"):
        quorumlog.read.format("quorumlog").option("table", "lags").load(cluster()).collect()


def test_a_wrong_path_is_told_where_it_is_named(quorumlog: Any) -> None:
    for reader in (quorumlog.read, quorumlog.readStream):
        with pytest.raises(Exception, match="/nope: it does not exist: name the folder of a log"):
            reader.format("quorumlog").load("/nope")
    with pytest.raises(Exception, match=r"s3a://logs/x: s3a is Hadoop.s name for it: write s3:"):
        quorumlog.read.format("quorumlog").load([cluster(), "s3a://logs/x"])
    found = quorumlog.read.format("quorumlog").option("missing", "report").load("/nope")
    assert found.collect() == []


def test_filters_skip_what_spark_would_drop(quorumlog: Any) -> None:
    name = "spark.sql.python.filterPushdown.enabled"
    reader = quorumlog.read.format("quorumlog").option("partition_bytes", "4096")
    query = "replica = '3' and source = 'log' and base_offset >= 500 and base_offset < 520"
    plain = reader.load(cluster()).where(query)
    try:
        quorumlog.conf.set(name, "true")
        pushed = reader.option("push_filters", "true").load(cluster()).where(query)
        assert sorted(pushed.collect()) == sorted(plain.collect()) != []
    finally:
        quorumlog.conf.unset(name)


def test_a_stream_reads_what_is_there_into_parquet(quorumlog: Any, tmp_path: Path) -> None:
    stream = quorumlog.readStream.format("quorumlog").option("max_bytes_per_trigger", "100000")
    query = (
        stream.load(cluster())
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination()
    there = quorumlog.read.parquet(str(tmp_path / "out")).count()
    assert (
        there == quorumlog.read.format("quorumlog").option("source", "log").load(cluster()).count()
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"table": "problems"}, "problems is not streamed; batches, records, epochs, assignments"),
        ({"source": "snapshot"}, "a stream reads the log: leave the option source out, or set it"),
    ],
)
def test_what_cannot_be_streamed_is_told(
    quorumlog: Any, tmp_path: Path, options: dict[str, str], sentence: str
) -> None:
    writer = quorumlog.readStream.format("quorumlog").options(**options).load(cluster()).writeStream
    for trigger in ({"availableNow": True}, {"processingTime": "1 second"}):
        checkpoints = str(tmp_path / next(iter(trigger)))
        to_nowhere = writer.option("checkpointLocation", checkpoints).format("noop")
        query = to_nowhere.trigger(**trigger).start()
        with pytest.raises(Exception, match=sentence):
            query.awaitTermination()
