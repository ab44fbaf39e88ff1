"""All reports of one set of logs.

Spark reduces the log at once. The tables that can be large, those of moving partitions, are
computed when their rows are requested. Data that several reports use is persisted until
`Report.release`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lag.reports import (
    brokers,
    clocks,
    commits,
    epochs,
    lag,
    lag_samples,
    leadership,
    logs,
    moves,
    operations,
    partition_history,
    planned_steps,
    status,
    voters,
)
from lag.reports.arrivals import arrivals, packed
from lag.reports.clocks import EpochPart, parts
from lag.reports.dataframes import frame, run_concurrently, typed
from lag.reports.epochs import EpochSpan, Leader, Span
from lag.reports.logs import BATCHES, CHOSEN_BY, RECORDS, Logs, of_log, rows_of, spans
from lag.reports.schemas import RESULTS
from lag.reports.scope import Scope, scope_of

Row = dict[str, Any]
Keep = Callable[[DataFrame], DataFrame]

_OF_REPLICAS: Final = (
    "replica", "path", "node_id", "directory_id", "log_start", "log_end", "last_epoch",
    "has_append_times", "snapshots",
)  # fmt: skip
_OF_TOPICS: Final = ("TopicRecord", "RemoveTopicRecord")
_FEW: Final = (
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

    spans: Sequence[Span]
    replicas: Sequence[Row]
    quorum: Mapping[int, EpochSpan]
    led: Mapping[int, Leader]
    bounds: Mapping[clocks.Pair, clocks.Bounds]
    parts: Mapping[tuple[str, int], EpochPart]
    assignments: Sequence[Mapping[str, Any]]
    seats: Sequence[Sequence[voters.Seat]]


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
    complete, because earlier records determine the state. `window_ms` is the length of a window.
    """
    kept: list[DataFrame] = []

    def keep(table: DataFrame) -> DataFrame:
        kept.append(table.persist(StorageLevel.MEMORY_AND_DISK))
        return kept[-1]

    batches = tables.batches
    if "chunk" not in batches.columns:
        batches = keep(packed(of_log(batches).select(*BATCHES)))
    replicas = rows_of(tables.replicas, *_OF_REPLICAS)
    wanted = logs.ranges(replicas)
    packs = keep(logs.packs_of(_packed(tables.records), wanted))
    others = partition_history.others(packs, (*CHOSEN_BY, *RECORDS))
    records = keep(_slim(logs.with_state(others, replicas)))
    session = batches.sparkSession
    found = run_concurrently(
        session,
        lambda: spans(batches) if tables.held is None else tables.held,
        lambda: rows_of(of_log(tables.epochs), "epoch", "leader", "voters", "start_offset"),
        lambda: logs.assignments(tables.assignments, replicas),
        lambda: _few(records),
    )
    known = _known(replicas, *found[:3])
    if not known.quorum:
        for each in kept:
            each.unpersist()
        return None
    whole = _time(known)
    scope = scope_of(*whole, since_ms=since_ms, until_ms=until_ms, window_ms=window_ms)
    made: dict[str, DataFrame | list[Row]] = {"clocks": clocks.clocks(known.bounds)}
    for part in run_concurrently(
        session,
        lambda: _of_batches(batches, known, scope, whole[1], limits, keep),
        lambda: _of_records(
            partition_history.partition_history(packs, wanted, scope),
            records,
            found[3],
            known,
            scope,
            keep,
        ),
    ):
        made |= part
    shaped: dict[str, DataFrame] = {}
    few: dict[str, pa.Table] = {}
    for table in RESULTS:
        rows = made[table.name]
        if isinstance(rows, list):
            few[table.name] = typed(table.columns, rows)
            shaped[table.name] = session.createDataFrame(few[table.name])
        else:
            shaped[table.name] = rows.to(frame(session, table.columns, []).schema)
    return Report(scope, shaped, few, tuple(kept))


def _known(
    replicas: Sequence[Row],
    held: Sequence[Span],
    elected: Sequence[Row],
    assignments: Sequence[Row],
) -> _Known:
    quorum = epochs.quorum_epochs(held)
    led = epochs.leaders(elected, replicas, quorum)
    bounds = clocks.bounds(held, led)
    begins_ms = min((epoch.first_ms for epoch in quorum.values()), default=0)
    assigned = voters.in_order(
        {**row, "append_ms": begins_ms if row["append_ms"] is None else row["append_ms"]}
        for row in assignments
    )
    return _Known(
        held,
        replicas,
        quorum,
        led,
        bounds,
        parts(held, quorum, led, bounds),
        assigned,
        voters.seats(assigned, replicas),
    )


