"""Steps that one decision leaves are begun by the following ones, in portions."""

import pytest

from statemachine import commands
from statemachine.decide import decide
from statemachine.limits import BACKLOG_SCANNED_MAX, PARTITIONS_FREED_BY_CONFIGS_MAX
from statemachine.reassignment.scheduler.backlog import is_left
from statemachine.reassignment.settings import COMPLETION_RULE, PARALLEL_PARTITIONS
from statemachine.vocabulary import NO_LEADER
from tests.statemachine.support.config_requests import (
    ALL_BROKERS,
    MIN_ISR,
    SET,
    TOPIC,
    UNCLEAN,
    ask,
    change,
)
from tests.statemachine.support.world import TOPIC_ID, World

REST = 5
COUNT = PARTITIONS_FREED_BY_CONFIGS_MAX + REST


def many(world: World, count: int = COUNT) -> None:
    """As many partitions of topic "t", all as the first one is."""
    for number in range(len(world.image.topics[TOPIC_ID].partitions), count):
        world.image.set_partition(world.image.topics[TOPIC_ID], number, world.partition())


def advance(world: World) -> tuple[int, bool]:
    """The number of records of the next portion, and whether more follow for certain."""
    decision = world.ask(commands.AdvanceMoves())
    assert isinstance(decision.answer, commands.MovesAdvanced)
    return len(decision.records), decision.answer.is_left


def leaderless_world(count: int = COUNT) -> World:
    """Partitions that nobody leads, and whom 2 could lead uncleanly."""
    world = World(broker_count=2)
    world.given(replicas=(1, 2), isr=(1,), leader=1)
    world.fence(1)
    many(world, count)
    return world


def moving_world(*settings: tuple[str, int, str | None]) -> World:
    """Partitions that drop their replica 3 once a min ISR of 1 is enough."""
    world = World(broker_count=3)
    ask(world, change(ALL_BROKERS, (MIN_ISR, SET, "2"), *settings))
    world.given(replicas=(1, 2, 3), isr=(1,), leader=1)
    many(world)
    asked = tuple(
        commands.Reassignment(topic="t", partition=number, replicas=(1, 2))
        for number in range(COUNT)
    )
    world.ask(commands.AlterReassignments(reassignments=asked))
    while world.image.index.waiting:
        advance(world)
    assert world.partition().removing == (3,)
    return world


def unled(world: World) -> int:
    return len(world.image.index.leader_of[NO_LEADER])


@pytest.mark.parametrize("resource", [TOPIC, ALL_BROKERS])
def test_elections_that_a_setting_allows_are_all_held(resource: tuple[int, str]) -> None:
    world = leaderless_world()
    ask(world, change(resource, (UNCLEAN, SET, "true")))
    assert unled(world) == REST
    assert advance(world) == (REST, False)
    assert unled(world) == 0
    assert is_left(world.image, world.scheduler), "it is not known yet that it was recorded"
    assert advance(world) == (0, False)
    assert not is_left(world.image, world.scheduler)


@pytest.mark.parametrize("limited", [False, True])
def test_moves_that_waited_for_the_min_isr_all_complete(limited: bool) -> None:
    world = moving_world(*([(PARALLEL_PARTITIONS, SET, "2000")] if limited else []))
    ask(world, change(TOPIC, (MIN_ISR, SET, "1")))
    assert len(world.image.index.moving) == REST
    (move,) = world.image.moves.values()
    assert move.ended is None
    # The last record is the end of the move.
    assert advance(world) == (REST + 1, False)
    assert not world.image.index.moving
    (move,) = world.image.moves.values()
    assert move.ended is not None
    assert move.ended.completed == COUNT


def test_moves_that_waited_for_another_rule_all_complete() -> None:
    world = moving_world((COMPLETION_RULE, SET, "all-target"))
    ask(world, change(ALL_BROKERS, (MIN_ISR, SET, "1")))
    assert len(world.image.index.moving) == COUNT
    while advance(world) != (0, False):
        pass
    ask(world, change(ALL_BROKERS, (COMPLETION_RULE, SET, "min-isr")))
    assert len(world.image.index.moving) == REST
    assert advance(world) == (REST + 1, False)
    assert not world.image.index.moving


def test_a_new_controller_takes_up_what_the_last_one_has_left() -> None:
    world = leaderless_world()
    while advance(world) != (0, False):
        pass
    assert not is_left(world.image, world.scheduler), "all have been looked at, and none may be led"
    ask(world, change(TOPIC, (UNCLEAN, SET, "true")))
    while advance(world) != (0, False):
        pass
    many(world, COUNT + REST)
    assert not is_left(world.image, world.scheduler)
    world.image.end_undo_log()
    assert not is_left(world.image, world.scheduler), "all are led"
    world.fence(2)
    assert unled(world) == COUNT + REST
    world.image.end_undo_log()
    assert is_left(world.image, world.scheduler)


def test_a_decision_that_was_not_recorded_is_made_again() -> None:
    world = leaderless_world()
    ask(world, change(TOPIC, (UNCLEAN, SET, "true")))
    refused = decide(world.image, commands.AdvanceMoves(), scheduler=world.scheduler)
    assert len(refused.records) == REST
    assert (
        decide(world.image, commands.AdvanceMoves(), scheduler=world.scheduler).records
        == refused.records
    )


def test_one_decision_looks_at_so_many_and_the_next_one_goes_on() -> None:
    world = leaderless_world(BACKLOG_SCANNED_MAX + 1)
    at = decide(world.image, commands.AdvanceMoves(), scheduler=world.scheduler)
    assert (at.records, at.answer) == ((), commands.MovesAdvanced(is_left=True))
    backlog = world.scheduler.backlog
    assert backlog is not None
    assert len(backlog) == 1
    at = decide(world.image, commands.AdvanceMoves(), scheduler=world.scheduler)
    assert (at.records, at.answer) == ((), commands.MovesAdvanced(is_left=False))
    assert not backlog


def test_a_partition_that_advances_is_not_examined_for_ever() -> None:
    """Without a change that allows something there is nothing to walk through again."""
    world = moving_world()
    while advance(world) != (0, False):
        pass
    world.sync(1, 2, number=3)
    assert not world.partition(3).moving
    ask(world, change(TOPIC, ("retention.ms", SET, "5")))
    assert not is_left(world.image, world.scheduler)
    ask(world, change(TOPIC, (MIN_ISR, SET, "3")))
    assert is_left(world.image, world.scheduler)


def test_a_topic_that_goes_meanwhile_is_passed_over() -> None:
    world = leaderless_world(3)
    decide(world.image, commands.AdvanceMoves(), scheduler=world.scheduler)
    ask(world, change(TOPIC, (UNCLEAN, SET, "false")))
    assert is_left(world.image, world.scheduler)
    world.ask(commands.DeleteTopics(topics=("t",)))
    assert advance(world) == (0, False)
    assert not is_left(world.image, world.scheduler)
