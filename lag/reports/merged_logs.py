"""Read the quorum's log from all copies: the second look at the files, if one copy is not enough.

`quorum_log` decides from the runs what each copy supplies. With sound logs a single copy supplies
everything, and nothing more is read. Otherwise the records come from exactly the parts of files
that were chosen. What a replica lost another copy supplies too, and the replica's index of append
times, if it still has it, tells when the batches arrived.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lag.reports import arrivals, logs, offset_ranges
from lag.reports.contradictions import believed
from lag.reports.dataframes import mapped
from lag.reports.logs import Logs
from lag.reports.offset_ranges import Range
from lag.reports.partition_history import Range as RecordRange
from lag.reports.quorum_log import Hole, Piece, QuorumLog, merge, snapshots_of
from lag.source.batches import unpacked
from lag.source.reader import RUNS_KIND
from lag.source.runs import Run
from lag.source.schemas import ARROW_TYPES
from lag.source.tasks import Pick

Row = dict[str, Any]
_MEASURED: Final = (
    ("replica", "STRING"), ("first", "BIGINT"), ("first_ms", "BIGINT"), ("last_ms", "BIGINT"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MergedLogs:
    """The quorum's log and all copies, as far as they are known."""

    log: QuorumLog
    runs: Sequence[Run]
    """The runs of each replica, with what it lost as far as another copy has it."""
    batches: DataFrame
    """Packs of these batches."""
    records: DataFrame
    """Packs of records, or records."""
    are_picked: bool
    """True if the records are exactly those of the quorum's log."""
    unknown: Mapping[str, Sequence[Range]]
    """For each replica the offsets whose arrival is unknown because they are lost."""

    @property
    def ranges(self) -> list[RecordRange]:
        """The records that count."""
        return logs.ranges(self.log, are_picked=self.are_picked)


def merged(
    tables: Logs,
    batches: DataFrame,
    replicas: Sequence[Row],
    keep: Callable[[DataFrame], DataFrame],
) -> MergedLogs | None:
    """Merge the copies; None if none holds a batch. `batches` are packs."""
    runs = logs.runs(batches) if tables.runs is None else tables.runs
    committed = [(each.end, each.epoch) for each in snapshots_of(replicas, tables.damaged)]
    log = merge(believed(runs, committed), replicas, tables.damaged, tables.indexed)
    if log is None:
        return None
    own = logs.in_order(log.in_place)
    records, are_picked = tables.records, False
    lent: list[Pick] = []
    if tables.read is not None:
        lent = logs.borrowed(log, own)
        if not logs.is_one_copy(log):
            picks = logs.picks(log, own, replicas)
            records, are_picked = tables.read("packs", picks), True
    if log.misplaced:
        batches = keep(arrivals.without(logs.in_order(log.misplaced), batches))
    borrowed: list[Run] = []
    if lent and tables.read is not None:
        walked = keep(tables.read("walk", lent))
        borrowed = list(_runs_of(walked))
        names = [name for name, _ in arrivals.PACKS]
        batches = batches.unionByName(walked.where("kind = 'batches'").select(*names))
    holes = [(hole.first, hole.end) for hole in log.holes]
    unknown = {
        replica: offset_ranges.union(
            (*holes, *_unknown(lost, (run for run in borrowed if run.replica == replica)))
        )
        for replica, lost in log.lost.items()
    }
    # At the place of a batch that is misplaced, the replica may have the right one as well.
    regained = [run for run in borrowed if offset_ranges.holds(log.lost[run.replica], run.first)]
    merged_ = MergedLogs(log, [*log.in_place, *regained], batches, records, are_picked, unknown)
    return replace(merged_, log=_with_times(merged_))


def _runs_of(walked: DataFrame) -> Iterator[Run]:
    for row in walked.where(F.col("kind") == RUNS_KIND).select("said").collect():
        yield Run(**json.loads(row["said"]))


def _unknown(lost: Iterable[Range], borrowed: Iterable[Run]) -> Iterator[Range]:
    """The parts of lost offsets whose arrival an index of append times does not tell."""
    timed = offset_ranges.union(
        (run.first, run.end) for run in borrowed if run.timed == run.batches
    )
    for first, end in lost:
        yield from offset_ranges.without(first, end, timed)


def _with_times(it: MergedLogs) -> QuorumLog:
    """The log with the times of pieces that are only a part of a run."""
    cut = [piece for piece in it.log.pieces if piece.first_ms is None or piece.last_ms is None]
    if not cut:
        return it.log
    is_cut = set(cut)
    wanted: dict[str, list[Piece]] = {}
    for piece in cut:
        wanted.setdefault(piece.replica, []).append(piece)
    rows = mapped(
        it.batches.where(F.col("replica").isin(*wanted)).select("replica", "rows"),
        partial(_measured, wanted),
        _MEASURED,
    )
    found = rows.groupBy("replica", "first").agg(
        F.min("first_ms").alias("first_ms"), F.max("last_ms").alias("last_ms")
    )
    times = {(row["replica"], row["first"]): row for row in found.collect()}
    pieces = tuple(
        piece
        if (row := times.get((piece.replica, piece.first))) is None or piece not in is_cut
        else piece._replace(first_ms=row["first_ms"], last_ms=row["last_ms"])
        for piece in it.log.pieces
    )
    before = {piece.end: piece.last_ms for piece in pieces}
    after = {piece.first: piece.first_ms for piece in pieces}
    holes: list[Hole] = [
        hole._replace(before_ms=before.get(hole.first), after_ms=after.get(hole.end))
        for hole in it.log.holes
    ]
    return replace(it.log, pieces=pieces, holes=tuple(holes))


def _measured(wanted: Mapping[str, Sequence[Piece]], batches: Iterator[Any]) -> Iterator[Any]:
    """The first and last append time of each piece, as far as it is in these packs."""
    schema = pa.schema([(name, ARROW_TYPES[type_]) for name, type_ in _MEASURED])
    for batch in batches:
        found: list[Row] = []
        for replica, pack in zip(batch["replica"].to_pylist(), batch["rows"], strict=True):
            rows = unpacked(pack.as_buffer())
            is_known = rows["leader_append_known"]
            for piece in wanted[replica]:
                of_piece = (rows["base_offset"] >= piece.first) & (rows["base_offset"] < piece.end)
                times = rows["leader_append_ms"][of_piece & is_known]
                if len(times):
                    least, most = int(times.min()), int(times.max())
                    row = (replica, piece.first, least, most)
                    found.append(dict(zip(schema.names, row, strict=True)))
        yield pa.RecordBatch.from_pylist(found, schema)
