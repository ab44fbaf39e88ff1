"""Cancel by partition, topic, move or all, and as a dry run."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemachine import commands
from statemachine.errors import Error
from statemachine.vocabulary import MoveOutcome
from tests.statemachine.reassignment.test_moves import cancel, ended, in_move, move, roll_back
from tests.statemachine.reassignment.test_scheduler import catch_up, limited, some
from tests.statemachine.support.world import World
from tests.statemachine.test_decide_properties import a_busy_cluster
from tests.support.parameters import at_most_in_quick


@pytest.fixture
def world() -> World:
    """Partitions 0 to 3 of "t" on brokers 1, 2 and 3; 0 and 1 are in move 1, 2 in move 2."""
    world = World(broker_count=6)
    for _ in range(4):
        world.given(
            replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, configs={"min.insync.replicas": "2"}
        )
    move(world, {0: (1, 2, 4), 1: (4, 5, 6)})
    move(world, {2: (1, 2, 5)})
    return world


def moving(world: World) -> list[int]:
    """The partitions that are being reassigned."""
    index = world.image.index
    return [number for _, number in index.partitions(index.moving)]


def numbers(answer: commands.MovesCancelled) -> list[int]:
    """The partitions that the answer tells of."""
    return [each.partition for each in answer.partitions]


def test_a_partition_is_cancelled_and_the_rest_of_its_move_goes_on(world: World) -> None:
    answer = cancel(world, partitions=(("t", 1),))
    (part,) = answer.partitions
    assert (part.error, part.replicas) == (Error.NONE, (1, 2, 3))
    assert (moving(world), in_move(world, 1)) == ([0, 2], [0])
    world.sync(1, 2, 3, 4, number=0)
    end = ended(world)
    assert (end.outcome, end.completed, end.cancelled) == (MoveOutcome.CANCELLED, 1, 1)


def test_a_move_is_cancelled_with_all_that_is_left_of_it(world: World) -> None:
    world.sync(1, 2, 3, 4, number=0)
    answer = cancel(world, moves=(1,))
    assert (numbers(answer), answer.moves[0].error) == ([1], Error.NONE)
    assert (ended(world).outcome, ended(world).cancelled) == (MoveOutcome.CANCELLED, 1)
    assert moving(world) == [2]


def test_a_topic_is_cancelled_whichever_moves_its_partitions_are_in(world: World) -> None:
    answer = cancel(world, topics=("t",))
    assert (numbers(answer), moving(world)) == ([0, 1, 2], [])
    assert all(world.image.moves[move_id].ended is not None for move_id in (1, 2))


def test_everything_is_cancelled_what_kafka_began_as_well(world: World) -> None:
    world.given(replicas=(4, 1, 2), adding=(4,), removing=(2,), isr=(1, 2), leader=1)
    answer = cancel(world, everything=True)
    assert (numbers(answer), moving(world)) == ([0, 1, 2, 4], [])
    assert world.partition(4).replicas == (1, 2)


def test_a_partition_that_is_named_in_several_ways_is_cancelled_once(world: World) -> None:
    answer = cancel(world, partitions=(("t", 0), ("t", 0)), topics=("t",), moves=(1, 2))
    assert numbers(answer) == [0, 1, 2]
    assert all(each.error is Error.NONE for each in answer.partitions)


def test_a_dry_run_says_what_there_would_be_and_changes_nothing(world: World) -> None:
    end = world.image.end_offset
    tried = cancel(world, topics=("t",), dry_run=True)
    assert (world.image.end_offset, moving(world)) == (end, [0, 1, 2])
    assert tried == cancel(world, topics=("t",))


def test_a_partition_that_cannot_be_cancelled_does_not_stop_the_rest(world: World) -> None:
    world.sync(1, 4, number=1)
    answer = cancel(
        world,
        partitions=(("t", 3), ("t", 9), ("nope", 0)),
        topics=("nope",),
        moves=(1, 7),
    )
    found = {(each.topic, each.partition): each.error for each in answer.partitions}
    assert found == {
        ("nope", -1): Error.UNKNOWN_TOPIC_OR_PARTITION,
        ("nope", 0): Error.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", 0): Error.NONE,
        ("t", 1): Error.INVALID_REPLICA_ASSIGNMENT,
        ("t", 3): Error.NO_REASSIGNMENT_IN_PROGRESS,
        ("t", 9): Error.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert [each.message for each in answer.moves] == ["", "there is no move 7"]
    assert moving(world) == [1, 2]


def test_a_topic_of_which_nothing_is_under_way_says_so(world: World) -> None:
    cancel(world, everything=True)
    (part,) = cancel(world, topics=("t",)).partitions
    assert (part.partition, part.error) == (-1, Error.NO_REASSIGNMENT_IN_PROGRESS)
    (asked,) = cancel(world, moves=(1,)).moves
    assert asked.message == "move 1 has ended: cancelled"


def test_a_cancel_reverts_the_current_step_and_drops_the_rest() -> None:
    """The results of the earlier steps stay, and can be undone by a rollback."""
    world = limited(World(broker_count=6), R=1)
    some(world, 1)
    move(world, {0: (4, 5, 6)})
    # 4 has taken over and 1 is gone; 5 is on its way in the place of 2.
    under_way = catch_up(world)
    assert (under_way.replicas, under_way.adding) == ((4, 2, 3, 5), (5,))
    (part,) = cancel(world, moves=(1,)).partitions
    assert part.replicas == world.partition().replicas == (4, 2, 3)
    assert roll_back(world, 1).accepted == 1
    catch_up(world)
    assert world.partition().replicas == (1, 2, 3)


def test_after_another_target_amid_steps_a_cancel_goes_back_to_before_the_step() -> None:
    """0,1,2 to 5,6,7: at 5,6,2 somebody asks for 8,6,2 instead (brokers are one higher here)."""
    world = limited(World(broker_count=9), R=1)
    some(world, 1)
    move(world, {0: (6, 7, 8)})
    for _ in range(2):
        catch_up(world)
    assert world.partition().base == (6, 7, 3)
    move(world, {0: (9, 7, 3)})
    assert set(world.partition().replicas) >= {6, 7, 3, 9}
    cancel(world, moves=(2,))
    assert world.partition().replicas == (6, 7, 3)


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(40))
@given(data=st.data())
def test_no_cancel_leaves_a_trace_of_the_step(data: st.DataObject) -> None:
    """The replicas are those of before the step, in their order, or nothing has changed."""
    world = a_busy_cluster(data, steps=data.draw(st.integers(3, 20)), elr=data.draw(st.booleans()))
    before = all_of(world)
    answer = cancel(world, everything=True)
    after = all_of(world)
    refused = {(each.topic, each.partition) for each in answer.partitions if each.error.code}
    for name, was in before.items():
        now = after[name]
        if name in refused or not was.moving:
            assert now.replicas == was.replicas
            continue
        adding = () if was.stage.base else was.adding
        base = was.stage.base or tuple(each for each in was.replicas if each not in adding)
        assert (now.replicas, now.moving) == (base, False)
        assert now.leader_epoch == was.leader_epoch + 1
    assert set(moving_names(world)) == refused


def all_of(world: World) -> dict[tuple[str, int], Any]:
    """Every partition."""
    return {
        (topic.name, number): partition
        for topic in world.image.topics.values()
        for number, partition in topic.existing()
    }


def moving_names(world: World) -> list[tuple[str, int]]:
    """Topic and number of what is being reassigned."""
    index = world.image.index
    return [(topic.name, number) for topic, number in index.partitions(index.moving)]
