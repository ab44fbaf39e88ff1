"""KAFKA-14139, the scenario of KIP-903, with real logs: with the check, and without it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controller.controller_in_memory import LEVEL
from tests.controller.stale_isr import ACKNOWLEDGED, NO_DIRECTORIES, A, B, six_steps
from tests.support.tree import ROOT

pytestmark = pytest.mark.interpreted

FAULT = "AlterPartition accepts a stale broker epoch"


@pytest.mark.parametrize("level", [NO_DIRECTORIES, LEVEL])
async def test_nothing_acknowledged_is_lost_with_the_disk_of_a_replica_that_was_about_to_join(
    tmp_path: Path, level: int
) -> None:
    held = await six_steps(tmp_path, level)
    assert held == {A: [ACKNOWLEDGED.decode()], B: [ACKNOWLEDGED.decode()]}


def test_without_the_check_the_empty_replica_is_elected_and_everything_is_lost(
    tmp_path: Path,
) -> None:
    """The six steps can fail: the same ones, with the fault planted."""
    command = [sys.executable, "-m", "tests.controller.stale_isr", str(tmp_path), FAULT]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {str(A): [], str(B): []}
