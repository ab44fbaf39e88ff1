"""What was there before the log begins, where its older part is gone: a snapshot says it.

A log is cut at its beginning when a snapshot holds all that it said. Without that snapshot nobody
knows what a partition was before its first change, how a topic is called, or who votes. Of brokers
and controllers nothing is taken from it: their reports tell what happened, and it says what is.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lag.reports import operations, planned_steps
from lag.reports.histories import Range
from lag.reports.logs import copies, one_copy, rows_of
from quorum.log.checkpoint import checkpoint_id

_STATES: Final = (
    "PartitionRecord", "PartitionChangeRecord", "TopicRecord", "RemoveTopicRecord",
    planned_steps.CONFIG, *operations.TYPES,
)  # fmt: skip
"""Records that only mean something on top of others."""


class Beginning(NamedTuple):
    """A snapshot that the log goes on from."""

    replica: str
    name: str
    """Of the file."""
    end: int
    """The offset behind everything that it contains."""


def beginning(replicas: Sequence[Mapping[str, Any]]) -> Beginning | None:
    """The oldest snapshot that reaches the log; None where the log is whole, or there is none.

    `replicas` are rows of the table of that name.
    """
    copied = copies(replicas)
    if not copied or copied[-1].start == 0:
        return None
    known = [
        Beginning(row["replica"], name, id_.offset)
        for row in replicas
        for name in row["snapshots"] or ()
        if (id_ := checkpoint_id(name)) is not None
    ]
    found = [each for each in known if copied[-1].start <= each.end <= copied[0].end]
    return min(found, key=lambda each: (each.end, each.replica), default=None)


def with_state(records: DataFrame, replicas: Sequence[dict[str, Any]]) -> DataFrame:
    """The records of the quorum's log, each once, behind those of the snapshot that it begins with.

    `place` orders what has one offset: all of a snapshot stands at the last one that it contains.
    """
    log = one_copy(records, replicas).withColumn("place", F.lit(0).cast("bigint"))
    first = beginning(replicas)
    if first is None:
        return log
    is_state = F.col("type").isin(*_STATES)
    state = (
        _of(records, first)
        .where(is_state)
        .withColumn("place", F.col("offset"))
        .withColumn("offset", F.lit(first.end - 1).cast("bigint"))
    )
    return state.unionByName(log.where(~is_state | (F.col("offset") >= first.end)))


def ranges(replicas: Sequence[Mapping[str, Any]]) -> list[Range]:
    """The same of packs: which records of which files are of the quorum's log, or stand before it.

    What is said of partitions only means something on top of what was said before.
    """
    first = beginning(replicas)
    begins = 0 if first is None else first.end
    found = [] if first is None else [Range(first.replica, first.name, stands_at=first.end - 1)]
    for number, copy in enumerate(copies(replicas)):
        found.append(Range(copy.replica, None, begins, copy.end if number else None))
    return found


def packs_of(packs: DataFrame, wanted: Sequence[Range]) -> DataFrame:
    """The packs of these files."""
    files = [
        (F.col("replica") == F.lit(each.replica))
        & (
            F.col("source") == F.lit("log")
            if each.snapshot is None
            else (F.col("source") == "snapshot") & F.col("path").endswith("/" + each.snapshot)
        )
        for each in wanted
    ]
    return packs.where(reduce(or_, files, F.lit(False)) if len(files) != 1 else files[0])


def assignments(table: DataFrame, replicas: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The voter assignments of the quorum's log, behind that of the snapshot that it begins with.

    That one has no `append_ms`: it counts from when the log begins.
    """
    names = ("offset", "epoch", "append_ms", "current", "target", "kind")
    found = rows_of(one_copy(table, replicas), *names)
    first = beginning(replicas)
    if first is None or any(row["offset"] < first.end for row in found):
        return found
    before = rows_of(_of(table, first), *names)
    return [*({**row, "append_ms": None} for row in before), *found]


def _of(table: DataFrame, snapshot: Beginning) -> DataFrame:
    return table.where(
        (F.col("source") == "snapshot")
        & (F.col("replica") == F.lit(snapshot.replica))
        & F.col("path").endswith("/" + snapshot.name)
    )
