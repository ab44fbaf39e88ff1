"""The descendants of a process, with their memory and processor time."""

import os
import subprocess
import sys

from bench.process_tree import Watch, below, peak_mb

BUSY = """
import time
held = b"x" * 40_000_000
while time.process_time() < 0.2: pass
print(flush=True)
"""
WAITING = BUSY + "input()"


def test_a_child_is_seen_with_its_peak_and_its_time() -> None:
    argv = [sys.executable, "-c", WAITING]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        found = {process.pid: process for process in below(os.getpid())}
        assert found[child.pid].seconds >= 0.1
        assert found[child.pid].name.startswith("python")
        with Watch() as watch:
            watch.look()
        assert watch.highest("python") >= peak_mb(child.pid) > 40
        assert watch.highest("no such program") == 0
        child.communicate(b"\n")
    assert child.pid not in {process.pid for process in below(os.getpid())}
    assert peak_mb(child.pid) == 0
