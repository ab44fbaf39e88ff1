"""Hostile frames at real nodes, in the short form; `make fuzz` is the long one."""

import subprocess
import sys
from pathlib import Path

import pytest

from chaos.fuzz.attack import Target
from chaos.fuzz.cluster import Caller
from chaos.fuzz.run import Run, RunSettings
from tests.support.tree import ROOT

pytestmark = pytest.mark.process

SEED = 11
FAULTY = ("-m", "tests.process.faulty_node")


def settings(caller: Caller, *targets: Target, frames: int = 2_000, **more: object) -> RunSettings:
    return RunSettings(
        seed=SEED,
        first=0,
        frames=frames,
        targets=targets,
        caller=caller,
        controllers=1,
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    "caller",
    [
        Caller.USER,
        pytest.param(Caller.STRANGER, marks=pytest.mark.long),
        pytest.param(Caller.UNAUTHENTICATED, marks=pytest.mark.long),
    ],
)
async def test_hostile_frames_do_no_harm(tmp_path: Path, caller: Caller) -> None:
    for report in await Run(settings(caller, *Target), tmp_path).carry_out():
        assert report.problems == [], str(report)
        assert report.sent.frames == 2_000


async def test_a_planted_fault_is_found_with_its_frame(tmp_path: Path) -> None:
    asked = settings(Caller.STRANGER, Target.CONTROLLER, frames=800, program=FAULTY)
    (report,) = await Run(asked, tmp_path).carry_out()
    traced = [each for each in report.problems if "planted" in each]
    assert traced, str(report)
    for each in traced:
        assert "DescribeClientQuotas v" in each
        assert "on a connection with frames" in each


@pytest.mark.long
def test_the_command_prints_a_summary(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "chaos.fuzz", "--frames", "200", "--seed", str(SEED)]
    chosen = ("--listener", "broker", "--as", "unauthenticated", "--controllers", "1")
    done = subprocess.run(
        [*command, *chosen, "--folder", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert "200 frames as unauthenticated at the listener broker, seed 11" in done.stdout
    assert done.stdout.endswith("nothing wrong\n")
    assert not any(tmp_path.iterdir())
