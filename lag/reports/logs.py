"""The input of the reports: the source's tables, and which files make up the quorum's log.

The quorum's log is read from as few replicas as possible. If its older part was deleted, a snapshot
supplies the state at its start: partitions, topic names, voters, moves. The broker and controller
reports take nothing from a snapshot, because they describe events and a snapshot has only states.

Spark reduces the log where it lies. What is left (replicas, epochs, voter changes, windows) is
small, and is processed as plain values in the modules that do not import Spark.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lag.reports import arrivals, operations, planned_steps
from lag.reports.epochs import Span
from lag.reports.partition_history import Range
from quorum.log.checkpoint import checkpoint_id

BATCHES: Final = (
    "replica", "epoch", "base_offset", "last_offset", "records", "bytes",
    "leader_append_ms", "local_append_ms",
)  # fmt: skip
"""The columns of `batches` that reports use,"""
RECORDS: Final = (
    "offset", "epoch", "append_ms", "type", "topic", "topic_id", "broker_id", "broker_epoch",
    "fenced", "in_controlled_shutdown", "json",
)  # fmt: skip
"""those of `records` about no partition,"""
CHOSEN_BY: Final = ("replica", "path", "source", "name")
"""and the columns that select rows."""


@dataclass(frozen=True, slots=True)
class Logs:
    """The tables of `lag.source.schemas`, or these columns of them, from the same folders.

    `records` have `json` for all types but those of partitions (option `json=few`), for moves and
    controller registrations. They may be given as `packs`.
    """

    batches: DataFrame
    records: DataFrame
    epochs: DataFrame
    assignments: DataFrame
    replicas: DataFrame
    held: Sequence[Span] | None = None
    """The part of each epoch that each replica holds, if known; otherwise from the batches."""


def of_log(table: DataFrame) -> DataFrame:
    """The rows of logs: without snapshots and marks."""
    for name, wanted in (("source", F.col("source") == "log"), ("mark", F.col("mark").isNull())):
        table = table.where(wanted) if name in table.columns else table
    return table


def spans(batches: DataFrame) -> list[Span]:
    """The part of each epoch that each replica holds, from batches as rows or packs."""
    known = arrivals.spans(arrivals.packed(batches))
    found = known.groupBy("replica", "epoch").agg(
        *(F.min(name).alias(name) for name in ("first", "first_ms", "first_here_ms")),
        *(F.max(name).alias(name) for name in ("end", "last_ms", "last_here_ms")),
        F.min("least_delay_ms").alias("least_delay_ms"),
        F.sum("timed").alias("timed"),
    )
    return [Span(**row.asDict()) for row in found.collect()]


def rows_of(table: DataFrame, *names: str) -> list[dict[str, Any]]:
    """The rows of a small table, with these columns."""
    return [row.asDict(recursive=True) for row in table.select(*names).collect()]


class Copy(NamedTuple):
    """The part of the quorum's log that is read from one replica."""

    replica: str
    start: int
    end: int
    """Exclusive."""


def copies(replicas: Sequence[Mapping[str, Any]]) -> list[Copy]:
    """The copies that make up the quorum's log: the best copy, below its start the next one, and so
    on.

    As few replicas as possible; `replicas` are rows of that table.
    """
    found: list[Copy] = []
    held = [row for row in replicas if row["log_end"] is not None and row["last_epoch"] is not None]
    for row in sorted(
        held, key=lambda row: (-row["last_epoch"], -row["log_end"], row["log_start"])
    ):
        if found and not row["log_start"] < found[-1].start <= row["log_end"]:
            continue
        end = found[-1].start if found else row["log_end"]
        found.append(Copy(row["replica"], row["log_start"], end))
    return found


def one_copy(table: DataFrame, replicas: Sequence[Mapping[str, Any]]) -> DataFrame:
    """The rows of the quorum's log, each once."""
    wanted: list[Column] = []
    for copy in copies(replicas):
        part = F.col("replica") == F.lit(copy.replica)
        wanted.append(part & (F.col("offset") < F.lit(copy.end)) if wanted else part)
    return of_log(table).where(reduce(or_, wanted, F.lit(False)))


_STATES: Final = (
    "PartitionRecord", "PartitionChangeRecord", "TopicRecord", "RemoveTopicRecord",
    planned_steps.CONFIG, *operations.TYPES,
)  # fmt: skip
"""Records that only make sense on top of others."""


class StartSnapshot(NamedTuple):
    """The snapshot before the start of the log."""

    replica: str
    name: str
    """File name."""
    end: int
    """End offset of the snapshot."""


def start_snapshot(replicas: Sequence[Mapping[str, Any]]) -> StartSnapshot | None:
    """The oldest snapshot that reaches the log; None if the log is complete or there is none.

    `replicas` are rows of the table of that name.
    """
    copied = copies(replicas)
    if not copied or copied[-1].start == 0:
        return None
    known = [
        StartSnapshot(row["replica"], name, id_.offset)
        for row in replicas
        for name in row["snapshots"] or ()
        if (id_ := checkpoint_id(name)) is not None
    ]
    found = [each for each in known if copied[-1].start <= each.end <= copied[0].end]
    return min(found, key=lambda each: (each.end, each.replica), default=None)


def with_state(records: DataFrame, replicas: Sequence[dict[str, Any]]) -> DataFrame:
    """The records of the quorum's log, each once, after those of the snapshot before it.

    `place` orders records with the same offset: a snapshot's records all have its last offset.
    """
    log = one_copy(records, replicas).withColumn("place", F.lit(0).cast("bigint"))
    first = start_snapshot(replicas)
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
    """The same for packs: the parts of files that are the quorum's log or the snapshot before."""
    first = start_snapshot(replicas)
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
    """The voter assignments of the quorum's log, after that of the snapshot before it.

    The snapshot's has no `append_ms` and counts from the start of the log.
    """
    names = ("offset", "epoch", "append_ms", "current", "target", "kind")
    found = rows_of(one_copy(table, replicas), *names)
    first = start_snapshot(replicas)
    if first is None or any(row["offset"] < first.end for row in found):
        return found
    before = rows_of(_of(table, first), *names)
    return [*({**row, "append_ms": None} for row in before), *found]


def _of(table: DataFrame, snapshot: StartSnapshot) -> DataFrame:
    return table.where(
        (F.col("source") == "snapshot")
        & (F.col("replica") == F.lit(snapshot.replica))
        & F.col("path").endswith("/" + snapshot.name)
    )
