"""Logs of ours that are written to while they are read, by the class that a node writes with."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

from lag.source.stream_offsets import Follower, tasks_between
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch
from quorum.log.segmented_log import SegmentedLog
from tests.lag import handmade_logs

COMMITS = 1_000
SEGMENT_BYTES = 64 * 1024


def times() -> Iterator[int]:
    """A wall clock that goes on by a millisecond whenever it is looked at."""
    now_ms = handmade_logs.BEGIN_MS
    while True:
        now_ms += 1
        yield now_ms


def opened(folder: Path) -> SegmentedLog:
    clock = times()
    return SegmentedLog(folder, segment_bytes_max=SEGMENT_BYTES, wall_clock=lambda: next(clock))


def commit(log: SegmentedLog, *, epoch: int, records: int = 5, size: int = 300) -> None:
    base = log.end.offset
    made = handmade_logs.batch(base, [bytes(size)] * records, epoch=epoch)
    log.append(made)
    log.commit(sync=False)


def told(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(row["base_offset"], row["epoch"]) for row in rows if row["mark"] is None]


def test_rows_of_a_log_under_load_are_whole_and_come_once(tmp_path: Path) -> None:
    """Readings and a stream go on while segments fill and roll; nothing looks damaged meanwhile."""
    log = opened(tmp_path)
    options = handmade_logs.asked(tmp_path, settle_ms=5_000)

    def write() -> None:
        for _ in range(COMMITS - 1):
            commit(log, epoch=1)

    writer = threading.Thread(target=write)
    commit(log, epoch=1)  # A log without a single index is Kafka's, whose times nobody waits for.
    offset: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    writer.start()
    try:
        while writer.is_alive() or len(rows) < COMMITS:
            latest = json.loads(json.dumps(Follower(options).latest(offset)))
            rows += handmade_logs.rows_of(options, tasks_between(offset, latest, options))
            offset = latest
            assert handmade_logs.rows(tmp_path, "problems", settle_ms=5_000) == []
            shown = told(handmade_logs.rows(tmp_path, "batches", settle_ms=5_000))
            assert shown == [(5 * at, 1) for at in range(len(shown))]
    finally:
        writer.join()
        log.close()
    assert told(rows) == [(5 * at, 1) for at in range(COMMITS)]
    assert len(list(tmp_path.glob("*.log"))) > 3
    # What a stream told is told with its times, though they are written behind the log.
    assert None not in [row["local_append_ms"] for row in rows]


def test_a_log_that_a_new_leader_had_truncated_is_told_by_its_stream(tmp_path: Path) -> None:
    log = opened(tmp_path)
    options = handmade_logs.asked(tmp_path)
    for _ in range(4):
        commit(log, epoch=1)
    first = Follower(options).latest({})
    log.truncate_to(Offset(10))
    for _ in range(3):
        commit(log, epoch=4)
    assert log.end == OffsetAndEpoch(Epoch(4), Offset(25))
    log.close()
    second = Follower(options).latest(first)
    mark, *others = handmade_logs.rows_of(options, tasks_between(first, second, options))
    assert (mark["mark"], mark["base_offset"], mark["last_offset"]) == ("truncated", 10, 19)
    assert told(others) == [(10, 4), (15, 4), (20, 4)]
    assert {row["generation"] for row in others} == {1}
    # The new leader's record is missing, and nothing else is.
    kinds = [row["kind"] for row in handmade_logs.rows(tmp_path, "problems")]
    assert kinds == ["epoch"]
