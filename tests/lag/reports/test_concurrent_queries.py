"""Concurrent Spark queries: results in order, or the first failure ends them all."""

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")

from lag.reports.dataframes import run_concurrently


def test_answers_come_in_the_order_of_the_questions(spark: Any) -> None:
    def counted(count: int) -> Any:
        return lambda: spark.range(count).count()

    assert run_concurrently(spark, *map(counted, (30, 1, 20))) == [30, 1, 20]


def test_the_first_fault_is_raised_and_ends_the_others(spark: Any) -> None:
    def fails() -> None:
        raise ValueError("not this one")

    def slow() -> Any:
        return spark.range(1 << 40).selectExpr("sum(hash(id))").collect()

    with pytest.raises(ValueError, match="not this one"):
        run_concurrently(spark, slow, fails)
    assert spark.range(3).count() == 3
