"""Reports of damaged logs: nothing false beside that of the sound logs, and what a twin says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")

from tests.lag.damage import DamagedCopies
from tests.lag.damage_cases import DamageCase, damage_case, quorum_of
from tests.lag.false_statements import false_statements, missing, unnamed
from tests.lag.row_differences import differences
from tests.lag.twins import slow_holes, slow_reading
from tests.lag.twins.report_and_twin import WINDOW_MS, Rows, collected, logs_of
from tests.lag.twins.slow_quorum import SlowTime

MANY: Final = range(500)
FEW: Final = (3,)
"""Those that are not left to `make long`. In 36 a hole hides all but the end of a reassignment."""
OF_MOVE: Final = ("topic_id", "partition", "number")
_sound: dict[tuple[Any, ...], dict[str, Rows]] = {}


def told_of(spark: Any, root: Path) -> tuple[dict[str, Rows], Any]:
    return collected(logs_of(spark, root), window_ms=WINDOW_MS)


def sound_report(spark: Any, case: DamageCase, root: Path) -> dict[str, Rows]:
    """The report of the sound logs, made once for all combinations that have the same."""
    copies = case.sound()
    key = (case.seed, *((copy.name, len(copy.batches)) for copy in copies))
    if key not in _sound:
        for copy in copies:
            copy.write(root)
        _sound[key] = told_of(spark, root)[0]
    return _sound[key]


def wrong(spark: Any, case: DamageCase, told: dict[str, Rows], root: Path) -> Iterator[str]:
    """The false statements and the omissions of the report of damaged logs."""
    true = sound_report(spark, case, root)
    yield from false_statements(told, true)
    yield from unnamed(told, true)
    if case.is_whole:
        yield from missing(told, true)


def differing(case: DamageCase, told: dict[str, Rows], time: SlowTime) -> Iterator[str]:
    """The differences between the report and the twins."""
    quorum, holes, end_ms = case.quorum, case.quorum.holes, time.end_ms
    said = slow_reading.said(quorum.log)
    moved = slow_holes.moves(said, holes, end_ms)
    without = ["facts"]

    def of(table: str, twin: Rows, *key: str) -> list[str]:
        return [
            f"{table}: {line}" for line in differences(told[table], twin, *key, without=without)
        ]

    yield from of("moves", moved["moves"], *OF_MOVE)
    yield from of("move_steps", moved["move_steps"], *OF_MOVE, "step")
    yield from of("move_replicas", moved["move_replicas"], *OF_MOVE, "step", "broker_id")
    operations = slow_holes.operations(said, moved["moves"], holes, end_ms)
    yield from of("operations", operations, "move_id")
    leaders = _with_unknown_ends(case, told["leadership"], quorum.leadership(end_ms))
    yield from of("leadership", leaders, "epoch")
    yield from of("voters", quorum.voters(time), "offset")
    yield from of("clocks", quorum.clocks(), "replica", "relative_to")
    lags = list(quorum.lags(time))
    known = [{name: row[name] for name in lags[0]} for row in told["replication_lag"]]
    yield from (f"lag: {line}" for line in differences(known, lags, "replica", "window_end_ms"))
    ends = list(quorum.ends(end_ms))
    known = [{name: row[name] for name in ends[0]} for row in told["replica_lag"]]
    known = [row for row in known if row["log_end"] is not None]
    yield from (f"ends: {line}" for line in differences(known, ends, "replica"))
    names = {row["replica"] for row in ends}
    told = {**told, "status": [row for row in told["status"] if row["replica"] in names]}
    status = quorum.status(time, ends)
    yield from of("status", status, "replica")


def _with_unknown_ends(case: DamageCase, told: Rows, twin: Rows) -> Rows:
    """The rows of the twin, without a reason that the report may not know.

    The twin knows what the damage at the end of a leader's log was. From the files it cannot always
    be told whether it was of a later epoch.
    """
    unknown = {row["epoch"] for row in told if row["ended"] == "unknown"}
    return [
        {**row, "ended": "unknown"}
        if row["ended"] == "gone"
        and row["epoch"] in unknown
        and case.damaged.has_damaged_end(row["leader"])
        else row
        for row in twin
    ]


def check(spark: Any, number: int, root: Path) -> tuple[DamageCase, list[str]]:
    case = damage_case(number, root / "damaged")
    told, scope = told_of(spark, root / "damaged")
    found = list(wrong(spark, case, told, root / "sound"))
    found += differing(case, told, SlowTime(*scope[:3]))
    return case, found


@pytest.mark.thorough
@pytest.mark.parametrize(
    "number",
    [pytest.param(each, marks=[] if each in FEW else [pytest.mark.long]) for each in MANY],
)
def test_a_report_of_damaged_logs_says_nothing_false(
    plain: Any, number: int, tmp_path: Path
) -> None:
    case, found = check(plain, number, tmp_path)
    assert found == [], case.damaged.deeds


@pytest.mark.long
@pytest.mark.thorough
def test_a_replica_without_a_segment_keeps_its_history_by_its_index(
    plain: Any, tmp_path: Path
) -> None:
    copies = quorum_of(1).copies((1, 2, 3))
    best = max(copies, key=lambda copy: copy.last)
    name = next(copy.name for copy in copies if copy.is_timed and copy is not best)
    for copy in copies:
        copy.segments = [copy.batches]
    damaged = DamagedCopies.of(copies, tmp_path / "damaged")
    damaged.lose(damaged.files[name][0], with_index=False)
    damaged.apply()
    case = DamageCase(0, 1, damaged)
    told, scope = told_of(plain, tmp_path / "damaged")
    assert list(wrong(plain, case, told, tmp_path / "sound")) == []
    assert list(differing(case, told, SlowTime(*scope[:3]))) == []
    lags = [row["lag_ms"] for row in told["replication_lag"] if row["replica"] == str(name)]
    assert None not in lags[1:]
    (status,) = (row for row in told["status"] if row["replica"] == str(name))
    assert status["rule"] == "damaged"
