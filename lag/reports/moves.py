"""Reassignments of partitions: plan, result, steps, durations.

Ours and Kafka's alike, because both write adding and removing replicas into PartitionChange
records. Made from `partition_history`; `topics` from the records.

The *segment* of a record is the number of holes of the log before it. What happened in another
segment does not tell the end of a reassignment: a hole in between may hide its end, and another
beginning. Neither is its start known if the state before its first record is not.
"""

from collections.abc import Callable, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lag.reports import schemas
from lag.reports.brokers import Count
from lag.reports.holes import NONE, Holes, name
from lag.reports.partition_history import ADDED
from lag.reports.scope import Scope
from lag.reports.topics import PartitionsAdded

STUCK_MS: Final = 60_000
"""A reassignment in progress without a record for this long is stuck."""
_PARTITION: Final = ("topic_id", "partition")
_KEY: Final = (*_PARTITION, "number")
_STEP: Final = (*_KEY, "step")


def topics(records: DataFrame, holes: Holes) -> DataFrame:
    """The name and the deletion of each topic: `topic_id`, `topic`, `gone_ms`, `gone_segment`."""
    is_made = F.col("type") == "TopicRecord"
    is_gone = F.col("type") == "RemoveTopicRecord"
    return (
        records.where(is_made | is_gone)
        .groupBy("topic_id")
        .agg(
            F.max(F.when(is_made, F.col("topic"))).alias("topic"),
            F.max(F.when(is_gone, F.col("append_ms"))).alias("gone_ms"),
            F.max(F.when(is_gone, _segment(F.col("offset"), holes))).alias("gone_segment"),
        )
    )


def _segment(offset: Column, holes: Holes) -> Column:
    """The segment of the record at an offset."""
    if not holes:
        return F.lit(0)
    ends = F.array(*(F.lit(hole.end).cast("bigint") for hole in holes.holes))
    return F.size(F.filter(ends, lambda end: end <= offset))


def _names(holes: Holes, *segments: Column) -> Column:
    """The names of the holes at the ends of these segments, where these are known."""
    if not holes:
        return F.lit(None).cast("string")
    known = F.array(*(F.lit(name(hole)) for hole in holes.holes))
    found = [F.when(each.isNotNull(), F.get(known, each)) for each in segments]
    text = F.concat_ws(", ", F.array_distinct(F.array(*found)))
    return F.when(text != "", text)


def _within(known: Column, segment: str, *, of: str) -> Column:
    """A value, if it comes from the segment `of`."""
    return F.when(F.col(segment) == F.col(of), known)


