"""The tables of a report as files: one Parquet or CSV file per table, or one JSON file.

An unknown value is null in Parquet and JSON and an empty field in CSV; CSV separates the items of a
list by spaces. Files are written under a temporary name and renamed, so that each is complete or
absent.
"""

import csv
import io
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import orjson

from lag.output.page import page
from lag.reports.schemas import RESULTS
from lag.results import Results
from lag.source.schemas import PROBLEMS, REPLICAS

FORMATS: Final = ("html", "parquet", "csv", "json")
PAGE: Final = "index.html"


class Shape(NamedTuple):
    """The columns of a table to write: names and Spark types."""

    name: str
    columns: tuple[tuple[str, str], ...]


SHAPES: Final = tuple(
    Shape(table.name, tuple((column.name, column.type) for column in table.columns))
    for table in (*RESULTS, REPLICAS, PROBLEMS)
)
"""The tables of a report, in the order of the page."""


def write(results: Results, folder: Path, formats: Sequence[str]) -> list[Path]:
    """Write the report into `folder`, which is created; return the files, the page first.

    Raises `OSError`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name in (known for known in FORMATS if known in formats):
        written += _WRITERS[name](results, folder)
    return written


def _html(results: Results, folder: Path) -> list[Path]:
    return [_whole(folder / PAGE, page(results).encode())]


def _json(results: Results, folder: Path) -> list[Path]:
    return [_whole(folder / "report.json", as_json(results))]


def as_json(results: Results) -> bytes:
    """The whole report as one object: its scope, and the rows of each table under `tables`."""
    report = {
        "paths": results.paths,
        "since_ms": results.since_ms,
        "until_ms": results.until_ms,
        "window_ms": results.window_ms,
        "tables": {shape.name: [dict(row) for row in results.rows(shape.name)] for shape in SHAPES},
    }
    return orjson.dumps(report, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _csv(results: Results, folder: Path) -> list[Path]:
    return [
        _whole(folder / f"{shape.name}.csv", as_csv(results, shape).encode()) for shape in SHAPES
    ]


def as_csv(results: Results, shape: Shape) -> str:
    """One table, with the names of its columns in the first line."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([name for name, _ in shape.columns])
    for row in results.rows(shape.name):
        writer.writerow([_cell(row[name]) for name, _ in shape.columns])
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else value


def _parquet(results: Results, folder: Path) -> list[Path]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    written = []
    for shape in SHAPES:
        schema = pa.schema([(name, _arrow_type(pa, type_)) for name, type_ in shape.columns])
        table = pa.Table.from_pylist([dict(row) for row in results.rows(shape.name)], schema)
        buffer = pa.BufferOutputStream()
        pq.write_table(table, buffer)
        written.append(_whole(folder / f"{shape.name}.parquet", buffer.getvalue().to_pybytes()))
    return written


def _arrow_type(pa: Any, name: str) -> Any:
    """The Arrow type of a Spark type; `KeyError` for a type that no table has."""
    if name.startswith("ARRAY<"):
        return pa.list_(_arrow_type(pa, name.removeprefix("ARRAY<").removesuffix(">")))
    types = {
        "BIGINT": pa.int64(),
        "INT": pa.int32(),
        "DOUBLE": pa.float64(),
        "STRING": pa.string(),
        "BOOLEAN": pa.bool_(),
    }
    return types[name]


_WRITERS: Final[Mapping[str, Callable[[Results, Path], list[Path]]]] = MappingProxyType(
    {"html": _html, "parquet": _parquet, "csv": _csv, "json": _json}
)


def _whole(path: Path, content: bytes) -> Path:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return path
