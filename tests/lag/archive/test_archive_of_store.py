"""An archive of logs in an object store, and a report of it and of what is still in the store."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")

from tests.lag.archive.test_archived_report import (
    BATCHES_OF_A_SEGMENT,
    NODES,
    SEED,
    cut,
    write_up_to,
)
from tests.lag.random_quorum import RandomQuorum
from tests.support.s3_server import NEEDS_MOTO, S3Server
from tests.support.tree import ROOT

pytestmark = [pytest.mark.process, pytest.mark.long, NEEDS_MOTO]

SECONDS_MAX: Final = 600
STORED: Final = "s3://nodes/logs"


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "admin.cli.main", "lag", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )


def report(out: Path, *arguments: str) -> dict[str, Any]:
    """The tables of a report, but for the sentences that the folders are in."""
    done = run("report", *arguments, "--format", "json", "--out", str(out))
    assert done.returncode in (0, 3), done.stderr
    tables: dict[str, Any] = json.loads((out / "report.json").read_bytes())["tables"]
    return tables


def test_cut_logs_in_a_store_and_their_archive_are_reported_as_the_whole_logs(
    server: S3Server, tmp_path: Path
) -> None:
    server.make_bucket("nodes")
    rng, logs, kept = random.Random(SEED), tmp_path / "logs", str(tmp_path / "archive")
    copies = RandomQuorum(SEED).copies(NODES)
    for copy in copies:
        copy.divide(rng, BATCHES_OF_A_SEGMENT)
    for share in (0.5, 1):
        write_up_to(copies, share, logs)
        server.put_folder("nodes/logs", logs)
        done = run("archive", STORED, "--archive", kept, "--once")
        assert done.returncode == 0, done.stderr
    whole = report(tmp_path / "whole", str(logs))
    cut(logs, random.Random(SEED))
    server.empty("nodes/logs")
    server.put_folder("nodes/logs", logs)
    archived = report(tmp_path / "archived", STORED, "--archive", kept)
    assert archived == json.loads(json.dumps(whole).replace(str(logs), STORED))
    # Without their names, the logs are those of which the archive was made.
    assert report(tmp_path / "again", "--archive", kept) == archived
