"""Batches of one replica in packs: a row for Spark, whole columns for whoever looks inside.

A pack is of one *chunk* of offsets, the same for all replicas: what a majority had is asked of the
packs of one chunk. No Spark here.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from admin.lag.source.record_packs import from_bytes, to_bytes
from admin.lag.tables import BATCHES

CHUNK_ROWS: Final = 1 << 18
"""Of all replicas together, so many batches at most are of one chunk,"""
CHUNK_OFFSETS_MIN: Final = 1 << 10
"""unless there are very many replicas."""
_NAMES: Final = (
    "epoch", "base_offset", "last_offset", "records", "bytes", "leader_append_ms",
    "local_append_ms",
)  # fmt: skip
ROWS: Final = BATCHES.only(_NAMES)
"""What is packed."""


def chunk_offsets(replicas: int) -> int:
    """How many offsets are of one chunk."""
    return max(CHUNK_OFFSETS_MIN, CHUNK_ROWS // max(1, replicas))


def batch_packs(replica: str, rows: Any, chunk: int) -> Iterator[dict[str, Any]]:
    """Packs of these rows (`pyarrow.RecordBatch` with at least the columns of `ROWS`)."""
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
    """The columns of a pack (`numpy.ndarray`s), and in `*_known` which times are."""
    rows = from_bytes(pack)
    found: dict[str, Any] = {}
    for name in ROWS.column_names:
        column = rows[name]
        if column.null_count or name.endswith("_ms"):
            found[name.removesuffix("_ms") + "_known"] = column.is_valid().to_numpy(False)
            column = column.fill_null(0)
        found[name] = column.to_numpy()
    return found
