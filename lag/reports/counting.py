"""What Spark counts of partitions for the reports of brokers and of moves of ours."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lag.reports.brokers import Count
from lag.reports.scope import Scope


def partition_counts(history: DataFrame, moves: DataFrame, scope: Scope) -> list[Count]:
    """How often each broker left and joined an ISR, and was added and removed by a reassignment."""
    names = (("added", "moves_in"), ("removed", "moves_out"))
    # The last window ends with the report.
    begun = moves.where(F.col("started_ms") <= scope.end_ms)
    window = F.floor((F.col("started_ms") - F.lit(scope.grid_ms + 1)) / F.lit(scope.window_ms))
    happened = history.where(F.col("broker_id").isNotNull()).select(
        "broker_id", "window", "what", "times"
    )
    for column, what in names:
        happened = happened.unionByName(
            begun.select(
                F.explode(column).alias("broker_id"),
                window.alias("window"),
                F.lit(what).alias("what"),
                F.lit(1).cast("bigint").alias("times"),
            )
        )
    counted = happened.groupBy("broker_id", "window", "what").agg(F.sum("times").alias("times"))
    return [
        Count(row["broker_id"], row["window"], row["what"], row["times"])
        for row in counted.collect()
    ]


def of_operations(moves: DataFrame) -> dict[int, tuple[int, bool]]:
    """Of each move of ours how long its slowest partition took, and whether one is stuck."""
    is_stuck = F.col("outcome") == "stuck"
    found = (
        moves.where(F.col("move_id").isNotNull())
        .groupBy("move_id")
        .agg(F.max("duration_ms").alias("slowest_ms"), F.some(is_stuck).alias("stuck"))
    )
    return {row["move_id"]: (row["slowest_ms"], row["stuck"]) for row in found.collect()}
