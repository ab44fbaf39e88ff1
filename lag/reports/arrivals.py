"""The arrival of each batch of the quorum's log at each replica: the table behind most reports.

One row for each batch and each replica that holds it:

    replica, epoch, base_offset, end (exclusive), records, bytes
    leader_append_ms   append time at the leader, by the leader's clock
    at_ms              arrival at this replica, by the leader's clock; may be unknown
    durable_ms         the same, but for the leader the time on its own disk

A leader has a record when it appends it. Records of a replica that are not in the quorum's log are
not in the table.

The table has a row per batch and replica, too many for Spark's rows. It is processed in packs
(`lag.source.batches`), as whole columns; `Arrivals` is the content of one pack.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from lag.reports.clocks import EpochPart
from lag.reports.dataframes import mapped
from lag.source.batches import CHUNK_OFFSETS_MIN, batch_packs, merged, spans_of, unpacked

PACKS: Final = (("replica", "STRING"), ("chunk", "BIGINT"), ("rows", "BINARY"))
"""The columns of packs of batches."""
_SPANS: Final = (
    ("replica", "STRING"), ("epoch", "INT"), ("first", "BIGINT"), ("end", "BIGINT"),
    ("first_ms", "BIGINT"), ("last_ms", "BIGINT"), ("first_here_ms", "BIGINT"),
    ("last_here_ms", "BIGINT"), ("least_delay_ms", "BIGINT"), ("timed", "BIGINT"),
)  # fmt: skip


class ArrivalTable(NamedTuple):
    """The table as Spark has it: packs, and what its workers need to unpack them."""

    packs: DataFrame
    parts: Mapping[tuple[str, int], EpochPart]


class Arrivals(NamedTuple):
    """Rows of the table, all of one replica, as `numpy.ndarray`s."""

    base_offset: Any
    end: Any
    records: Any
    bytes: Any
    leader_append_ms: Any
    is_timed: Any
    """A mask of known times of the leader,"""
    at_ms: Any
    durable_ms: Any
    is_known: Any
    """and of the replica."""

    def only(self, wanted: Any) -> "Arrivals":
        """The rows selected by a mask."""
        return Arrivals(*(column[wanted] for column in self))


def arrivals(batches: DataFrame, known: Mapping[tuple[str, int], EpochPart]) -> ArrivalTable:
    """The table, from batches as rows or packs."""
    return ArrivalTable(packed(batches), known)


def arrived(replica: str, pack: Any, known: Mapping[tuple[str, int], EpochPart]) -> Arrivals:
    """The rows of a pack that belong to the quorum's log."""
    rows = unpacked(pack)
    epochs, places = np.unique(rows["epoch"], return_inverse=True)
    parts = [known.get((replica, epoch)) for epoch in epochs.tolist()]

    def each(name: str, none: int) -> Any:
        return np.array([none if part is None else getattr(part, name) for part in parts])[places]

    here = rows["local_append_ms"] - each("clock_ms", 0)
    is_leaders = each("is_leader", 0).astype(np.bool_)
    found = Arrivals(
        rows["base_offset"],
        rows["last_offset"] + 1,
        rows["records"],
        rows["bytes"],
        rows["leader_append_ms"],
        rows["leader_append_known"],
        np.where(is_leaders, rows["leader_append_ms"], here),
        here,
        rows["local_append_known"],
    )
    return found.only(rows["base_offset"] < each("epoch_end", -1))


def packed(batches: DataFrame) -> DataFrame:
    """Pack batches that are rows; return packs as they are."""
    if "chunk" in batches.columns:
        return batches
    return mapped(batches, _packed, PACKS)


def _packed(batches: Iterator[Any]) -> Iterator[Any]:
    schema = pa.schema([("replica", pa.string()), ("chunk", pa.int64()), ("rows", pa.binary())])
    for batch in batches:
        names = batch["replica"].dictionary_encode()
        found: list[dict[str, Any]] = []
        for number, replica in enumerate(names.dictionary.to_pylist()):
            own = batch.filter(pa.array(names.indices.to_numpy() == number))
            found += batch_packs(replica, own, CHUNK_OFFSETS_MIN)
        yield pa.RecordBatch.from_pylist(found, schema)


def spans(packs: DataFrame) -> DataFrame:
    """The part of each epoch that each replica holds, per task: columns of `epochs.Span`."""
    return mapped(packs.select("replica", "rows"), _spans, _SPANS)


def _spans(batches: Iterator[Any]) -> Iterator[Any]:
    from lag.source.schemas import ARROW_TYPES

    schema = pa.schema([(name, ARROW_TYPES[type_]) for name, type_ in _SPANS])
    for batch in batches:
        found: list[dict[str, Any]] = []
        for replica, rows in zip(batch["replica"].to_pylist(), batch["rows"], strict=True):
            found += spans_of(replica, unpacked(rows.as_buffer()))
        yield pa.RecordBatch.from_pylist(merged(found), schema)


def of_packs(made: Any, packs: Any, known: Mapping[tuple[str, int], EpochPart]) -> Iterator[Any]:
    """The results of `made` for the arrivals of each pack, by replica."""
    for replica, rows in zip(packs["replica"].to_pylist(), packs["rows"], strict=True):
        yield made(replica, arrived(replica, rows.as_buffer(), known))
