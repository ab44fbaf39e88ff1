"""When each batch of the quorum's log came to each replica: the table that most reports are of.

One row for each batch and replica that holds it:

    replica, epoch, base_offset, end (exclusive), records, bytes
    leader_append_ms   when the leader appended it, by the leader's clock
    at_ms              when this replica had it, by the leader's clock; unknown if nobody knows
    durable_ms         the same, but of the leader when it was on its own disk

A leader has a record as soon as it appends it. What a dead replica holds and the quorum has given
up is no part of the table.

There are as many rows as batches and replicas. They are not made of Spark's rows, but of packs
(`lag.source.batches`), whole columns at a time; `Arrivals` is what one pack comes to.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from lag.reports.clocks import Part
from lag.reports.dataframes import mapped
from lag.source.batches import CHUNK_OFFSETS_MIN, batch_packs, merged, spans_of, unpacked

PACKS: Final = (("replica", "STRING"), ("chunk", "BIGINT"), ("rows", "BINARY"))
"""What packs of batches are in."""
_SPANS: Final = (
    ("replica", "STRING"), ("epoch", "INT"), ("first", "BIGINT"), ("end", "BIGINT"),
    ("first_ms", "BIGINT"), ("last_ms", "BIGINT"), ("first_here_ms", "BIGINT"),
    ("last_here_ms", "BIGINT"), ("least_delay_ms", "BIGINT"), ("timed", "BIGINT"),
)  # fmt: skip


class Came(NamedTuple):
    """The table, as far as Spark knows it."""

    packs: DataFrame
    parts: Mapping[tuple[str, int], Part]


class Arrivals(NamedTuple):
    """Rows of the table, all of one replica; columns are `numpy.ndarray`s."""

    base_offset: Any
    end: Any
    records: Any
    bytes: Any
    leader_append_ms: Any
    is_timed: Any
    """Whether the leader's time is known,"""
    at_ms: Any
    durable_ms: Any
    is_known: Any
    """and those of the replica."""

    def only(self, wanted: Any) -> "Arrivals":
        """The rows for which `wanted` is true."""
        return Arrivals(*(column[wanted] for column in self))


def arrivals(batches: DataFrame, known: Mapping[tuple[str, int], Part]) -> Came:
    """The table, from the batches of the logs, as rows or as packs, and their `parts`."""
    return Came(packed(batches), known)


def arrived(replica: str, pack: Any, known: Mapping[tuple[str, int], Part]) -> Arrivals:
    """The rows of a pack that are of the quorum's log."""
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
    """Batches that are rows as packs; packs as they are."""
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
    """What each replica holds of each epoch, as far as one task knows: columns of `epochs.Span`."""
    return mapped(packs.select("replica", "rows"), _spans, _SPANS)


def _spans(batches: Iterator[Any]) -> Iterator[Any]:
    from lag.source.schemas import ARROW_TYPES

    schema = pa.schema([(name, ARROW_TYPES[type_]) for name, type_ in _SPANS])
    for batch in batches:
        found: list[dict[str, Any]] = []
        for replica, rows in zip(batch["replica"].to_pylist(), batch["rows"], strict=True):
            found += spans_of(replica, unpacked(rows.as_buffer()))
        yield pa.RecordBatch.from_pylist(merged(found), schema)


def of_packs(made: Any, packs: Any, known: Mapping[tuple[str, int], Part]) -> Iterator[Any]:
    """What `made` says of the arrivals of each pack of a batch, by its replica."""
    for replica, rows in zip(packs["replica"].to_pylist(), packs["rows"], strict=True):
        yield made(replica, arrived(replica, rows.as_buffer(), known))
