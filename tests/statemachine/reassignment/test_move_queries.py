"""Descriptions of moves, running and ended."""

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemachine import commands
from statemachine.image.image import Image
from statemachine.reassignment import move_commands
from statemachine.reassignment.move import Left
from statemachine.reassignment.move_queries import (
    partitions_of_move,
    summaries,
    summary_of,
)
from statemachine.records.codec import plan_of
from statemachine.records.own_records import PlannedPartition
from statemachine.slices import whole
from statemachine.vocabulary import MoveOutcome
from tests.statemachine.reassignment.test_moves import cancel, move
from tests.statemachine.reassignment.test_scheduler import catch_up, limited, some
from tests.statemachine.support.world import TOPIC_ID, World
from tests.statemachine.test_decide_properties import a_busy_cluster
from tests.support.parameters import at_most_in_quick


def planned(image: Image, move_id: int) -> list[tuple[UUID, PlannedPartition]]:
    """The plan of a move, all of it."""
    return list(image.moves[move_id].planned)


def test_a_large_plan_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(move_commands, "MOVE_PART_PARTITIONS_MAX", 3)
    world = World(broker_count=6)
    count = 4
    some(world, count)
    move(world, dict.fromkeys(range(count), (1, 2, 4)))
    found = world.image.moves[1]
    read = [[len(topic.partitions) for topic in plan_of(part)] for part in found.parts]
    assert read == [[count - 1], [1]]
    assert [each.number for _, each in planned(world.image, 1)] == list(range(count))


def test_partitions_are_paged_in_order_whatever_leaves_the_move_meanwhile() -> None:
    world = limited(World(broker_count=6), P=1)
    some(world, 7)
    move(world, dict.fromkeys((6, 5, 4, 3, 2, 0), (1, 2, 4)))

    def page(after: tuple[str, int] | None) -> list[int]:
        return [number for _, number in whole(partitions_of_move(world.image, 1, after, 2))]

    assert page(None) == [0, 2]
    cancel(world, partitions=(("t", 2), ("t", 3)))
    assert page(("t", 2)) == [4, 5]
    assert page(("t", 5)) == [6]
    assert page(("t", 6)) == page(("u", 0)) == []
    assert page(("s", 9)) == [0, 4]
    assert whole(partitions_of_move(world.image, 2, None, 2)) == []


def test_a_summary_says_where_the_partitions_of_a_move_are() -> None:
    world = limited(World(broker_count=6), P=1)
    some(world, 5)
    move(world, {0: (1, 2, 4), 1: (1, 2, 4), 2: (1, 2, 4), 3: (1, 2, 4), 4: (1, 2, 4)})
    catch_up(world, 0)
    cancel(world, partitions=(("t", 4),))
    found = whole(summary_of(world.image, 1))
    assert found is not None
    assert (found.waiting, found.stepping, found.completed) == (2, 1, 1)
    assert (found.move.left, found.move.outcome) == (Left(cancelled=1), None)
    cancel(world, everything=True)
    found = whole(summary_of(world.image, 1))
    assert found is not None
    assert (found.completed, found.move.left.cancelled) == (1, 4)
    assert found.move.outcome is MoveOutcome.CANCELLED
    assert whole(summary_of(world.image, 2)) is None


def test_the_plan_is_told_as_it_was_asked_for_after_the_topic_is_gone_too() -> None:
    world = World(broker_count=6)
    some(world, 2)
    move(world, {1: (1, 2, 4), 0: (4, 5)})
    asked = planned(world.image, 1)
    told = [(topic_id, e.number, e.target, e.original) for topic_id, e in asked]
    assert told == [(TOPIC_ID, 1, (1, 2, 4), (1, 2, 3)), (TOPIC_ID, 0, (4, 5), (1, 2, 3))]
    world.ask(commands.DeleteTopics(topics=("t",)))
    assert planned(world.image, 1) == asked


@settings(max_examples=at_most_in_quick(20))
@given(data=st.data())
def test_all_partitions_that_a_move_began_with_are_accounted_for(data: st.DataObject) -> None:
    world = a_busy_cluster(data, steps=data.draw(st.integers(5, 25)))
    for each in whole(summaries(world.image, tuple(world.image.moves))):
        parts = [each.waiting, each.stepping, each.completed, each.move.left.total]
        assert min(parts) >= 0
        assert sum(parts) == each.move.begun.partitions
        assert 0 < len(planned(world.image, each.move.id)) <= each.move.begun.partitions
