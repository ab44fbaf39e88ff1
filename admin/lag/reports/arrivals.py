"""When each batch of the quorum's log came to each replica: the table that most reports are of.

One row for each batch and replica that holds it:

    replica, epoch, base_offset, end (exclusive), records, bytes
    leader_append_ms   when the leader appended it, by the leader's clock
    at_ms              when this replica had it, by the leader's clock; null if nobody knows
    durable_ms         the same, but of the leader when it was on its own disk

A leader has a record as soon as it appends it. What a dead replica holds and the quorum has given
up is no part of the table.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from admin.lag.reports.columns import Column
from admin.lag.reports.frames import frame
from admin.lag.reports.parts import Part

_PARTS: Final = tuple(
    Column(name, type_, "", "")
    for name, type_ in zip(
        Part._fields, ("STRING", "INT", "BIGINT", "BOOLEAN", "BIGINT"), strict=True
    )
)


def arrivals(batches: DataFrame, known: Mapping[tuple[str, int], Part]) -> DataFrame:
    """The table, from the batches of the logs and their `parts`."""
    small = frame(batches.sparkSession, _PARTS, [part._asdict() for part in known.values()])
    here = F.col("local_append_ms") - F.col("clock_ms")
    is_leaders = F.col("is_leader") & here.isNotNull()
    return (
        batches.join(F.broadcast(small), ["replica", "epoch"])
        .where("base_offset < epoch_end")
        .select(
            "replica",
            "epoch",
            "base_offset",
            (F.col("last_offset") + 1).alias("end"),
            "records",
            "bytes",
            "leader_append_ms",
            F.when(is_leaders, F.col("leader_append_ms")).otherwise(here).alias("at_ms"),
            here.alias("durable_ms"),
        )
    )
