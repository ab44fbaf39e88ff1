"""Brokers that get no new replicas, and keep those that they have."""

import pytest

from statemachine import commands
from statemachine.commands import CordonBrokers, CreatePartitions, CreateTopics, MorePartitions
from statemachine.errors import Error
from statemachine.records import kafka_records
from tests.statemachine.support.world import TOPIC_ID, World


def cordon(world: World, *broker_ids: int, cordoned: bool = True) -> commands.BrokersCordoned:
    answer = world.ask(CordonBrokers(broker_ids=broker_ids, cordoned=cordoned)).answer
    assert isinstance(answer, commands.BrokersCordoned)
    return answer


def create(
    world: World, count: int, factor: int, *assigned: tuple[int, ...]
) -> commands.TopicCreated:
    topic = commands.NewTopic(
        name="t",
        topic_id=TOPIC_ID,
        partition_count=-1 if assigned else count,
        replication_factor=-1 if assigned else factor,
        assignments=tuple(enumerate(assigned)),
    )
    answer = world.ask(CreateTopics(topics=(topic,))).answer
    assert isinstance(answer, commands.TopicsCreated)
    return answer.topics[0]


def test_new_partitions_are_not_placed_on_a_cordoned_broker() -> None:
    world = World(broker_count=4)
    cordon(world, 2)
    assert create(world, 12, 3).error is Error.NONE
    assert all(2 not in world.partition(number).replicas for number in range(12))
    more = MorePartitions(name="t", count=24)
    world.ask(CreatePartitions(topics=(more,)))
    assert all(2 not in world.partition(number).replicas for number in range(24))
    cordon(world, 2, cordoned=False)
    world.ask(CreatePartitions(topics=(MorePartitions(name="t", count=28),)))
    assert any(2 in world.partition(number).replicas for number in range(24, 28))


def test_more_replicas_than_open_brokers_are_refused() -> None:
    world = World(broker_count=3)
    cordon(world, 1, 2)
    refused = create(world, 1, 2)
    assert refused.error is Error.INVALID_REPLICATION_FACTOR
    assert "only 1 of 3 registered broker(s) are available" in refused.message


def test_a_cordoned_broker_is_not_given_replicas_by_hand_either() -> None:
    world = World(broker_count=3)
    cordon(world, 3)
    refused = create(world, 1, 1, (1, 3))
    assert refused.error is Error.INVALID_REPLICA_ASSIGNMENT
    assert refused.message == (
        "partition 0: broker 3 is cordoned and gets no new replicas; uncordon it, or name another"
        " one"
    )
    assert create(world, 1, 1, (1, 2)).error is Error.NONE
    moved = world.reassign(1, 3)
    assert moved.error is Error.INVALID_REPLICA_ASSIGNMENT
    assert moved.message.startswith("broker 3 is cordoned")
    assert not world.partition().moving


def test_a_cordoned_broker_keeps_its_replicas_which_can_be_moved_and_reordered() -> None:
    world = World(broker_count=3)
    create(world, 1, 1, (1, 2))
    cordon(world, 1)
    assert world.partition().leader == 1
    assert world.partition().isr == (1, 2)
    assert world.reassign(2, 1).error is Error.NONE
    assert world.partition().replicas == (2, 1)
    assert world.reassign(2, 3).error is Error.NONE
    assert world.partition().removing == (1,)
    assert world.cancel().error is Error.NONE
    assert world.partition().replicas == (2, 1)


def test_a_move_that_was_under_way_before_the_cordon_goes_on() -> None:
    world = World(broker_count=3)
    create(world, 1, 1, (1, 2))
    world.reassign(1, 3)
    cordon(world, 3)
    world.sync(1, 2, 3)
    assert world.partition().replicas == (1, 3)


def test_a_cordon_outlives_incarnations_and_ends_with_the_registration() -> None:
    world = World(broker_count=2)
    cordon(world, 2)
    world.fence(2)
    world.join(2, 2)
    assert world.image.brokers[2].cordoned
    world.fence(2)
    world.ask(commands.UnregisterBroker(broker_id=2))
    world.join(2, 3)
    assert not world.image.brokers[2].cordoned


def test_the_wish_that_a_broker_be_unregistered_stays_until_the_cordon_ends() -> None:
    world = World(broker_count=2)

    def wish(*, cordoned: bool = True, unregister: bool = False) -> list[kafka_records.Record]:
        command = CordonBrokers(broker_ids=(2,), cordoned=cordoned, unregister=unregister)
        return list(world.ask(command).records)

    def written(cordoned: int = 0, leaving: int = 0) -> list[kafka_records.Record]:
        return [
            kafka_records.BrokerRegistrationChange(
                broker_id=2, broker_epoch=world.epoch(2), cordoned=cordoned, leaving=leaving
            )
        ]

    assert wish() == written(cordoned=1)
    assert wish(unregister=True) == written(leaving=1)
    assert wish(unregister=True) == wish() == []
    world.fence(2)
    world.join(2, 2)
    broker = world.image.brokers[2]
    assert (broker.cordoned, broker.leaving) == (True, True)
    assert wish(cordoned=False) == written(cordoned=-1, leaving=-1)
    # What is not to get new replicas no more is not to go either.
    assert wish(cordoned=False, unregister=True) == []
    assert wish(unregister=True) == written(cordoned=1, leaving=1)
    world.fence(2)
    world.ask(commands.UnregisterBroker(broker_id=2))
    world.join(2, 3)
    assert not world.image.brokers[2].leaving


def test_a_dead_broker_can_be_cordoned() -> None:
    world = World(broker_count=2)
    world.fence(2)
    assert cordon(world, 2).brokers[0].error is Error.NONE
    assert world.image.brokers[2].cordoned


@pytest.mark.parametrize("cordoned", [True, False])
def test_a_repeated_cordon_is_no_error_and_writes_nothing(cordoned: bool) -> None:
    world = World(broker_count=2)
    cordon(world, 1)
    decision = world.ask(CordonBrokers(broker_ids=(1, 2, 2, 1), cordoned=cordoned))
    (changed,) = decision.records
    assert isinstance(changed, kafka_records.BrokerRegistrationChange)
    assert (changed.broker_id, changed.cordoned) == ((2, 1) if cordoned else (1, -1))


def test_each_broker_stands_alone() -> None:
    world = World(broker_count=1)
    answer = cordon(world, 7, 1, -1)
    assert [(each.broker_id, each.error) for each in answer.brokers] == [
        (7, Error.BROKER_ID_NOT_REGISTERED),
        (1, Error.NONE),
        (-1, Error.BROKER_ID_NOT_REGISTERED),
    ]
    assert answer.brokers[0].message == "Broker ID 7 is not currently registered"
    assert world.image.brokers[1].cordoned
