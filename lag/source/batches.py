"""The table `batches`: one row per record batch, from headers alone; and packs of such rows.

A pack is one row for Spark and holds whole columns of batches of one replica and one *chunk* of
offsets. Chunks have the same bounds for all replicas, so that the packs of a chunk are enough to
find out when a majority held its batches.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lag.source.append_time_index import NONE, AppendTimes, read_index
from lag.source.record_packs import from_bytes, to_bytes
from lag.source.scan import CODEC_NAMES, Headers
from lag.source.schemas import ARROW_TYPES, BATCHES, BIGINT, TIMESTAMP, Column, Table
from lag.source.tasks import Slice

Columns = Mapping[str, Callable[[], Any]]
"""A function per column; a column that is not requested is not computed."""
_MOMENT_MS_MAX: Final = (1 << 63) // 1_000


def record_batch(table: Table, columns: Columns, count: int) -> Any:
    """These columns as a `pyarrow.RecordBatch`; missing columns are null.

    A TIMESTAMP is made of the column with the same moment in ms.
    """

    def made(column: Column) -> Any:
        if column.type == TIMESTAMP and column.of_ms in columns:
            return moments(columns[column.of_ms]())
        if column.name in columns:
            return columns[column.name]()
        return pa.nulls(count, ARROW_TYPES[column.type])

    arrays = [made(column) for column in table.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=table.arrow())


def moments(times_ms: Any) -> Any:
    """These times in ms as TIMESTAMPs, in microseconds; null if they are beyond those."""
    is_within = pc.less(pc.abs(times_ms), _MOMENT_MS_MAX)
    return pc.if_else(is_within, pc.multiply(times_ms, 1_000), None).cast(ARROW_TYPES[TIMESTAMP])


def same(value: str | None, count: int) -> Any:
    """An array with the same text in every row."""
    return pa.nulls(count, pa.string()) if value is None else pa.repeat(pa.scalar(value), count)


def chosen(texts: list[str | None], places: Any) -> Any:
    """For each row the text at its place in `texts`."""
    return pa.array(texts, pa.string()).take(pa.array(places))


def rows_batch(table: Table, rows: list[dict[str, Any]]) -> Any:
    """Rows as a `pyarrow.RecordBatch`, for small tables."""

    def taken(name: str, type_: str) -> Callable[[], Any]:
        return lambda: pa.array([row.get(name) for row in rows], ARROW_TYPES[type_])

    columns = {each.name: taken(each.name, each.type) for each in table.columns}
    columns |= {
        each.of_ms: taken(each.of_ms, BIGINT) for each in table.columns if each.type == TIMESTAMP
    }
    return record_batch(table, columns, len(rows))


def times_of(part: Slice, headers: Headers) -> AppendTimes:
    """The append times of these batches (at least one), as far as the index has them: the index of
    a growing log is written after the log."""
    if part.index is None:
        return NONE
    first, last = headers.last_offset.min(), headers.last_offset.max()
    return read_index(part.index, part.base, int(first), int(last))


def batch_rows(table: Table, part: Slice, headers: Headers, times: AppendTimes) -> Any:
    """These batches as a `pyarrow.RecordBatch` with the columns of `table`."""
    count = len(headers.position)

    def local() -> Any:
        found, known = times.at(headers.last_offset)
        return pa.array(found, pa.int64(), mask=~known)

    columns = {
        "replica": lambda: same(part.replica, count),
        "path": lambda: same(part.path, count),
        "position": lambda: pa.array(headers.position),
        "base_offset": lambda: pa.array(headers.base_offset),
        "last_offset": lambda: pa.array(headers.last_offset),
        "epoch": lambda: pa.array(headers.epoch),
        "leader_append_ms": lambda: _times(headers.max_timestamp_ms),
        "local_append_ms": local,
        "bytes": lambda: pa.array(headers.size),
        "records": lambda: pa.array(headers.record_count),
        "control": lambda: pa.array(headers.is_control),
        "codec": lambda: chosen(list(CODEC_NAMES), headers.codec),
        "source": lambda: same(part.source, count),
        "generation": lambda: pa.repeat(pa.scalar(part.generation, pa.int32()), count),
    }
    return record_batch(table, columns, count)


def _times(times_ms: Any) -> Any:
    # Kafka's -1 is "no timestamp".
    return pa.array(times_ms, pa.int64(), mask=times_ms < 0)


CHUNK_ROWS: Final = 1 << 18
"""The most batches per chunk, of all replicas together,"""
CHUNK_OFFSETS_MIN: Final = 1 << 10
"""unless there are very many replicas."""
_NAMES: Final = (
    "epoch", "base_offset", "last_offset", "records", "bytes", "leader_append_ms",
    "local_append_ms",
)  # fmt: skip
ROWS: Final = BATCHES.only(_NAMES)
"""The columns of a pack."""


def chunk_offsets(replicas: int) -> int:
    """The number of offsets per chunk."""
    return max(CHUNK_OFFSETS_MIN, CHUNK_ROWS // max(1, replicas))


def batch_packs(replica: str, rows: Any, chunk: int) -> Iterator[dict[str, Any]]:
    """Pack these rows, a `pyarrow.RecordBatch` with at least the columns of `ROWS`."""
    rows = rows.select(list(ROWS.column_names))
    chunks = rows["base_offset"].to_numpy() // chunk
    cuts = [0, *(np.nonzero(np.diff(chunks))[0] + 1).tolist(), len(rows)]
    for begin, end in pairwise(cuts):
        if begin < end:
            part = pa.RecordBatch.from_arrays(
                [column.slice(begin, end - begin) for column in rows.columns], schema=rows.schema
            )
            yield {"replica": replica, "chunk": int(chunks[begin]), "rows": to_bytes(part)}


def unpacked(pack: Any) -> dict[str, Any]:
    """The columns of a pack as `numpy.ndarray`s, and `*_known` masks."""
    return columns_of(from_bytes(pack))


def columns_of(rows: Any) -> dict[str, Any]:
    """The same for rows that are not packed."""
    found: dict[str, Any] = {}
    for name in ROWS.column_names:
        column = rows[name]
        if column.null_count or name.endswith("_ms"):
            found[name.removesuffix("_ms") + "_known"] = column.is_valid().to_numpy(False)
            column = column.fill_null(0)
        found[name] = column.to_numpy()
    return found
