"""From arrivals to lag: the log is counted into samples by Spark, each replica is then measured.

Neither is the log sorted for that, nor joined with itself: batches are counted into the samples
between which they came, and what is left is as large as the time is long. Each replica is measured
by `sampling`, wherever Spark has its counts.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from admin.lag.reports.sampling import Bucket, Leading, windows
from admin.lag.reports.scope import Scope


class Counts(NamedTuple):
    """The log, counted."""

    counted: DataFrame
    """`Bucket`s of each replica; kept by Spark until it is told to forget them."""
    leading: Leading
    unknown: Mapping[int, frozenset[str]]
    """The replicas to which what begins at an offset came at a time that nobody knows."""


def counts(arrivals: DataFrame, quorum_copy: str, scope: Scope) -> Counts:
    """Count the arrivals; `quorum_copy` is the replica whose log is the quorum's."""
    counted = _counted(arrivals, quorum_copy, scope).persist(StorageLevel.MEMORY_AND_DISK)
    ends = counted.where(F.col("replica").isNull()).select("sample", "came_to").collect()
    waiting = _waiting_for(arrivals, counted)
    unknown = {row["base_offset"]: frozenset(row["unknown_to"]) for row in waiting}
    leading = Leading(
        _running({row["sample"]: row["came_to"] for row in ends}, scope),
        {row["base_offset"]: row["leader_append_ms"] for row in waiting},
    )
    return Counts(counted, leading, {offset: who for offset, who in unknown.items() if who})


def measured(counts_: Counts, scope: Scope) -> list[dict[str, Any]]:
    """What `sampling.windows` says of each replica: a row for each window and one for the whole.

    Each is measured where Spark has its counts; what comes back is as large as there are windows.
    """
    counted, leading, unknown = counts_

    def measure(row: Row) -> Iterator[dict[str, Any]]:
        replica, buckets = row["replica"], [Bucket(*each) for each in row["buckets"]]
        nobody_knows = frozenset(offset for offset, names in unknown.items() if replica in names)
        for found in windows(buckets, nobody_knows, leading, scope):
            yield {"replica": replica, **found}

    buckets = F.sort_array(F.collect_list(F.struct(*Bucket._fields)))
    of_replicas = counted.where(F.col("replica").isNotNull()).groupBy("replica")
    found: list[dict[str, Any]] = (
        of_replicas.agg(buckets.alias("buckets")).rdd.flatMap(measure).collect()
    )
    return found


def _running(ends: dict[int, int], scope: Scope) -> list[int | None]:
    """Where the leader's log ended at each sample, from what was appended up to each."""
    found: list[int | None] = []
    end = ends.get(0)
    for number in range(1, scope.samples + 1):
        end = max(end or 0, ends[number]) if number in ends else end
        found.append(end)
    return found


def _counted(arrivals: DataFrame, quorum_copy: str, scope: Scope) -> DataFrame:
    """What came to each replica between two samples, `Bucket`s; of the leader `replica` is null.

    Sample 0 is all that came before the report begins. What nobody knows the time of is not there,
    but each replica is: with a sample beyond the last one, where nothing else is known of it.
    """
    step = F.lit(scope.step_ms)
    of_leader = F.struct(
        F.lit(None).cast("string").alias("replica"), F.col("leader_append_ms").alias("t_ms")
    )
    of_replica = F.struct(F.col("replica"), F.col("at_ms").alias("t_ms"))
    is_quorums = F.col("replica") == F.lit(quorum_copy)
    both = F.when(is_quorums, F.array(of_replica, of_leader)).otherwise(F.array(of_replica))
    spread = arrivals.select(F.explode(both).alias("who"), "end", "leader_append_ms").select(
        "who.replica", "who.t_ms", "end", "leader_append_ms"
    )
    beyond = F.lit(scope.samples + 1)
    due = F.ceil((F.col("t_ms") - F.lit(scope.grid_ms)) / step).cast("bigint")
    sample = F.when(F.col("t_ms").isNull(), beyond).otherwise(F.greatest(F.lit(0), due))
    # The greatest first, and of those the earliest: one number, for Spark adds up in place.
    left_of_step = sample * step - (F.col("t_ms") - F.lit(scope.grid_ms))
    peak = F.greatest(F.lit(0), F.col("t_ms") - F.col("leader_append_ms")) * step + left_of_step
    counted = spread.groupBy("replica", sample.alias("sample")).agg(
        F.max("end").alias("came_to"),
        F.max_by("t_ms", "end").alias("last_ms"),
        F.max(F.when(sample.between(F.lit(1), F.lit(scope.samples)), peak)).alias("peak"),
    )
    at = F.lit(scope.grid_ms) + F.col("sample") * step - F.pmod("peak", step)
    return counted.select(
        "replica",
        "sample",
        "came_to",
        F.floor(F.col("peak") / step).alias("peak_ms"),
        at.alias("peak_at_ms"),
        "last_ms",
    )


def _waiting_for(arrivals: DataFrame, counted: DataFrame) -> list[Any]:
    """The batches that begin where a log ended at a sample: when the leader appended each, and to
    whom it came at a time that nobody knows.
    """
    wanted = counted.select(F.col("came_to").alias("base_offset")).distinct()
    unknown_to: Column = F.collect_set(F.when(F.col("at_ms").isNull(), F.col("replica")))
    found: list[Any] = (
        arrivals.join(F.broadcast(wanted), "base_offset")
        .groupBy("base_offset")
        .agg(
            F.min("leader_append_ms").alias("leader_append_ms"),
            unknown_to.alias("unknown_to"),
        )
        .collect()
    )
    return found
