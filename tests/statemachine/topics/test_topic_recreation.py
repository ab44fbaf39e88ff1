"""A topic is deleted while it is moved, and created again: the move that was never touches it.

A plan names topics by their ids. What has the same name is another topic, whatever its brokers are.
"""

from uuid import UUID

import pytest

from statemachine import commands
from statemachine.errors import Error
from statemachine.partitions.registration import PartitionRegistration
from statemachine.vocabulary import MoveOutcome, Replicas
from tests.statemachine.support.world import World

MOVE = commands.AlterReassignments(
    reassignments=(commands.Reassignment(topic="t", partition=0, replicas=(1, 2, 4)),)
)


def create(world: World, number: int, replicas: Replicas) -> None:
    """Topic "t" with one partition; `number` makes its id."""
    topic = commands.NewTopic(
        name="t", topic_id=UUID(int=number << 80), assignments=((0, replicas),)
    )
    world.ask(commands.CreateTopics(topics=(topic,)))


def keyed(world: World) -> commands.ReassignmentsAltered:
    """Ask for the move by a key."""
    answer = world.ask(commands.IdempotentCommand(key="k", fingerprint=b"one", command=MOVE)).answer
    assert isinstance(answer, commands.ReassignmentsAltered)
    return answer


def partition(world: World) -> PartitionRegistration:
    """The only partition of what is called "t" now."""
    topic = world.image.topic_named("t")
    found = None if topic is None else topic.partition(0)
    assert found is not None
    return found


@pytest.fixture
def world() -> World:
    """Move 1 was adding 4 to "t" when it was deleted; another "t" is there now."""
    world = World(broker_count=5)
    create(world, 1, (1, 2, 3))
    assert keyed(world).move_id == 1
    assert partition(world).adding == (4,)
    world.ask(commands.DeleteTopics(topics=("t",)))
    create(world, 2, (1, 2, 3))
    return world


def test_the_new_topic_is_in_no_move(world: World) -> None:
    ended = world.image.moves[1].ended
    assert ended is not None
    assert ended.outcome == MoveOutcome.GONE
    assert not partition(world).moving


def test_a_rollback_of_the_old_move_leaves_it_alone(world: World) -> None:
    before = partition(world)
    decision = world.ask(commands.RollBackMove(move_id=1))
    answer = decision.answer
    assert isinstance(answer, commands.MoveStarted)
    assert (answer.move_id, answer.refused_count, decision.records) == (0, 1, ())
    assert answer.refused[0].error is Error.UNKNOWN_TOPIC_OR_PARTITION
    assert partition(world) == before


def test_a_cancel_of_the_old_move_leaves_the_new_topic_alone(world: World) -> None:
    world.ask(MOVE)
    before = partition(world)
    answer = world.ask(commands.CancelMoves(moves=(1,))).answer
    assert isinstance(answer, commands.MovesCancelled)
    assert (answer.partitions, answer.moves[0].error) == ((), Error.INVALID_REQUEST)
    assert partition(world) == before


def test_the_old_key_does_not_begin_it_anew(world: World) -> None:
    """Its asker is told what partition 0 of "t" has, and that it was carried out: it was."""
    again = keyed(world)
    assert (again.move_id, again.repeated) == (1, True)
    assert again.partitions[0].replicas == (1, 2, 3)
    assert not partition(world).moving
