"""Lag and commits of random histories, by Spark and by the slow account of the same definitions."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="the extra spark is not installed")

from lag.reports import clocks, commits, epochs, lag, lag_samples, voters
from lag.reports.arrivals import arrivals
from lag.reports.clocks import parts
from lag.reports.contradictions import Believed
from lag.reports.logs import rows_of, runs
from lag.reports.quorum_log import merge
from lag.reports.scope import scope_of
from tests.lag.handmade_tables import MadeTables
from tests.lag.twins.slow_lag import SlowBatch, SlowLog

NAMES = ("1", "2", "3", "4")
WINDOW_MS = 100

history = st.lists(
    st.tuples(
        st.integers(0, 60),  # ms since the batch before
        st.integers(1, 4),  # records
        st.booleans(),  # whether another leads from here on
        st.lists(st.integers(0, 90), min_size=4, max_size=4),  # how long it took to each
        st.integers(0, 40),  # 0 to 3: that replica forgets when it appended it
    ),
    min_size=25,
    max_size=40,
)
deaths = st.lists(st.one_of(st.none(), st.integers(3, 20)), min_size=2, max_size=2)


def lived(steps: list[Any], dead_after: list[int | None]) -> SlowLog:
    """A history in which every log is in order; 3 and 4 may die, 1 and 2 lead in turns."""
    batches: list[SlowBatch] = []
    at_ms, offset, epoch = 1_000, 0, 1
    latest = dict.fromkeys(NAMES, 0)
    for number, (gap_ms, records, is_new, delays, forgets) in enumerate(steps):
        at_ms += gap_ms
        epoch += bool(is_new and number)
        leader = NAMES[epoch % 2]
        came: dict[str, int | None] = {}
        for index, name in enumerate(NAMES):
            dies = dead_after[index - 2] if index >= 2 else None
            if dies is None or number < dies:
                latest[name] = max(latest[name], at_ms + (1 if name == leader else delays[index]))
                came[name] = None if forgets == index else latest[name]
        batches.append(SlowBatch(offset, offset + records, epoch, leader, at_ms, came))
        offset += records
    return SlowLog(batches)


def made(log: SlowLog) -> MadeTables:
    logs = MadeTables()
    for each in log.batches:
        came = {int(name): at for name, at in each.came.items()}
        records = each.end - each.offset
        logs.batch(each.offset, each.at_ms, came, epoch=each.epoch, n=records)
        logs.epoch(each.epoch, int(each.leader), each.offset, each.at_ms, [1])
    return logs


@settings(
    max_examples=2,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=history, dead_after=deaths)
def test_spark_says_what_the_definition_says(
    spark: Any, steps: list[Any], dead_after: list[int | None]
) -> None:
    log = lived(steps, dead_after)
    tables = made(log).logs(spark)
    replicas = rows_of(tables.replicas, "replica", "node_id", "directory_id", "path", "snapshots")
    found = runs(tables.batches)
    merged = merge(Believed(tuple(found)), replicas)
    assert merged is not None
    held = epochs.spans(found)
    elected = rows_of(tables.epochs, "epoch", "leader", "voters", "start_offset")
    led = epochs.leaders(elected, replicas, epochs.quorum_epochs(merged))
    known = parts(held, merged.shared, led, clocks.bounds(held, led))
    came = arrivals(tables.batches, known)
    times = [at for each in log.batches for at in each.came.values() if at is not None]
    scope = scope_of(1_000, max([*times, log.batches[-1].at_ms]), window_ms=WINDOW_MS)
    measured = lag_samples.measured(
        lag_samples.counts(came, merged, scope), {}, lag.NOTHING_LOST, scope
    )
    for row in lag.replication_lag(measured, known, scope):
        name, after_ms, to_ms = row["replica"], row["window_start_ms"], row["window_end_ms"]
        samples = range(after_ms + scope.step_ms, to_ms + 1, scope.step_ms)
        assert row["max_ms"] == log.greatest(name, after_ms, to_ms), row
        for share, column in ((0.5, "p50_ms"), (0.95, "p95_ms"), (0.99, "p99_ms")):
            assert row[column] == log.shares(name, samples, share), (column, row)
        lack = log.lacks(name, to_ms)
        assert (row["records_behind"], row["lag_ms"]) == (lack or (None, None)), row
    assignment = {"offset": 0, "append_ms": 0, "current": list(NAMES[:3])}
    (seats,) = voters.seats([assignment], replicas)
    told = {row["window_end_ms"]: row for row in commits.commits(came, seats, scope)}
    for to_ms, row in told.items():
        took = log.majorities(NAMES[:3], row["window_start_ms"], to_ms)
        assert (row["majority_known"], row["majority_max_ms"]) == (
            len(took),
            max(took, default=None),
        )
