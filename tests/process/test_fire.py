"""Real controllers under fire, in the short form; `make fire ROUNDS=50` is the long one."""

import asyncio
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from admin.client import security
from admin.client.admin_client import AdminClient
from chaos.processes.preload import can_compile
from chaos.processes.proxies import free_addresses
from quorum.transport.address import Address
from tests.support.bell import PATIENCE_SECONDS
from tests.support.kafka_tools import runtime
from tests.support.tree import ROOT

pytestmark = pytest.mark.process

SECONDS_MAX: Final = 240
SEED: Final = 5
NODES: Final = 3
OFTEN: Final = (
    "--setting=metadata.log.max.record.bytes.between.snapshots=20000",
    "--setting=metadata.max.retention.bytes=60000",
)
"""Snapshots are taken, and logs cut, all the time."""


def fire(*arguments: str, folder: object) -> "subprocess.CompletedProcess[str]":
    """Run it to its end."""
    command = [sys.executable, "-m", "chaos.processes", "--json", "--folder", str(folder)]
    return subprocess.run(
        [*command, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


def report_of(kinds: Sequence[str], *arguments: str, folder: object) -> dict[str, Any]:
    """The report of a run that has one round of each kind and finds nothing wrong."""
    chosen = [word for kind in kinds for word in ("--kind", kind)]
    rounds = ("--rounds", str(len(kinds)), "--seed", str(SEED))
    done = fire(*rounds, *chosen, *arguments, folder=folder)
    assert done.returncode == 0, done.stderr + done.stdout
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["problems"] == []
    assert report["acknowledged"] > 0
    assert sorted(each["kind"] for each in report["rounds"]) == sorted(kinds)
    return report


def test_acknowledged_writes_survive_kills_of_the_leader_and_of_all(tmp_path: object) -> None:
    report_of(["kill-leader", "kill-all", "pause-leader"], *OFTEN, folder=tmp_path)


def test_acknowledged_writes_survive_a_leader_that_is_cut_off(tmp_path: object) -> None:
    report = report_of(["cut-leader", "cut-one-way"], "--loopback", folder=tmp_path)
    assert report["network"] == "proxies"


@pytest.mark.long
def test_acknowledged_writes_survive_nodes_that_leave_and_come_back(tmp_path: object) -> None:
    """Each is a voter again in the end: a run compares the logs of all."""
    kinds = ["wipe-one", "damage-one", "change-voters", "rolling-restart", "kill-at-point"]
    report = report_of(kinds, *OFTEN, folder=tmp_path)
    assert report["judgement"]["with_reads"] == "linearizable"
    assert report["judgement"]["reads"] > 0


@pytest.mark.long
def test_acknowledged_writes_survive_faulty_disks_and_clocks(tmp_path: object) -> None:
    if not can_compile():
        pytest.skip("there is no C compiler for the library that damages disk and clock")
    kinds = ["slow-disk", "full-disk", "failing-disk", "jump-clock"]
    report = report_of(kinds, folder=tmp_path)
    (failing,) = (each for each in report["rounds"] if each["kind"] == "failing-disk")
    assert "could not be synced" in failing["note"]


@pytest.mark.long
def test_acknowledged_writes_survive_links_that_delay_lose_and_go_one_way(
    tmp_path: object,
) -> None:
    kinds = ["delay", "loss", "deaf-leader", "mute-leader"]
    report_of(kinds, "--loopback", folder=tmp_path)


def test_a_dry_run_shows_the_faults_of_the_seed_and_starts_nothing(tmp_path: Path) -> None:
    done = fire("--dry-run", "--rounds", "3", "--seed", "5", "--kind", "kill-one", folder=tmp_path)
    assert done.returncode == 0
    shown = done.stdout.splitlines()
    assert len(shown) == 3
    assert all("kill-one" in each and "at least" in each for each in shown)
    assert list(tmp_path.iterdir()) == []
    again = fire("--dry-run", "--rounds", "3", "--seed", "5", "--kind", "kill-one", folder=tmp_path)
    assert again.stdout == done.stdout


@pytest.mark.parametrize("where", [(), ("--loopback",)], ids=["namespaces", "proxies"])
def test_ctrl_c_ends_a_run_in_order_and_leaves_nothing_behind(
    where: tuple[str, ...], tmp_path: Path
) -> None:
    """In the middle of a fault: it is healed, what was done is judged, and all are stopped."""
    kinds = ("--kind", "pause-leader", "--kind", "cut-leader")
    command = [sys.executable, "-m", "chaos.processes", "--json", "--folder", str(tmp_path)]
    rounds = ("--rounds", "1000", "--seed", str(SEED))
    with subprocess.Popen(
        [*command, *rounds, *kinds, *where],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if "went on after" in line:
                break
        assert processes_of(tmp_path)
        run.send_signal(signal.SIGINT)
        said, errors = run.communicate(timeout=SECONDS_MAX)
    assert run.returncode == 0, errors
    report = json.loads(said)
    assert report["interrupted"]
    assert len(report["rounds"]) >= 1
    assert report["problems"] == []
    assert list(tmp_path.iterdir()) == []
    assert processes_of(tmp_path) == []


def test_nodes_end_with_a_run_that_is_killed(tmp_path: Path) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("there is no setpriv, which lets a process end with its parent")
    command = [sys.executable, "-m", "chaos.processes", "--loopback", "--folder", str(tmp_path)]
    with subprocess.Popen(
        [*command, "--rounds", "1000", "--kind", "pause-leader"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if "went on after" in line:
                break
        nodes = processes_of(tmp_path)
        assert len(nodes) >= NODES
        run.kill()
    for node in nodes:
        wait_until_ended(node)


CLUSTER_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
START: Final = (
    "cd FOLDER/n{node} && (setsid PYTHON -m admin.cli.main start --config node.properties"
    " >> node.log 2>&1 < /dev/null & echo $! > pid)"
)
KILL: Final = "kill -9 $(cat FOLDER/n{node}/pid)"
STOP: Final = (
    "kill $(cat FOLDER/n{node}/pid); while kill -0 $(cat FOLDER/n{node}/pid); do sleep 0.05; done"
)


@pytest.mark.long
def test_a_cluster_that_somebody_runs_is_broken_by_his_commands_and_left_as_it_was(
    tmp_path: Path,
) -> None:
    addresses = dict(zip((1, 2, 3), free_addresses(NODES), strict=True))
    known = ",".join(f"{id}@{address}" for id, address in addresses.items())
    for id, address in addresses.items():
        (tmp_path / f"n{id}").mkdir()
        settings = {
            "process.roles": "controller",
            "node.id": id,
            "cluster.id": CLUSTER_ID,
            "listeners": address,
            "log.dir": tmp_path / f"n{id}" / "data",
            "quorum.voters": known,
        }
        lines = [f"{name}={value}\n" for name, value in settings.items()]
        (tmp_path / f"n{id}" / "node.properties").write_text("".join(lines))
    start, kill, stop = (
        each.replace("FOLDER", str(tmp_path)).replace("PYTHON", sys.executable)
        for each in (START, KILL, STOP)
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for id in addresses:
        subprocess.run(start.replace("{node}", str(id)), shell=True, check=True, env=environment)
    try:
        where = [f"--controller={id}={address}" for id, address in addresses.items()]
        how = (f"--start-command={start}", f"--kill-command={kill}", f"--stop-command={stop}")
        (tmp_path / "run").mkdir()
        done = subprocess.run(
            [
                *(sys.executable, "-m", "chaos.processes", "--json", "--target", "given"),
                *("--rounds", "4", "--seed", str(SEED), "--folder", str(tmp_path / "run")),
                *where,
                *how,
            ],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        report = json.loads(done.stdout)
        assert report["judgement"]["with_reads"] == "linearizable"
        assert report["disks"] == 0
        assert any(each.startswith("cut-leader: ") for each in report["left_out"])
        assert asyncio.run(users_of(addresses[1])) == []
        for id in addresses:
            assert Path(f"/proc/{(tmp_path / f'n{id}' / 'pid').read_text().strip()}").exists()
    finally:
        for id in addresses:
            subprocess.run(kill.replace("{node}", str(id)), shell=True, check=False)


async def users_of(address: Address) -> list[str]:
    """The users that the cluster knows."""
    async with AdminClient([address], is_controller=True) as client:
        answer = await client.carry_out(security.describe_users())
    return [each.name for each in security.read_users(answer)]


@pytest.mark.long
def test_kafkas_controllers_meet_the_same_faults_and_judges(tmp_path: Path) -> None:
    runtime("4.3.1")  # Skips without Java or the jars.
    kinds = ["kill-leader", "wipe-one"]
    report = report_of(kinds, "--target", "kraft", "--kafka", "4.3.1", folder=tmp_path)
    assert report["target"] == "Apache Kafka"
    assert report["judgement"]["changes"] == "linearizable"
    assert report["committed"] > 0


def processes_of(folder: Path) -> list[int]:
    """The processes that work in this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_there = str(folder) in os.readlink(process / "cwd")
        except OSError:
            continue
        if is_there:
            found.append(int(process.name))
    return found


def wait_until_ended(process: int) -> None:
    """Return once a process that is no child of this one has ended."""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return
    try:
        ready, _, _ = select.select([handle], [], [], PATIENCE_SECONDS)
        assert ready, f"process {process} goes on"
    finally:
        os.close(handle)


def test_a_setting_that_is_none_is_refused_in_one_sentence(tmp_path: object) -> None:
    done = fire("--setting", "quorum", folder=tmp_path)
    assert done.returncode == 2
    assert "Error: 'quorum' is no setting: write name=value" in done.stderr
    wrong = fire("--loopback", "--setting", "quorum.fetch.timeout=1", folder=tmp_path)
    assert wrong.returncode == 1
    assert "quorum.fetch.timeout is not a setting" in wrong.stderr
    assert "Traceback" not in wrong.stderr
