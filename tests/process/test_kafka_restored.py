"""Kafka's own brokers when the controllers come back from a backup: who knows more refuses, and
follows again once its metadata log is moved away."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.process.local_process import STOP_SECONDS, LocalProcess, local, metaquorum
from tests.support.kafka_tools import runtime
from tests.support.tree import ROOT

pytestmark = [pytest.mark.long, pytest.mark.process]

VERSION: Final = "4.3.1"
BROKERS: Final = (101, 102)
LINES: Final = "".join(f"{number}\n" for number in range(100)).encode()


def done(*command: str | Path, stdin: bytes = b"") -> str:
    """Run a command that has to succeed, and return what it prints."""
    ended = metaquorum(*command, stdin=stdin)
    assert ended.code == 0, ended.err
    return ended.out


def lose_the_controllers(cluster: LocalProcess) -> None:
    """Kill all controllers, and delete their disks."""
    for node_id in (1, 2, 3):
        done("local", "kill", f"controller-{node_id}", "--dir", cluster.folder)
        shutil.rmtree(cluster.folder / f"controller-{node_id}" / "data")


@contextmanager
def restored_controllers(folder: Path) -> Iterator[None]:
    """A majority of the controllers, beside the cluster that still has its brokers."""
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "admin.cli.main", "start", "--config", str(settings)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for settings in (folder / f"controller-{n}" / "node.properties" for n in (1, 2))
    ]
    try:
        yield
    finally:
        for each in running:
            each.terminate()
        for each in running:
            each.wait(timeout=STOP_SECONDS)


def test_brokers_that_know_more_than_the_backup_refuse_and_come_back(tmp_path: Path) -> None:
    runtime(VERSION)
    folder, place = tmp_path / "cluster", tmp_path / "backups"
    shape = ("--kafka", VERSION, "--brokers", str(len(BROKERS)), "--base-port", "0")
    with local(folder, *shape) as cluster:
        server = ("--bootstrap-server", cluster.servers)
        for topic in ("kept", "late"):
            done("topics", "create", topic, "--replication-factor", "2", *server)
            done("produce", topic, *server, stdin=LINES)
            if topic == "kept":
                controllers = ("--bootstrap-controller", cluster.controllers)
                done("backup", "--to", place, *controllers)
        lose_the_controllers(cluster)
        assert "Lost: everything" in done("restore", place, "--dir", folder)
        with restored_controllers(folder):
            for _ in BROKERS:
                said = cluster.line(containing="The leader requested truncation to offset")
                assert "below the current high watermark" in said
    for broker in BROKERS:
        data = folder / f"broker-{broker}" / "data"
        (data / "__cluster_metadata-0").rename(tmp_path / f"log-of-{broker}")
    with local(folder) as cluster:
        server = ("--bootstrap-server", cluster.servers)
        assert "late" not in done("topics", "list", *server)
        read = done("consume", "kept", "--from-beginning", *server)
        assert sorted(read.split()) == sorted(LINES.decode().split())
        done("produce", "kept", *server, stdin=LINES)
        done("topics", "create", "late", "--replication-factor", "2", *server)
    for broker in BROKERS:
        (stray,) = (folder / f"broker-{broker}" / "data").glob("late-0.*-stray")
        assert (stray / "00000000000000000000.log").stat().st_size > len(LINES)
