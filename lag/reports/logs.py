"""The input of the reports: the source's tables, and the records of the quorum's log.

`quorum_log` decides which copy supplies which part. If the older part of the log was deleted, a
snapshot supplies the state at its start: partitions, topic names, voters, moves. The broker and
controller reports take nothing from a snapshot, because they describe events and a snapshot has
only states.

Spark reduces the log where it lies. What is left (replicas, epochs, voter changes, windows) is
small, and is processed as plain values in the modules that do not import Spark.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import takewhile
from operator import or_
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lag.reports import arrivals, offset_ranges, operations, planned_steps, topics
from lag.reports.partition_history import Range
from lag.reports.quorum_log import Piece, QuorumLog, Snapshot
from lag.source.runs import Run, joined
from lag.source.tasks import Pick

BATCHES: Final = (
    "replica", "epoch", "base_offset", "last_offset", "records", "bytes",
    "leader_append_ms", "local_append_ms",
)  # fmt: skip
"""The columns of `batches` that reports use,"""
RECORDS: Final = (
    "offset", "epoch", "append_ms", "type", "topic", "topic_id", "broker_id", "broker_epoch",
    "fenced", "in_controlled_shutdown", "move_id", "state", "name", "json",
)  # fmt: skip
"""those of `records` about no partition,"""
CHOSEN_BY: Final = ("replica", "path", "source")
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
    runs: Sequence[Run] | None = None
    """The runs of all copies; None if they are to be made from the batches."""
    indexed: Sequence[Run] = ()
    """The runs of logs without segments, by their indexes of append times."""
    unknown_ends: frozenset[str] = frozenset()
    """The replicas whose log ends with damage that may have been batches of a later epoch."""
    damaged: frozenset[str] = frozenset()
    """The paths of files that could not be read completely."""
    read: "Callable[[str, Sequence[Pick]], DataFrame] | None" = None
    """Reads parts of the files into the table `packs` or `walk`; None if that is impossible."""


def of_log(table: DataFrame) -> DataFrame:
    """The rows of logs: without snapshots and marks."""
    for name, wanted in (("source", F.col("source") == "log"), ("mark", F.col("mark").isNull())):
        table = table.where(wanted) if name in table.columns else table
    return table


def runs(batches: DataFrame) -> list[Run]:
    """The runs of all copies, from batches as rows or packs."""
    found = arrivals.runs(arrivals.packed(batches)).collect()
    in_order = sorted((Run(**row.asDict()) for row in found), key=lambda run: (run[0], run.first))
    return joined(in_order)


def rows_of(table: DataFrame, *names: str) -> list[dict[str, Any]]:
    """The rows of a small table, with these columns."""
    return [row.asDict(recursive=True) for row in table.select(*names).collect()]


def _sources(log: QuorumLog) -> Iterator[tuple[str, int, int]]:
    """The replicas that supply the log, each with ranges of offsets."""
    for replica in sorted(log.sources):
        own = ((piece.first, piece.end) for piece in log.pieces if piece.replica == replica)
        for first, end in offset_ranges.union(own):
            yield replica, first, end


def one_copy(table: DataFrame, log: QuorumLog) -> DataFrame:
    """The rows of the quorum's log, each once."""
    wanted = [
        (F.col("replica") == F.lit(replica))
        & (F.col("offset") >= F.lit(first))
        & (F.col("offset") < F.lit(end))
        for replica, first, end in _sources(log)
    ]
    return of_log(table).where(reduce(or_, wanted, F.lit(False)))


_STATES: Final = (
    "PartitionRecord", "PartitionChangeRecord", "TopicRecord", "RemoveTopicRecord",
    planned_steps.CONFIG, topics.OWNED, *operations.TYPES,
)  # fmt: skip
"""Records that only make sense on top of others."""


def with_state(records: DataFrame, log: QuorumLog, *, are_picked: bool) -> DataFrame:
    """The records of the quorum's log, each once, after those of the snapshot before it.

    `place` orders records with the same offset: a snapshot's records all have its last offset.
    `are_picked` says that the records are exactly these.
    """
    own = of_log(records) if are_picked else one_copy(records, log)
    own = own.withColumn("place", F.lit(0).cast("bigint"))
    first = log.state
    if first is None:
        return own
    is_state = F.col("type").isin(*_STATES)
    state = (
        _of(records, first)
        .where(is_state)
        .withColumn("place", F.col("offset"))
        .withColumn("offset", F.lit(first.end - 1).cast("bigint"))
    )
    return state.unionByName(own.where(~is_state | (F.col("offset") >= first.end)))


