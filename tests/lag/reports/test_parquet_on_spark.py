"""The Parquet files of a report, as Spark reads them."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")

from lag.output.files import SHAPES, write
from tests.lag.sample_report import sample


def test_spark_reads_the_meaning_of_the_columns_from_parquet(spark: Any, tmp_path: Path) -> None:
    write(sample(), tmp_path, ["parquet"])
    for shape in SHAPES:
        read = spark.read.parquet(str(tmp_path / f"{shape.name}.parquet"))
        comments = {each.name: each.metadata["comment"] for each in read.schema}
        assert {each.name for each in shape.columns} <= set(comments)
        assert len(read.collect()) == len(sample().rows(shape.name)), shape.name
    moved = spark.read.parquet(str(tmp_path / "moves.parquet"))
    assert moved.schema["started_time"].dataType.simpleString() == "timestamp"
    first = moved.selectExpr("started_ms", "unix_millis(started_time)", "planned").first()
    assert (first[0], list(first[2])) == (first[1], [103, 104, 101])
