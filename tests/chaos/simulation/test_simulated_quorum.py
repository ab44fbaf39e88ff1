"""Whole quorums in virtual time, with every invariant checked after every event.

`make sim` runs as many seeds as one likes; these few run with every check.
"""

import os
import subprocess
import sys
from collections import Counter
from functools import cache

import pytest

from chaos.nemesis.removed_voters import REMOVED_AHEAD
from chaos.outcome import Outcome, run
from chaos.simulation.profile import Fault, Profile
from chaos.simulation.run import FIRED_AS, Report, simulate
from tests.support.parameters import few_in_quick
from tests.support.tree import ROOT

SEEDS = range(40)
RARE = (43, 54, 71, 107)
"""Seeds with voters removed in a higher epoch and with faulty leaders, which few seeds have."""


@cache
def outcome(seed: int) -> Outcome:
    return run(Profile.drawn(seed))


def report(seed: int) -> Report:
    found = outcome(seed)
    assert found.report is not None, str(found.failure)
    return found.report


@pytest.mark.parametrize("seed", few_in_quick(SEEDS, every=10))
def test_a_quorum_stays_safe_under_faults_and_recovers_when_healed(seed: int) -> None:
    assert report(seed).committed >= 10


@pytest.mark.thorough
@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(4115, id="one voter whose log must grow before it can be damaged"),
        pytest.param(4190, id="voters that are wanted in the moment in which they die"),
        pytest.param(4251, id="full disks that are exchanged, and get room all the same"),
        pytest.param(4205, id="a wish for other voters that nobody hears for minutes"),
        pytest.param(2410, id="a disk that fails while a process writes out what it has and ends"),
        pytest.param(2913, id="a lone voter that is wanted as the leader, and leads already"),
        pytest.param(4846, id="copies of disks of a time when the clocks were ahead"),
        pytest.param(910237, id="copies of disks, and voters that were named once, in vain"),
        pytest.param(302970, id="disks whose damage went with a file, and that nobody restarts"),
    ],
)
def test_faults_that_no_quorum_could_survive_are_not_injected(seed: int) -> None:
    assert report(seed).committed >= 10


@pytest.mark.thorough
@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(201602, id="two boots of one timestamp, believed to be in two places"),
        pytest.param(87, id="voters that were removed, in a higher epoch than the leader"),
    ],
)
def test_seeds_that_a_quorum_once_could_not_recover_from_pass(seed: int) -> None:
    assert report(seed).committed >= 10


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_trace() -> None:
    assert [simulate(seed).trace_hash for seed in range(3)] == [
        report(seed).trace_hash for seed in range(3)
    ]
    assert len({report(seed).trace_hash for seed in SEEDS}) == len(SEEDS)


@pytest.mark.thorough
@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_a_trace_does_not_depend_on_the_order_of_sets(hash_seed: str) -> None:
    seed = next(seed for seed in SEEDS if len(Profile.drawn(seed).faults) > 10)
    code = f"from chaos.simulation.run import simulate; print(simulate({seed}).trace_hash)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=True,
        text=True,
    )
    assert ran.stdout.strip() == report(seed).trace_hash


@pytest.mark.thorough
def test_everything_that_can_go_wrong_does_go_wrong() -> None:
    """A simulation in which nothing happens finds nothing, so what happens is counted."""
    happened: Counter[str] = Counter()
    for seed in (*SEEDS, *RARE):
        happened += report(seed).counts
    wanted = {FIRED_AS.get(each, each): 10 for each in Fault} | {
        FIRED_AS[Fault.ROT_SNAPSHOT]: 3,
        Fault.STRAY_INTO_SNAPSHOT: 2,
        "cuts what has turned over at the end of its log": 5,
        "a pre-vote is not known": 10,
        "a log is truncated": 50,
        "a log is cut at its start": 500,
        "a snapshot is loaded": 200,
        "a snapshot is installed": 20,
        "a snapshot is gone on with": 1,
        "a transaction has no snapshot": 100,
        "a read is answered": 500,
        "a read is refused": 500,
        "a message is lost": 1_000,
        "a message comes twice": 1_000,
        "a message straggles": 1_000,
        "a message is held back": 50,
        "a leader is taken for gone": 50,
        "a lead is handed over": 10,
        "somebody of another cluster is refused": 100,
        "nothing is learned of another cluster": 500,
        "a timer is late": 20,
        "too much is asked": 100,
        "a voter has lost acknowledged data": 5,
        REMOVED_AHEAD: 1,
    }
    assert {what: happened[what] for what, least in wanted.items() if happened[what] < least} == {}
    assert sum(report(seed).committed for seed in SEEDS) > 4_000
