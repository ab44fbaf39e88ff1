"""Shares: what the driver plans without opening a file, and what workers make of it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

from lag.source import planner
from lag.source.planner import plan, slices_in
from lag.source.tasks import Share, Slice
from tests.lag import handmade_logs

NODES = ("a", "b", "c")
SEGMENTS = 20

_opened: list[str] | None = None


def _look(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _opened is not None:
        _opened.append(str(arguments[0]))


sys.addaudithook(_look)


@contextmanager
def opened_files() -> Iterator[list[str]]:
    """The paths of the files that this process opens in the block."""
    global _opened  # An audit hook cannot be removed.
    found = _opened = []
    try:
        yield found
    finally:
        _opened = None


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Three logs of twenty segments, a record a millisecond."""
    for node in NODES:
        for base in range(0, SEGMENTS * 10, 10):
            made = handmade_logs.batches([4, 6], base=base)
            handmade_logs.write_segment(tmp_path / node, base, made)
        # Without it, the first batch of a log would have to tell its cluster.
        meta = f"version=1\nnode.id={ord(node)}\ncluster.id=one\n"
        (tmp_path / node / "meta.properties").write_text(meta)
    return tmp_path


def shares(logs: Path, **options: Any) -> list[Share]:
    planned = plan(handmade_logs.asked(logs, **options))
    assert all(isinstance(task, Share) for task in planned)
    return [task for task in planned if isinstance(task, Share)]


@pytest.mark.parametrize(
    ("bounds", "read"),
    [
        ({}, SEGMENTS),
        # The first one ends where the second begins, before that time.
        ({"since": handmade_logs.BEGIN_MS + 55, "clock_slack_ms": 0}, SEGMENTS - 1),
    ],
)
def test_the_driver_opens_no_segment_and_the_workers_do(
    logs: Path, bounds: dict[str, int], read: int
) -> None:
    options = handmade_logs.asked(logs, **bounds)
    with opened_files() as by_driver:
        tasks = plan(options)
    assert not [path for path in by_driver if path.endswith(".log")]
    with opened_files() as by_workers:
        handmade_logs.rows_of(options, tasks)
    segments = {path for path in by_workers if path.endswith(".log")}
    assert len(segments) == read * len(NODES)


def test_every_byte_is_in_one_share(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = handmade_logs.rows(logs, "batches")
    for most in (1, 4, 7, 1_000):
        monkeypatch.setattr(planner, "SHARES_MAX", most)
        found = shares(logs)
        assert len(found) <= most + len(NODES)
        options = handmade_logs.asked(logs)
        slices = [each for share in found for each in slices_in(share, options)]
        assert len({(each.path, each.low) for each in slices}) == len(slices)
        assert sum(each.high - each.low for each in slices) == sum(
            path.stat().st_size for path in logs.glob("*/*.log")
        )
        rows = handmade_logs.rows_of(options, found)
        assert sorted(map(str, rows)) == sorted(map(str, right))


def test_a_range_has_the_bytes_that_were_asked_for_if_that_makes_few(tmp_path: Path) -> None:
    path = handmade_logs.write_segment(tmp_path, 0, handmade_logs.batches([100] * 40))
    size, part = path.stat().st_size, 4_000
    found = [share.ranges for share in shares(tmp_path, partition_bytes=part)]
    assert [(each.low, each.high) for (each,) in found] == [
        (low, min(low + part, size)) for low in range(0, size, part)
    ]


def test_an_hour_is_dealt_to_all_shares_of_a_log(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report on a day of a year has work for as many tasks as there are segments of the day."""
    monkeypatch.setattr(planner, "SHARES_MAX", 4 * len(NODES))
    since = handmade_logs.BEGIN_MS + 100
    bounds = {"since": since, "until": since + 39, "clock_slack_ms": 0}
    options = handmade_logs.asked(logs, **bounds)
    found = [list(slices_in(share, options)) for share in shares(logs, **bounds)]
    assert len(found) == 4 * len(NODES)
    assert all(1 <= len(slices) <= 2 for slices in found)


def test_a_share_says_the_same_of_a_segment_as_its_neighbours_need(logs: Path) -> None:
    index = handmade_logs.write_index(logs / "a" / f"{10:020}.log", [(100, 20, 1)])
    found = handmade_logs.opened(handmade_logs.asked(logs))
    slices = {each.path: each for each in found if isinstance(each, Slice)}
    first, second, *_, last = (slices[path] for path in sorted(slices) if "/a/" in path)
    assert (first.base, first.next_base, first.index) == (0, 10, None)
    assert (second.base, second.next_base, second.index) == (10, 20, str(index))
    assert (last.next_base, last.is_newest) == (None, True)


def test_tasks_stay_small_however_many_paths_are_named(logs: Path) -> None:
    """The options travel with the reader, once for all tasks."""
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    from pyspark.serializers import CPickleSerializer

    from lag.source.data_source import Reader

    dumps: Any = CPickleSerializer().dumps
    many = [str(logs), *(f"/nowhere/{number:0200}" for number in range(100))]
    reader = Reader(handmade_logs.asked(many[0], paths=many, missing="report"))
    sizes = [len(dumps(each)) for each in reader.partitions()]
    assert len(sizes) == SEGMENTS * len(NODES)
    assert max(sizes) < 1_000
