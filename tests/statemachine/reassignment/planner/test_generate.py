"""Generated plans, compared with every possible plan on small clusters."""

import itertools
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemachine import limits
from statemachine.reassignment.planner.outcome import crowded, outcome
from statemachine.reassignment.planner.placing import Named
from statemachine.reassignment.planner.plans import Unplanned, generate
from statemachine.slices import whole
from statemachine.vocabulary import Replicas
from tests.statemachine.support.random_clusters import (
    Current,
    Racks,
    as_even_as_racks_allow,
    clusters,
    loads,
    squares,
)
from tests.support.parameters import at_most_in_quick


def planned(
    current: Current, racks: Racks, closed: frozenset[int] = frozenset()
) -> dict[Named, Replicas]:
    """The replicas of all partitions once the plan, if there is one, is carried out."""
    plan = whole(generate(current, racks, closed=closed))
    if isinstance(plan, Unplanned):
        assert "no plan would be better" in plan.message
        return current
    return {**current, **plan}


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(300), deadline=None)
@given(clusters(), st.frozensets(st.integers(0, 3), max_size=2))
def test_no_other_plan_is_more_even_or_as_even_with_fewer_copies(
    cluster: tuple[Current, Racks], closed: frozenset[int]
) -> None:
    current, racks = cluster
    takers = {
        named: {b: rack for b, rack in racks.items() if b in replicas or b not in closed}
        for named, replicas in current.items()
    }
    if any(len(takers[named]) < len(current[named]) for named in current):
        found_none = whole(generate(current, racks, closed=closed))
        assert isinstance(found_none, Unplanned)
        assert " needs " in found_none.message
        return
    after = planned(current, racks, closed)

    def worth(sets: tuple[Replicas, ...]) -> tuple[int, int]:
        copies = sum(
            len(set(new) - set(old)) for new, old in zip(sets, current.values(), strict=True)
        )
        return squares(loads(dict(zip(current, sets, strict=True)), racks)), copies

    knows_racks = all(rack is not None for rack in racks.values())
    fair = [
        as_even_as_racks_allow(
            takers[named] if knows_racks else dict.fromkeys(takers[named]), len(replicas)
        )
        for named, replicas in current.items()
    ]
    found = tuple(tuple(sorted(after[named])) for named in current)
    assert all(each in sets for each, sets in zip(found, fair, strict=True))
    assert worth(found) == min(worth(sets) for sets in itertools.product(*fair))


@settings(max_examples=at_most_in_quick(200), deadline=None)
@given(clusters())
def test_preferred_leaders_are_spread_evenly_with_the_fewest_changes(
    cluster: tuple[Current, Racks],
) -> None:
    current, racks = cluster
    after = planned(current, racks)

    def worth(leaders: tuple[int, ...]) -> tuple[int, int]:
        changes = sum(new != old[0] for new, old in zip(leaders, current.values(), strict=True))
        return squares(Counter(leaders).values()), changes

    found = tuple(after[named][0] for named in current)
    ways = itertools.product(*[after[named] for named in current])
    assert worth(found) == min(worth(leaders) for leaders in ways)


@settings(max_examples=at_most_in_quick(100), deadline=None)
@given(clusters())
def test_a_plan_names_only_what_changes_and_planning_again_finds_nothing(
    cluster: tuple[Current, Racks],
) -> None:
    current, racks = cluster
    plan = whole(generate(current, racks))
    if not isinstance(plan, Unplanned):
        assert list(plan) == sorted(plan)
        assert all(plan[named] != current[named] for named in plan)
        assert all(len(plan[named]) == len(current[named]) for named in plan)
    again = whole(generate(planned(current, racks), racks))
    assert isinstance(again, Unplanned)
    assert "no plan would be better" in again.message


