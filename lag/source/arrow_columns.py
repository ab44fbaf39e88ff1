"""Arrow arrays of constants, numbers and choices, and a batch of those columns that are wanted."""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from lag.tables import ARROW_TYPES, Table

Columns = Mapping[str, Callable[[], Any]]
"""How to make each column; one that is not wanted is never made."""


def record_batch(table: Table, columns: Columns, count: int) -> Any:
    """These columns as a `pyarrow.RecordBatch`; those that nothing is known of are null."""
    arrays = [
        columns[name]() if name in columns else pa.nulls(count, ARROW_TYPES[type_])
        for name, type_, _ in table.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=table.arrow())


def same(value: str | None, count: int) -> Any:
    """The same text in every row."""
    return pa.nulls(count, pa.string()) if value is None else pa.repeat(pa.scalar(value), count)


def chosen(texts: list[str | None], places: Any) -> Any:
    """Of each row the text at its place in `texts`."""
    return pa.array(texts, pa.string()).take(pa.array(places))


def rows_batch(table: Table, rows: list[dict[str, Any]]) -> Any:
    """A batch of these rows, each by the names of columns; for tables of few rows."""
    arrays = [
        pa.array([row.get(name) for row in rows], ARROW_TYPES[type_])
        for name, type_, _ in table.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=table.arrow())
