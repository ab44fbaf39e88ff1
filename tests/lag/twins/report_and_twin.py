"""Spark's reports on the logs in a folder, and those of the twins."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from lag.reports.logs import Logs
from lag.reports.report import report
from lag.reports.schemas import RESULTS
from lag.reports.scope import Scope
from lag.source.runs import Run
from lag.source.schemas import TABLES
from tests.lag.handmade_logs import rows
from tests.lag.twins import slow_moves, slow_reading
from tests.lag.twins.slow_moves import Key, SlowPartition
from tests.lag.twins.slow_quorum import SlowQuorum, SlowTime
from tests.lag.twins.slow_reading import SlowRecord

Rows = list[dict[str, Any]]
WINDOW_MS: Final = 10_000
READ: Final = ("batches", "records", "epochs", "assignments", "replicas")
UNDIVIDED: Final = {"spark.sql.shuffle.partitions": "1"}
COMPILED: Final = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
"""Settings with which Spark compiles the queries, as it does for large logs."""


@dataclass(frozen=True)
class History:
    """One set of logs, as the reports have it and as the twins do."""

    told: dict[str, Rows]
    """The reports."""
    time: SlowTime
    quorum: SlowQuorum

    @property
    def end_ms(self) -> int:
        return self.time.end_ms

    @cached_property
    def ends(self) -> Rows:
        """The end of each log, by the twin."""
        quorum, end_ms = self.quorum, self.end_ms
        last = [quorum.last_append_ms(log) for log in quorum.logs]
        is_whole = end_ms >= max(at for at in (*last, quorum.log[-1].at_ms) if at is not None)
        return list(quorum.ends(end_ms) if is_whole else quorum.ends_by(end_ms))

    @cached_property
    def said(self) -> list[SlowRecord]:
        return slow_reading.said(self.quorum.by(self.end_ms))

    @cached_property
    def partitions(self) -> dict[Key, SlowPartition]:
        return slow_moves.partitions(self.said)[0]

    @cached_property
    def moved(self) -> dict[str, Rows]:
        """The tables of moves, by the twin."""
        return slow_moves.told(self.said, self.end_ms)


@contextmanager
def with_settings(spark: Any, settings: Mapping[str, str]) -> Iterator[Any]:
    """The session with other settings."""
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


def collected(logs: Logs, **options: Any) -> tuple[dict[str, Rows], Scope]:
    """The rows of all reports, in the order that each has, and the time they are about."""
    made = report(logs, **options)
    assert made is not None, "there is a log"
    try:
        return {table.name: made.table(table.name).to_pylist() for table in RESULTS}, made.scope
    finally:
        made.release()


OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "packs": {"json": "few", "shares": 1},
    "walk": {"chunk_offsets": 256},
}


def logs_of(spark: Any, root: Path) -> Logs:
    """The tables of the logs below `root`, and of their records the packs, as the command asks.

    Spark does not read them: its workers would take longer to start than a small log to read.
    """

    def frame(name: str, read: Rows) -> Any:
        return spark.createDataFrame(pa.Table.from_pylist(read, schema=TABLES[name].arrow()))

    def picked(name: str, picks: Any) -> Any:
        return frame(name, rows(root, name, picks=json.dumps(picks), **OPTIONS[name]))

    walked = rows(root, "walk", **OPTIONS["walk"])
    said: dict[str, Rows] = {}
    for row in walked:
        if row["said"] is not None:
            said.setdefault(row["kind"], []).append(json.loads(row["said"]))
    packs = [row for row in walked if row["kind"] == "batches"]
    small = ("epochs", "assignments", "replicas")
    return Logs(
        batches=frame("walk", packs).select("replica", "chunk", "rows"),
        records=frame("packs", rows(root, "packs", **OPTIONS["packs"])),
        runs=[Run(**run) for run in said.get("runs", [])],
        indexed=[Run(**run) for run in said.get("indexed", [])],
        unknown_ends=frozenset(row["replica"] for row in said.get("unknown_end", [])),
        damaged=frozenset(str(row["path"]) for row in said.get("problems", [])),
        read=picked,
        **{name: frame(name, said.get(name, [])) for name in small},
    )


def history(root: Path, told: tuple[dict[str, Rows], Scope]) -> History:
    """The history whose logs lie below `root`, with its reports."""
    return History(told[0], SlowTime(*told[1][:3]), SlowQuorum(slow_reading.replicas(root)))
