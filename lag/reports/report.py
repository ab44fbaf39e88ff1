"""All reports of one set of logs.

Spark reduces the log at once. The tables that can be large, those of moving partitions, are
computed when their rows are requested. Data that several reports use is persisted until
`Report.release`.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lag.reports import (
    brokers,
    clocks,
    commits,
    epochs,
    holes,
    lag,
    lag_samples,
    leadership,
    logs,
    moves,
    offset_ranges,
    operations,
    partition_history,
    planned_steps,
    status,
    topics,
    voters,
)
from lag.reports.arrivals import ArrivalTable, arrivals, at_replicas, packed
from lag.reports.clocks import EpochPart, parts
from lag.reports.dataframes import frame, run_concurrently, typed
from lag.reports.epochs import EpochSpan, Leader, Span
from lag.reports.holes import Holes
from lag.reports.logs import BATCHES, CHOSEN_BY, RECORDS, Logs, of_log, rows_of
from lag.reports.merged_logs import MergedLogs, merged
from lag.reports.offset_ranges import Range
from lag.reports.quorum_log import QuorumLog
from lag.reports.schemas import RESULTS
from lag.reports.scope import Scope, scope_of

Row = dict[str, Any]
Keep = Callable[[DataFrame], DataFrame]

_OF_REPLICAS: Final = (
    "replica", "path", "node_id", "directory_id", "log_start", "log_end", "last_epoch",
    "has_append_times", "snapshots",
)  # fmt: skip
_FEW: Final = (
    *topics.TYPES,
    "RegisterBrokerRecord", "UnregisterBrokerRecord", "FenceBrokerRecord", "UnfenceBrokerRecord",
    "BrokerRegistrationChangeRecord", "RegisterControllerRecord",
    *operations.TYPES,
)  # fmt: skip
"""Record types that are few compared with those of partitions; their rows are collected."""


@dataclass(frozen=True, slots=True)
class Report:
    """The tables by the names in `schemas`, their scope, and the data persisted for them."""

    scope: Scope
    tables: Mapping[str, DataFrame]
    few: Mapping[str, pa.Table]
    """The tables that are known without asking Spark."""
    copies: MergedLogs
    """The logs that it is about."""
    kept: tuple[DataFrame, ...]

    def table(self, name: str) -> pa.Table:
        """The rows of a table."""
        return self.few[name] if name in self.few else self.tables[name].toArrow()

    def release(self) -> None:
        """Unpersist the data of this report."""
        for each in self.kept:
            each.unpersist()


@dataclass(frozen=True, slots=True)
class _Known:
    """The small data that most reports need."""

    log: QuorumLog
    spans: Sequence[Span]
    replicas: Sequence[Row]
    quorum: Mapping[int, EpochSpan]
    led: Mapping[int, Leader]
    bounds: Mapping[clocks.Pair, clocks.Bounds]
    parts: Mapping[tuple[str, int], EpochPart]
    assignments: Sequence[Mapping[str, Any]]
    seats: Sequence[Sequence[voters.Seat]]
    holes: Holes


def report(
    tables: Logs,
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
    window_ms: int | None = None,
    limits: status.Limits | None = None,
) -> Report | None:
    """Make all reports; None if the logs hold no batch.

    `since_ms` and `until_ms` are inclusive bounds in ms since 1970. The tables themselves must be
    complete, because earlier records determine the state. No table has a record that a leader
    appended after `until_ms`; only the reason for the end of an epoch, and the bounds of `clocks`,
    may rest on one. `window_ms` is the length of a window.
    """
    kept: list[DataFrame] = []

    def keep(table: DataFrame) -> DataFrame:
        kept.append(table.persist(StorageLevel.MEMORY_AND_DISK))
        return kept[-1]

    batches = tables.batches
    if "chunk" not in batches.columns:
        batches = keep(packed(of_log(batches).select(*BATCHES)))
    replicas = rows_of(tables.replicas, *_OF_REPLICAS)
    copies = merged(tables, batches, replicas, keep)
    if copies is None:
        for each in kept:
            each.unpersist()
        return None
    batches, wanted = copies.batches, copies.ranges
    packs = keep(logs.packs_of(_packed(copies.records), wanted))
    others = partition_history.others(packs, (*CHOSEN_BY, *RECORDS))
    records = keep(_slim(logs.with_state(others, copies.log, are_picked=copies.are_picked)))
    session = batches.sparkSession
    found = run_concurrently(
        session,
        lambda: rows_of(of_log(tables.epochs), "epoch", "leader", "voters", "start_offset"),
        lambda: logs.assignments(tables.assignments, copies.log),
        lambda: _few(records),
    )
    known = _known(replicas, copies, *found[:2])
    whole = _time(known)
    scope = scope_of(*whole, since_ms=since_ms, until_ms=until_ms, window_ms=window_ms)
    counting = _Counting(arrivals(batches, known.parts), known.log, keep)
    led, hidden = known.quorum, known.holes
    if scope.end_ms < whole[1]:
        # The end of the log at the end of the report comes first: all tables leave out the rest.
        leading = counting.counts(scope).leading
        end = leading.ends[-1] or 0
        scope, hidden = scope._replace(end_offset=end), hidden.by(end)
        is_known = all(hole.first != end for hole in hidden.holes)
        led = epochs.until(known.quorum, end, leading.last_ms, ends_known=is_known)
    said = _Said(
        partition_history.partition_history(packs, wanted, scope, hidden),
        records if scope.end_offset is None else records.where(F.col("offset") < scope.end_offset),
        [row for row in found[2] if scope.holds(row["offset"])],
        0 if known.log.state is None else known.log.state.end,
        hidden,
    )
    # Why an epoch ended may have shown after the end of the report.
    evidence = leadership.Evidence(
        known.led,
        known.assignments,
        leadership.registrations(found[2]),
        known.spans,
        known.parts,
        known.holes,
        (*known.log.unread, *known.log.unconfirmed),
        copies.unknown,
        tables.unknown_ends,
    )
    made: dict[str, DataFrame | list[Row]] = {
        "clocks": clocks.clocks(known.bounds),
        "holes": holes.holes(hidden, known.log),
        "leadership": leadership.leadership(led, evidence),
    }
    for part in run_concurrently(
        session,
        lambda: _of_batches(counting, copies, known, hidden, scope, limits),
        lambda: _of_records(said, scope, keep),
    ):
        made |= part
    return _shaped(session, made, scope, copies, kept)


def _shaped(
    session: SparkSession,
    made: Mapping[str, DataFrame | list[Row]],
    scope: Scope,
    copies: MergedLogs,
    kept: Sequence[DataFrame],
) -> Report:
    """The tables with the columns of `schemas`."""
    shaped: dict[str, DataFrame] = {}
    few: dict[str, pa.Table] = {}
    for table in RESULTS:
        rows = made[table.name]
        if isinstance(rows, list):
            few[table.name] = typed(table.columns, rows)
            shaped[table.name] = session.createDataFrame(few[table.name])
        else:
            shaped[table.name] = rows.to(frame(session, table.columns, []).schema)
    return Report(scope, shaped, few, copies, tuple(kept))


def _known(
    replicas: Sequence[Row],
    copies: MergedLogs,
    elected: Sequence[Row],
    assignments: Sequence[Row],
) -> _Known:
    held = epochs.spans(copies.runs)
    quorum = epochs.quorum_epochs(copies.log)
    led = epochs.leaders(elected, replicas, quorum)
    bounds = clocks.bounds(held, led)
    begins_ms = min((epoch.first_ms for epoch in quorum.values()), default=0)
    hidden = holes.holes_of(copies.log, bounds.values())
    elected_ = [
        (epoch.first, leader.voters)
        for number, leader in led.items()
        if (epoch := quorum.get(number)) is not None
    ]
    assigned = voters.in_order(
        {**row, "append_ms": begins_ms if row["append_ms"] is None else row["append_ms"]}
        for row in assignments
    )
    return _Known(
        copies.log,
        held,
        replicas,
        quorum,
        led,
        bounds,
        parts(held, copies.log.shared, led, bounds),
        assigned,
        voters.seats(assigned, replicas, hidden, elected_),
        hidden,
    )


def _time(known: _Known) -> tuple[int, int]:
    """The time range of the logs: from the first batch to its last arrival at any replica."""
    ends = [lag.last_append_ms([span], known.parts) for span in known.spans]
    last = max(epoch.last_ms for epoch in known.quorum.values())
    first = min(epoch.first_ms for epoch in known.quorum.values())
    return first, max([last, *(end for end in ends if end is not None)])


class _Counting:
    """The arrivals, and their counts, which are made once."""

    def __init__(self, came: ArrivalTable, log: QuorumLog, keep: Keep) -> None:
        self.came = came
        self._log = log
        self._keep = keep
        self._counts: lag_samples.Counts | None = None

    def counts(self, scope: Scope) -> lag_samples.Counts:
        """The counts in this time."""
        if self._counts is None:
            self._counts = lag_samples.counts(self.came, self._log, scope)
            self._keep(self._counts.counted)
        return self._counts


class _Said(NamedTuple):
    """The content of the records up to the end of the report."""

    history: DataFrame
    """The result of `partition_history`."""
    records: DataFrame
    """The records about no partition,"""
    few: list[Row]
    """and those of them that are collected."""
    start: int
    """The records before this offset are the state at the start of the log."""
    holes: Holes


def _of_batches(
    counting: _Counting,
    copies: MergedLogs,
    known: _Known,
    hidden: Holes,
    scope: Scope,
    limits: status.Limits | None,
) -> dict[str, DataFrame | list[Row]]:
    came, counts = counting.came, counting.counts(scope)
    seats = [seat for row in known.seats for seat in row]
    # Each batch of the quorum's log is at a source, and only its times at voters count.
    needed = known.log.sources | {seat.replica for seat in seats}
    measured, committed = run_concurrently(
        came.packs.sparkSession,
        lambda: lag_samples.measured(counts, *_lost_samples(copies, known), scope),
        lambda: commits.commits(
            at_replicas(came, needed),
            seats,
            scope,
            _lost(copies, known, hidden),
        ),
    )
    ends = lag.ends(known.spans, known.parts, known.log, counts.leading.appended_ms, scope.end_ms)
    is_cut = scope.end_offset is not None
    if is_cut:
        ends = lag.cut(
            measured, ends, known.spans, known.parts, known.log, known.quorum, scope.end_ms
        )
    windows = lag.replication_lag(measured, known.parts, scope, hidden)
    replicas = lag.replica_lag(measured, ends, known.replicas, known.parts, hidden)
    lags = {row["replica"]: row["lags"] for row in measured if row["window"] == lag.WHOLE}
    assigned = [
        each
        for each in zip(known.assignments, known.seats, strict=True)
        if scope.holds(each[0]["offset"])
    ]
    roles = _roles(known, assigned, hidden, scope)
    return {
        "replication_lag": windows,
        "replica_lag": replicas,
        "status": status.status(
            replicas, windows, scope.end_ms, limits, roles=roles, is_cut=is_cut
        ),
        "commits": committed,
        "voters": voters.voters(assigned, lags, scope, hidden),
    }


def _roles(
    known: _Known,
    assigned: Sequence[tuple[Mapping[str, Any], Sequence[voters.Seat]]],
    hidden: Holes,
    scope: Scope,
) -> dict[str, str]:
    """The role of each replica at the end of the report; nothing if a hole may hide it."""
    last = max(
        (number for number in known.led if scope.holds(known.quorum[number].first)), default=0
    )
    elected = known.led.get(last)
    elected_by, seats = None if elected is None else elected.voters, None
    if elected is not None and hidden.after(known.quorum[last].first):
        elected_by = None
    if assigned:
        row, seats = assigned[-1]
        end = known.log.end if scope.end_offset is None else scope.end_offset
        if hidden.after(row["offset"]) and all(seat.to_offset <= end for seat in seats):
            seats = None
    return voters.roles(known.replicas, seats, elected_by)


def _lost_samples(copies: MergedLogs, known: _Known) -> tuple[dict[str, lag.Lost], lag.Lost]:
    """The offsets of which nothing is known, at each replica and at all."""
    holes_ = offset_ranges.union((hole.first, hole.end) for hole in known.holes.holes)
    begins = sorted(epoch.first for epoch in known.quorum.values())
    hidden_end = known.log.end if known.log.end in {end for _, end in holes_} else None

    def lost(ranges: Sequence[Range]) -> lag.Lost:
        across = [
            (first, end)
            for first, end in ranges
            if end == hidden_end or bisect_left(begins, first) < bisect_right(begins, end)
        ]
        return lag.Lost(ranges, across, known.holes.clocks_ms)

    return {replica: lost(ranges) for replica, ranges in copies.unknown.items()}, lost(holes_)


def _lost(copies: MergedLogs, known: _Known, hidden: Holes) -> commits.Lost:
    """The unknown arrivals at voters."""
    timed = {span.replica for span in known.spans if span.timed}
    arrived = {name: ranges for name, ranges in copies.unknown.items() if name in timed and ranges}
    if not hidden:
        return commits.Lost(arrivals=arrived)
    voted = offset_ranges.union(
        (seat.from_offset, seat.to_offset) for row in known.seats for seat in row
    )
    begins = min((hole.first for hole in hidden.holes), default=0)
    votes = list(offset_ranges.without(begins, known.log.end, voted))
    return commits.Lost(hidden, arrived, votes)


def _of_records(said: _Said, scope: Scope, keep: Keep) -> dict[str, DataFrame | list[Row]]:
    history, records, few, start, hidden = said
    limits = (row for row in few if row["topic"] is None)
    needed = planned_steps.column(planned_steps.limits_in_force(limits, hidden))
    keep(history)
    named = keep(moves.topics(records, hidden))
    stepped = keep(moves.with_steps(history))
    steps = keep(moves.steps(stepped, named))
    added = keep(moves.added(stepped, steps))
    moved = keep(moves.moves(stepped, added, named, scope, needed, hidden))
    events = brokers.broker_events(few, scope.end_ms, hidden)
    counts = [
        *brokers.event_counts(events, scope),
        *moves.partition_counts(history, moved, scope),
    ]
    told = topics.topic_history(few, moves.partitions_added(history), start, hidden)
    return {
        "topics": told.topics,
        "topic_events": told.events,
        "moves": moved,
        "move_steps": moves.move_steps(steps, added, scope, hidden),
        "move_replicas": moves.move_replicas(added, moved, hidden),
        "operations": operations.operations(few, moves.of_operations(moved), scope.end_ms, hidden),
        "brokers": brokers.brokers(events, counts, hidden),
        "broker_activity": brokers.broker_activity(counts, scope, hidden),
        "broker_events": events,
    }


def _packed(records: DataFrame) -> DataFrame:
    """Pack these records if they are not packs already."""
    return records if "share" in records.columns else partition_history.packed(records)


def _slim(records: DataFrame) -> DataFrame:
    """The records about no partition that reports use, and their columns."""
    is_config = F.col("type") == planned_steps.CONFIG
    is_used = F.col("topic").isNotNull() | F.col("name").isin(*planned_steps.LIMITS)
    # Moves set long lists of throttled replicas, often. They only count as set or removed.
    is_long = is_config & F.col("name").isin(*topics.THROTTLES)
    is_set = F.get_json_object("json", "$.value").isNotNull()
    json_ = F.when(is_long, F.when(is_set, F.lit('{"value":""}'))).otherwise(F.col("json"))
    used = records.where(F.col("type").isin(*_FEW) | (is_config & is_used))
    return used.withColumn("json", json_).select("place", *RECORDS)


def _few(records: DataFrame) -> list[Row]:
    """The records of the few types, in order; `said` has their fields."""
    names = (
        "offset", "place", "epoch", "append_ms", "type", "broker_id", "broker_epoch", "fenced",
        "in_controlled_shutdown", "topic", "topic_id", "move_id", "state", "name", "json",
    )  # fmt: skip
    rows = rows_of(records.where(F.col("type").isin(*_FEW, planned_steps.CONFIG)), *names)
    for row in rows:
        row["said"] = {} if row["json"] is None else _fields(json.loads(row["json"]))
    return sorted(rows, key=lambda row: (row["offset"], row["place"]))


def _fields(said: dict[str, Any]) -> dict[str, Any]:
    """The fields of a record; those of our own types are nested under one name."""
    inner = next(iter(said.values()), None)
    return inner if len(said) == 1 and isinstance(inner, dict) else said
