"""Effects of a configuration change happen in the same batch."""

import pytest

from statemachine.commands import IncrementalAlterConfigs
from statemachine.errors import Error
from statemachine.limits import PARTITIONS_FREED_BY_CONFIGS_MAX
from statemachine.records import kafka_records
from statemachine.vocabulary import BROKER_RESOURCE, NO_LEADER, RECOVERING
from tests.statemachine.support.config_requests import (
    ALL_BROKERS,
    DELETE,
    MIN_ISR,
    SET,
    TOPIC,
    UNCLEAN,
    a_topic,
    ask,
    change,
    errors,
    refused,
    replacement,
)
from tests.statemachine.support.world import TOPIC_ID, World


def elr_world(broker_count: int) -> World:
    """A cluster in which eligible leader replicas are in force, with a min ISR of 2 for all."""
    world = World(broker_count=broker_count, elr=True)
    ask(world, change(ALL_BROKERS, (MIN_ISR, SET, "2")))
    return world


@pytest.mark.parametrize("resource", [TOPIC, ALL_BROKERS])
def test_partitions_without_a_leader_elect_once_unclean_elections_are_allowed(
    resource: tuple[int, str],
) -> None:
    world = World(broker_count=2)
    for _ in range(2):
        world.given(replicas=(1, 2), isr=(1,), leader=1)
    world.given(replicas=(1,), isr=(1,), leader=1)
    world.fence(1)
    assert world.partition(0).leader == NO_LEADER
    decision = ask(world, change(resource, (UNCLEAN, SET, "true")))
    assert [type(each) for each in decision.records] == [kafka_records.Config] + [
        kafka_records.PartitionChange
    ] * 2
    assert [world.partition(number).leader for number in range(3)] == [2, 2, NO_LEADER]
    assert world.partition(0).recovery == RECOVERING
    assert ask(world, change(TOPIC, (UNCLEAN, SET, "false"))).records != ()


def test_the_topics_own_setting_keeps_an_unclean_election_away() -> None:
    world = World(broker_count=2)
    world.given(replicas=(1, 2), isr=(1,), leader=1, configs={UNCLEAN: "false"})
    world.fence(1)
    assert len(ask(world, change(ALL_BROKERS, (UNCLEAN, SET, "true"))).records) == 1
    assert world.partition().leader == NO_LEADER
    # Removed from the topic, what is set for all brokers counts.
    ask(world, change(TOPIC, (UNCLEAN, DELETE, None)))
    assert world.partition().leader == 2


@pytest.mark.parametrize("resource", [TOPIC, ALL_BROKERS])
def test_a_move_that_waited_for_the_min_isr_completes_when_it_is_lowered(
    resource: tuple[int, str],
) -> None:
    world = World(broker_count=4)
    ask(world, change(ALL_BROKERS, (MIN_ISR, SET, "2")))
    world.given(replicas=(1, 2), isr=(1,), leader=1)
    world.reassign(3, 4)
    world.sync(1, 3)
    assert world.partition().moving, "4 is not in sync"
    world.sync(1, 3, 4)
    assert not world.partition().moving
    world.given(replicas=(1, 2, 3), isr=(1,), leader=1)
    world.reassign(1, 2, number=1)
    assert world.partition(1).moving, "one is in sync, two must be"
    ask(world, change(resource, (MIN_ISR, SET, "1")))
    assert (world.partition(1).replicas, world.partition(1).moving) == ((1, 2), False)


def test_only_so_many_partitions_are_freed_by_one_change() -> None:
    world = World(broker_count=2)
    count = PARTITIONS_FREED_BY_CONFIGS_MAX + 5
    world.given(replicas=(1, 2), isr=(1,), leader=1)
    for number in range(1, count):
        world.image.set_partition(world.image.topics[TOPIC_ID], number, world.partition())
    world.fence(1)
    decision = ask(world, change(TOPIC, (UNCLEAN, SET, "true")))
    assert len(decision.records) == 1 + PARTITIONS_FREED_BY_CONFIGS_MAX
    unled = world.image.index.leader_of[NO_LEADER]
    assert len(unled) == 5


def test_with_eligible_leader_replicas_a_new_min_isr_clears_them() -> None:
    """KIP-966: who was eligible was so by another min ISR."""
    world = elr_world(broker_count=2)
    a_topic(world)
    decision = ask(world, change(TOPIC, (MIN_ISR, SET, "1")))
    assert decision.records[-1] == kafka_records.ClearElr(topic_name="t")
    decision = ask(world, change(ALL_BROKERS, (MIN_ISR, SET, "1")))
    assert decision.records[-1] == kafka_records.ClearElr(topic_name="")
    assert not ask(world, change(TOPIC, ("flush.ms", SET, "1"))).records[1:]


@pytest.mark.parametrize("resource", [TOPIC, ALL_BROKERS])
def test_a_partition_with_an_empty_isr_keeps_its_eligible_replicas(
    resource: tuple[int, str],
) -> None:
    world = elr_world(broker_count=3)
    world.given(replicas=(1, 2), isr=(1, 2), leader=1)
    world.given(replicas=(3, 2), isr=(3, 2), leader=3)
    world.fence(2)
    world.fence(1)
    assert (world.partition(0).isr, world.partition(0).elr) == ((), (2, 1))
    assert world.partition(1).elr == (2,)
    ask(world, change(resource, (MIN_ISR, SET, "1")))
    assert (world.partition(0).elr, world.partition(1).elr) == ((2, 1), ())
    world.join(1, 2, previous_epoch=world.epoch(1))
    assert world.partition(0).leader == 1


def test_with_eligible_leader_replicas_brokers_share_one_min_isr() -> None:
    world = elr_world(broker_count=2)
    single = refused(world, (BROKER_RESOURCE, "1"), (MIN_ISR, SET, "1"))
    assert single.startswith("INVALID_CONFIG: min.insync.replicas cannot be changed for single")
    removed = refused(world, ALL_BROKERS, (MIN_ISR, DELETE, None))
    assert removed.startswith("INVALID_CONFIG: min.insync.replicas of all brokers cannot be remov")
    replaced = world.ask(IncrementalAlterConfigs(changes=(replacement(ALL_BROKERS, {}),)))
    assert errors(replaced) == [Error.INVALID_CONFIG]
