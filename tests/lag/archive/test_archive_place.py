"""The files of an archive: parts that replace others, versions, and the removal of old days."""

import json
import random
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")

import pyarrow.parquet as pq

from lag.archive import stream
from lag.archive.merging import joined
from lag.archive.place import META, SCHEMA, Cut, Part, current, expired
from lag.source.invalid_input import InvalidInput
from lag.source.log_data import date_of
from quorum.log.checkpoint import Checkpoint, read_checkpoint
from tests.lag import handmade_logs
from tests.lag.archive.archiving import archive, restored, rows
from tests.lag.copied_logs import copy_of
from tests.lag.handmade_logs import BEGIN_MS
from tests.support import real_cluster

DAY_MS: Final = 86_400_000


def test_a_part_replaces_those_within_its_range() -> None:
    old = [Part(0, at, at) for at in range(5)]
    merged = Part(1, 0, 1), Part(1, 2, 3), Part(2, 0, 3)
    assert current([*old, merged[0]]) == [merged[0], *old[2:]]
    assert current([*old, *merged]) == [merged[2], old[4]]


def test_retention_keeps_the_snapshot_with_which_a_report_begins() -> None:
    days = [f"2026-03-0{day}" for day in range(1, 9)]
    assert expired(days, [], "2026-03-05") == Cut([], [])
    assert expired(days, ["2026-03-06"], "2026-03-05") == Cut([], [])
    # The day before the snapshot stays, because clocks differ.
    snapshots = ["2026-03-02", "2026-03-04", "2026-03-07"]
    assert expired(days, snapshots, "2026-03-05") == Cut(days[:2], ["2026-03-02"])
    assert expired(days, snapshots, "2026-03-04") == Cut(days[:2], ["2026-03-02"])
    assert expired(["2026-03-05"], snapshots, "2026-03-05") == Cut([], ["2026-03-02"])


def row(at: int, content: bytes, **more: Any) -> dict[str, Any]:
    """A row of a log with a record a byte, and 2 bytes of its index for each."""
    own = {
        "replica": "1", "path": "/1/0.log", "generation": 0, "day": "2026-03-01", "mark": None,
        "position": at, "base_offset": at, "last_offset": at + len(content) - 1,
        "bytes": len(content), "data": content, "index_position": 8 + 2 * at,
        "index": bytes(each for each in content for _ in range(2)), "epoch": 1,
    }  # fmt: skip
    return {**own, **more}


def test_rows_that_continue_each_other_are_joined_and_others_are_not() -> None:
    rng = random.Random(7)
    log = bytes(range(200))
    cuts = sorted({0, 200, *rng.sample(range(200), 20)})
    pieces = [row(low, log[low:high]) for low, high in pairwise(cuts)]
    assert list(joined(pieces)) == [row(0, log)]
    apart: list[dict[str, Any]] = [
        {"replica": "2"}, {"path": "/1/5.log"}, {"generation": 1}, {"day": "2026-03-02"},
        {"index": None, "index_position": None}, {"index_position": 99}, {"base_offset": 6},
        {"position": 6}, {"mark": "truncated", "data": None, "bytes": None},
    ]  # fmt: skip
    for more in apart:
        two = [row(0, b"abcde"), row(5, b"fgh", **more)]
        assert list(joined(two)) == two
    # The entry of the last record may reach into the next row, which then has it as well.
    shared = [row(0, b"ab"), row(2, b"cd", index_position=10, index=b"bbccdd")]
    assert [each["index"] for each in joined(shared)] == [b"aabbccdd"]


def logs_of_days(folder: Path, days: int) -> None:
    """A log with a segment a day."""
    (folder / "1").mkdir(parents=True)
    for day in range(days):
        made = handmade_logs.batch(day, [b"x"], at_ms=BEGIN_MS + day * DAY_MS)
        handmade_logs.write_segment(folder / "1", day, [made])


def test_old_days_are_removed_up_to_a_snapshot(spark: Any, tmp_path: Path) -> None:
    logs, place = tmp_path / "logs", tmp_path / "archive"
    logs_of_days(logs, 6)
    later = BEGIN_MS + 9 * DAY_MS
    archive(spark, logs, place, now_ms=later, keep_days=5)
    assert len(rows(spark, place)) == 6
    assert place.stat().st_mode & 0o777 == 0o700
    of_third = place / "snapshots" / date_of(BEGIN_MS + 3 * DAY_MS) / "1"
    of_third.mkdir(parents=True)
    (of_third / "00000000000000000004-0000000001.checkpoint").write_bytes(b"")
    archive(spark, logs, place, now_ms=later, keep_days=5)
    assert [each["base_offset"] for each in rows(spark, place)] == [2, 3, 4, 5]
    made = restored(spark, place, tmp_path / "root")
    assert [Path(name).name for name in made if name.endswith(".checkpoint")] == [
        "00000000000000000004-0000000001.checkpoint"
    ]


def test_a_snapshot_that_its_node_removes_meanwhile_is_left_out(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs, place = tmp_path / "logs", tmp_path / "archive"
    shutil.copytree(real_cluster.controller(4) / real_cluster.METADATA, logs / "log")
    logs.joinpath("log").chmod(0o700)
    (gone, *others) = sorted(path for path in logs.rglob("*.checkpoint") if path.name[19] != "0")
    for path in others:
        path.unlink()

    def removed_when_read(path: Path, *how: Any) -> Checkpoint:
        read = read_checkpoint(path, *how)
        if path == gone:
            path.unlink()
        return read

    monkeypatch.setattr(stream, "read_checkpoint", removed_when_read)
    archive(spark, logs, place)
    assert not gone.exists()
    assert not (place / "snapshots").exists()
    assert rows(spark, place)


def test_rows_of_an_older_version_lack_columns_and_a_newer_one_is_refused(
    spark: Any, tmp_path: Path
) -> None:
    logs, place = tmp_path / "logs", tmp_path / "archive"
    copy_of(logs, 1)
    archive(spark, logs, place)
    (part,) = (place / "parts").iterdir()
    for path in part.rglob("*.parquet"):
        older = pq.ParquetFile(path).read().drop_columns(["index_position", "index", "bytes"])
        pq.write_table(older, path)
        path.with_name(f".{path.name}.crc").unlink()
    assert [each["bytes"] for each in rows(spark, place)] == [None]
    assert len(restored(spark, place, tmp_path / "root")) == 2
    said = json.loads((place / META).read_text())
    (place / META).write_text(json.dumps({**said, "schema": SCHEMA + 1}))
    (place / f".{META}.crc").unlink()
    with pytest.raises(InvalidInput, match=f"has the schema version {SCHEMA + 1}"):
        restored(spark, place, tmp_path / "other")
    with pytest.raises(InvalidInput, match=f"has the schema version {SCHEMA + 1}"):
        archive(spark, logs, place)


def test_a_folder_that_is_not_an_archive_is_refused(spark: Any, tmp_path: Path) -> None:
    copy_of(tmp_path / "logs", 1)
    with pytest.raises(InvalidInput, match="neither an archive nor empty"):
        archive(spark, tmp_path / "logs", tmp_path)
    with pytest.raises(InvalidInput, match=f"it has no {META}"):
        restored(spark, tmp_path / "nothing", tmp_path / "root")
