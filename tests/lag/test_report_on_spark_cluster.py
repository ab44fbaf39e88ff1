"""The command on a real Spark cluster: a master and workers, processes on loopback."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jinja2", reason="the extra spark is not installed")

from lag.output.files import as_json
from lag.progress import Steps
from lag.request import ReportRequest
from tests.lag.copied_logs import CUT_BYTES, copy_of
from tests.support.s3_server import NEEDS_MOTO, S3Server
from tests.support.tree import ROOT

pytestmark = [pytest.mark.process, pytest.mark.long]

COMMAND_SECONDS_MAX = 600


def test_a_cluster_gives_the_same_tables_as_two_threads(plain: Any, tmp_path: Path) -> None:
    from lag.runner import collect
    from lag.source.data_source import QuorumLogSource
    from tests.lag.spark_cluster import standalone_cluster

    plain.dataSource.register(QuorumLogSource)
    logs = tmp_path / "logs"
    copy_of(logs, 1)
    copy_of(logs, 2, without_bytes=CUT_BYTES)
    copy_of(logs, 3, without_bytes=CUT_BYTES // 2)
    # Workers start where nothing of ours is on the path: they have the zip alone.
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    here = json.loads(as_json(collect(plain, ReportRequest(paths=(str(logs),)), Steps(None))))
    with standalone_cluster(tmp_path, environ, workers=2) as url:
        there = report(url, logs, tmp_path / "there")
        assert sorted(path.name for path in tmp_path.glob("worker-*")) == ["worker-0", "worker-1"]
        worked = [path for path in tmp_path.glob("worker-*/app-*/*") if path.is_dir()]
        assert len(worked) == 2, "both workers have run an executor"
    assert there == here
    assert [row["replica"] for row in here["tables"]["status"]] == ["1", "2", "3"]
    assert len(here["tables"]["problems"]) == 1


@NEEDS_MOTO
def test_workers_read_an_object_store_as_this_machine_reads_files(
    plain: Any, server: S3Server, tmp_path: Path
) -> None:
    """Three workers and the driver share nothing but the store."""
    from lag.runner import collect
    from lag.source.data_source import QuorumLogSource
    from tests.lag.spark_cluster import standalone_cluster

    plain.dataSource.register(QuorumLogSource)
    logs = tmp_path / "logs"
    for node in range(1, 6):
        copy_of(logs, node, without_bytes=CUT_BYTES // 2 * (node == 2))
    server.make_bucket("nodes")
    server.put_folder("nodes/all", logs)
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    here = as_json(collect(plain, ReportRequest(paths=(str(logs),)), Steps(None))).decode()
    with standalone_cluster(tmp_path, environ, workers=3) as url:
        there = report(url, "s3://nodes/all", tmp_path / "there")
        worked = [path for path in tmp_path.glob("worker-*/app-*/*") if path.is_dir()]
        assert len(worked) == 3, "all workers have run an executor"
    assert there == json.loads(here.replace(str(logs), "s3://nodes/all"))
    assert len(there["tables"]["replicas"]) == 5


def report(master: str, logs: Path | str, out: Path) -> Any:
    """The JSON of the command, which exits with 3 because one log is torn."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "admin.cli.main", "lag", "report", str(logs)),
            *("--master", master, "--format", "json", "--out", str(out)),
        ],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_SECONDS_MAX,
    )
    assert done.returncode == 3, done.stderr
    return json.loads((out / "report.json").read_bytes())
