"""The end of a node's process: whatever it fails of, its last lines say so."""

import subprocess
import sys

from tests.support.tree import ROOT

NODE = """
import asyncio
from quorum.process import StartError, run_process

async def fail():
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(first())
        tasks.create_task(second())

async def first():
    raise ValueError("a fault\\nof ours")

async def second():
    raise StartError("no port")

raise SystemExit(run_process(fail))
"""


def test_the_last_lines_name_the_errors_inside_a_group_of_exceptions() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NODE], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == r"Error: ValueError: a fault\nof ours"
    assert "Error: no port\n" in done.stderr
    assert "Traceback (most recent call last):" in done.stderr
