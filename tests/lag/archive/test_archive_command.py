"""`metaquorum lag archive` as a service, with Ctrl-C at the end, and a report of what it kept."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")

import pyarrow.parquet as pq

from tests.lag.growing_logs import RECORDS, Node
from tests.lag.parquet_streams import LOOK_SECONDS, LOOKS_MAX
from tests.support.tree import ROOT

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        shutil.which("java") is None and "JAVA_HOME" not in os.environ,
        reason="Spark needs Java 17 or newer",
    ),
]
SECONDS_MAX: Final = 280.0
COMMAND: Final = (sys.executable, "-m", "admin.cli.main", "lag")


def started(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def until_archived(place: Path, offset: int, process: "subprocess.Popen[str]") -> None:
    """Return once a whole part has the record at this offset."""
    pause = threading.Event()
    for _ in range(LOOKS_MAX):
        for whole in place.glob("parts/*/_SUCCESS"):
            for path in whole.parent.rglob("*.parquet"):
                ends = pq.read_table(path, columns=["last_offset"])["last_offset"]
                if offset in ends.to_pylist():
                    return
        assert process.poll() is None, process.communicate()
        pause.wait(LOOK_SECONDS)
    raise AssertionError(f"offset {offset} is not in the archive")


@pytest.mark.long
def test_what_is_appended_while_it_runs_is_reported_when_the_logs_are_gone(tmp_path: Path) -> None:
    node = Node(tmp_path / "logs" / "1")
    node.commit(2, epoch=1)
    place = tmp_path / "archive"
    process = started(
        "archive", str(tmp_path / "logs"), "--archive", str(place), "--every", "100ms"
    )
    guard = threading.Timer(SECONDS_MAX, os.killpg, (process.pid, signal.SIGKILL))
    guard.start()
    try:
        assert process.stdout is not None
        said = f"{place} has the logs up to their ends, and follows them\n"
        assert process.stdout.readline() == said
        node.commit(1, epoch=1)
        until_archived(place, 3 * RECORDS - 1, process)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate()
        assert (process.returncode, out, err) == (0, "", "")
    finally:
        guard.cancel()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    node.log.close()
    shutil.rmtree(tmp_path / "logs")
    report = started("report", "--archive", str(place), "--out", str(tmp_path / "out"))
    out, err = report.communicate(timeout=SECONDS_MAX)
    assert report.returncode == 0, err
    assert str(tmp_path / "out" / "index.html") in out
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert str(place) in page
    assert "metaquorum-lag-archive-" not in page
