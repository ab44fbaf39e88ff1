"""An archive that is killed, and goes on with logs that are no longer what they were: the files
that are made of it are compared byte by byte with those that were deleted."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")

from lag.archive import merging
from lag.source.invalid_input import InvalidInput
from tests.lag.archive.archiving import archive, files, restored, rows
from tests.lag.archive.killed_archive import UNDERWAY, WRITTEN, killed
from tests.lag.growing_logs import Node, without_times


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[Node]]:
    """Two replicas with four segments each."""
    made = [Node(tmp_path / "logs" / name) for name in ("1", "2")]
    for node in made:
        node.commit(12, epoch=1)
    yield made
    close(made)


def close(nodes: list[Node]) -> None:
    """Stop the nodes, whose folders are then removed."""
    while nodes:
        nodes.pop().log.close()


def cut(folder: Path, count: int) -> None:
    """Delete the oldest segments, as after a snapshot."""
    for segment in sorted(folder.glob("*.log"))[:count]:
        segment.unlink()
        segment.with_suffix(".appendtime").unlink()


def check_whole(spark: Any, nodes: list[Node], place: Path) -> None:
    """The archive has every byte of the logs once, also if nothing else is left of them."""
    close(nodes)
    whole = files(place / "logs")
    taken = [
        (row["replica"], row["path"], row["position"]) for row in rows(spark, place / "archive")
    ]
    assert len(taken) == len(set(taken))
    logs = [each for name, each in whole.items() if name.endswith(".log")]
    size = sum(row["bytes"] or 0 for row in rows(spark, place / "archive"))
    assert size == sum(map(len, logs))
    shutil.move(place / "logs", place / "gone")
    assert restored(spark, place / "archive", place / "root") == whole


@pytest.mark.process
def test_a_killed_archive_has_written_nothing_of_the_part_that_was_underway(
    spark: Any, nodes: list[Node], tmp_path: Path
) -> None:
    index, there = without_times(nodes[0], 1)
    killed(tmp_path / "logs", tmp_path / "archive", UNDERWAY, 1)
    index.write_bytes(there)
    nodes[0].commit(4, epoch=1)
    archive(spark, tmp_path / "logs", tmp_path / "archive")
    check_whole(spark, nodes, tmp_path)


@pytest.mark.process
@pytest.mark.long
def test_a_part_that_was_written_before_the_kill_is_not_written_again(
    spark: Any, nodes: list[Node], tmp_path: Path
) -> None:
    killed(tmp_path / "logs", tmp_path / "archive", WRITTEN, 1)
    commits = tmp_path / "archive" / "checkpoint" / "commits"
    assert not (commits / "1").exists()
    archive(spark, tmp_path / "logs", tmp_path / "archive")
    check_whole(spark, nodes, tmp_path)


@pytest.mark.long
def test_what_was_truncated_is_void_and_what_was_cut_is_supplied(
    spark: Any, nodes: list[Node], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts are merged meanwhile, and the rows of two micro-batches joined."""
    monkeypatch.setattr(merging, "PARTS_MERGED", 2)
    first, second = nodes
    place, logs = tmp_path / "archive", tmp_path / "logs"
    archive(spark, logs, place)
    first.commit(1, epoch=1)
    archive(spark, logs, place)
    # Within a row, and within a segment.
    first.truncate(50)
    archive(spark, logs, place)
    first.commit(1, epoch=4)
    second.commit(1, epoch=1)
    archive(spark, logs, place)
    close(nodes)
    whole = files(logs)
    cut(logs / "1", 2)
    shutil.rmtree(logs / "2")
    assert restored(spark, place, tmp_path / "root", logs) == whole
    shutil.rmtree(logs)
    assert restored(spark, place, tmp_path / "other") == whole
    assert sorted(path.name[:6] for path in (place / "parts").iterdir()) == [
        *["part=0"] * 4, "part=1", "part=1", "part=2",
    ]  # fmt: skip


@pytest.mark.long
def test_the_log_goes_on_behind_an_archive_that_missed_a_cut(
    spark: Any, nodes: list[Node], tmp_path: Path
) -> None:
    """Nothing is invented for what was never archived: it is a gap, as in any log."""
    place, logs = tmp_path / "archive", tmp_path / "logs"
    archive(spark, logs, place)
    first = nodes[0]
    first.commit(9, epoch=1)
    there = {path.name for path in (logs / "1").glob("*.log")}
    close(nodes)
    cut(logs / "1", 6)
    archive(spark, logs, place)
    made = restored(spark, place, tmp_path / "root", logs)
    names = {Path(name).name for name in made if "/logs/1/" in name and name.endswith(".log")}
    assert len(there - names) == 2


def test_an_archive_without_its_checkpoint_is_refused(
    spark: Any, nodes: list[Node], tmp_path: Path
) -> None:
    archive(spark, tmp_path / "logs", tmp_path / "archive")
    shutil.rmtree(tmp_path / "archive" / "checkpoint")
    with pytest.raises(InvalidInput, match="its checkpoint is gone"):
        archive(spark, tmp_path / "logs", tmp_path / "archive")
