"""The faults of a run, and their effect on a cluster."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.processes.faults import THE_LEADER, Fault, Kind, fault, planned, schedule


@given(st.sets(st.sampled_from(list(Kind)), min_size=1), st.integers(0, 1 << 32))
def test_every_kind_comes_before_any_comes_again(kinds: set[Kind], seed: int) -> None:
    drawn = list(itertools.islice(schedule(tuple(kinds), random.Random(seed)), 3 * len(kinds)))
    for at in range(0, len(drawn), len(kinds)):
        assert set(drawn[at : at + len(kinds)]) == kinds


def test_a_seed_decides_the_faults() -> None:
    def drawn() -> list[Fault]:
        rng = random.Random(7)
        kinds = itertools.islice(schedule(tuple(Kind), rng), 20)
        return [fault(kind, range(1, 6), 3, rng) for kind in kinds]

    assert drawn() == drawn()


@pytest.mark.parametrize(
    ("kind", "count", "can_go_on"),
    [
        (Kind.KILL_ONE, 1, True),
        (Kind.KILL_LEADER, 1, True),
        (Kind.KILL_MAJORITY, 3, False),
        (Kind.KILL_ALL, 5, False),
        (Kind.PAUSE_LEADER, 1, True),
        (Kind.CUT_LEADER, 1, True),
        (Kind.CUT_ONE, 1, True),
        (Kind.CUT_ONE_WAY, 1, True),
        (Kind.DEAF_LEADER, 1, True),
        (Kind.MUTE_LEADER, 1, True),
        (Kind.DELAY, 5, True),
        (Kind.ROLLING_RESTART, 1, True),
        (Kind.WIPE_ONE, 1, True),
        (Kind.JUMP_CLOCK, 1, True),
    ],
)
def test_each_kind_of_fault_hits_the_nodes_that_it_names(
    kind: Kind, count: int, can_go_on: bool
) -> None:
    chosen = fault(kind, range(1, 6), 4, random.Random(1))
    assert (len(chosen.nodes), chosen.leaves_majority) == (count, can_go_on)
    assert chosen.nodes == (4,) or not kind.aims_at_the_leader
    assert bool(chosen.links) is kind.cuts


def test_a_node_that_is_cut_off_neither_hears_nor_is_heard() -> None:
    chosen = fault(Kind.CUT_LEADER, (1, 2, 3), 2, random.Random(1))
    assert set(chosen.links) == {(2, 1), (1, 2), (2, 3), (3, 2)}


def test_a_deaf_leader_is_heard_and_a_mute_one_hears() -> None:
    deaf = fault(Kind.DEAF_LEADER, (1, 2, 3), 2, random.Random(1))
    mute = fault(Kind.MUTE_LEADER, (1, 2, 3), 2, random.Random(1))
    assert set(deaf.links) == {(1, 2), (3, 2)}
    assert set(mute.links) == {(2, 1), (2, 3)}


def test_a_schedule_is_known_but_for_the_number_of_the_leader() -> None:
    """`--dry-run` shows it; the run of the same seed has the same faults."""
    nodes = (1, 2, 3)
    shown = planned(tuple(Kind), nodes, 40, random.Random(7))
    rng = random.Random(7)
    kinds = schedule(tuple(Kind), rng)
    for each, leader in zip(shown, itertools.cycle(nodes), strict=False):
        done = fault(next(kinds), nodes, leader, rng)
        assert (each.kind, each.hold_ms, each.amount) == (done.kind, done.hold_ms, done.amount)
        assert each.nodes in ((THE_LEADER,), done.nodes)
    assert "kill-leader the leader" in map(str, planned(tuple(Kind), nodes, 40, random.Random(7)))


def test_two_nodes_cannot_spare_one() -> None:
    assert not fault(Kind.CUT_ONE_WAY, (1, 2), 1, random.Random(1)).leaves_majority
    assert not fault(Kind.KILL_ONE, (1, 2), 1, random.Random(1)).leaves_majority
