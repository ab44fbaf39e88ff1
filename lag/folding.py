"""A micro-batch of the stream of batches, brought down to what `Standings` takes; no Spark here."""

from typing import Any, Final

import numpy as np

from lag.tables import MARK_TRUNCATED
from lag.watching import GRAIN_MS, RATE_MS

COLUMNS: Final = (
    "replica", "base_offset", "last_offset", "epoch", "leader_append_ms", "local_append_ms",
    "records", "mark", "generation",
)  # fmt: skip
"""Of the table `batches`, what is looked at here."""
_UNKNOWN: Final = -1


def folded(told: Any) -> tuple[list[dict[str, Any]], list[tuple[int, int]]]:
    """Of a `pyarrow.Table` with these columns: a row for each replica, with where its log ends now;
    and for each tenth of a second in which a leader appended, that time in ms and the first offset.
    """
    rows = told.filter(told["mark"].is_null())
    cuts: dict[str, int] = {}
    for row in told.filter(told["mark"].is_valid()).to_pylist():
        if row["mark"] == MARK_TRUNCATED:
            low = row["base_offset"]
            cuts[row["replica"]] = min(low, cuts.get(row["replica"], low))
    empty = {"epoch": None, "log_end": None, "appended_ms": None, "records": None}
    ends = {name: {"replica": name, **empty, "cut_to": low} for name, low in cuts.items()}
    for end in _ends(rows):
        ends[end["replica"]] = {**end, "cut_to": cuts.get(end["replica"])}
    return list(ends.values()), _appended(rows)


def _ends(rows: Any) -> list[dict[str, Any]]:
    if not len(rows):
        return []
    names = rows["replica"].combine_chunks().dictionary_encode()
    codes = names.indices.to_numpy()
    # By the generation first: what was read after a truncation counts, whatever was there before.
    by = [rows[name].to_numpy() for name in ("last_offset", "epoch", "generation")]
    order = np.lexsort(by)
    last = np.zeros(len(names.dictionary), dtype=np.int64)
    last[codes[order]] = order  # Of several, the one that comes last stays.
    # History that is read at once is no rate: what counts was appended in the last seconds of it.
    times = rows["leader_append_ms"].fill_null(_UNKNOWN).to_numpy()
    recent = rows["records"].to_numpy() * (times > times.max() - RATE_MS)
    counts = np.bincount(codes, weights=recent, minlength=len(last))
    return [
        {
            "replica": row["replica"],
            "epoch": row["epoch"],
            "log_end": row["last_offset"] + 1,
            "appended_ms": row["leader_append_ms"]
            if row["local_append_ms"] is None
            else row["local_append_ms"],
            "records": int(count),
        }
        for row, count in zip(rows.take(last).to_pylist(), counts, strict=True)
    ]


def _appended(rows: Any) -> list[tuple[int, int]]:
    rows = rows.filter(rows["leader_append_ms"].is_valid())
    tenths = rows["leader_append_ms"].to_numpy() // GRAIN_MS * GRAIN_MS
    offsets = rows["base_offset"].to_numpy()
    order = np.argsort(tenths, kind="stable")
    times, begins = np.unique(tenths[order], return_index=True)
    if not len(times):
        return []
    firsts = np.minimum.reduceat(offsets[order], begins)
    return list(zip(times.tolist(), firsts.tolist(), strict=True))
