"""What the reports are made from: the tables of the source, and what is small among them.

The log is reduced by Spark where it lies. What is left is small, as large as there are replicas,
epochs, voter changes or windows, and is reasoned about in plain values: the modules beside this one
that do not import Spark.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lag.reports import arrivals
from lag.reports.epochs import Span

BATCHES: Final = (
    "replica", "epoch", "base_offset", "last_offset", "records", "bytes",
    "leader_append_ms", "local_append_ms",
)  # fmt: skip
"""What any report looks at of the table `batches`,"""
RECORDS: Final = (
    "offset", "epoch", "append_ms", "type", "topic", "topic_id", "broker_id", "broker_epoch",
    "fenced", "in_controlled_shutdown", "json",
)  # fmt: skip
"""and of `records` that are about no partition,"""
CHOSEN_BY: Final = ("replica", "path", "source", "name")
"""besides what these are chosen by."""


@dataclass(frozen=True, slots=True)
class Logs:
    """The tables of `lag.tables`, read from the same folders, or these columns of them.

    `records` have `json` for all types but those of partitions (option `json=few`), which what is
    said of moves of ours and of controllers that restarted needs. In their place may be `packs`
    of them, likewise.
    """

    batches: DataFrame
    records: DataFrame
    epochs: DataFrame
    assignments: DataFrame
    replicas: DataFrame
    held: Sequence[Span] | None = None
    """What each replica holds of each epoch, where somebody knows it; else batches tell."""


def of_log(table: DataFrame) -> DataFrame:
    """The rows that are of a log itself: neither of a snapshot, nor a mark of a stream."""
    for name, wanted in (("source", F.col("source") == "log"), ("mark", F.col("mark").isNull())):
        table = table.where(wanted) if name in table.columns else table
    return table


def spans(batches: DataFrame) -> list[Span]:
    """What each replica holds of each epoch, from the batches of the logs, as rows or as packs."""
    known = arrivals.spans(arrivals.packed(batches))
    found = known.groupBy("replica", "epoch").agg(
        *(F.min(name).alias(name) for name in ("first", "first_ms", "first_here_ms")),
        *(F.max(name).alias(name) for name in ("end", "last_ms", "last_here_ms")),
        F.min("least_delay_ms").alias("least_delay_ms"),
        F.sum("timed").alias("timed"),
    )
    return [Span(**row.asDict()) for row in found.collect()]


def rows_of(table: DataFrame, *names: str) -> list[dict[str, Any]]:
    """The rows of a table that is small, with these columns."""
    return [row.asDict(recursive=True) for row in table.select(*names).collect()]


class Copy(NamedTuple):
    """The part of the quorum's log that is read from one replica."""

    replica: str
    start: int
    end: int
    """Exclusive."""


def copies(replicas: Sequence[Mapping[str, Any]]) -> list[Copy]:
    """From whom the quorum's log is read: the best copy, below it the next that has it, and so on.

    No more replicas than are needed; `replicas` are rows of that table.
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
    """The rows of the quorum's log, each once, from the `copies` of it."""
    wanted: list[Column] = []
    for copy in copies(replicas):
        part = F.col("replica") == F.lit(copy.replica)
        wanted.append(part & (F.col("offset") < F.lit(copy.end)) if wanted else part)
    return of_log(table).where(reduce(or_, wanted, F.lit(False)))
