"""The history of every partition: what it was after each of its records, and what it moved.

A record says only what changes; in its history what stays is carried on. A partition is *moved*
while it has replicas that are adding or removing, or a target (ours, between two steps). A
reassignment begins where it begins to be moved, or is led elsewhere while it is; one that needs no
catching up begins and ends with the same record. `number` counts them, from 1.

Of the history stays what reports need: the records of reassignments, from the one that begins each
to the one that ends it, and how often each broker came into an ISR or left one. One row for each:

    topic_id, partition, offset, append_ms
    replicas, isr, adding, removing       after the record, and some as `*_before` it
    planned                               the replicas it is to have in the end
    moving, begins                        whether it is moved after it, and whether one begins here
    number                                of the reassignment under way
    move_id                               the move of metaquorum, null for none
    broker_id, window, what, times        null but for counts, of which all else is null

Spark brings the packs of a share of the partitions together and in order; `histories` does the
rest.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lag.reports.frames import mapped
from lag.reports.histories import HISTORY, Histories, Range
from lag.reports.scope import Scope
from lag.source.record_packs import joined, packed_rows, unpacked
from lag.tables import PACKS, RECORDS, Table

_PACK: Final = ("replica", "path", "source", "rows", "said")


def partition_history(packs: DataFrame, ranges: Sequence[Range], scope: Scope) -> DataFrame:
    """The history, from packs; `ranges` say which of their records are of the quorum's log."""
    # What was there before the log begins comes before all of it.
    place = F.when(F.col("source") == "log", F.col("low")).otherwise(-1)
    in_order = (
        packs.where(F.col("share").isNotNull())
        .select(*_PACK, "share", "low", place.alias("place"))
        .repartitionById(shares_of(packs), "share")
        .sortWithinPartitions("place", "low")
    )
    return mapped(in_order.select(*_PACK), partial(_histories, ranges, scope), HISTORY)


def _histories(ranges: Sequence[Range], scope: Scope, batches: Iterator[Any]) -> Iterator[Any]:
    histories = Histories(scope, ranges)
    for batch in batches:
        yield histories.told(_each(batch))


def _each(packs: Any) -> Iterator[dict[str, Any]]:
    """The packs of a batch, one after the other."""
    for at in range(len(packs)):
        yield {name: packs[name][at].as_py() for name in packs.schema.names}


def shares_of(table: DataFrame) -> int:
    """Into how many shares partitions are divided: as many as there are tasks behind a shuffle."""
    return int(table.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)


def packed(records: DataFrame) -> DataFrame:
    """Records that are rows as packs, as the source would have made them."""
    in_order = records.repartitionByRange("replica", "path", "offset").sortWithinPartitions(
        "replica", "path", "offset"
    )
    columns = [(column.name, column.type) for column in PACKS.columns]
    return mapped(in_order, partial(_packed, shares_of(records)), columns)


def _packed(shares: int, batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        yield packed_rows(batch, PACKS, shares)


def others(packs: DataFrame, names: Sequence[str]) -> DataFrame:
    """The records that are about no partition, with these columns."""
    wanted = RECORDS.only(tuple(names))
    columns = [(column.name, column.type) for column in wanted.columns]
    whole = packs.where(F.col("share").isNull()).select(*_PACK)
    return mapped(whole, partial(_unpacked, wanted), columns)


def _unpacked(wanted: Table, batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        yield joined((unpacked(pack, wanted) for pack in _each(batch)), wanted.arrow())
