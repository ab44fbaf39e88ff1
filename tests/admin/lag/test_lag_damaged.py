"""Damaged logs: a report of what can be known, the rest among the problems, and the exit code."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.admin.lag.barred import barred
from tests.admin.lag.copied_logs import copy_of
from tests.support.tree import ROOT

pytestmark = pytest.mark.process

COMMAND_SECONDS_MAX: Final = 600


def report(*arguments: object) -> "subprocess.CompletedProcess[str]":
    """`metaquorum lag report`, to its end, by somebody who may not read everything."""
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    from admin.apache.java import Unavailable, find_java

    try:
        find_java()
    except Unavailable as unavailable:
        pytest.skip(str(unavailable))
    command = [sys.executable, "-m", "admin.cli.main", "lag", "report", *map(str, arguments)]
    return subprocess.run(
        [*barred(), *command],
        env={**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_SECONDS_MAX,
    )


def test_where_nothing_can_be_read_one_sentence_says_why(tmp_path: Path) -> None:
    for name in ("empty", "photos", "barred"):
        (tmp_path / name).mkdir()
    (tmp_path / "photos" / "me.jpg").write_text("no log")
    copy_of(tmp_path / "barred", 1).chmod(0)
    named = [tmp_path / name for name in ("empty", "photos", "barred")]
    done = report(*named, "--out", tmp_path / "out")
    (tmp_path / "barred" / "controller-1").chmod(0o700)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: there is no log to read: ")
    for folder, why in (
        (tmp_path / "empty", "no segment (*.log) is in it"),
        (tmp_path / "photos", "no segment (*.log) is in it"),
        (tmp_path / "barred" / "controller-1", "it cannot be read: Permission denied"),
    ):
        assert f"{folder}: {why}" in line
    assert not (tmp_path / "out").exists()
