"""Batches of one replica in packs: a row for Spark, whole columns for whoever looks inside.

A pack is of one *chunk* of offsets, the same for all replicas: what a majority had is asked of the
packs of one chunk. No Spark here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lag.source.record_packs import from_bytes, to_bytes
from lag.tables import BATCHES

CHUNK_ROWS: Final = 1 << 18
"""Of all replicas together, so many batches at most are of one chunk,"""
CHUNK_OFFSETS_MIN: Final = 1 << 10
"""unless there are very many replicas."""
_MERGED: Final[Mapping[str, Callable[[Iterable[int]], int]]] = {
    **dict.fromkeys(("first", "first_ms", "first_here_ms", "least_delay_ms"), min),
    **dict.fromkeys(("end", "last_ms", "last_here_ms"), max),
    "timed": sum,
}
"""How two spans of one epoch become one."""
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
    return columns_of(from_bytes(pack))


def columns_of(rows: Any) -> dict[str, Any]:
    """The same of rows that are not packed yet."""
    found: dict[str, Any] = {}
    for name in ROWS.column_names:
        column = rows[name]
        if column.null_count or name.endswith("_ms"):
            found[name.removesuffix("_ms") + "_known"] = column.is_valid().to_numpy(False)
            column = column.fill_null(0)
        found[name] = column.to_numpy()
    return found


def spans_of(replica: str, rows: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What these columns hold of each epoch, as `epochs.Span` has it."""
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
    """One span for each replica and epoch."""
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
