"""The tables of a report as files: one Parquet or CSV file per table, or one JSON file.

An unknown value is null in Parquet and JSON and an empty field in CSV; CSV separates the items of a
list by spaces. Parquet has every moment `*_ms` also as TIMESTAMP `*_time`, and the meaning of each
column, for Arrow and for Spark. Files are written under a temporary name and renamed, so that each
is complete or absent.
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
from lag.reports.schemas import RESULTS, Column
from lag.results import Results, Rows
from lag.source import schemas

FORMATS: Final = ("html", "parquet", "csv", "json")
PAGE: Final = "index.html"


_IS_MOMENT: Final = ", in ms since 1970"
_MEASURED: Final = {"ms", "ms/s", "bytes", "records/s", "batches/s"}
"""The units that a meaning does not say by itself; the others are counts and ids."""


def _meaning(column: Column) -> str:
    """The meaning of a column with its unit."""
    if column.unit == "time":
        return f"{column.meaning}{_IS_MOMENT}"
    return f"{column.meaning}, in {column.unit}" if column.unit in _MEASURED else column.meaning


class Shape(NamedTuple):
    """The columns of a table to write."""

    name: str
    columns: tuple[schemas.Column, ...]


SHAPES: Final = (
    *(
        Shape(
            table.name,
            tuple(schemas.Column(each.name, each.type, _meaning(each)) for each in table.columns),
        )
        for table in RESULTS
    ),
    *(Shape(table.name, table.columns) for table in (schemas.REPLICAS, schemas.PROBLEMS)),
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
    writer.writerow([each.name for each in shape.columns])
    for row in results.rows(shape.name):
        writer.writerow([_cell(row[each.name]) for each in shape.columns])
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
        buffer = pa.BufferOutputStream()
        pq.write_table(_arrow_table(shape, results.rows(shape.name)), buffer)
        written.append(_whole(folder / f"{shape.name}.parquet", buffer.getvalue().to_pybytes()))
    return written


_SPARK_SCHEMA: Final = "org.apache.spark.sql.parquet.row.metadata"
"""The key under which Spark reads it in a Parquet file."""


def _arrow_table(shape: Shape, rows: Rows) -> Any:
    """The rows as a `pyarrow.Table`, with moments and meanings."""
    import pyarrow as pa

    from lag.source.batches import moments

    types = {**schemas.ARROW_TYPES, "DOUBLE": pa.float64()}
    columns: list[schemas.Column] = []
    arrays: list[Any] = []
    for column in shape.columns:
        values = pa.array([row[column.name] for row in rows], types[column.type])
        columns.append(column)
        arrays.append(values)
        if column.meaning.endswith(_IS_MOMENT):
            stem = column.name.removesuffix("_ms")
            columns.append(schemas.Column(f"{stem}_time", schemas.TIMESTAMP, "the same moment"))
            arrays.append(moments(values))
    fields = [
        pa.field(each.name, array.type, each.is_nullable, {"comment": each.meaning})
        for each, array in zip(columns, arrays, strict=True)
    ]
    metadata = {_SPARK_SCHEMA: orjson.dumps(schemas.spark_schema(columns))}
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata))


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
