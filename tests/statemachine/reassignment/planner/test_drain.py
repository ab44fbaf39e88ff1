"""Plans for draining brokers and for changing replication factors."""

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemachine.reassignment.planner.outcome import outcome
from statemachine.reassignment.planner.placing import Named
from statemachine.reassignment.planner.plans import Unplanned, drain, with_factor
from statemachine.slices import whole
from statemachine.vocabulary import BrokerId, Replicas
from tests.statemachine.support.random_clusters import (
    Current,
    Racks,
    as_even_as_racks_allow,
    clusters,
    loads,
    squares,
)
from tests.support.parameters import at_most_in_quick


def drained(
    current: Current, emptied: set[BrokerId], racks: Racks
) -> dict[Named, Replicas] | Unplanned:
    """The plan, with everything that there is counted."""
    return whole(
        drain(
            current,
            emptied,
            [broker for broker in racks if broker not in emptied],
            racks,
            loads=Counter(broker for each in current.values() for broker in each),
            leads=Counter(each[0] for each in current.values()),
        )
    )


@settings(max_examples=at_most_in_quick(300), deadline=None)
@given(clusters(strangers=0), st.sets(st.integers(0, 3), max_size=2))
def test_only_what_is_on_the_emptied_brokers_moves_and_it_goes_where_it_is_most_even(
    cluster: tuple[Current, Racks], emptied: set[BrokerId]
) -> None:
    current, racks = cluster
    plan = drained(current, emptied, racks)
    takers = {broker: rack for broker, rack in racks.items() if broker not in emptied}
    if isinstance(plan, Unplanned):
        assert " must go from " in plan.message
        assert any(len(each) > len(takers) for each in current.values())
        return
    after = {**current, **plan}
    ways = []
    for named, replicas in current.items():
        kept = tuple(replica for replica in replicas if replica not in emptied)
        assert set(kept) <= set(after[named]) <= set(takers)
        assert len(after[named]) == len(replicas)
        ways.append(
            [
                (*kept, *coming)
                for coming in as_even_as_racks_allow(takers, len(replicas) - len(kept), kept)
            ]
        )
    best = min(
        squares(loads(dict(zip(current, sets, strict=True)), takers))
        for sets in itertools.product(*ways)
    )
    assert squares(loads(after, takers)) == best
    assert set(plan) == {n for n, each in current.items() if not emptied.isdisjoint(each)}


def test_a_broker_that_is_dead_and_forgotten_is_emptied_as_any_other() -> None:
    current: Current = {("t", 0): (9, 0), ("t", 1): (1, 9), ("t", 2): (0, 1)}
    plan = drained(current, {9}, dict.fromkeys(range(3)))
    assert plan == {("t", 0): (2, 0), ("t", 1): (1, 2)}


def test_new_preferred_leaders_of_a_drain_are_spread_evenly() -> None:
    current: Current = {("t", n): (0, 1, 2) for n in range(4)}
    plan = drained(current, {0}, dict.fromkeys(range(6)))
    assert not isinstance(plan, Unplanned)
    assert Counter(each[0] for each in plan.values()).most_common(1)[0][1] == 1


def test_brokers_that_take_nothing_keep_what_they_have() -> None:
    current = {("t", 0): (0, 1), ("t", 1): (0, 2)}
    racks: Racks = {0: "a", 1: "b", 2: "b", 3: "a"}
    found = drain(current, {0}, [3], racks, loads={}, leads={})
    plan = whole(found)
    assert not isinstance(plan, Unplanned)
    assert {named: set(each) for named, each in plan.items()} == {
        ("t", 0): {1, 3},
        ("t", 1): {2, 3},
    }


def test_a_drain_that_cannot_be_says_which_partition_has_nowhere_to_go() -> None:
    plan = drained({("t", 0): (0, 1)}, {0}, {0: None, 1: None})
    assert isinstance(plan, Unplanned)
    assert plan.message == (
        "t-0 has replicas 0, 1: 1 must go from 0, and 0 other brokers could take one; add brokers,"
        " or give it fewer replicas first"
    )


def test_a_drain_of_brokers_that_have_nothing_is_empty() -> None:
    assert drained({("t", 0): (0,)}, {1}, {0: None, 1: None}) == {}


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(300), deadline=None)
@given(clusters(strangers=0), st.integers(1, 4))
def test_another_factor_only_adds_or_only_takes_away_and_the_preferred_leader_stays(
    cluster: tuple[Current, Racks], factor: int
) -> None:
    current, racks = cluster
    counts = Counter(broker for each in current.values() for broker in each)
    plan = whole(with_factor(current, factor, list(racks), racks, loads=counts))
    changing = {named for named, each in current.items() if len(each) != factor}
    if isinstance(plan, Unplanned):
        assert not changing or factor > len(racks)
        return
    assert set(plan) == changing
    ways = []
    for named, before in current.items():
        after = plan.get(named, before)
        assert len(set(after)) == factor
        assert after[0] == before[0]
        if factor >= len(before):
            assert after[: len(before)] == before
            more = as_even_as_racks_allow(racks, factor - len(before), before)
            ways.append([(*before, *each) for each in more])
        else:
            assert [broker for broker in before if broker in after] == list(after)
            among = {broker: racks[broker] for broker in before}
            fewer = as_even_as_racks_allow(among, factor - 1, before[:1])
            ways.append([(before[0], *each) for each in fewer])
    best = min(
        squares(loads(dict(zip(current, sets, strict=True)), racks))
        for sets in itertools.product(*ways)
    )
    assert squares(loads({**current, **plan}, racks)) == best


@pytest.mark.parametrize(
    ("factor", "words"),
    [(0, "not possible"), (2, "already"), (4, "needs 4 brokers")],
)
def test_a_factor_that_cannot_be_is_refused(factor: int, words: str) -> None:
    racks: Racks = dict.fromkeys(range(3))
    found = whole(with_factor({("t", 0): (0, 1)}, factor, list(racks), racks, loads={}))
    assert isinstance(found, Unplanned)
    assert words in found.message


def test_the_outcome_counts_copies_and_leaders() -> None:
    racks: Racks = {0: "a", 1: "b", 2: "b"}
    current = {("t", 0): (0, 1), ("t", 1): (1, 2), ("t", 2): (0, 2)}
    plan = {("t", 0): (1, 0), ("t", 1): (0, 2), ("t", 2): (0, 2)}
    told = outcome(current, plan, racks)
    assert (told.replicas_added, told.replicas_removed) == (1, 1)
    assert told.leaders_moved == 2
    assert (told.crowded_before, told.crowded_after) == (1, 0)
    assert [(each.replicas_before, each.leaders_before) for each in told.shares] == [
        (2, 2),
        (2, 1),
        (2, 0),
    ]
    assert [(each.replicas_after, each.leaders_after) for each in told.shares] == [
        (3, 2),
        (1, 1),
        (2, 0),
    ]


def test_without_racks_no_partition_is_crowded() -> None:
    told = outcome({("t", 0): (0,)}, {("t", 0): (1,)}, {0: None, 1: None})
    assert told.crowded_before is None
