"""Rows of plain values as a DataFrame, without a worker having to be started for it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from admin.lag import tables
from admin.lag.reports.columns import Column


def frame(
    session: SparkSession,
    columns: Sequence[Column | tables.Column],
    rows: Iterable[Mapping[str, Any]],
) -> DataFrame:
    """The rows with these columns. By Arrow: from a list Spark would have Python pickle them."""
    types = {**tables.ARROW_TYPES, "DOUBLE": pa.float64()}
    schema = pa.schema([pa.field(column.name, types[column.type]) for column in columns])
    names = [column.name for column in columns]
    table = pa.Table.from_pylist([{name: row[name] for name in names} for row in rows], schema)
    return session.createDataFrame(table)
