"""The next step of one partition (KIP-435): the text's example, each rule, and any partition."""

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachine.reassignment.settings import UNLIMITED, Limits
from statemachine.reassignment.step import Blocked, Reason, Step, step, steps_left
from statemachine.vocabulary import Replicas


def next_step(
    current: Replicas,
    target: Replicas,
    limits: Limits,
    *,
    isr: Replicas | None = None,
    leader: int | None = None,
    min_isr: int = 1,
    dead: Collection[int] = (),
) -> Step | Blocked:
    """The step of a partition in which all is well, but for what is said."""
    return step(
        current,
        target,
        isr=current if isr is None else isr,
        leader=current[0] if leader is None else leader,
        min_isr=min_isr,
        live=lambda broker: broker not in dead,
        limits=limits,
    )


def taken(*args: object, **fields: object) -> Step:
    """As `next_step`, where there is one."""
    found = next_step(*args, **fields)  # type: ignore[arg-type]
    assert isinstance(found, Step), found
    return found


def by(replicas: int = UNLIMITED, **fields: int) -> Limits:
    """R, and other limits."""
    return Limits(parallel_replicas=replicas, **fields)


def test_the_example_of_the_seed_goes_as_it_is_printed() -> None:
    """KIP-435: (0, 1, 2, 3, 4) to (5, 6, 7, 8, 9) by two replicas at a time; 0 leads."""
    at: Replicas = (0, 1, 2, 3, 4)
    target, leader = (5, 6, 7, 8, 9), 0
    said = []
    while at != target:
        found = taken(at, target, by(2), leader=leader)
        said.append((found.replicas, found.removing, found.adding, found.moves_leader))
        at = found.replicas
        leader = 5
    assert said == [
        ((5, 0, 1, 2, 3, 4), (), (5,), True),  # +5, new leader (5) is elected
        ((5, 6, 2, 3, 4), (0, 1), (6,), False),  # -[0,1] +[6]
        ((5, 6, 7, 8, 4), (2, 3), (7, 8), False),  # -[2,3] +[7,8]
        ((5, 6, 7, 8, 9), (4,), (9,), False),  # -[4] +[9], requested order is matched
    ]


def test_with_nothing_limited_all_of_it_is_one_step_whoever_is_alive() -> None:
    found = taken((1, 2, 3), (4, 5, 6), Limits(), leader=-1, dead=(4, 5))
    assert found == Step(
        adding=(4, 5, 6), removing=(1, 2, 3), replicas=(4, 5, 6), moves_leader=True
    )


def test_with_only_partitions_limited_one_step_takes_all_live_brokers() -> None:
    found = taken((1, 2, 3), (4, 5, 6), Limits(parallel_partitions=1))
    assert (found.adding, found.removing) == ((4, 5, 6), (1, 2, 3))


def test_rule_1_the_same_brokers_in_another_order_are_a_step_of_the_order_alone() -> None:
    found = taken((1, 2, 3), (3, 2, 1), by(1))
    assert found == Step(adding=(), removing=(), replicas=(3, 2, 1), moves_leader=False)


def test_rule_2_a_preferred_leader_that_is_new_comes_alone_and_nobody_goes() -> None:
    found = taken((1, 2, 3), (4, 5, 6), by(3))
    assert (found.adding, found.removing, found.moves_leader) == ((4,), (), True)


def test_rule_2_a_preferred_leader_that_is_dead_lets_the_others_go_before() -> None:
    found = taken((1, 2, 3), (4, 5, 6), by(2), dead=(4,))
    assert (found.adding, found.removing) == ((5, 6), (1, 2))
    # Once it is back it is the next to come, alone.
    assert taken(found.replicas, (4, 5, 6), by(2), leader=5).adding == (4,)


def test_rule_3_as_many_are_added_as_are_wanted_in_the_place_of_the_dropped() -> None:
    found = taken((4, 1, 2, 3), (4, 5, 6), by(2), leader=4)
    assert (found.adding, found.removing) == ((5,), (1, 2))