def with_steps(history: DataFrame) -> DataFrame:
    """The rows of reassignments with `step` (0 before the first), `under_way` and `next_ms`.

    A step begins where the adding or removing replicas change, or where a single record does all.
    """
    under_way = _size("adding") + _size("removing") > 0
    differs = ~F.col("adding").eqNullSafe(F.col("adding_before")) | ~F.col("removing").eqNullSafe(
        F.col("removing_before")
    )
    at_once = F.col("begins") & ~F.col("moving")
    so_far = (
        Window.partitionBy(*_KEY)
        .orderBy("offset")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    in_order = Window.partitionBy(*_PARTITION).orderBy("offset")
    begins = (under_way & (differs | F.col("begins"))) | at_once
    return history.where(F.col("number").isNotNull()).withColumns(
        {
            "under_way": under_way,
            "step": F.sum(begins.cast("bigint")).over(so_far),
            # While a partition moves, its next record is such a row as well.
            "next_ms": F.when(
                F.lead("segment").over(in_order) == F.col("segment"),
                F.lead("append_ms").over(in_order),
            ),
        }
    )


def _size(name: str) -> Column:
    """The length of a list; 0 if it is unknown."""
    return F.when(F.col(name).isNotNull(), F.size(name)).otherwise(0)


def steps(stepped: DataFrame, topics_: DataFrame) -> DataFrame:
    """The steps: `_STEP`, `offset`, `started_ms`, `ended_ms`, `adding`, `removing`, `topic`.

    `stepped` is the result of `with_steps`.
    """
    begun = (
        stepped.where("step > 0")
        .groupBy(*_STEP)
        .agg(
            F.min("offset").alias("offset"),
            F.min("append_ms").alias("started_ms"),
            F.min_by("adding", "offset").alias("adding"),
            F.min_by("removing", "offset").alias("removing"),
            F.min(F.when(~F.col("under_way"), F.col("append_ms"))).alias("over_ms"),
            # Otherwise the record after its last one ends it, which begins another step or another
            # reassignment, possibly one that waits for its first step.
            F.max_by("next_ms", "offset").alias("next_ms"),
            F.max("segment").alias("segment"),
            F.min_by(~F.col("begins") | F.col("settled"), "offset").alias("settled"),
            F.min_by("under_way", "offset").alias("was_under_way"),
        )
    )
    gone_ms = _within(F.col("gone_ms"), "gone_segment", of="segment")
    return begun.join(F.broadcast(topics_), "topic_id", "left").withColumn(
        "ended_ms", F.coalesce("over_ms", "next_ms", gone_ms)
    )


def added(stepped: DataFrame, steps_: DataFrame) -> DataFrame:
    """The replicas that steps add: `_STEP`, `topic`, `broker_id`, `added_ms`, `in_sync_ms`, and
    `ended_ms` of the step."""
    wanted = steps_.select(
        *_STEP,
        "topic",
        F.col("offset").alias("from_offset"),
        F.col("started_ms").alias("added_ms"),
        "ended_ms",
        "segment",
        "settled",
        F.explode("adding").alias("broker_id"),
    )
    in_sync = stepped.select(*_KEY, "offset", F.col("append_ms").alias("at_ms"), "isr")
    joined = (F.col("offset") >= F.col("from_offset")) & F.array_contains("isr", F.col("broker_id"))
    return (
        wanted.join(in_sync, [*_KEY], "left")
        .groupBy(*_STEP, "topic", "broker_id", "added_ms", "ended_ms", "segment", "settled")
        .agg(F.min(F.when(joined, F.col("at_ms"))).alias("in_sync_ms"))
        .withColumns(
            {
                # It may have been added in a hole, and have joined there.
                "added_ms": F.when(F.col("settled"), F.col("added_ms")),
                "in_sync_ms": F.when(F.col("settled"), F.col("in_sync_ms")),
            }
        )
        .withColumn("catch_up_ms", F.col("in_sync_ms") - F.col("added_ms"))
    )


def move_steps(
    steps_: DataFrame, added_: DataFrame, scope: Scope, holes: Holes = NONE
) -> DataFrame:
    """The report `move_steps`."""
    caught_up = added_.groupBy(*_STEP).agg(
        F.max("in_sync_ms").alias("last_ms"), F.every(F.col("in_sync_ms").isNotNull()).alias("all")
    )
    settled, is_open = F.col("settled"), _is_open("ended_ms", holes)
    until = F.coalesce("ended_ms", F.when(~is_open, F.lit(scope.end_ms)))
    return (
        steps_.join(caught_up, [*_STEP], "left")
        .withColumns(
            {
                "offset": F.when(settled, F.col("offset")),
                "started_ms": F.when(settled, F.col("started_ms")),
                # The first record after a hole may end a reassignment whose steps were over.
                "ended_ms": F.when(settled | F.col("was_under_way"), F.col("ended_ms")),
                "caught_up_ms": F.when(F.col("all"), F.col("last_ms")),
                "hole": _names(
                    holes, F.when(~settled, _first_segment()), F.when(is_open, F.col("segment"))
                ),
            }
        )
        .withColumns(
            {
                "duration_ms": until - F.col("started_ms"),
                "catch_up_ms": F.col("caught_up_ms") - F.col("started_ms"),
            }
        )
        .select(*schemas.MOVE_STEPS.names)
    )


def _is_open(ended: str, holes: Holes) -> Column:
    """True if a hole may hide the end of what has none."""
    return F.col(ended).isNull() & (F.col("segment") < F.lit(len(holes.holes)))


def _first_segment() -> Column:
    """The number of the hole before a segment; the records of a reassignment are all in one."""
    return F.col("segment") - 1


def moves(
    stepped: DataFrame,
    added_: DataFrame,
    topics_: DataFrame,
    scope: Scope,
    needed: Callable[[str, str, str], Column],
    holes: Holes = NONE,
) -> DataFrame:
    """The report `moves`; `needed` is the result of `planned_steps.column`."""
    begun = stepped.groupBy(*_KEY).agg(
        F.min("offset").alias("from_offset"),
        F.min("append_ms").alias("started_ms"),
        F.max("append_ms").alias("last_progress_ms"),
        F.min_by("move_id", "offset").alias("move_id"),
        F.min_by("replicas_before", "offset").alias("from_replicas"),
        F.min_by("planned", "offset").alias("planned"),
        F.max_by("replicas", "offset").alias("actual"),
        F.max_by("moving", "offset").alias("moving"),
        F.max("step").alias("steps"),
        F.max("segment").alias("segment"),
        F.min_by("settled", "offset").alias("settled"),
    )
    following = Window.partitionBy(*_PARTITION).orderBy("number")
    ended = F.when(~F.col("moving"), F.col("last_progress_ms"))
    dated = (
        begun.withColumns(
            {
                "next_ms": F.lead("started_ms").over(following),
                "next_segment": F.lead("segment").over(following),
            }
        )
        .withColumn("next_ms", _within(F.col("next_ms"), "next_segment", of="segment"))
        .join(_slowest(added_, scope), [*_KEY], "left")
        .join(F.broadcast(topics_), "topic_id", "left")
        .withColumn("gone_ms", _within(F.col("gone_ms"), "gone_segment", of="segment"))
        .withColumn("ended_ms", F.coalesce(ended, "next_ms", "gone_ms"))
    )
    idle_ms = F.lit(scope.end_ms) - F.col("last_progress_ms")
    is_open, settled = _is_open("ended_ms", holes), F.col("settled")
    outcome = (
        F.when(is_open | F.col("planned").isNull(), "unknown")
        .when(~F.col("moving") & (F.col("actual") == F.col("planned")), "completed")
        .when(~F.col("moving"), "cancelled")
        .when(F.col("next_ms").isNotNull(), "superseded")
        .when(F.col("gone_ms").isNotNull(), "gone")
        .when(idle_ms >= STUCK_MS, "stuck")
        .otherwise("running")
    )
    told = dated.withColumns(
        {
            "duration_ms": F.coalesce("ended_ms", F.lit(scope.end_ms)) - F.col("started_ms"),
            "outcome": outcome,
            "as_planned": F.col("actual") == F.col("planned"),
            "steps_planned": needed("from_replicas", "planned", "from_offset"),
            "added": F.array_except("planned", "from_replicas"),
            "removed": F.array_except("from_replicas", "planned"),
            "hole": _names(
                holes, F.when(~settled, _first_segment()), F.when(is_open, F.col("segment"))
            ),
        }
    )
    if holes:
        told = _hidden(told, _OF_START, ~settled)
        told = _hidden(told, _OF_END, is_open)
    return told.select(*schemas.MOVES.names)


_OF_START: Final = (
    "started_ms", "duration_ms", "from_replicas", "steps_planned", "steps", "added", "removed",
    "slowest", "slowest_ms",
)  # fmt: skip
"""The columns that are unknown if the start of a reassignment is,"""
_OF_END: Final = (
    "duration_ms", "actual", "as_planned", "steps", "slowest", "slowest_ms", "last_progress_ms",
)  # fmt: skip
"""and those that are if its end is."""


def _hidden(rows: DataFrame, columns: Sequence[str], which: Column) -> DataFrame:
    """Without the values of these columns in some rows."""
    return rows.withColumns({each: F.when(~which, F.col(each)) for each in columns})


def _slowest(added_: DataFrame, scope: Scope) -> DataFrame:
    """The slowest added replica of each reassignment, and its time, or the time so far.

    It waits no longer than the step that added it lasts.
    """
    so_far = F.coalesce("in_sync_ms", "ended_ms", F.lit(scope.end_ms)) - F.col("added_ms")
    return (
        added_.withColumn("took_ms", so_far)
        .groupBy(*_KEY)
        .agg(
            F.max_by("broker_id", F.struct("took_ms", "broker_id")).alias("slowest"),
            F.max("took_ms").alias("slowest_ms"),
        )
    )


def move_replicas(added_: DataFrame, moves_: DataFrame, holes: Holes = NONE) -> DataFrame:
    """The report `move_replicas`; `moves_` is the report `moves`."""
    has_joined, outcome = F.col("in_sync_ms").isNotNull(), F.col("outcome")
    is_stuck = F.when(has_joined, F.lit(False)).otherwise(outcome == "stuck")
    is_open, settled = _is_open("ended_ms", holes) & ~has_joined, F.col("settled")
    return (
        added_.join(moves_.select(*_KEY, "outcome"), [*_KEY])
        .withColumn("stuck", F.when(has_joined | (outcome != "unknown"), is_stuck))
        .withColumn(
            "hole",
            _names(holes, F.when(~settled, _first_segment()), F.when(is_open, F.col("segment"))),
        )
        .select(*schemas.MOVE_REPLICAS.names)
    )


def partition_counts(history: DataFrame, moves: DataFrame, scope: Scope) -> list[Count]:
    """The number of times that each broker left and joined an ISR, and was added and removed by a
    reassignment."""
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


def partitions_added(history: DataFrame) -> list[PartitionsAdded]:
    """The partitions of each topic that were created at one time."""
    found = (
        history.where(F.col("what") == ADDED)
        .groupBy("topic_id", "append_ms")
        .agg(
            F.min("offset").alias("first"),
            F.max("to_offset").alias("last"),
            F.sum("times").alias("partitions"),
        )
    )
    names = PartitionsAdded._fields
    return [PartitionsAdded(*row) for row in found.select(*names).collect()]


def of_operations(moves: DataFrame) -> dict[int, tuple[int | None, bool]]:
    """For each move of ours the time of its slowest partition, and whether one is stuck."""
    is_stuck = F.col("outcome") == "stuck"
    is_known = F.every(F.col("duration_ms").isNotNull())
    found = (
        moves.where(F.col("move_id").isNotNull())
        .groupBy("move_id")
        .agg(
            F.when(is_known, F.max("duration_ms")).alias("slowest_ms"),
            F.some(is_stuck).alias("stuck"),
        )
    )
    return {row["move_id"]: (row["slowest_ms"], row["stuck"]) for row in found.collect()}
