"""The table `batches`: one row a batch, made of headers alone."""

from typing import Any

import pyarrow as pa

from lag.source.arrow_columns import chosen, record_batch, same
from lag.source.header_columns import CODEC_NAMES, Headers
from lag.source.index_columns import NONE, AppendTimes, read_index
from lag.source.slices import Slice
from lag.tables import Table


def times_of(part: Slice, headers: Headers) -> AppendTimes:
    """When these batches, at least one, were appended here, as far as the index has it by now: in a
    log that is written to it comes behind them."""
    if part.index is None:
        return NONE
    first, last = headers.last_offset.min(), headers.last_offset.max()
    return read_index(part.index, part.base, int(first), int(last))


def batch_rows(table: Table, part: Slice, headers: Headers, times: AppendTimes) -> Any:
    """One `pyarrow.RecordBatch` of these batches, in the columns that `table` has."""
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
