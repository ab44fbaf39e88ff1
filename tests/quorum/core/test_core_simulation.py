"""Seeded runs of a whole quorum in virtual time, every invariant judged after every effect.

`QUORUM_SEEDS=5000` runs the seeds 0 to 4999, `QUORUM_SEEDS=777:778` the seed 777 alone.
"""

import os
import subprocess
import sys
from collections import Counter
from functools import cache

import pytest

from tests.quorum.core.profile import Fault, Report
from tests.quorum.core.simulation import simulate
from tests.support.tree import ROOT


def seeds() -> range:
    first, _, end = os.environ.get("QUORUM_SEEDS", "0:60").rpartition(":")
    return range(int(first or 0), int(end))


@cache
def report(seed: int) -> Report:
    return simulate(seed)


@pytest.mark.parametrize("seed", seeds())
def test_a_quorum_stays_safe_under_faults_and_recovers_when_healed(seed: int) -> None:
    assert report(seed).committed >= 6


def test_the_same_seed_gives_the_same_trace() -> None:
    assert [simulate(seed).trace_hash for seed in range(3)] == [
        report(seed).trace_hash for seed in range(3)
    ]
    assert len({report(seed).trace_hash for seed in range(10)}) == 10


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_a_trace_does_not_depend_on_the_order_of_sets(hash_seed: str) -> None:
    code = "from tests.quorum.core.simulation import simulate; print(simulate(4).trace_hash)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=True,
        text=True,
    )
    assert ran.stdout.strip() == report(4).trace_hash


def test_everything_that_can_go_wrong_does_go_wrong() -> None:
    """A simulation in which nothing happens finds nothing, so what happens is counted."""
    happened: Counter[str] = Counter()
    for seed in range(60):
        happened += report(seed).counts
    wanted = dict.fromkeys(Fault, 50) | {
        "AppendLeaderChange": 200,
        "TruncateTo": 50,
        "ReadReady": 1_000,
        "ReadRefused": 500,
        "died between effects": 20,
    }
    assert {what for what, least in wanted.items() if happened[what] < least} == set()
    assert sum(report(seed).committed for seed in range(60)) > 3_000
