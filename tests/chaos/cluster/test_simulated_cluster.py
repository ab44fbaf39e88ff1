"""Whole clusters in virtual time: controllers, brokers and clients, checked after every event.

`make sim` runs as many seeds as one likes; these few run with every check.
"""

import gc
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from itertools import count

import pytest

from chaos.cluster.invariants.partition_data import COPY_REMOVED, STEP_CANCELLED
from chaos.cluster.invariants.paused_copies import STANDS_STILL
from chaos.cluster.profile import ClusterProfile
from chaos.cluster.run import simulate
from chaos.cluster.workload.redirected_moves import REDIRECTED
from chaos.outcome import Outcome, run
from chaos.simulation.named_profiles import drawn
from chaos.simulation.profile import Profile
from chaos.simulation.run import Report
from tests.support.parameters import few_in_quick
from tests.support.tree import ROOT

SEEDS = range(8)
STEPS_CANCELLED_MIN = 50
SEEDS_PAUSED, COPIES_STILL_MIN = 12, 50
SEEDS_MAX = 40
"""The maximum of seeds until so many steps are cancelled; half as many are usually enough."""


@cache
def outcome(seed: int) -> Outcome:
    return run(ClusterProfile.drawn(seed))


def report(seed: int) -> Report:
    found = outcome(seed)
    assert found.report is not None, str(found.failure)
    return found.report


@pytest.mark.parametrize("seed", few_in_quick(SEEDS, every=4))
def test_a_cluster_stays_right_under_faults_and_every_move_ends_when_it_is_healed(
    seed: int,
) -> None:
    assert report(seed).counts["a client is answered"] >= 10


@pytest.mark.thorough
@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(50339, id="a log without its first segment, whose name no disk had"),
        pytest.param(50105, id="the last one in sync has lost its disk: only an operator can help"),
        pytest.param(50966, id="a leader whose timer is late, for want of which it leads on"),
    ],
)
def test_seeds_that_failed_once_pass(seed: int) -> None:
    assert report(seed).counts["a client is answered"] >= 10


@pytest.mark.thorough
def test_nothing_of_a_run_is_kept_from_the_collector_when_it_has_ended() -> None:
    for seed in SEEDS:
        report(seed)
    assert gc.get_freeze_count() == 0


@pytest.mark.thorough
def test_the_same_seed_is_the_same_cluster_event_for_event() -> None:
    assert [simulate(seed).trace_hash for seed in range(2)] == [
        report(seed).trace_hash for seed in range(2)
    ]
    assert len({report(seed).trace_hash for seed in SEEDS}) == len(SEEDS)


@pytest.mark.thorough
@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_the_trace_of_a_cluster_does_not_depend_on_the_order_of_sets(hash_seed: str) -> None:
    code = "from chaos.cluster.run import simulate; print(simulate(3).trace_hash)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=True,
        text=True,
    )
    assert ran.stdout.strip() == report(3).trace_hash


@pytest.mark.thorough
def test_every_kind_of_event_happens() -> None:
    """A simulation in which nothing happens finds nothing, so what happens is counted."""
    happened: Counter[str] = Counter()
    for seed in SEEDS:
        happened += report(seed).counts
    wanted = {
        "a broker is registered": 30,
        "a new controller knows the whole log": 20,
        "a client is answered": 300,
        "a client gets no answer": 5,
        "a stale read is answered": 20,
        "data of a partition is removed": 20,
        "a broker loses data amid other faults": 1,
        REDIRECTED: 1,
    }
    assert {what: happened[what] for what, least in wanted.items() if happened[what] < least} == {}


@pytest.mark.thorough
def test_fifty_steps_taken_back_at_any_moment_leave_all_as_before_and_no_orphan() -> None:
    """Each is judged by the run that it is in: the replicas are those of before the step, what was
    led is led (P13), and in the end nobody has data of what is not on it (P21)."""
    happened: Counter[str] = Counter()
    for seed in count():
        happened += report(seed).counts
        if happened[STEP_CANCELLED] >= STEPS_CANCELLED_MIN:
            break
        assert seed < SEEDS_MAX, f"clients cancelled {happened[STEP_CANCELLED]} steps only"
    # Most copies are so young that nothing of them was on a disk; some were not.
    assert happened[COPY_REMOVED]


@pytest.mark.thorough
def test_copies_stand_still_while_their_moves_are_paused() -> None:
    """P24 is judged at each fetch; here is that there are copies to hold up."""
    still = sum(report(seed).counts[STANDS_STILL] for seed in range(SEEDS_PAUSED))
    assert still >= COPIES_STILL_MIN


def test_every_other_seed_is_a_cluster_and_those_of_the_quorum_stay_what_they_are() -> None:
    assert drawn(4, "everything") == drawn(4, "quorum") == Profile.drawn(4)
    assert drawn(5, "everything") == drawn(5, "cluster") == ClusterProfile.drawn(5)
