"""Eligible leader replicas switched on and off: nothing is lost, and no partition is left."""

import pytest

from statemachine import commands
from statemachine.errors import Error
from statemachine.features.features import ELR_VERSION
from statemachine.reassignment.scheduler.backlog import is_left
from statemachine.records import kafka_records
from statemachine.vocabulary import NO_LEADER, RECOVERING
from tests.statemachine.support.config_requests import MIN_ISR, SET, TOPIC, ask, change
from tests.statemachine.support.world import TOPIC_ID, World

LEVEL = {"on": 1, "off": 0}


def switch(world: World, to: str) -> tuple[kafka_records.Record, ...]:
    """Put the feature in force, or out of force; its records."""
    upgrade = commands.UpgradeType.UPGRADE if LEVEL[to] else commands.UpgradeType.SAFE_DOWNGRADE
    update = commands.FeatureUpdate(name=ELR_VERSION, level=LEVEL[to], upgrade=upgrade)
    command = commands.UpdateFeatures(updates=(update,), controller_id=1, voters=(1,))
    decision = world.ask(command)
    assert isinstance(decision.answer, commands.Done)
    assert decision.answer.error is Error.NONE
    return tuple(decision.records)


def state(world: World, number: int = 0) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Leader, ISR and ELR."""
    partition = world.partition(number)
    return partition.leader, partition.isr, partition.elr


def a_world() -> World:
    """Partition 0: 1 is alive, 2 eligible. Partition 1: none is alive, 3 and 2 are eligible.

    Two must be in sync.
    """
    world = World(broker_count=4, elr=True)
    minimum = {MIN_ISR: "2"}
    world.given(replicas=(1, 2, 3), isr=(1, 2), leader=1, configs=minimum)
    world.given(replicas=(2, 3), isr=(2, 3), leader=2)
    world.fence(3)
    world.fence(2)
    assert state(world) == (1, (1,), (2,))
    assert state(world, 1) == (NO_LEADER, (), (3, 2))
    return world


def test_switching_elr_off_keeps_only_the_sole_possible_leaders_eligible() -> None:
    world = a_world()
    written = switch(world, "off")
    assert written == (
        kafka_records.ClearElr(topic_name=""),
        kafka_records.PartitionChange(
            partition_id=1, topic_id=TOPIC_ID, elr=(3, 2), last_known_elr=(2,)
        ),
        kafka_records.FeatureLevel(name=ELR_VERSION, level=0),
    )
    assert state(world) == (1, (1,), ())
    assert state(world, 1) == (NO_LEADER, (), (3, 2))
    assert not world.heartbeat(3).fenced
    assert state(world, 1) == (3, (3,), ())


def test_with_elr_off_an_unclean_restart_ends_eligibility() -> None:
    world = a_world()
    switch(world, "off")
    world.join(3, 2, previous_epoch=-1)
    assert state(world, 1) == (NO_LEADER, (), (2,))
    world.join(2, 2, previous_epoch=world.epoch(2))
    assert state(world, 1) == (2, (2,), ())


def test_with_elr_off_the_last_leader_leads_again_if_no_replica_is_eligible() -> None:
    world = a_world()
    switch(world, "off")
    world.register(3, 2, previous_epoch=-1)
    world.register(2, 2, previous_epoch=-1)
    assert state(world, 1) == (NO_LEADER, (), ())
    world.heartbeat(3)
    assert state(world, 1)[0] == NO_LEADER
    world.heartbeat(2)
    assert state(world, 1) == (2, (2,), ())
    assert world.partition(1).recovery == RECOVERING
    assert world.partition(1).last_known_elr == ()


def test_switching_elr_on_again_restores_no_eligibility() -> None:
    """Meanwhile one in sync was enough, and acknowledged what 2 has never seen."""
    world = a_world()
    switch(world, "off")
    ask(world, change(TOPIC, (MIN_ISR, SET, "1")))
    world.heartbeat(2)
    switch(world, "on")
    assert state(world) == (1, (1,), ())
    world.fence(1)
    assert state(world) == (NO_LEADER, (), (1,))


def test_an_elr_that_another_controller_has_left_in_the_log_is_not_believed() -> None:
    """Kafka's writes only the level: the ELR stays where the partition is not changed."""
    world = a_world()
    world.replay(kafka_records.FeatureLevel(name=ELR_VERSION, level=0))
    ask(world, change(TOPIC, (MIN_ISR, SET, "1")))
    world.heartbeat(2)
    assert state(world) == (1, (1,), (2,))
    assert kafka_records.ClearElr(topic_name="") in switch(world, "on")
    world.fence(1)
    assert state(world) == (NO_LEADER, (), (1,))


def test_without_eligible_replicas_a_switch_writes_only_the_level() -> None:
    world = World(broker_count=2, elr=True)
    world.given(replicas=(1, 2), isr=(1, 2), leader=1)
    assert switch(world, "off") == (kafka_records.FeatureLevel(name=ELR_VERSION, level=0),)


@pytest.mark.parametrize("to", ["off", "on"])
def test_a_switch_allows_nothing_that_would_be_left_over(to: str) -> None:
    """No partition has to be examined again for it, not even by the next controller."""
    world = a_world()
    world.given(replicas=(2, 4), isr=(), leader=NO_LEADER, last_known_elr=(2,))
    if to == "on":
        switch(world, "off")
    while world.ask(commands.AdvanceMoves()).records or is_left(world.image, world.scheduler):
        pass
    switch(world, to)
    world.image.end_undo_log()
    assert is_left(world.image, world.scheduler), "a new controller looks at everybody once"
    assert world.ask(commands.AdvanceMoves()).records == ()
    assert not is_left(world.image, world.scheduler)
