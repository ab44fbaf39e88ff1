"""`metaquorum lag watch` over logs that grow while it runs, with Ctrl-C at the end."""

import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")

from quorum.log.segmented_log import SegmentedLog
from tests.lag import handmade_logs
from tests.lag.watch.watch_process import watching

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        shutil.which("java") is None and "JAVA_HOME" not in os.environ,
        reason="Spark needs Java 17 or newer",
    ),
]


def commit(log: SegmentedLog, records: int, *, epoch: int = 1) -> None:
    made = handmade_logs.batch(log.end.offset, [bytes(100)] * records, epoch=epoch)
    log.append(made)
    log.commit(sync=False)


def test_a_record_that_is_appended_while_it_runs_is_in_the_table(tmp_path: Path) -> None:
    """A replica that is added later is shown too; Ctrl-C leaves neither a traceback nor a Java."""
    times = iter(range(handmade_logs.BEGIN_MS, handmade_logs.BEGIN_MS + 1_000))
    log = SegmentedLog(tmp_path / "1", wall_clock=lambda: next(times))
    commit(log, 3)
    with watching(tmp_path, "--every", "100ms") as table:
        row = table.until("1", 3)
        assert row[:5] == ["1", "OK", "1", "3", "0"]
        commit(log, 2, epoch=2)
        assert table.until("1", 5)[:5] == ["1", "OK", "2", "5", "0"]
        late = handmade_logs.batch(0, [bytes(100)] * 3)
        handmade_logs.write_segment(tmp_path / "2", 0, [late])
        # The leader had what it lacks years ago, or it will: that is a matter of the clock.
        row = table.until("2", 3)
        assert (row[2], row[4]) == ("1", "2")
        assert table.interrupt() == (0, "")
        assert table.java_left() == []
    log.close()
