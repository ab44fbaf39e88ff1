"""How much was committed, in which sizes, and how long a majority took to have it.

A batch is with a majority of the voters when so many of them hold it on disk, its leader among them
once it is on the leader's disk as well. It is committed no earlier, and known as committed a moment
later. Voters of which nobody knows when they had it count as if they never had: where a majority of
the voters remains, the time is right or too long, where none does it is unknown.
"""

from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from admin.lag.reports import columns
from admin.lag.reports.frames import frame
from admin.lag.reports.schemas import COMMITS
from admin.lag.reports.scope import Scope
from admin.lag.reports.voters import Seat

_SEATS: Final = tuple(
    columns.Column(name, type_, "", "")
    for name, type_ in zip(Seat._fields, ("STRING", "INT", "INT", "BIGINT", "BIGINT"), strict=True)
)


def commits(arrivals: DataFrame, seats: Sequence[Seat], scope: Scope) -> list[dict[str, Any]]:
    """The report `commits`; `seats` are those of all assignments."""
    at = F.col("leader_append_ms")
    window = F.floor((at - F.lit(scope.grid_ms + 1)) / F.lit(scope.window_ms))
    # Of 0 and null the greatest is 0 to Spark: what nobody knows is to stay unknown.
    known = F.col("majority_at_ms").isNotNull()
    took = F.when(known, F.greatest(F.lit(0), F.col("majority_at_ms") - at))
    found = (
        with_majority(arrivals.where(at.between(scope.start_ms, scope.end_ms)), seats)
        .withColumns({"window": window, "majority_ms": took})
        .groupBy("window")
        .agg(
            F.count(F.lit(1)).alias("batches"),
            F.sum("records").alias("records"),
            F.sum("bytes").alias("bytes"),
            *_sizes("records"),
            *_sizes("bytes"),
            F.count("majority_ms").alias("majority_known"),
            _percentile("majority_ms", 0.50).alias("majority_p50_ms"),
            _percentile("majority_ms", 0.95).alias("majority_p95_ms"),
            _percentile("majority_ms", 0.99).alias("majority_p99_ms"),
            F.max("majority_ms").alias("majority_max_ms"),
            F.max_by("leader_append_ms", "majority_ms").alias("majority_worst_at_ms"),
        )
    )
    rows = []
    for row in sorted((each.asDict() for each in found.collect()), key=lambda each: each["window"]):
        bounds = scope.bounds_of(row["window"])
        seconds = (bounds["window_end_ms"] - bounds["window_start_ms"]) / 1_000
        rates = {f"{name}_per_s": row[name] / seconds for name in ("records", "batches")}
        whole = {**row, **bounds, **rates}
        rows.append({name: whole[name] for name in COMMITS.names})
    return rows


def _percentile(of: str, share: float) -> Column:
    """The smallest value that so great a share of all does not exceed; null among none."""
    return F.expr(f"percentile_disc({share}) within group (order by {of})").cast("bigint")


def _sizes(of: str) -> tuple[Column, Column]:
    return (
        _percentile(of, 0.50).cast("double").alias(f"{of}_p50"),
        F.max(of).cast("double").alias(f"{of}_max"),
    )


def with_majority(arrivals: DataFrame, seats: Sequence[Seat]) -> DataFrame:
    """Each batch of the quorum's log once, with `majority_at_ms`, null if nobody knows."""
    small = frame(arrivals.sparkSession, _SEATS, [seat._asdict() for seat in seats])
    sits = small.withColumnRenamed("replica", "voter")
    seated = arrivals.join(
        F.broadcast(sits),
        (F.col("replica") == F.col("voter"))
        & (F.col("base_offset") >= F.col("from_offset"))
        & (F.col("base_offset") < F.col("to_offset")),
        "left",
    )
    numbers = sorted({seat.seat for seat in seats})
    # A column for each seat: Spark adds these up in place, which it does not do with a list.
    per_batch = seated.groupBy("base_offset").agg(
        F.min("leader_append_ms").alias("leader_append_ms"),
        F.max("records").alias("records"),
        F.max("bytes").alias("bytes"),
        F.max("voters").alias("voters"),
        *(
            F.min(F.when(F.col("seat") == number, F.col("durable_ms"))).alias(f"seat_{number}")
            for number in numbers
        ),
    )
    if not numbers:
        return per_batch.withColumn("majority_at_ms", F.lit(None).cast("bigint"))
    times = F.array_sort(F.array_compact(F.array(*(F.col(f"seat_{each}") for each in numbers))))
    majority = (F.floor(F.col("voters") / 2) + 1).cast("int")
    return per_batch.withColumn("majority_at_ms", F.try_element_at(times, majority))