@settings(max_examples=at_most_in_quick(50), deadline=None)
@given(clusters(brokers_max=6))
def test_the_plan_does_not_depend_on_the_order_of_the_request(
    cluster: tuple[Current, Racks],
) -> None:
    current, racks = cluster
    names, brokers = list(current), list(racks)
    random.Random(1).shuffle(names)
    random.Random(2).shuffle(brokers)
    shuffled = generate({name: current[name] for name in names}, {b: racks[b] for b in brokers})
    assert whole(shuffled) == whole(generate(current, racks))


def test_new_brokers_get_their_share_and_nothing_else_is_copied() -> None:
    current = {("t", n): (n % 3, (n + 1) % 3) for n in range(30)}
    plan = whole(generate(current, dict.fromkeys(range(5))))
    assert not isinstance(plan, Unplanned)
    after = {**current, **plan}
    assert loads(after, range(5)) == [12] * 5
    assert sum(len(set(after[n]) - set(current[n])) for n in current) == 24
    assert all(set(after[n]) - set(current[n]) <= {3, 4} for n in current)


def test_a_new_broker_gets_partitions_of_every_topic() -> None:
    current = {(topic, n): (n % 2,) for topic in "abcd" for n in range(6)}
    plan = whole(generate(current, dict.fromkeys(range(3))))
    assert not isinstance(plan, Unplanned)
    assert {topic for topic, _ in plan} == {"a", "b", "c", "d"}


def test_a_partition_whose_replicas_share_a_rack_is_spread_over_the_racks() -> None:
    racks: Racks = {0: "a", 1: "a", 2: "b", 3: "b"}
    plan = whole(generate({("t", 0): (0, 1), ("t", 1): (2, 3)}, racks))
    assert not isinstance(plan, Unplanned)
    assert all({racks[b] for b in replicas} == {"a", "b"} for replicas in plan.values())
    assert crowded(plan, racks) == 0
    assert (
        sum(len(set(plan[n]) - {0, 1} if n[1] == 0 else set(plan[n]) - {2, 3}) for n in plan) == 2
    )


def test_racks_that_are_known_of_some_brokers_only_are_not_heeded() -> None:
    current = {("t", 0): (0, 1)}
    racks: Racks = {0: "a", 1: "a", 2: None}
    found = whole(generate(current, racks))
    assert isinstance(found, Unplanned)
    assert "no plan would be better" in found.message


def test_a_big_plan_is_made_in_pieces() -> None:
    current = {("t", n): (0, 1, 2) for n in range(3_000)}
    pauses = sum(1 for _ in generate(current, dict.fromkeys(range(20))))
    assert pauses > 3_000 / 200


@pytest.mark.parametrize(
    ("current", "racks", "words"),
    [
        ({}, {1: None}, "no partitions"),
        ({("t", 0): (1, 2)}, {1: None}, "t-0 needs 2 brokers for its replicas, and can have 1"),
        ({("t", 0): (1,)}, {}, "t-0 needs 1 brokers for its replicas, and can have 0"),
        ({("t", 0): (1,)}, {1: None}, "no plan would be better"),
    ],
)
def test_an_impossible_plan_is_refused_with_the_reason(
    current: Current, racks: Racks, words: str
) -> None:
    found = whole(generate(current, racks))
    assert isinstance(found, Unplanned)
    assert words in found.message


def test_a_plan_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.PLANNED_PARTITIONS_MAX >= 100_000
    monkeypatch.setattr("statemachine.reassignment.planner.plans.PLANNED_PARTITIONS_MAX", 1)
    found = whole(generate({("t", 0): (1,), ("t", 1): (1,)}, {1: None}))
    assert isinstance(found, Unplanned)
    assert "more than one plan may have" in found.message


def test_the_outcome_names_a_broker_that_loses_everything() -> None:
    current = {("a", number): (101, 102) for number in range(3)}
    racks: Racks = {102: None, 103: None}
    plan = whole(generate(current, racks))
    assert not isinstance(plan, Unplanned)
    shares = outcome(current, plan, racks).shares
    assert [(each.broker, each.replicas_before, each.replicas_after) for each in shares] == [
        (101, 3, 0),
        (102, 3, 3),
        (103, 0, 3),
    ]
