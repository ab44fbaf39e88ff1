"""The history of every partition: what it was after each of its records, and what it moved.

A record says only what changes; here what stays is carried on. A partition is *moved* while it has
replicas that are adding or removing, or a target (ours, between two steps). A reassignment begins
where it begins to be moved, or is led elsewhere while it is; one that needs no catching up begins
and ends with the same record. `number` counts them, from 1.

One row for each record about a partition:

    topic_id, partition, offset, append_ms, created
    replicas, isr, adding, removing       after the record, and `*_before` it
    planned                               the replicas it is to have in the end
    moving, was_moving, begins            whether it is moved after and before it, and set out here
    number                                of the reassignment under way, or the last; 0 before any
    move_id                               the move of metaquorum, null for none
    next_ms                               when the next record about it was appended
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

_CREATED: Final = "PartitionRecord"
_CHANGED: Final = "PartitionChangeRecord"
_CARRIED: Final = ("replicas", "isr", "adding", "removing", "target", "move_id")
_KEY: Final = ("topic_id", "partition")


def partition_history(records: DataFrame) -> DataFrame:
    """The history, from the records of the quorum's log."""
    of_partition = Window.partitionBy(*_KEY).orderBy("offset")
    so_far = of_partition.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    none = F.array().cast("array<int>")
    # Who speaks of adding or removing and names no target does not know targets: it falls away.
    forgets = F.col("adding").isNotNull() | F.col("removing").isNotNull()
    target = F.coalesce("target", F.when(forgets, none))
    said = records.where(F.col("type").isin(_CREATED, _CHANGED)).select(
        *_KEY,
        "offset",
        "append_ms",
        (F.col("type") == _CREATED).alias("created"),
        "replicas",
        "isr",
        "adding",
        "removing",
        target.alias("target"),
        # A partition without a target is in no move, whatever it was in before.
        F.when(F.size(target) == 0, 0).otherwise(F.col("move_id")).alias("move_id"),
    )
    carried = said.withColumns(
        {name: F.last(name, ignorenulls=True).over(so_far) for name in _CARRIED}
    )
    known = carried.withColumns(
        {name: F.coalesce(name, none) for name in ("adding", "removing", "target")}
    )
    is_moving = F.size("adding") + F.size("removing") + F.size("target") > 0
    aimed = F.filter("replicas", lambda each: ~F.array_contains("removing", each))
    planned = F.when(F.size("target") > 0, F.col("target")).otherwise(aimed)
    after = known.withColumns({"moving": is_moving, "planned": planned})
    names = ("replicas", "isr", "adding", "removing", "planned", "moving")
    before = after.withColumns(
        {
            **{f"{name}_before": F.lag(name).over(of_partition) for name in names},
            "next_ms": F.lead("append_ms").over(of_partition),
        }
    ).withColumn("was_moving", F.coalesce("moving_before", F.lit(False)))
    return (
        before.withColumn("begins", _begins())
        .withColumn("number", F.sum(F.col("begins").cast("bigint")).over(so_far))
        .withColumn("move_id", F.when(F.col("move_id") > 0, F.col("move_id")))
        .drop("target", "moving_before")
    )


def _begins() -> Column:
    """Whether a reassignment begins with the record."""
    is_elsewhere = F.col("planned") != F.col("planned_before")
    # Where the log begins later than the partition, what it had before is not known.
    at_once = ~F.col("was_moving") & (F.col("replicas") != F.col("replicas_before"))
    begins = F.when(F.col("moving"), ~F.col("was_moving") | is_elsewhere).otherwise(at_once)
    return F.coalesce(begins, F.lit(False)) & (~F.col("created") | F.col("moving"))


def isr_changes(history: DataFrame) -> DataFrame:
    """Each replica that came into an ISR or left one: `broker_id`, `at_ms`, and `what` it did."""
    changed = history.where(~F.col("created") & (F.col("isr") != F.col("isr_before")))
    each = F.concat(
        F.transform(
            F.array_except("isr", "isr_before"),
            lambda broker: F.struct(broker.alias("id"), F.lit("isr_expands").alias("what")),
        ),
        F.transform(
            F.array_except("isr_before", "isr"),
            lambda broker: F.struct(broker.alias("id"), F.lit("isr_shrinks").alias("what")),
        ),
    )
    return changed.select(F.col("append_ms").alias("at_ms"), F.explode(each).alias("each")).select(
        F.col("each.id").alias("broker_id"), "at_ms", F.col("each.what").alias("what")
    )


def of_moves(history: DataFrame) -> DataFrame:
    """The rows of reassignments, from the one that begins each to the one that ends it."""
    return history.where(F.col("begins") | F.col("was_moving")).where("number > 0")
