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

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lag.reports.clocks import EpochPart
from lag.reports.dataframes import mapped
from lag.source.batches import CHUNK_OFFSETS_MIN, batch_packs, unpacked
from lag.source.record_packs import from_bytes, to_bytes
from lag.source.runs import Run, joined, runs_of
from lag.source.schemas import ARROW_TYPES

PACKS: Final = (("replica", "STRING"), ("chunk", "BIGINT"), ("rows", "BINARY"))
"""The columns of packs of batches."""
_RUNS: Final = (
    ("replica", "STRING"), ("epoch", "INT"), ("first", "BIGINT"), ("end", "BIGINT"),
    ("first_ms", "BIGINT"), ("last_ms", "BIGINT"), ("first_here_ms", "BIGINT"),
    ("last_here_ms", "BIGINT"), ("least_delay_ms", "BIGINT"), ("timed", "BIGINT"),
    ("batches", "BIGINT"),
)  # fmt: skip


Parts = Mapping[tuple[str, int], EpochPart]


class ArrivalTable(NamedTuple):
    """The table as Spark has it: packs, and what its workers need to unpack them."""

    packs: DataFrame
    parts: Parts


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
        if wanted.all():
            return self
        return Arrivals(*(column[wanted] for column in self))


def arrivals(batches: DataFrame, known: Parts) -> ArrivalTable:
    """The table, from batches as rows or packs."""
    return ArrivalTable(packed(batches), known)


def arrived(replica: str, pack: Any, known: Parts) -> Arrivals:
    """The rows of a pack that belong to the quorum's log."""
    rows = unpacked(pack)
    epochs = rows["epoch"]
    begins = np.concatenate(([0], np.nonzero(np.diff(epochs))[0] + 1))[: len(epochs)]
    counts = np.diff(np.append(begins, len(epochs)))
    parts = [known.get((replica, epoch)) for epoch in epochs[begins].tolist()]

    def each(name: str, none: int) -> Any:
        values = [none if part is None else getattr(part, name) for part in parts]
        return np.repeat(np.array(values, np.int64), counts)

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
    return found.only(rows["base_offset"] < each("shared_end", -1))


def at_replicas(table: ArrivalTable, replicas: Collection[str]) -> ArrivalTable:
    """The rows of these replicas."""
    return table._replace(packs=table.packs.where(F.col("replica").isin(*sorted(replicas))))


def without(misplaced: Mapping[str, Sequence[Run]], packs: DataFrame) -> DataFrame:
    """The packs without batches that are not where they belong."""
    is_wrong = F.col("replica").isin(*misplaced)
    names = [name for name, _ in PACKS]
    others = packs.where(~is_wrong).select(*names)
    kept = mapped(packs.where(is_wrong).select(*names), partial(_without, misplaced), PACKS)
    return others.unionByName(kept)


def _without(misplaced: Mapping[str, Sequence[Run]], batches: Iterator[Any]) -> Iterator[Any]:
    schema = pa.schema([(name, ARROW_TYPES[type_]) for name, type_ in PACKS])
    for batch in batches:
        found = []
        for row in batch.to_pylist():
            rows = from_bytes(row["rows"])
            base, epoch = rows["base_offset"].to_numpy(), rows["epoch"].to_numpy()
            is_wrong = np.zeros(len(base), np.bool_)
            for run in misplaced[row["replica"]]:
                is_wrong |= (base >= run.first) & (base < run.end) & (epoch == run.epoch)
            if not is_wrong.all():
                found.append({**row, "rows": to_bytes(rows.filter(pa.array(~is_wrong)))})
        yield pa.RecordBatch.from_pylist(found, schema)


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


def runs(packs: DataFrame) -> DataFrame:
    """The runs of the batches, per task: columns of `Run`."""
    return mapped(packs.select("replica", "rows"), _runs, _RUNS)


def _runs(batches: Iterator[Any]) -> Iterator[Any]:
    schema = pa.schema([(name, ARROW_TYPES[type_]) for name, type_ in _RUNS])
    for batch in batches:
        found = joined(
            run
            for replica, rows in zip(batch["replica"].to_pylist(), batch["rows"], strict=True)
            for run in runs_of(replica, unpacked(rows.as_buffer()))
        )
        rows = [{name: getattr(run, name) for name in schema.names} for run in found]
        yield pa.RecordBatch.from_pylist(rows, schema)


def of_packs(made: Any, packs: Any, known: Parts) -> Iterator[Any]:
    """The results of `made` for the arrivals of each pack, by replica."""
    for replica, rows in zip(packs["replica"].to_pylist(), packs["rows"], strict=True):
        yield made(replica, arrived(replica, rows.as_buffer(), known))
