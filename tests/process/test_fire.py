"""Real controllers under fire, in the short form; `make fire ROUNDS=50` is the long one."""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Final

import pytest

from tests.support.tree import ROOT

pytestmark = pytest.mark.process

SECONDS_MAX: Final = 240
SEED: Final = 5
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


def test_a_setting_that_is_none_is_refused_in_one_sentence(tmp_path: object) -> None:
    done = fire("--setting", "quorum", folder=tmp_path)
    assert done.returncode == 2
    assert "Error: 'quorum' is no setting: write name=value" in done.stderr
    wrong = fire("--loopback", "--setting", "quorum.fetch.timeout=1", folder=tmp_path)
    assert wrong.returncode == 1
    assert "quorum.fetch.timeout is not a setting" in wrong.stderr
    assert "Traceback" not in wrong.stderr