def test_rule_3_while_there_are_too_many_replicas_a_step_only_drops() -> None:
    """0,1,2,3,4 to 5,6,7 by two: the number to be added would be negative at first."""
    plan = steps_left(
        (0, 1, 2, 3, 4),
        (5, 6, 7),
        isr=(0, 1, 2, 3, 4),
        leader=0,
        min_isr=1,
        live=lambda _broker: True,
        limits=by(2),
    )
    assert [each.replicas for each in plan] == [
        (5, 0, 1, 2, 3, 4),
        (5, 2, 3, 4),
        (5, 6, 4),
        (5, 6, 7),
    ]


def test_rule_4_a_partition_under_min_isr_gets_enough_at_once_to_reach_it() -> None:
    """KIP-435: min.insync.replicas 3 and one in sync: two more are added, past the limit of 1."""
    found = taken((0, 1, 2), (0, 3, 4), by(1), isr=(0,), min_isr=3)
    assert (found.adding, found.removing) == ((3, 4), (1,))


def test_rule_4_counts_what_is_in_sync_once_the_dropped_are_gone() -> None:
    found = taken((5, 0, 1, 2), (5, 6, 7), by(1), isr=(5, 0), leader=5, min_isr=2)
    # Dropping 0 alone would leave nobody but 5 in sync, and the step would never be complete.
    assert (found.adding, found.removing) == ((6,), (0,))


def test_rule_4_goes_for_the_preferred_leader_too() -> None:
    found = taken((0, 1, 2), (4, 5, 6), by(1), isr=(0,), min_isr=3)
    assert (found.adding, found.removing) == ((4, 5), ())


def test_rule_5_the_next_live_broker_takes_the_place_of_a_dead_one() -> None:
    found = taken((5, 1, 2), (5, 6, 7), by(1), leader=5, dead=(6,))
    assert (found.adding, found.removing) == ((7,), (1,))


def test_rule_5_no_replica_is_dropped_without_a_replacement() -> None:
    found = taken((5, 1, 2, 3), (5, 6, 7, 8), by(3), leader=5, dead=(6, 7))
    assert (found.adding, found.removing) == ((8,), (1,))


def test_rule_5_with_all_new_brokers_dead_the_partition_waits_for_them() -> None:
    found = next_step((5, 1, 2, 3), (5, 6), by(1), leader=5, dead=(6,))
    assert found == Blocked(reason=Reason.NO_LIVE_TARGET, brokers=(6,))


def test_rule_6_the_final_order_comes_first_then_what_is_left_as_it_was() -> None:
    assert taken((3, 9, 1, 8), (2, 1, 3), by(2), leader=3).replicas == (2, 1, 3, 9, 8)
    assert taken((9, 3, 8, 1), (3, 1), by(1), leader=3).replicas == (3, 1, 8)


def test_a_partition_that_nobody_leads_begins_no_step() -> None:
    """Seed 3: "we are not able to reassign partitions if the partition is offline"."""
    found = next_step((1, 2), (3, 4), by(1), leader=-1)
    assert found == Blocked(reason=Reason.NO_LEADER)


def test_a_limit_of_all_movements_that_is_smaller_than_a_step_makes_the_step_smaller() -> None:
    found = taken((0, 1, 2), (0, 3, 4), by(2, replica_movements=1), isr=(0,), min_isr=3)
    assert (found.adding, found.removing) == ((3,), (1,))


def test_a_step_moves_the_leader_that_is_dropped_and_no_other() -> None:
    assert taken((1, 2, 3), (3, 4, 5), by(1), leader=1).moves_leader
    assert not taken((1, 2, 3), (3, 4, 5), by(1), leader=2).moves_leader


BROKERS = st.integers(0, 7)
REPLICAS = st.lists(BROKERS, min_size=1, max_size=5, unique=True).map(tuple)
LIMIT = st.sampled_from((1, 2, 3, UNLIMITED))


