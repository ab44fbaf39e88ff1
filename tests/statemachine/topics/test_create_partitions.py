"""CreatePartitions (KIP-195): topics grow, each on its own."""

from collections import Counter

import pytest

from statemachine import commands
from statemachine.commands import MorePartitions, PartitionsAdded
from statemachine.errors import Error
from statemachine.limits import CREATED_PARTITIONS_MAX, PARTITION_NUMBER_MAX
from tests.statemachine.support.world import World, directory
from tests.statemachine.topics.test_topic_commands import create, new


def a_world(broker_count: int = 3) -> World:
    """A topic "n" of two partitions with two replicas each."""
    world = World(broker_count=broker_count)
    create(world, new())
    return world


def grow(
    world: World, *topics: MorePartitions, validate_only: bool = False
) -> tuple[PartitionsAdded, ...]:
    """The result for each topic."""
    command = commands.CreatePartitions(topics=topics, validate_only=validate_only)
    answer = world.ask(command).answer
    assert isinstance(answer, commands.PartitionsCreated)
    return answer.topics


def replicas(world: World, name: str = "n") -> list[tuple[int, ...]]:
    """Those of each partition of a topic."""
    topic = world.image.topic_named(name)
    assert topic is not None
    return [partition.replicas for _, partition in topic.existing()]


def test_new_partitions_go_where_they_would_have_gone_from_the_beginning() -> None:
    world, other = a_world(), World(broker_count=3)
    assert grow(world, MorePartitions(name="n", count=9)) == (PartitionsAdded(name="n"),)
    create(other, new(partition_count=9))
    assert replicas(world) == replicas(other)
    assert max(Counter(each[0] for each in replicas(world)).values()) == 3


def test_a_new_partition_is_as_one_of_a_new_topic() -> None:
    world = a_world()
    grow(world, MorePartitions(name="n", count=3, assignments=((3, 1),)))
    topic = world.image.topic_named("n")
    assert topic is not None
    partition = topic.partition(2)
    assert partition is not None
    assert (partition.replicas, partition.isr, partition.leader) == ((3, 1), (3, 1), 3)
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
    assert partition.directories == (directory(3), directory(1))


def test_a_broker_that_is_not_live_is_assigned_but_not_in_sync() -> None:
    world = a_world()
    world.fence(3)
    grow(world, MorePartitions(name="n", count=3, assignments=((3, 1),)))
    topic = world.image.topic_named("n")
    assert topic is not None
    partition = topic.partition(2)
    assert partition is not None
    assert (partition.replicas, partition.isr, partition.leader) == ((3, 1), (1,), 1)


def test_validation_alone_changes_nothing_and_says_the_same() -> None:
    world = a_world()
    end = world.image.end_offset
    asked = (MorePartitions(name="n", count=4), MorePartitions(name="m", count=4))
    foretold = grow(world, *asked, validate_only=True)
    assert world.image.end_offset == end
    assert foretold == grow(world, *asked)
    assert world.image.end_offset == end + 2


