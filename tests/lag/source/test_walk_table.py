"""One walk through the files gives the same rows as the separate tables, with batches in packs."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

from lag.reports.epochs import spans
from lag.source.batches import CHUNK_OFFSETS_MIN, ROWS, chunk_offsets
from lag.source.record_packs import from_bytes
from lag.source.runs import Run, joined
from lag.source.schemas import TABLES
from tests.lag import handmade_logs
from tests.lag.copied_logs import CUT_BYTES, copy_of

CHUNK = 100


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Those of two nodes: one whole, one with half a batch at its end."""
    folder = tmp_path_factory.mktemp("walked")
    copy_of(folder, 1)
    copy_of(folder, 2, without_bytes=CUT_BYTES // 2)
    return folder


@pytest.mark.parametrize("partition_bytes", [4_000, 1 << 20])
@pytest.mark.parametrize("table", ["replicas", "problems", "epochs", "assignments"])
def test_a_walk_tells_what_the_table_says(logs: Path, table: str, partition_bytes: int) -> None:
    walked = handmade_logs.rows(logs, "walk", partition_bytes=partition_bytes)
    rows = [json.loads(row["said"]) for row in walked if row["kind"] == table]
    right = handmade_logs.rows(logs, table, columns=",".join(TABLES[table].in_ms.column_names))
    assert right, "there is something to tell"
    assert sorted(map(_text, rows)) == sorted(map(_text, right))


def test_packs_hold_the_batches_of_a_chunk_each(logs: Path) -> None:
    walked = handmade_logs.rows(logs, "walk", partition_bytes=4_000, chunk_offsets=CHUNK)
    found = []
    for pack in walked:
        if pack["kind"] == "batches":
            rows = from_bytes(pack["rows"]).to_pylist()
            assert {row["base_offset"] // CHUNK for row in rows} == {pack["chunk"]}
            found += [{"replica": pack["replica"], **row} for row in rows]
    right = handmade_logs.rows(
        logs, "batches", source="log", columns=",".join(("replica", *ROWS.column_names))
    )
    assert sorted(map(_text, found)) == sorted(map(_text, right))


def runs_in(logs: Path, **options: Any) -> list[Run]:
    walked = handmade_logs.rows(logs, "walk", **options)
    return [Run(**json.loads(row["said"])) for row in walked if row["kind"] == "runs"]


@pytest.mark.parametrize("partition_bytes", [4_000, 1 << 20])
def test_runs_say_what_is_held_of_each_epoch(logs: Path, partition_bytes: int) -> None:
    found = spans(runs_in(logs, partition_bytes=partition_bytes))
    batches = handmade_logs.rows(logs, "batches", source="log")
    assert len(found) == len({(row["replica"], row["epoch"]) for row in batches})
    for span in found:
        own = [row for row in batches if (row["replica"], row["epoch"]) == span[:2]]
        times = [row["leader_append_ms"] for row in own]
        assert (span.first, span.end) == (own[0]["base_offset"], own[-1]["last_offset"] + 1)
        assert (span.first_ms, span.last_ms) == (min(times), max(times))
        assert (span.timed, span.first_here_ms, span.least_delay_ms) == (0, None, None)


def test_a_sound_log_is_a_run_for_each_epoch(logs: Path) -> None:
    found = [run for run in runs_in(logs) if run.replica == "1"]
    assert [(run.epoch, run.first, run.elects) for run in found] == [(1, 0, True), (3, 124, True)]
    assert found[0].end == found[1].first


def test_runs_that_continue_each_other_become_one() -> None:
    one = Run("1", 2, 5, 9, timed=3, end_position=70, first_ms=4, last_ms=5)
    other = Run("1", 2, 9, 12, timed=4, position=70, end_position=99, first_ms=5, last_ms=8)
    (both,) = joined([one, other])
    assert both == Run("1", 2, 5, 12, 4, 8, timed=7, batches=2, end_position=99)
    assert len(joined([one, other._replace(first=10)])) == 2, "an offset is missing"
    assert len(joined([one, other._replace(elects=True)])) == 2, "an epoch begins"
    assert len(joined([one, other._replace(position=80)])) == 2, "bytes are between"


def test_a_chunk_is_smaller_the_more_replicas_there_are() -> None:
    """Those of all replicas come together in one worker."""
    assert chunk_offsets(4) == 65_536
    assert chunk_offsets(0) == chunk_offsets(1) > chunk_offsets(5)
    assert chunk_offsets(1_000_000) == CHUNK_OFFSETS_MIN


def _text(row: dict[str, Any]) -> str:
    return json.dumps(
        {name: value for name, value in row.items() if value is not None}, sort_keys=True
    )
