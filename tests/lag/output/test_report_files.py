"""A report as files for programs: the same values in each, and null for unknown ones."""

import csv
import json
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

import pyarrow.parquet as pq

from lag.output.files import SHAPES, write
from tests.lag.sample_report import HOSTILE, sample


def test_json_has_every_table_with_every_row(tmp_path: Path) -> None:
    results = sample()
    [file] = write(results, tmp_path / "new", ["json"])
    told = json.loads(file.read_bytes())
    assert told["window_ms"] == results.window_ms
    assert set(told["tables"]) == {shape.name for shape in SHAPES}
    for shape in SHAPES:
        assert told["tables"][shape.name] == [dict(row) for row in results.rows(shape.name)]


def test_csv_has_titles_lists_and_empty_fields(tmp_path: Path) -> None:
    files = write(sample(), tmp_path, ["csv"])
    assert {file.name for file in files} == {f"{shape.name}.csv" for shape in SHAPES}
    with (tmp_path / "moves.csv").open(newline="") as file:
        moves = list(csv.DictReader(file))
    assert [row["planned"] for row in moves] == ["103 104 101"] * 6
    assert moves[0]["topic"] == HOSTILE
    assert moves[5]["ended_ms"] == ""
    assert moves[0]["as_planned"] == "true"


def test_parquet_keeps_types_and_nulls(tmp_path: Path) -> None:
    results = sample()
    files = write(results, tmp_path, ["parquet"])
    assert len(files) == len(SHAPES)
    table = pq.read_table(tmp_path / "replica_lag.parquet")
    told = table.select([name for name in table.column_names if not name.endswith("_time")])
    assert told.to_pylist() == [dict(row) for row in results.rows("replica_lag")]
    assert str(table.schema.field("max_ms").type) == "int64"
    moves = pq.read_table(tmp_path / "moves.parquet")
    assert str(moves.schema.field("planned").type).startswith("list<")


def test_parquet_has_moments_as_timestamps_and_the_meaning_of_its_columns(tmp_path: Path) -> None:
    write(sample(), tmp_path, ["parquet"])
    table = pq.read_table(tmp_path / "replica_lag.parquet")
    field = table.schema.field("worst_at_time")
    assert str(field.type) == "timestamp[us, tz=UTC]"
    row = table.to_pylist()[0]
    assert row["worst_at_time"].timestamp() * 1_000 == row["worst_at_ms"]
    assert table.to_pylist()[3]["worst_at_time"] is None
    # A duration is no moment.
    assert "max_time" not in table.column_names
    meant = {each.name: (each.metadata or {})[b"comment"].decode() for each in table.schema}
    assert meant["max_ms"] == "greatest lag, exact and not by samples, in ms"
    assert meant["worst_at_ms"].endswith("by the leader's clock, in ms since 1970")
    assert meant["worst_at_time"] == "the same moment"


def test_the_page_comes_first_and_nothing_half_written_is_left(tmp_path: Path) -> None:
    files = write(sample(), tmp_path, ["json", "html"])
    assert [file.name for file in files] == ["index.html", "report.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.html", "report.json"]
