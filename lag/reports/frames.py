"""Plain values as a DataFrame, and rows changed whole columns at a time."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lag import tables
from lag.reports.columns import Column


def frame(
    session: SparkSession,
    columns: Sequence[Column | tables.Column],
    rows: Iterable[Mapping[str, Any]],
) -> DataFrame:
    """The rows with these columns. By Arrow: from a list Spark would have Python pickle them."""
    return session.createDataFrame(typed(columns, rows))


def typed(columns: Sequence[Column | tables.Column], rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The rows with these columns, each of its type."""
    types = {**tables.ARROW_TYPES, "DOUBLE": pa.float64()}
    schema = pa.schema([pa.field(column.name, types[column.type]) for column in columns])
    names = [column.name for column in columns]
    return pa.Table.from_pylist([{name: row[name] for name in names} for row in rows], schema)


Whole = Callable[[Iterator[Any]], Iterator[Any]]
"""From the `pyarrow.RecordBatch`es of one partition to one for each of them, in order."""


def mapped(rows: DataFrame, function: Whole, columns: Sequence[tuple[str, str]]) -> DataFrame:
    """What `function` makes of the rows, with these columns: name and type of each.

    As `mapInArrow`, which wants pandas: the rows that come of a batch stand in a list beside its
    last row, and the lists are then laid out.
    """
    schema = pa.schema([pa.field(name, tables.ARROW_TYPES[type_]) for name, type_ in columns])
    ddl = ", ".join(f"`{name}`: {type_}" for name, type_ in columns)

    def each(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        counts: list[int] = []

        def counted() -> Iterator[Any]:
            for batch in batches:
                counts.append(len(batch))
                yield pa.RecordBatch.from_struct_array(batch)

        for made in function(counted()):
            yield _beside_last(made, schema, counts.pop())

    made = F.arrow_udf(each, f"array<struct<{ddl}>>")
    return rows.select(F.inline(made(F.struct(*rows.columns))))


def _beside_last(made: Any, schema: Any, count: int) -> Any:
    rows = pa.StructArray.from_arrays(list(made.columns), fields=list(schema))
    offsets = pa.array([0] * count + [len(made)] if count else [0], pa.int32())
    return pa.ListArray.from_arrays(
        offsets, rows, type=pa.list_(pa.field("element", pa.struct(list(schema))))
    )