def ranges(log: QuorumLog, *, are_picked: bool) -> list[Range]:
    """The same for packs: the parts of files that are the quorum's log or the snapshot before."""
    state = log.state
    begins = 0 if state is None else state.end
    found = [] if state is None else [Range(state.replica, state.name, stands_at=state.end - 1)]
    if are_picked:
        return [*found, *(Range(replica, None, begins) for replica in sorted(log.sources))]
    for replica, first, end in _sources(log):
        if end > begins:
            found.append(Range(replica, None, max(first, begins), end))
    return found


def is_one_copy(log: QuorumLog) -> bool:
    """True if a single copy supplies the whole log, without batches that are misplaced."""
    return len(log.sources) == 1 and not any(run.replica in log.sources for run in log.misplaced)


def picks(
    log: QuorumLog, runs: Mapping[str, Sequence[Run]], replicas: Sequence[Mapping[str, Any]]
) -> list[Pick]:
    """The parts of files that are the quorum's log, and the snapshot before it.

    `runs` are those in place, from `in_order`.
    """
    found = list(_picks(log.pieces, runs))
    if log.state is not None:
        (folder,) = (row["path"] for row in replicas if row["replica"] == log.state.replica)
        found.append(Pick(f"{folder}/{log.state.name}", 0, 0, 0, 0))
    return found


def borrowed(log: QuorumLog, runs: Mapping[str, Sequence[Run]]) -> list[Pick]:
    """The parts of files that other replicas lost, or have in a wrong place."""
    found: list[Pick] = []
    for replica, lost in log.lost.items():
        wrong = (
            part
            for run in log.misplaced
            if run.replica == replica
            for part in offset_ranges.without(run.first, min(run.end, log.shared[replica]), lost)
        )
        for first, end in (*lost, *wrong):
            pieces = _within(log.pieces, first, end)
            found += (pick._replace(borrower=replica) for pick in _picks(pieces, runs))
    return found


def _within(pieces: Sequence[Piece], first: int, end: int) -> Iterator[Piece]:
    """The parts of the pieces in [`first`, `end`)."""
    at = max(0, bisect_right(pieces, first, key=lambda piece: piece.first) - 1)
    for piece in takewhile(lambda piece: piece.first < end, pieces[at:]):
        if first < piece.end:
            yield piece._replace(first=max(first, piece.first), end=min(end, piece.end))


def _picks(pieces: Iterable[Piece], runs: Mapping[str, Sequence[Run]]) -> Iterator[Pick]:
    """The parts of files that have these pieces."""
    last: Pick | None = None
    for piece in pieces:
        own = runs[piece.replica]
        begins = max(0, bisect_right(own, piece.first, key=lambda run: run.first) - 1)
        for run in own[begins:]:
            first, end = max(piece.first, run.first), min(piece.end, run.end)
            if first >= end:
                break
            assert run.path is not None, "the batches were read from files"
            pick = Pick(run.path, run.position, run.end_position, first, end)
            if last is not None and (last.path, last.high, last.end) == (run.path, pick.low, first):
                last = last._replace(high=pick.high, end=end)
                continue
            if last is not None:
                yield last
            last = pick
    if last is not None:
        yield last


def in_order(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """The runs of each replica, by offset."""
    found: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.first):
        found.setdefault(run.replica, []).append(run)
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


def assignments(table: DataFrame, log: QuorumLog) -> list[dict[str, Any]]:
    """The voter assignments of the quorum's log, after that of the snapshot before it.

    The snapshot's has no `append_ms` and counts from the start of the log.
    """
    names = ("offset", "epoch", "append_ms", "current", "target", "kind")
    rows = rows_of(of_log(table), "replica", *names)
    found = [{name: row[name] for name in names} for row in rows if _is_of(row, log)]
    first = log.state
    if first is None or any(row["offset"] < first.end for row in found):
        return found
    before = rows_of(_of(table, first), *names)
    return [*({**row, "append_ms": None} for row in before), *found]


def _is_of(row: Mapping[str, Any], log: QuorumLog) -> bool:
    """True if a record that a replica holds is in the quorum's log."""
    offset, replica = row["offset"], row["replica"]
    at = bisect_right(log.pieces, offset, key=lambda piece: piece.first) - 1
    if at < 0 or offset >= log.pieces[at].end or row["epoch"] != log.pieces[at].epoch:
        return False
    return offset < log.shared.get(replica, 0) and not any(
        run.replica == replica and run.first <= offset < run.end for run in log.misplaced
    )


def _of(table: DataFrame, snapshot: Snapshot) -> DataFrame:
    return table.where(
        (F.col("source") == "snapshot")
        & (F.col("replica") == F.lit(snapshot.replica))
        & F.col("path").endswith("/" + snapshot.name)
    )
