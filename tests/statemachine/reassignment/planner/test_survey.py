"""The survey of an image for a plan: brokers at once, partitions in pieces."""

from statemachine import commands
from statemachine.reassignment.planner.survey import (
    PIECE_PARTITIONS,
    NoTopic,
    Piece,
    Stay,
    drained_keys,
    held,
    held_keys,
    survey,
    topics_piece,
)
from statemachine.records import kafka_records
from statemachine.vocabulary import MoveKind
from tests.statemachine.reassignment.test_moves import move
from tests.statemachine.reassignment.test_scheduler import limited, some
from tests.statemachine.support.world import TOPIC_ID, World


def stays(world: World, *brokers: int) -> dict[int, Stay]:
    """The survey of each partition of topic "t" on these brokers."""
    found = held(world.image, held_keys(world.image, brokers), brokers)
    return {each.partition: each.stay for each in found}


def test_a_survey_has_the_brokers_that_take_replicas_and_their_loads() -> None:
    world = World(broker_count=3)
    world.register(4, rack="r")
    world.ask(commands.CordonBrokers(broker_ids=(2,), cordoned=True))
    world.fence(3)
    some(world, 2, (1, 2))
    found = survey(world.image)
    assert (found.takers, found.live, found.fenced, found.cordoned) == ((1,), (1, 2), (3, 4), (2,))
    assert found.racks == {1: None, 2: None, 3: None, 4: "r"}
    assert {each: count for each, count in found.loads.items() if count} == {1: 2, 2: 2}
    assert {each: count for each, count in found.leads.items() if count} == {1: 2}


def test_partitions_of_a_broker_are_free_leaving_busy_or_leaderless() -> None:
    world = World(broker_count=5)
    some(world, 3, (1, 2, 3))
    some(world, 1, (1, 2, 4))
    some(world, 1, (1,))
    some(world, 1, (5,))
    world.fence(5)
    move(world, {1: (1, 2, 4), 2: (4, 2, 3)})
    assert stays(world, 3) == {0: Stay.FREE, 1: Stay.LEAVING, 2: Stay.BUSY}
    assert stays(world, 5) == {5: Stay.LEADERLESS}
    assert stays(world, 9) == {}


def test_a_partition_that_waits_for_its_step_is_leaving_too() -> None:
    world = limited(World(broker_count=5), P=1)
    some(world, 2, (1, 2, 3))
    move(world, {0: (1, 2, 4), 1: (1, 2, 4)})
    assert world.partition(1).waits
    assert stays(world, 3) == {0: Stay.LEAVING, 1: Stay.LEAVING}


def test_a_survey_sees_changes_between_two_pieces() -> None:
    world = World(broker_count=4)
    some(world, 2, (1, 2, 3))
    keys = held_keys(world.image, (3,))
    world.reassign(1, 2)
    assert not world.partition(0).moving
    assert [each.partition for each in held(world.image, keys, (3,))] == [1]
    world.ask(commands.DeleteTopics(topics=("t",)))
    assert held(world.image, keys, (3,)) == []


def test_only_moves_that_empty_brokers_are_found_as_such() -> None:
    world = World(broker_count=5)
    some(world, 3, (1, 2, 3))
    move(world, {0: (1, 2, 4)})
    move(world, {1: (1, 2, 4), 2: (1, 2, 5)}, kind=MoveKind.DRAIN, broker=3)
    assert sorted(drained_keys(world.image, (3,))) == sorted(world.image.index.keys_of_move(2))
    world.sync(1, 2, 3, 4, number=1)
    left = held(world.image, drained_keys(world.image, (3,)), (3,))
    assert [each.partition for each in left] == [2]
    assert drained_keys(world.image, (4,)) == []


def test_topics_are_read_in_pieces_in_the_order_asked() -> None:
    world = World(broker_count=3)
    some(world, 1, (1, 2))
    for number in range(1, PIECE_PARTITIONS + 5):
        world.replay(
            kafka_records.Partition(
                partition_id=number,
                topic_id=TOPIC_ID,
                replicas=(1, 2),
                isr=(1, 2),
                leader=1,
                leader_epoch=1,
                partition_epoch=2,
            )
        )
    world.reassign(1, 3, number=3)
    first = topics_piece(world.image, ["t"], (0, 0))
    assert isinstance(first, Piece)
    assert len(first.replicas) == PIECE_PARTITIONS
    assert (first.moving, first.next) == ((("t", 3),), (0, PIECE_PARTITIONS))
    second = topics_piece(world.image, ["t"], first.next)
    assert isinstance(second, Piece)
    assert next(iter(second.replicas)) == ("t", PIECE_PARTITIONS)
    assert (len(second.replicas), second.next) == (5, (1, 0))
    assert topics_piece(world.image, ["t", "gone"], (1, 0)) == NoTopic("gone")
