"""One walk through the files gives the same rows as the separate tables, with batches in packs."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

from lag.source.batches import CHUNK_OFFSETS_MIN, ROWS, chunk_offsets, merged
from lag.source.record_packs import from_bytes
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
    right = handmade_logs.rows(logs, table)
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


@pytest.mark.parametrize("partition_bytes", [4_000, 1 << 20])
def test_spans_say_what_is_held_of_each_epoch(logs: Path, partition_bytes: int) -> None:
    walked = handmade_logs.rows(logs, "walk", partition_bytes=partition_bytes)
    spans = merged(json.loads(row["said"]) for row in walked if row["kind"] == "spans")
    batches = handmade_logs.rows(logs, "batches", source="log")
    assert len(spans) == len({(row["replica"], row["epoch"]) for row in batches})
    for span in spans:
        own = [row for row in batches if all(row[k] == span[k] for k in ("replica", "epoch"))]
        times = [row["leader_append_ms"] for row in own]
        assert (span["first"], span["end"]) == (own[0]["base_offset"], own[-1]["last_offset"] + 1)
        assert (span["first_ms"], span["last_ms"]) == (min(times), max(times))
        assert (span["timed"], span["first_here_ms"], span["least_delay_ms"]) == (0, None, None)


def test_spans_of_one_epoch_become_one() -> None:
    one = {"replica": "1", "epoch": 2, "first": 5, "end": 9, "timed": 3, "first_here_ms": None}
    other = {**one, "first": 9, "end": 12, "first_here_ms": 7}
    (both,) = merged([one, dict(one), other])
    assert both == {**one, "end": 12, "timed": 9, "first_here_ms": 7}


def test_a_chunk_is_smaller_the_more_replicas_there_are() -> None:
    """Those of all replicas come together in one worker."""
    assert chunk_offsets(4) == 65_536
    assert chunk_offsets(0) == chunk_offsets(1) > chunk_offsets(5)
    assert chunk_offsets(1_000_000) == CHUNK_OFFSETS_MIN


def _text(row: dict[str, Any]) -> str:
    return json.dumps(
        {name: value for name, value in row.items() if value is not None}, sort_keys=True
    )
