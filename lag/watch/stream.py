"""The stream behind `metaquorum lag watch`: Spark follows the logs, a table shows the positions.

Each micro-batch is reduced to one row per replica in this process, in a third of the time of a
query in Spark. Existing logs are read in pieces.
"""

import json
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lag.runner import check_for_logs
from lag.session import (
    SCRATCH_BYTES_MAX,
    check,
    signals_taken,
    spark_failures,
    spark_session,
)
from lag.source.folders import find
from lag.watch.positions import GRAIN_MS, RATE_MS, Position, Positions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHOW_EVERY_SECONDS: Final = 0.5
"""The interval at which the table is drawn without news, because a lag grows by itself."""
BYTES_AT_ONCE_MAX: Final = 128 << 20
"""The bytes of all logs in one micro-batch: its rows have to fit into this process."""
BYTES_OF_A_LOG_MIN: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRequest:
    """A request to watch logs."""

    paths: tuple[str, ...]
    every_ms: int
    """Interval between two looks at the logs."""
    cluster: str | None = None
    """The id of the cluster to watch; None if there is only one."""
    for_ms: int | None = None
    """Time to stop, counted from the first table; None for no end."""


class _Seen:
    """The positions so far, shared between the stream and the display."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self._standings = Positions()
        self._lock = threading.Lock()
        self._news = threading.Event()
        self.interrupted: int | None = None
        """The signal that interrupted, if any."""

    def take(self, ends: list[dict[str, Any]], appended: list[tuple[int, int]]) -> None:
        """Add a micro-batch."""
        with self._lock:
            self._standings.take(ends, self.now_ms())
            self._standings.learn(appended)
        self._news.set()

    def interrupt(self, number: int) -> None:
        """Handle a signal: end the display."""
        self.interrupted = number
        self._news.set()

    def wait(self) -> None:
        """Wait for news, or until it is time to draw."""
        self._news.wait(SHOW_EVERY_SECONDS)
        self._news.clear()

    def at(self, now_ms: int) -> list[Position]:
        """The position of every replica."""
        with self._lock:
            return self._standings.at(now_ms)


def check_watch(watched: WatchRequest) -> None:
    """Raise `NoSpark`, `NothingToRead`, or `InvalidInput` for the logs of several clusters."""
    check()
    check_for_logs(watched.paths, watched.cluster)


def watch(
    watched: WatchRequest,
    master: str,
    show: Callable[[Sequence[Position]], None],
    ready: Callable[[], None],
    *,
    now_ms: Callable[[], int],
    scratch_bytes_max: int = SCRATCH_BYTES_MAX,
) -> None:
    """Follow the logs and show them; `ready` is called once Spark has started, `now_ms` is the
    wall clock.

    Returns after Ctrl-C. Raises `NoSpark` and `SparkFailed`; before, call `check_watch`.
    """
    seen = _Seen(now_ms)

    def take(batch: "DataFrame", _: int) -> None:
        seen.take(*reduce_batch(batch.toArrow()))

    # Without the size of the logs: they may have grown to any size before the stream ends.
    session = spark_session(
        master, name="metaquorum lag watch", scratch_bytes_max=scratch_bytes_max
    )
    with session as spark, signals_taken(seen.interrupt):
        ready()
        with spark_failures():
            query = _query(spark, watched, take)
            try:
                _show(query, seen, watched, show)
            finally:
                query.stop()
    if seen.interrupted == signal.SIGTERM:
        raise SystemExit(128 + signal.SIGTERM)


def _query(spark: Any, watched: WatchRequest, take: Callable[["DataFrame", int], None]) -> Any:
    logs = len(find(watched.paths, cluster=watched.cluster).folders)
    bytes_max = max(BYTES_OF_A_LOG_MIN, BYTES_AT_ONCE_MAX // max(1, logs))
    stream = spark.readStream.format("quorumlog").option("table", "batches")
    stream = stream.option("columns", ",".join(COLUMNS)).option("source", "log")
    stream = stream.option("missing", "report").option("max_bytes_per_trigger", str(bytes_max))
    if watched.cluster is not None:
        stream = stream.option("cluster", watched.cluster)
    table = stream.option("paths", json.dumps(watched.paths)).load()
    every = f"{watched.every_ms} milliseconds"
    return table.writeStream.foreachBatch(take).trigger(processingTime=every).start()


def _show(
    query: Any, seen: _Seen, watched: WatchRequest, show: Callable[[Sequence[Position]], None]
) -> None:
    first_ms: int | None = None
    while seen.interrupted is None:
        seen.wait()
        if not query.isActive and seen.interrupted is None:
            query.awaitTermination(0)  # It raises the exception that ended the query.
            return
        now_ms = seen.now_ms()
        shown = seen.at(now_ms)
        if not shown:
            continue
        show(shown)
        first_ms = now_ms if first_ms is None else first_ms
        if watched.for_ms is not None and now_ms - first_ms >= watched.for_ms:
            return


COLUMNS: Final = (
    "replica", "base_offset", "last_offset", "epoch", "leader_append_ms", "local_append_ms",
    "records", "mark", "generation",
)  # fmt: skip
"""The columns of `batches` that are read."""
_UNKNOWN: Final = -1


def reduce_batch(batch: Any) -> tuple[list[dict[str, Any]], list[tuple[int, int]]]:
    """Reduce a `pyarrow.Table` with these columns to one row per replica with its log end, and to
    pairs of a time in ms and the first offset that a leader appended in that tenth of a second."""
    from lag.source.schemas import MARK_TRUNCATED

    rows = batch.filter(batch["mark"].is_null())
    cuts: dict[str, int] = {}
    for row in batch.filter(batch["mark"].is_valid()).to_pylist():
        if row["mark"] == MARK_TRUNCATED:
            low = row["base_offset"]
            cuts[row["replica"]] = min(low, cuts.get(row["replica"], low))
    empty = {"epoch": None, "log_end": None, "appended_ms": None, "records": None}
    ends = {name: {"replica": name, **empty, "cut_to": low} for name, low in cuts.items()}
    for end in _ends(rows):
        ends[end["replica"]] = {**end, "cut_to": cuts.get(end["replica"])}
    return list(ends.values()), _appended(rows)


def _ends(rows: Any) -> list[dict[str, Any]]:
    import numpy as np

    if not len(rows):
        return []
    names = rows["replica"].combine_chunks().dictionary_encode()
    codes = names.indices.to_numpy()
    # By generation first: rows after a truncation replace all earlier ones.
    by = [rows[name].to_numpy() for name in ("last_offset", "epoch", "generation")]
    order = np.lexsort(by)
    last = np.zeros(len(names.dictionary), dtype=np.int64)
    last[codes[order]] = order  # Of several entries with one key, the last remains.
    # Only records of the last seconds count for the rate, not older history read at once.
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
    import numpy as np

    rows = rows.filter(rows["leader_append_ms"].is_valid())
    tenths = rows["leader_append_ms"].to_numpy() // GRAIN_MS * GRAIN_MS
    offsets = rows["base_offset"].to_numpy()
    order = np.argsort(tenths, kind="stable")
    times, begins = np.unique(tenths[order], return_index=True)
    if not len(times):
        return []
    firsts = np.minimum.reduceat(offsets[order], begins)
    return list(zip(times.tolist(), firsts.tolist(), strict=True))
