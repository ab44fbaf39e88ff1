"""KIP-455 (AlterPartitionReassignments): its algorithm and its cancellation, with its numbers.

R are the replicas, I is the ISR, AR the adding and RR the removing ones, as the text has them.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemachine.errors import Error
from tests.statemachine.support.world import World
from tests.support.parameters import at_most_in_quick


def said(world: World) -> dict[str, list[int]]:
    """The partition in the text's words."""
    partition = world.partition()
    return {
        "R": [*partition.replicas],
        "I": sorted(partition.isr),
        "AR": [*partition.adding],
        "RR": [*partition.removing],
    }


def a_partition_on_1_2_3() -> World:
    """R: [1, 2, 3], I: [1, 2, 3], AR: [], RR: []."""
    world = World(broker_count=6)
    world.given(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1)
    return world


def test_the_algorithm_with_target_4_3_2() -> None:
    world = a_partition_on_1_2_3()
    # Reassignment called via API with targetReplicas=[4,3,2]
    world.reassign(4, 3, 2)
    # The text has R: [1, 4, 3, 2]. Ours are what there was, then what is added: the preferred
    # leader is 1 in both.
    assert said(world) == {"R": [1, 2, 3, 4], "I": [1, 2, 3], "AR": [4], "RR": [1]}
    # Leader 1 adds 4 to ISR. AR is empty then, and the controller removes all of RR from R: for the
    # text these are records of their own, for us it is the same change. Leaders change, 1 retires
    # and 4 starts leading.
    assert world.sync(1, 2, 3, 4).error is Error.NEW_LEADER_ELECTED
    assert said(world) == {"R": [4, 3, 2], "I": [2, 3, 4], "AR": [], "RR": []}
    assert world.partition().leader == 4


def test_the_algorithm_with_target_4_5_6() -> None:
    """The text's first algorithm: one replica after the other catches up, then all go at once."""
    world = a_partition_on_1_2_3()
    world.reassign(4, 5, 6)
    for isr in ([1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5]):
        world.sync(*isr)
        assert said(world) == {
            "R": [1, 2, 3, 4, 5, 6],
            "I": isr,
            "AR": [4, 5, 6],
            "RR": [1, 2, 3],
        }
    world.sync(1, 2, 3, 4, 5, 6)
    assert said(world) == {"R": [4, 5, 6], "I": [4, 5, 6], "AR": [], "RR": []}


def test_the_cancellation_is_a_revert_where_the_text_keeps_what_is_in_sync() -> None:
    world = a_partition_on_1_2_3()
    # Reassignment called via API with targetReplicas=[3, 4, 5]
    world.reassign(3, 4, 5)
    assert said(world) == {"R": [1, 2, 3, 4, 5], "I": [1, 2, 3], "AR": [4, 5], "RR": [1, 2]}
    world.sync(1, 2, 3, 4)
    # 4 is in sync and counts as added until all are: the text has AR: [5] here.
    assert said(world) == {"R": [1, 2, 3, 4, 5], "I": [1, 2, 3, 4], "AR": [4, 5], "RR": [1, 2]}
    # Cancellation called. The text ends with R: [1, 2, 3, 4], a replica more than there were.
    assert world.cancel().replicas == (1, 2, 3)
    assert said(world) == {"R": [1, 2, 3], "I": [1, 2, 3], "AR": [], "RR": []}


def test_a_new_reassignment_during_an_ongoing_one_starts_anew_from_what_there_is() -> None:
    """The text: AR and RR are constructed from R and the new target, and it all begins again."""
    world = a_partition_on_1_2_3()
    world.reassign(4, 5, 6)
    world.sync(1, 2, 3, 4)
    world.reassign(4, 2, 3)
    # 5 and 6 were not in sync, and are not wanted: they go at once.
    assert said(world) == {"R": [4, 2, 3], "I": [2, 3, 4], "AR": [], "RR": []}


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(60))
@given(data=st.data())
def test_no_orphan_is_left_after_any_sequence_of_targets(
    data: st.DataObject,
) -> None:
    """Any number of targets, with anything in sync in between; then everybody catches up."""
    world = a_partition_on_1_2_3()
    brokers = range(1, 7)
    target = world.partition().replicas
    for _ in range(data.draw(st.integers(1, 5))):
        target = tuple(
            data.draw(st.lists(st.sampled_from(brokers), min_size=1, max_size=4, unique=True))
        )
        world.reassign(*target)
        partition = world.partition()
        others = [each for each in partition.replicas if each != partition.leader]
        in_sync = data.draw(st.lists(st.sampled_from(others), unique=True)) if others else []
        world.sync(partition.leader, *in_sync)
    world.sync(*world.partition().replicas)
    after = world.partition()
    assert (after.replicas, after.moving) == (target, False)
    assert set(after.isr) == set(target)
    # None are said where nothing was ever asked for but what it had.
    assert len(after.directories) in {0, len(target)}
    assert all(move.ended is not None for move in world.image.moves.values())


@settings(max_examples=at_most_in_quick(60))
@given(data=st.data())
def test_a_cancel_after_any_targets_gives_back_what_there_was(data: st.DataObject) -> None:
    """As long as no target has been reached: then what was reached is what there was."""
    world = a_partition_on_1_2_3()
    was = world.partition().replicas
    for _ in range(data.draw(st.integers(1, 4))):
        target = data.draw(st.lists(st.integers(1, 6), min_size=3, max_size=4, unique=True))
        world.reassign(*target)
        partition = world.partition()
        if not partition.moving:
            was = partition.replicas
            continue
        joins = data.draw(st.sampled_from(partition.adding)) if partition.adding else 1
        world.sync(*{*was, joins})
        if not world.partition().moving:
            was = world.partition().replicas
    if world.partition().moving:
        world.cancel()
    assert world.partition().replicas == was
    assert not world.partition().moving
