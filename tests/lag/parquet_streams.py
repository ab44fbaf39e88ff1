"""Streams into Parquet as users start them, every wait bounded; and one in a process of its own
that is killed in the middle of a batch, with all that it started."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.support.tree import ROOT

SECONDS_MAX: Final = 300.0
"""The most time for a query, which takes seconds on an idle machine."""
LOOKS_MAX: Final = 1_200
LOOK_SECONDS: Final = 0.1
SEGMENT_A_BATCH: Final = "1"
"""For `max_bytes_per_trigger`: of every log a batch takes one stretch, and these segments are no
longer than one."""
FOR_EVER_MS: Final = str(60 * 60 * 1_000)


def start(spark: Any, logs: Path, place: Path, *, table: str, ends: bool, **options: str) -> Any:
    """Begin a query, or go on with one that was begun at this place; whether it `ends` by itself,
    with what is there when it starts."""
    stream = spark.readStream.format("quorumlog").option("table", table)
    for name, value in options.items():
        stream = stream.option(name, value)
    writer = stream.load(str(logs)).writeStream.format("parquet")
    when: dict[str, Any] = {"availableNow": True} if ends else {"processingTime": "0 seconds"}
    writer = writer.option("checkpointLocation", str(place / "checkpoint")).trigger(**when)
    return writer.start(str(place / "out"))


def run(spark: Any, logs: Path, place: Path, *, table: str, **options: str) -> None:
    """Let a query take what is there, and end."""
    query = start(spark, logs, place, table=table, ends=True, **options)
    try:
        assert query.awaitTermination(SECONDS_MAX), query.status
    finally:
        query.stop()


def until_underway(query: Any, place: Path, batch: int) -> None:
    """Return while this batch is being written: it is planned, some of it is there, and it cannot
    end, since times are awaited that nobody writes."""
    for _ in range(LOOKS_MAX):
        is_planned = (place / "checkpoint" / "offsets" / str(batch)).exists()
        if is_planned and _uncommitted(place / "out"):
            assert not (place / "checkpoint" / "commits" / str(batch)).exists()
            return
        assert not query.awaitTermination(LOOK_SECONDS), query.exception()
    raise AssertionError(f"batch {batch} was not begun: {query.status}")


def _uncommitted(out: Path) -> list[str]:
    said = "".join(path.read_text() for path in (out / "_spark_metadata").glob("[0-9]*"))
    return [path.name for path in out.glob("*.parquet") if path.name not in said]


def killed_underway(logs: Path, place: Path, *, table: str, batch: int) -> None:
    """Begin a query in a process of its own, and have it and its Java killed while it writes this
    batch."""
    run_until_killed(__name__, logs, place, table, str(batch))


def run_until_killed(module: str, *arguments: str | Path) -> None:
    """Run a module that kills itself, and the Java that it started, in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    assert process.returncode == -signal.SIGKILL, said.decode()


def main(logs: str, place: str, table: str, batch: str) -> None:
    """The process that is killed, by itself: at the moment it knows best."""
    from lag.session import spark_session

    with spark_session("local[2]") as spark:
        options = {"max_bytes_per_trigger": SEGMENT_A_BATCH, "settle_ms": FOR_EVER_MS}
        query = start(spark, Path(logs), Path(place), table=table, ends=False, **options)
        until_underway(query, Path(place), int(batch))
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
