"""Micro-batches as a watcher takes them: known answers, and a slow twin that goes row by row."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

import pyarrow as pa

from lag.watch.positions import RATE_MS
from lag.watch.stream import COLUMNS, reduce_batch

SCHEMA = pa.schema(
    [(name, pa.string() if name in ("replica", "mark") else pa.int64()) for name in COLUMNS]
)


def table(*rows: dict[str, Any]) -> Any:
    return pa.Table.from_pylist(list(rows), SCHEMA)


def row(replica: str, base: int, last: int, **more: Any) -> dict[str, Any]:
    made = {"replica": replica, "base_offset": base, "last_offset": last, "epoch": 1}
    times = {"leader_append_ms": 1_000, "local_append_ms": None}
    return {**made, **times, "records": last - base + 1, "mark": None, "generation": 0, **more}


def test_a_log_ends_with_its_last_batch_and_that_came_when_its_index_says() -> None:
    first = row("1", 0, 4, local_append_ms=1_020)
    last = row("1", 5, 6, leader_append_ms=1_310, local_append_ms=1_330)
    ends, appended = reduce_batch(table(last, first, row("2", 0, 4)))
    expected = {"replica": "1", "epoch": 1, "log_end": 7, "appended_ms": 1_330}
    assert ends[0] == {**expected, "records": 7, "cut_to": None}
    assert (ends[1]["replica"], ends[1]["appended_ms"]) == ("2", 1_000)
    assert appended == [(1_000, 0), (1_300, 5)]


def test_a_truncation_is_reported_with_and_without_replacing_records() -> None:
    mark = row("1", 5, 9, mark="truncated", generation=1, records=None, leader_append_ms=None)
    (end,), appended = reduce_batch(table(mark))
    assert (end["cut_to"], end["log_end"], appended) == (5, None, [])
    old, new = row("1", 8, 9), row("1", 5, 5, epoch=2, generation=1)
    (end,), _ = reduce_batch(table(old, mark, new))
    assert (end["cut_to"], end["log_end"], end["epoch"]) == (5, 6, 2)


def test_history_that_is_read_at_once_counts_for_no_rate() -> None:
    """But for what was appended in the last seconds of it."""
    old = row("1", 0, 999, leader_append_ms=1_000)
    edge = row("1", 1_000, 1_001, leader_append_ms=600_000 - RATE_MS)
    new = row("1", 1_002, 1_004, leader_append_ms=600_000)
    (end,), _ = reduce_batch(table(old, edge, new))
    assert end["records"] == 3


def test_missing_records_move_nothing() -> None:
    assert reduce_batch(table(row("1", 5, 9, mark="missing", records=None))) == ([], [])
    assert reduce_batch(table()) == ([], [])


ROWS = st.lists(
    st.builds(
        lambda replica, base, at_ms, epoch, generation: row(
            replica, base, base, leader_append_ms=at_ms, epoch=epoch, generation=generation
        ),
        st.sampled_from("abc"),
        st.integers(0, 50),
        st.none() | st.integers(0, 1_000),
        st.integers(0, 2),
        st.integers(0, 2),
    )
)


@given(ROWS)
def test_it_agrees_with_a_look_at_every_row(rows: list[dict[str, Any]]) -> None:
    ends: dict[str, tuple[int, int, int]] = {}
    firsts: dict[int, int] = {}
    for one in rows:
        stands = (one["generation"], one["epoch"], one["last_offset"] + 1)
        ends[one["replica"]] = max(stands, ends.get(one["replica"], stands))
        if one["leader_append_ms"] is not None:
            tenth = one["leader_append_ms"] // 100 * 100
            firsts[tenth] = min(one["base_offset"], firsts.get(tenth, one["base_offset"]))
    found, appended = reduce_batch(table(*rows))
    shown = {end["replica"]: (end["epoch"], end["log_end"]) for end in found}
    assert shown == {name: stands[1:] for name, stands in ends.items()}
    assert appended == sorted(firsts.items())
    assert sum(end["records"] for end in found) <= len(rows)
