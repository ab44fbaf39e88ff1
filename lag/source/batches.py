"""The table `batches`: one row per record batch, from headers alone; and packs of such rows.

A pack is one row for Spark and holds whole columns of batches of one replica and one *chunk* of
offsets. Chunks have the same bounds for all replicas, so that the packs of a chunk are enough to
find out when a majority held its batches.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lag.source.append_time_index import NONE, AppendTimes, read_index
from lag.source.record_packs import from_bytes, to_bytes
from lag.source.scan import CODEC_NAMES, Headers
from lag.source.schemas import ARROW_TYPES, BATCHES, Table
from lag.source.tasks import Slice

Columns = Mapping[str, Callable[[], Any]]
"""A function per column; a column that is not requested is not computed."""


def record_batch(table: Table, columns: Columns, count: int) -> Any:
    """These columns as a `pyarrow.RecordBatch`; missing columns are null."""
    arrays = [
        columns[name]() if name in columns else pa.nulls(count, ARROW_TYPES[type_])
        for name, type_, _ in table.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=table.arrow())


def same(value: str | None, count: int) -> Any:
    """An array with the same text in every row."""
    return pa.nulls(count, pa.string()) if value is None else pa.repeat(pa.scalar(value), count)


def chosen(texts: list[str | None], places: Any) -> Any:
    """For each row the text at its place in `texts`."""
    return pa.array(texts, pa.string()).take(pa.array(places))


def rows_batch(table: Table, rows: list[dict[str, Any]]) -> Any:
    """Rows as a `pyarrow.RecordBatch`, for small tables."""
    arrays = [
        pa.array([row.get(name) for row in rows], ARROW_TYPES[type_])
        for name, type_, _ in table.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=table.arrow())


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
_MERGED: Final[Mapping[str, Callable[[Iterable[int]], int]]] = {
    **dict.fromkeys(("first", "first_ms", "first_here_ms", "least_delay_ms"), min),
    **dict.fromkeys(("end", "last_ms", "last_here_ms"), max),
    "timed": sum,
}
"""The functions that merge two spans of one epoch."""
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


def spans_of(replica: str, rows: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """For each epoch in these columns a row of `epochs.Span`."""
    here, there = rows["local_append_ms"], rows["leader_append_ms"]
    for epoch in np.unique(rows["epoch"]).tolist():
        own = rows["epoch"] == epoch
        timed = own & rows["leader_append_known"]
        both = own & rows["local_append_known"]
        yield {
            "replica": replica,
            "epoch": epoch,
            "first": int(rows["base_offset"][own].min()),
            "end": int(rows["last_offset"][own].max()) + 1,
            "first_ms": _least(there[timed]),
            "last_ms": _greatest(there[timed]),
            "first_here_ms": _least(here[both]),
            "last_here_ms": _greatest(here[both]),
            "least_delay_ms": _least((here - there)[both & timed]),
            "timed": int(both.sum()),
        }


def _least(values: Any) -> int | None:
    return int(values.min()) if len(values) else None


def _greatest(values: Any) -> int | None:
    return int(values.max()) if len(values) else None


def merged(spans: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Merge spans to one per replica and epoch."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for span in spans:
        key = (span["replica"], span["epoch"])
        if key not in found:
            found[key] = dict(span)
            continue
        have = found[key]
        for name in have.keys() - {"replica", "epoch"}:
            known = [each[name] for each in (have, span) if each[name] is not None]
            have[name] = _MERGED[name](known) if known else None
    return list(found.values())
