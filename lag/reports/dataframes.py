"""Spark DataFrames: made from rows, mapped by Arrow batches, and queried concurrently."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lag.reports.schemas import Column
from lag.source import schemas


def frame(
    session: SparkSession,
    columns: Sequence[Column | schemas.Column],
    rows: Iterable[Mapping[str, Any]],
) -> DataFrame:
    """A DataFrame of these rows, through Arrow: from a list Spark would have Python pickle them."""
    return session.createDataFrame(typed(columns, rows))


def typed(
    columns: Sequence[Column | schemas.Column], rows: Iterable[Mapping[str, Any]]
) -> pa.Table:
    """The rows as an Arrow table, typed by the columns."""
    types = {**schemas.ARROW_TYPES, "DOUBLE": pa.float64()}
    schema = pa.schema([pa.field(column.name, types[column.type]) for column in columns])
    names = [column.name for column in columns]
    return pa.Table.from_pylist([{name: row[name] for name in names} for row in rows], schema)


Whole = Callable[[Iterator[Any]], Iterator[Any]]
"""A function from the `pyarrow.RecordBatch`es of a partition to one result for each, in order."""


def mapped(rows: DataFrame, function: Whole, columns: Sequence[tuple[str, str]]) -> DataFrame:
    """Apply `function` to the rows; `columns` are names and types of the result.

    The same as `mapInArrow`, which requires pandas: the result of a batch is a list beside its last
    row, and the lists are then expanded.
    """
    schema = pa.schema([pa.field(name, schemas.ARROW_TYPES[type_]) for name, type_ in columns])
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


AGAIN_SECONDS: Final = 0.2


def run_concurrently(session: SparkSession, *queries: Callable[[], Any]) -> list[Any]:
    """Run the queries concurrently and return their results in order; the first failure cancels
    all.

    A session runs one job after the other for one thread, and planning a query takes the driver as
    long as the workers need for a small log.
    """
    with ThreadPoolExecutor(len(queries), thread_name_prefix="lag") as pool:
        underway = [pool.submit(each) for each in queries]
        try:
            done, _ = wait(underway, return_when=FIRST_EXCEPTION)
            for each in done:
                each.result()
            return [each.result() for each in underway]
        except BaseException:
            # The results of the others are not needed after a failure or Ctrl-C. Their jobs
            # are cancelled, including those that are still being planned and start later.
            while wait(underway, timeout=AGAIN_SECONDS).not_done:
                with suppress(Exception):
                    session.sparkContext.cancelAllJobs()
            raise
