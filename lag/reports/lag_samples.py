"""Count arrivals into samples with Spark, then measure each replica.

The log is neither sorted nor joined with itself: batches are counted into the interval between two
samples, and the result is as large as the time is long. `lag.windows` measures each replica, where
Spark has its counts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from lag.reports import offset_ranges
from lag.reports.arrivals import Arrivals, ArrivalTable, Parts, at_replicas, of_packs
from lag.reports.dataframes import mapped
from lag.reports.lag import NOTHING_LOST, Bucket, LeaderTimeline, Lost, windows
from lag.reports.offset_ranges import Range
from lag.reports.quorum_log import QuorumLog
from lag.reports.scope import Scope
from lag.source.record_packs import joined
from lag.source.schemas import ARROW_TYPES

_COUNTED: Final = (
    ("replica", "STRING"), ("sample", "BIGINT"), ("came_to", "BIGINT"), ("peak", "BIGINT"),
    ("last_ms", "BIGINT"), ("unsure", "BOOLEAN"),
)  # fmt: skip
_WAITED: Final = (
    ("replica", "STRING"), ("base_offset", "BIGINT"), ("leader_append_ms", "BIGINT"),
    ("known", "BOOLEAN"),
)  # fmt: skip


class Counts(NamedTuple):
    """The counts of the log."""

    counted: DataFrame
    """`Bucket`s of each replica, persisted by Spark."""
    leading: LeaderTimeline
    unknown: Mapping[int, frozenset[str]]
    """For each start offset, the replicas at which the batch arrived at an unknown time."""


def counts(arrivals: ArrivalTable, log: QuorumLog, scope: Scope) -> Counts:
    """Count the arrivals."""
    sources: dict[str, list[Range]] = {}
    for piece in log.pieces:
        sources.setdefault(piece.replica, []).append((piece.first, piece.end))
    joined_up = {replica: offset_ranges.union(ranges) for replica, ranges in sources.items()}
    counted = _counted(arrivals, joined_up, scope).persist(StorageLevel.MEMORY_AND_DISK)
    names = ("replica", "sample", "came_to", "last_ms")
    rows = counted.where(F.col("replica").isNull() | F.col("unsure")).select(*names).collect()
    ends = [row for row in rows if row["replica"] is None]
    unsure = {row["replica"] for row in rows if row["replica"] is not None}
    # Each batch of the quorum's log is at a source; where all times are known, none is looked for.
    here = at_replicas(arrivals, unsure | sources.keys())
    waiting = _waiting_for(here, counted, log.shared.values())
    unknown = {row["base_offset"]: frozenset(row["unknown_to"]) for row in waiting}
    by_the_end = [row for row in ends if row["sample"] <= scope.samples]
    last = max(by_the_end, key=lambda row: row["came_to"], default=None)
    leading = LeaderTimeline(
        _running({row["sample"]: row["came_to"] for row in ends}, scope),
        {row["base_offset"]: row["leader_append_ms"] for row in waiting},
        None if last is None else last["last_ms"],
    )
    return Counts(counted, leading, {offset: who for offset, who in unknown.items() if who})


def measured(
    counts_: Counts, lost: Mapping[str, Lost], holes: Lost, scope: Scope
) -> list[dict[str, Any]]:
    """The result of `lag.windows` for each replica: a row per window and one for the whole time.

    `lost` has for each replica the offsets of which nothing is known, and `holes` those at all.
    """
    counted, leading, unknown = counts_
    unsure = holes.unsure([None, *leading.ends], scope)
    leading = leading._replace(lost=holes.ranges, unsure=unsure)

    def measure(row: Row) -> Iterator[dict[str, Any]]:
        replica, buckets = row["replica"], [Bucket(*each) for each in row["buckets"]]
        nobody_knows = frozenset(offset for offset, names in unknown.items() if replica in names)
        for found in windows(
            buckets, nobody_knows, leading, scope, lost.get(replica, NOTHING_LOST)
        ):
            yield {"replica": replica, **found}

    buckets = F.sort_array(F.collect_list(F.struct(*Bucket._fields)))
    of_replicas = counted.where(F.col("replica").isNotNull()).groupBy("replica")
    found: list[dict[str, Any]] = (
        of_replicas.agg(buckets.alias("buckets")).rdd.flatMap(measure).collect()
    )
    return found


def _running(ends: dict[int, int], scope: Scope) -> list[int | None]:
    """The end of the leader's log at each sample, from the appends up to each."""
    found: list[int | None] = []
    end = ends.get(0)
    for number in range(1, scope.samples + 1):
        end = max(end or 0, ends[number]) if number in ends else end
        found.append(end)
    return found


def _counted(
    arrivals: ArrivalTable, sources: Mapping[str, Sequence[Range]], scope: Scope
) -> DataFrame:
    """Arrivals at each replica between two samples, as `Bucket`s; `replica` is null for the leader.

    Sample 0 has everything before the report. Arrivals at unknown times, and after the end, are in
    a sample beyond the last one, so that every replica has a row.
    """
    step = F.lit(scope.step_ms)
    counted = (
        mapped(
            arrivals.packs.select("replica", "rows"),
            partial(_count, arrivals.parts, sources, scope),
            _COUNTED,
        )
        .groupBy("replica", "sample")
        .agg(
            F.max("came_to").alias("came_to"),
            F.max_by("last_ms", "came_to").alias("last_ms"),
            F.max("peak").alias("peak"),
            F.max("unsure").alias("unsure"),
        )
    )
    at = F.lit(scope.grid_ms) + F.col("sample") * step - F.pmod("peak", step)
    return counted.select(
        "replica",
        "sample",
        "came_to",
        F.floor(F.col("peak") / step).alias("peak_ms"),
        at.alias("peak_at_ms"),
        "last_ms",
        "unsure",
    )