WRONG = [
    (MorePartitions(name="m", count=3), Error.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic m"),
    (
        MorePartitions(name="n", count=2),
        Error.INVALID_PARTITIONS,
        "Topic already has 2 partition(s).",
    ),
    (MorePartitions(name="n", count=1), Error.INVALID_PARTITIONS, "1 would not be an increase"),
    (MorePartitions(name="n", count=-1), Error.INVALID_PARTITIONS, "-1 would not be an increase"),
    (
        MorePartitions(name="n", count=PARTITION_NUMBER_MAX + 2),
        Error.INVALID_PARTITIONS,
        "more than a topic may have: 1000000",
    ),
    (
        MorePartitions(name="n", count=CREATED_PARTITIONS_MAX + 3),
        Error.INVALID_PARTITIONS,
        f"{CREATED_PARTITIONS_MAX} that one request may create",
    ),
    (
        MorePartitions(name="n", count=4, assignments=((1, 2),)),
        Error.INVALID_REPLICA_ASSIGNMENT,
        "2 partitions are new, and 1 are assigned",
    ),
    (
        MorePartitions(name="n", count=3, assignments=()),
        Error.INVALID_REPLICA_ASSIGNMENT,
        "1 partitions are new, and 0 are assigned",
    ),
    (
        MorePartitions(name="n", count=3, assignments=((1,),)),
        Error.INVALID_REPLICA_ASSIGNMENT,
        "partition 2 has 1 replicas, the topic's others 2",
    ),
    (
        MorePartitions(name="n", count=3, assignments=((1, 1),)),
        Error.INVALID_REPLICA_ASSIGNMENT,
        "partition 2: ",
    ),
    (
        MorePartitions(name="n", count=3, assignments=((),)),
        Error.INVALID_REPLICA_ASSIGNMENT,
        "partition 2: ",
    ),
    (
        MorePartitions(name="n", count=3, assignments=((1, 9),)),
        Error.INVALID_REPLICA_ASSIGNMENT,
        "9",
    ),
]


@pytest.mark.parametrize(("asked", "error", "reason"), WRONG)
def test_invalid_partition_counts_are_refused_with_the_reason(
    asked: MorePartitions, error: Error, reason: str
) -> None:
    world = a_world()
    end = world.image.end_offset
    (answer,) = grow(world, asked)
    assert answer.error is error
    assert reason in answer.message
    assert world.image.end_offset == end


def test_fenced_brokers_come_last_where_live_ones_are_too_few() -> None:
    """As by Kafka's StripedReplicaPlacer: three brokers, one down, can hold three replicas."""
    world = a_world()
    world.fence(2)
    (placed,) = grow(world, MorePartitions(name="n", count=3))
    assert placed.error is Error.NONE
    world.fence(1, 3)
    (refused,) = grow(world, MorePartitions(name="n", count=4))
    assert refused.error is Error.INVALID_REPLICATION_FACTOR
    assert refused.message.endswith("only 0 of 3 registered broker(s) are available.")


def test_a_new_topic_is_led_by_live_brokers_only() -> None:
    world = World(broker_count=3)
    world.fence(2)
    create(world, new(partition_count=6, replication_factor=3))
    topic = world.image.topic_named("n")
    assert topic is not None
    assert len(topic.partitions) == 6
    for _, partition in topic.existing():
        assert partition.replicas[-1] == 2
        assert sorted(partition.replicas) == [1, 2, 3]
        assert set(partition.isr) == {1, 3}
        assert partition.leader == partition.replicas[0]


def test_brokers_that_are_gone_lead_nothing() -> None:
    world = a_world()
    world.fence(2, 3)
    (given,) = grow(world, MorePartitions(name="n", count=3, assignments=((2, 3),)))
    assert given.error is Error.INVALID_REPLICA_ASSIGNMENT
    assert "every broker of (2, 3) is fenced or shutting down" in given.message


def test_a_topic_that_is_named_twice_gets_nothing_and_the_others_do() -> None:
    world = a_world()
    create(world, new("o", 2))
    first, second = grow(
        world,
        MorePartitions(name="n", count=3),
        MorePartitions(name="o", count=3),
        MorePartitions(name="n", count=4),
    )
    assert (first.name, first.error) == ("n", Error.INVALID_REQUEST)
    assert first.message == "topic n is named 2 times"
    assert second == PartitionsAdded(name="o")
    assert (len(replicas(world, "n")), len(replicas(world, "o"))) == (2, 3)


def test_the_bound_is_of_the_request_and_not_of_each_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("statemachine.topics.topics.CREATED_PARTITIONS_MAX", 5)
    world = a_world()
    create(world, new("o", 2))
    first, second = grow(
        world, MorePartitions(name="n", count=6), MorePartitions(name="o", count=4)
    )
    assert first.error is Error.NONE
    assert second.error is Error.INVALID_PARTITIONS
    assert "2 new partitions are more than the 1 left of the 5" in second.message


def test_a_topic_under_reassignment_grows_by_what_it_will_have() -> None:
    world = World(broker_count=4)
    create(world, new(assignments=((0, (1, 2)),)))
    assert world.reassign(3, 4, topic="n").error is Error.NONE
    grow(world, MorePartitions(name="n", count=2))
    assert [len(each) for each in replicas(world)] == [4, 2]