@given(data=st.data())
def test_from_any_partition_the_steps_end_at_the_target_within_the_limits(
    data: st.DataObject,
) -> None:
    current: Replicas = data.draw(REPLICAS)
    target: Replicas = data.draw(REPLICAS)
    isr = tuple(data.draw(st.lists(st.sampled_from(current), min_size=1, unique=True)))
    leader = data.draw(st.sampled_from(isr))
    min_isr = data.draw(st.integers(1, 4))
    dead = data.draw(st.sets(BROKERS)) - set(isr)
    limits = by(data.draw(LIMIT), replica_movements=data.draw(LIMIT), parallel_partitions=5)
    seen = {current}
    while current != target:
        found = next_step(
            current, target, limits, isr=isr, leader=leader, min_isr=min_isr, dead=dead
        )
        if isinstance(found, Blocked):
            missing = set(target) - set(current)
            assert missing <= dead
            assert set(found.brokers) == missing
            dead = set()
            continue
        check_step(current, target, isr, min_isr, limits, found, dead)
        isr = tuple(r for r in isr if r not in found.removing) + found.adding
        current = found.replicas
        if len(isr) < min(min_isr, len(current)):
            # Too few of those that stay are in sync: the step waits until others are back.
            isr, dead = current, set()
        assert current not in seen, "a step is repeated"
        seen.add(current)
        leader = leader if leader in isr else isr[0]


def check_step(
    current: Replicas,
    target: Replicas,
    isr: Replicas,
    min_isr: int,
    limits: Limits,
    found: Step,
    dead: Collection[int],
) -> None:
    """The properties of one step, without the code of the product."""
    after = (set(current) | set(found.adding)) - set(found.removing)
    assert set(found.replicas) == after
    assert len(after) == len(found.replicas)
    assert set(found.removing) <= set(current) - set(target)
    assert set(found.adding) <= set(target) - set(current) - set(dead)
    assert len(after) >= min(len(current), len(target))
    assert len(found.removing) <= limits.parallel_replicas
    assert len(found.adding) <= limits.replica_movements
    if len(isr) >= min(min_isr, len(current)):
        assert len(found.adding) <= limits.parallel_replicas


@given(data=st.data())
def test_a_partition_at_min_isr_is_not_taken_below_it_by_any_step(data: st.DataObject) -> None:
    """Assume that enough can be added: a step that only drops has no replacements."""
    current: Replicas = data.draw(REPLICAS)
    target: Replicas = data.draw(REPLICAS)
    min_isr = data.draw(st.integers(1, 4))
    limits = by(data.draw(LIMIT), parallel_partitions=5)
    isr = tuple(data.draw(st.lists(st.sampled_from(current), min_size=1, unique=True)))
    while current != target:
        found = taken(current, target, limits, isr=isr, leader=isr[0], min_isr=min_isr)
        was_enough = len(isr) >= min(min_isr, len(current))
        new = set(target) - set(current)
        isr = tuple(r for r in isr if r not in found.removing) + found.adding
        current = found.replicas
        if was_enough and set(found.adding) != new:
            assert len(isr) >= min(min_isr, len(current))
        if len(isr) < min(min_isr, len(current)):
            isr = current  # The step is complete only once others are back in sync.


def test_the_plan_of_a_partition_ends_at_its_target_even_if_brokers_are_dead() -> None:
    plan = steps_left(
        (1, 2, 3),
        (4, 5, 6),
        isr=(1, 2, 3),
        leader=-1,
        min_isr=2,
        live=lambda broker: broker not in (4, 5, 6),
        limits=by(1),
    )
    assert [each.replicas for each in plan] == [(4, 1, 2, 3), (4, 2, 3), (4, 5, 3), (4, 5, 6)]


@pytest.mark.parametrize("replicas", [1, 2, 5, UNLIMITED])
def test_a_partition_that_is_there_has_no_steps_left(replicas: int) -> None:
    plan = steps_left(
        (1, 2),
        (1, 2),
        isr=(1,),
        leader=1,
        min_isr=1,
        live=lambda _broker: True,
        limits=by(replicas),
    )
    assert plan == ()
