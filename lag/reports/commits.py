"""Commits per window: numbers, sizes, and the time until a majority had them.

A batch is at a majority when more than half of the voters hold it on disk, the leader included. It
is committed no earlier. Voters with unknown times count as not having it: if the others are a
majority, the time is exact or too long; otherwise it is unknown. If the arrival at a voter is lost,
or a hole of the log may hide other voters, the times of the window are unknown.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lag.reports import offset_ranges
from lag.reports.arrivals import Arrivals, ArrivalTable, arrived
from lag.reports.holes import NONE, Holes, blanked
from lag.reports.offset_ranges import Range
from lag.reports.schemas import COMMITS
from lag.reports.scope import Scope
from lag.reports.voters import Seat

_SHARES: Final = (50, 95, 99)
_NOTHING: Final = dict.fromkeys(("batches", "records", "bytes", "majority_known"), 0)
"""The counts of a window in which nothing was appended."""
_UNKNOWN: Final = 1 << 62
"""An unknown time, later than any other."""
_LOST: Final = "majority_lost"
_MAJORITY: Final = tuple(name for name in COMMITS.names if name.startswith("majority"))


class Lost(NamedTuple):
    """The unknown arrivals at voters."""

    holes: Holes = NONE
    arrivals: Mapping[str, Sequence[Range]] = MappingProxyType({})
    """For each voter with append times, the offsets that came to it at an unknown time."""
    votes: Sequence[Range] = ()
    """The offsets whose voters are unknown."""


NOTHING: Final = Lost()


def commits(
    arrivals: ArrivalTable, seats: Sequence[Seat], scope: Scope, lost: Lost = NOTHING
) -> list[dict[str, Any]]:
    """The report `commits`; `seats` are those of all assignments."""
    values = (
        arrivals.packs.groupBy("chunk")
        .agg(_values(arrivals, seats, scope, lost)("replica", "rows").alias("values"))
        .select(F.inline("values"))
    )
    found = (
        _ranked(values)
        .groupBy("window")
        .agg(
            _sum("records", F.col("times")).alias("batches"),
            _sum("records", F.col("value") * F.col("times")).alias("records"),
            _sum("bytes", F.col("value") * F.col("times")).alias("bytes"),
            *_sizes("records"),
            *_sizes("bytes"),
            F.coalesce(_sum("majority_ms", F.col("times")), F.lit(0)).alias("majority_known"),
            *(
                _percentile("majority_ms", share).alias(f"majority_p{share}_ms")
                for share in _SHARES
            ),
            _greatest("majority_ms").alias("majority_max_ms"),
            F.max_by("at_ms", F.when(F.col("what") == "majority_ms", F.col("value"))).alias(
                "majority_worst_at_ms"
            ),
            F.max(F.col("what") == _LOST).alias(_LOST),
        )
    )
    of_window = {row["window"]: row.asDict() for row in found.collect()}
    rows = []
    for window in range(scope.windows):
        row = {**_NOTHING, **of_window.get(window, {}), **scope.bounds_of(window), "hole": None}
        for name in ("records", "batches"):
            row[f"{name}_per_s"] = row[name] * 1_000 / scope.length_ms(window)
        rows.append({**row, **(dict.fromkeys(_MAJORITY) if row.get(_LOST) else {})})
    counted = [name for name in COMMITS.names if not name.startswith("window") and name != "hole"]
    rows = blanked(rows, scope, lost.holes, counted)
    return [{name: row.get(name) for name in COMMITS.names} for row in rows]


def _ranked(values: DataFrame) -> DataFrame:
    """Each distinct value of each window, with the number of values up to it, and of all."""
    each = Window.partitionBy("window", "what")
    return (
        values.groupBy("window", "what", "value")
        .agg(F.sum("times").alias("times"), F.min("at_ms").alias("at_ms"))
        .withColumn("up_to", F.sum("times").over(each.orderBy("value")))
        .withColumn("of", F.sum("times").over(each))
    )


def _sum(of: str, what: Column) -> Column:
    return F.sum(F.when(F.col("what") == of, what))


def _percentile(of: str, share: int) -> Column:
    """The smallest value that `share` percent of all do not exceed; null if there are none."""
    reaches = F.col("up_to") * 100 >= F.col("of") * share
    return F.min(F.when((F.col("what") == of) & reaches, F.col("value")))


def _greatest(of: str) -> Column:
    return F.max(F.when(F.col("what") == of, F.col("value")))


def _sizes(of: str) -> tuple[Column, Column]:
    return (
        _percentile(of, 50).cast("double").alias(f"{of}_p50"),
        _greatest(of).cast("double").alias(f"{of}_max"),
    )


def _values(
    came: ArrivalTable, seats: Sequence[Seat], scope: Scope, lost: Lost
) -> Callable[..., Column]:
    """Return a function from the packs of a chunk to counts of values per window."""
    parts = came.parts

    def values(replicas: pa.Array, packs: pa.Array) -> Any:
        of_replicas = [
            (name, arrived(name, rows.as_buffer(), parts))
            for name, rows in zip(replicas.to_pylist(), packs, strict=True)
        ]
        return list(values_of(of_replicas, seats, scope, lost))

    made: Callable[..., Column] = F.arrow_udf(
        values,
        "array<struct<window: bigint, what: string, value: bigint, times: bigint, at_ms: bigint>>",
    )
    return made


def values_of(
    came: Sequence[tuple[str, Arrivals]],
    seats: Sequence[Seat],
    scope: Scope,
    lost: Lost = NOTHING,
) -> Iterator[dict[str, Any]]:
    """Counts of sizes and of times to a majority, per window.

    `came` are all arrivals of some range of the log; `at_ms` is the append time at the leader of
    the first batch with the value.
    """
    base = np.unique(np.concatenate([each.base_offset for _, each in came]))
    at_ms = np.full(len(base), _UNKNOWN)
    sizes = {name: np.zeros(len(base), np.int64) for name in ("records", "bytes")}
    for _, each in came:
        place = np.searchsorted(base, each.base_offset)
        np.minimum.at(at_ms, place, np.where(each.is_timed, each.leader_append_ms, _UNKNOWN))
        for name, column in sizes.items():
            np.maximum.at(column, place, getattr(each, name))
    majority_at_ms = _majority_at_ms(base, came, seats)
    wanted = (at_ms >= scope.start_ms) & (at_ms <= scope.end_ms)
    window = (at_ms - scope.grid_ms - 1) // scope.window_ms
    for name, column in sizes.items():
        yield from _times(name, window[wanted], column[wanted], at_ms[wanted])
    is_lost = wanted & _lost(base, seats, lost)
    yield from _times(
        _LOST, window[is_lost], np.zeros(len(base), np.int64)[is_lost], at_ms[is_lost]
    )
    wanted &= majority_at_ms != _UNKNOWN
    took_ms = np.maximum(0, majority_at_ms - at_ms)
    yield from _times("majority_ms", window[wanted], took_ms[wanted], at_ms[wanted])


def _lost(base: Any, seats: Sequence[Seat], lost: Lost) -> Any:
    """A mask of the batches whose time at a majority is unknown because records are lost."""
    found = offset_ranges.mask(lost.votes, base)
    for seat in seats:
        if seat.replica in lost.arrivals:
            sits = (base >= seat.from_offset) & (base < seat.to_offset)
            found |= sits & offset_ranges.mask(lost.arrivals[seat.replica], base)
    return found


def _majority_at_ms(base: Any, came: Sequence[tuple[str, Arrivals]], seats: Sequence[Seat]) -> Any:
    """The time at which a majority of the voters had each batch."""
    durable = np.full((len(base), max((seat.seat for seat in seats), default=0)), _UNKNOWN)
    voters = np.zeros(len(base), np.int64)
    for name, each in came:
        place = np.searchsorted(base, each.base_offset)
        for seat in seats:
            if seat.replica == name:
                sits = (each.base_offset >= seat.from_offset) & (each.base_offset < seat.to_offset)
                voters[place[sits]] = np.maximum(voters[place[sits]], seat.voters)
                sits &= each.is_known
                np.minimum.at(durable[:, seat.seat - 1], place[sits], each.durable_ms[sits])
    if not durable.size:
        return np.full(len(base), _UNKNOWN)
    # The (n // 2 + 1)th voter completes the majority; seats without the batch are last.
    in_order = np.sort(durable, axis=1)
    needed = np.minimum(voters // 2, in_order.shape[1] - 1)
    found = np.where(
        voters // 2 < in_order.shape[1], in_order[np.arange(len(base)), needed], _UNKNOWN
    )
    return np.where(voters > 0, found, _UNKNOWN)


def _times(what: str, window: Any, value: Any, at_ms: Any) -> Iterator[dict[str, Any]]:
    """Each distinct value of each window, its count, and its first time."""
    order = np.lexsort((at_ms, value, window))
    window, value, at_ms = window[order], value[order], at_ms[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (window[1:] != window[:-1]) | (value[1:] != value[:-1])
    begins = np.nonzero(is_first)[0]
    counts = np.diff(np.append(begins, len(order)))
    for at, times in zip(begins.tolist(), counts.tolist(), strict=True):
        yield {
            "window": int(window[at]),
            "what": what,
            "value": int(value[at]),
            "times": times,
            "at_ms": int(at_ms[at]),
        }
