"""The stream behind `metaquorum lag watch`: Spark follows the logs, a table shows where they stand.

Every micro-batch is brought down to a row a replica, and a row for each tenth of a second in which
a leader appended, before it leaves Spark.
"""

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from admin.lag.session import check, spark_failures, spark_session
from admin.lag.watching import GRAIN_MS, Standing, Standings
from quorum.clocks import wall_ms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS: Final = (
    "replica", "base_offset", "last_offset", "epoch", "leader_append_ms", "local_append_ms",
    "records", "source", "mark", "generation",
)  # fmt: skip
SHOW_EVERY_SECONDS: Final = 0.5
"""How often the table is drawn anew, whether something came or not: a lag grows by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What to watch."""

    paths: tuple[str, ...]
    every_ms: int
    """How often to look for what is new."""
    for_ms: int | None = None
    """When to stop, counted from the first table; None goes on until interrupted."""


def watch(
    watched: Watched,
    master: str,
    show: Callable[[Sequence[Standing]], None],
    ready: Callable[[], None],
) -> None:
    """Follow the logs and show them; `ready` is called once Spark has started.

    Raises `NoSpark` and `SparkFailed`.
    """
    check()
    standings, lock = Standings(), threading.Lock()

    def take(batch: "DataFrame", _: int) -> None:
        now_ms = wall_ms()
        ends, appended = reduced(batch)
        with lock:
            standings.take(ends, now_ms)
            standings.learn(appended)

    with spark_session(master, name="metaquorum lag watch") as spark, spark_failures():
        ready()
        stream = spark.readStream.format("quorumlog").option("table", "batches")
        stream = stream.option("columns", ",".join(COLUMNS)).option("source", "log")
        table = stream.option("paths", json.dumps(watched.paths)).load()
        query = (
            table.writeStream.foreachBatch(take)
            .trigger(processingTime=f"{watched.every_ms} milliseconds")
            .start()
        )
        first_ms: int | None = None
        try:
            # It raises what the query failed of, and returns whether that has ended.
            while not query.awaitTermination(SHOW_EVERY_SECONDS):
                now_ms = wall_ms()
                with lock:
                    shown = standings.at(now_ms)
                if not shown:
                    continue
                show(shown)
                first_ms = now_ms if first_ms is None else first_ms
                if watched.for_ms is not None and now_ms - first_ms >= watched.for_ms:
                    break
        finally:
            query.stop()


def reduced(batch: "DataFrame") -> tuple[list[Any], list[tuple[int, int]]]:
    """A micro-batch as `Standings` takes it."""
    from pyspark.sql import functions as F

    batch = batch.persist()
    is_log = F.col("mark").isNull()
    told = ("generation", "epoch", "last_offset", "leader_append_ms", "local_append_ms")
    last = F.when(is_log, F.struct(*told))
    ends = (
        batch.groupBy("replica")
        .agg(
            F.max(last).alias("last"),
            F.sum(F.when(is_log, F.col("records"))).alias("records"),
            F.min(F.when(F.col("mark") == "truncated", F.col("base_offset"))).alias("cut_to"),
        )
        .select(
            "replica",
            F.col("last.epoch").alias("epoch"),
            (F.col("last.last_offset") + 1).alias("log_end"),
            F.coalesce("last.local_append_ms", "last.leader_append_ms").alias("appended_ms"),
            "records",
            "cut_to",
        )
        .collect()
    )
    tenth = F.floor(F.col("leader_append_ms") / GRAIN_MS) * GRAIN_MS
    appended = (
        batch.where(is_log & F.col("leader_append_ms").isNotNull())
        .groupBy(tenth.cast("bigint").alias("at_ms"))
        .agg(F.min("base_offset").alias("offset"))
        .collect()
    )
    batch.unpersist()
    return [row.asDict() for row in ends], [(row["at_ms"], row["offset"]) for row in appended]