def _time(known: _Known) -> tuple[int, int]:
    """The time range of the logs: from the first batch to its last arrival at any replica."""
    ends = [lag.last_append_ms([span], known.parts) for span in known.spans]
    last = max(epoch.last_ms for epoch in known.quorum.values())
    first = min(epoch.first_ms for epoch in known.quorum.values())
    return first, max([last, *(end for end in ends if end is not None)])


def _of_batches(
    batches: DataFrame,
    known: _Known,
    scope: Scope,
    whole_end_ms: int,
    limits: status.Limits | None,
    keep: Keep,
) -> dict[str, DataFrame | list[Row]]:
    came = arrivals(batches, known.parts)
    best = epochs.best_copy(known.spans)
    assert best is not None, "there are batches"
    counts = lag_samples.counts(came, best, scope)
    keep(counts.counted)
    measured, committed = run_concurrently(
        batches.sparkSession,
        lambda: lag_samples.measured(counts, scope),
        lambda: commits.commits(came, [seat for row in known.seats for seat in row], scope),
    )
    ends = lag.ends(
        known.spans, known.parts, known.quorum, counts.leading.appended_ms, scope.end_ms
    )
    if scope.end_ms < whole_end_ms:
        ends = lag.cut(measured, ends, scope.end_ms)
    windows = lag.replication_lag(measured, known.parts, scope)
    replicas = lag.replica_lag(measured, ends, known.replicas, known.parts)
    lags = {row["replica"]: row["lags"] for row in measured if row["window"] == lag.WHOLE}
    return {
        "replication_lag": windows,
        "replica_lag": replicas,
        "status": status.status(replicas, windows, scope.end_ms, limits),
        "commits": committed,
        "voters": voters.voters(known.assignments, known.seats, lags, scope),
    }


def _of_records(
    history: DataFrame,
    records: DataFrame,
    few: list[Row],
    known: _Known,
    scope: Scope,
    keep: Keep,
) -> dict[str, DataFrame | list[Row]]:
    needed = planned_steps.column(planned_steps.limits_in_force(few))
    keep(history)
    topics = keep(moves.topics(records))
    stepped = keep(moves.with_steps(history))
    steps = keep(moves.steps(stepped, topics))
    added = keep(moves.added(stepped, steps))
    moved = keep(moves.moves(stepped, added, topics, scope, needed))
    events = brokers.broker_events(few, scope.end_ms)
    counts = [
        *brokers.event_counts(events, scope),
        *moves.partition_counts(history, moved, scope),
    ]
    evidence = leadership.Evidence(
        known.led, known.assignments, leadership.registrations(few), known.spans, known.parts
    )
    return {
        "leadership": leadership.leadership(known.quorum, evidence),
        "moves": moved,
        "move_steps": moves.move_steps(steps, added, scope),
        "move_replicas": moves.move_replicas(added, moved),
        "operations": operations.operations(few, moves.of_operations(moved), scope.end_ms),
        "brokers": brokers.brokers(events, counts),
        "broker_activity": brokers.broker_activity(counts, scope),
        "broker_events": events,
    }


def _packed(records: DataFrame) -> DataFrame:
    """Pack these records if they are not packs already."""
    return records if "share" in records.columns else partition_history.packed(records)


def _slim(records: DataFrame) -> DataFrame:
    """The records about no partition that reports use, and their columns."""
    wanted = (*_OF_TOPICS, *_FEW)
    # There may be many configuration records, because moves set throttles.
    is_limit = (F.col("type") == planned_steps.CONFIG) & F.col("name").isin(*planned_steps.LIMITS)
    return records.where(F.col("type").isin(*wanted) | is_limit).select("place", *RECORDS)


def _few(records: DataFrame) -> list[Row]:
    """The records of the few types, in order; `said` has their fields."""
    names = (
        "offset", "place", "epoch", "append_ms", "type", "broker_id", "broker_epoch", "fenced",
        "in_controlled_shutdown", "json",
    )  # fmt: skip
    rows = rows_of(records.where(F.col("type").isin(*_FEW, planned_steps.CONFIG)), *names)
    for row in rows:
        row["said"] = {} if row["json"] is None else _fields(json.loads(row["json"]))
    return sorted(rows, key=lambda row: (row["offset"], row["place"]))


def _fields(said: dict[str, Any]) -> dict[str, Any]:
    """The fields of a record; those of our own types are nested under one name."""
    inner = next(iter(said.values()), None)
    return inner if len(said) == 1 and isinstance(inner, dict) else said