def _count(parts: Parts, sources: Any, scope: Scope, batches: Iterator[Any]) -> Iterator[Any]:
    def counted(replica: str, came: Arrivals) -> Iterator[Any]:
        yield _buckets(replica, came, came.at_ms, came.is_known, scope)
        if replica in sources:
            own = came.only(offset_ranges.mask(sources[replica], came.base_offset))
            yield _buckets(None, own, own.leader_append_ms, own.is_timed, scope)

    for batch in batches:
        made = [each for found in of_packs(counted, batch, parts) for each in found]
        yield joined(made, _schema(_COUNTED))


def _buckets(replica: str | None, came: Arrivals, t_ms: Any, is_known: Any, scope: Scope) -> Any:
    """The end of the arrivals at these times, by the sample that follows each."""
    step, beyond = scope.step_ms, scope.samples + 1
    due = -((scope.grid_ms - t_ms) // step)
    # The last sample is less than a step after the one before, unless the end is on the grid.
    is_there = is_known & (t_ms <= scope.end_ms)
    sample = np.where(is_there, np.maximum(due, 0), beyond)
    # One number per peak orders by the greatest lag, then by the earliest time.
    left_of_step = sample * step - (t_ms - scope.grid_ms)
    late_ms = np.where(came.is_timed, np.maximum(0, t_ms - came.leader_append_ms), 0)
    is_peak = is_known & (t_ms >= scope.least_ms) & (sample <= scope.samples)
    peak = np.where(is_peak, late_ms * step + left_of_step, -1)
    is_in_order = (np.diff(sample) >= 0).all() and (np.diff(came.end) >= 0).all()
    order = np.arange(len(sample)) if is_in_order else np.lexsort((came.end, sample))
    if not len(order):
        return pa.RecordBatch.from_pylist([], _schema(_COUNTED))
    sorted_ = sample[order]
    begins = np.concatenate(([0], np.nonzero(np.diff(sorted_))[0] + 1))
    samples = sorted_[begins]
    greatest = np.maximum.reduceat(peak[order], begins)
    last = order[np.append(begins[1:], len(order)) - 1]
    columns = [
        pa.nulls(len(samples), pa.string())
        if replica is None
        else pa.repeat(pa.scalar(replica), len(samples)),
        pa.array(samples),
        pa.array(came.end[last]),
        pa.array(greatest, mask=greatest < 0),
        pa.array(t_ms[last], mask=~is_known[last]),
        pa.array(np.logical_or.reduceat(~is_known[order], begins)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_schema(_COUNTED))


def _waiting_for(arrivals: ArrivalTable, counted: DataFrame, last: Iterable[int]) -> list[Any]:
    """The batches at the offsets where a log ended at a sample, or ends (`last`): the append time
    at the leader, and the replicas where they arrived at an unknown time."""
    ends = {row["came_to"] for row in counted.select("came_to").distinct().collect()}
    wanted = np.array(sorted(ends.union(last)), np.int64)
    unknown_to = F.collect_set(F.when(~F.col("known"), F.col("replica")))
    found: list[Any] = (
        mapped(
            arrivals.packs.select("replica", "rows"),
            partial(_waited, arrivals.parts, wanted),
            _WAITED,
        )
        .groupBy("base_offset")
        .agg(
            F.min("leader_append_ms").alias("leader_append_ms"),
            unknown_to.alias("unknown_to"),
        )
        .collect()
    )
    return found


def _waited(parts: Parts, wanted: Any, batches: Iterator[Any]) -> Iterator[Any]:
    def waited(replica: str, came: Arrivals) -> Any:
        own = came.only(_is_one_of(came.base_offset, wanted))
        columns = [
            pa.repeat(pa.scalar(replica), len(own.base_offset)),
            pa.array(own.base_offset),
            pa.array(own.leader_append_ms, mask=~own.is_timed),
            pa.array(own.is_known),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=_schema(_WAITED))

    for batch in batches:
        yield joined(list(of_packs(waited, batch, parts)), _schema(_WAITED))


def _is_one_of(offsets: Any, wanted: Any) -> Any:
    """A mask of the offsets that are in `wanted`, which is sorted."""
    if not len(offsets) or not len(wanted):
        return np.zeros(len(offsets), np.bool_)
    low, high = np.searchsorted(wanted, (offsets.min(), offsets.max() + 1))
    near = wanted[low:high]
    if not len(near):
        return np.zeros(len(offsets), np.bool_)
    places = np.minimum(np.searchsorted(near, offsets), len(near) - 1)
    return near[places] == offsets


def _schema(columns: tuple[tuple[str, str], ...]) -> Any:
    return pa.schema([pa.field(name, ARROW_TYPES[type_]) for name, type_ in columns])
