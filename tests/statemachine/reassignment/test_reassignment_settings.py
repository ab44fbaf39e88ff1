"""The cluster-wide settings of reassignments: valid values, and effects."""

import pytest

from statemachine.configs.describe_configs import Source, describe_configs
from statemachine.configs.effective import DEFAULTS
from statemachine.errors import Refusal
from statemachine.reassignment.settings import (
    COMPLETION_RULE,
    PARALLEL_REPLICAS,
    CompletionRule,
    completion_rule,
)
from statemachine.records import kafka_records
from statemachine.vocabulary import BROKER_RESOURCE, Replicas
from tests.statemachine.support.config_requests import (
    ALL_BROKERS,
    DELETE,
    SET,
    ask,
    change,
    refused,
)
from tests.statemachine.support.world import World

ALL_TARGET = (COMPLETION_RULE, SET, "all-target")


def test_a_cluster_completes_by_min_isr_unless_it_is_told_otherwise() -> None:
    world = World()
    assert completion_rule(world.image) is CompletionRule.MIN_ISR
    ask(world, change(ALL_BROKERS, ALL_TARGET))
    assert completion_rule(world.image) is CompletionRule.ALL_TARGET
    ask(world, change(ALL_BROKERS, (COMPLETION_RULE, DELETE, None)))
    assert completion_rule(world.image) is CompletionRule.MIN_ISR


def test_a_rule_in_the_log_that_there_is_not_counts_as_not_set() -> None:
    world = World()
    kind, name = DEFAULTS
    world.replay(
        kafka_records.Config(
            resource_type=kind, resource_name=name, name=COMPLETION_RULE, value="quickly"
        )
    )
    assert completion_rule(world.image) is CompletionRule.MIN_ISR


@pytest.mark.parametrize(
    ("resource", "name", "value", "message"),
    [
        (ALL_BROKERS, COMPLETION_RULE, "quickly", "it must be one of min-isr, all-target"),
        ((BROKER_RESOURCE, "1"), COMPLETION_RULE, "all-target", "applies to the whole cluster"),
        (ALL_BROKERS, f"listener.name.x.{COMPLETION_RULE}", "all-target", "applies to the whole"),
        ((BROKER_RESOURCE, "1"), f"listener.name.x.{COMPLETION_RULE}", "min-isr", "applies to the"),
    ],
)
def test_an_invalid_setting_is_refused_with_the_valid_values(
    resource: tuple[int, str], name: str, value: str, message: str
) -> None:
    said = refused(World(broker_count=1), resource, (name, SET, value))
    assert said.startswith("INVALID_REQUEST: ")
    assert message in said


def test_settings_are_shown_for_all_brokers_and_for_each() -> None:
    world = World(broker_count=1)
    ask(world, change(ALL_BROKERS, ALL_TARGET))
    for resource in (ALL_BROKERS, (BROKER_RESOURCE, "1")):
        entries = describe_configs(world.image, resource)
        assert not isinstance(entries, Refusal)
        (entry,) = [each for each in entries if each.name == COMPLETION_RULE]
        assert (entry.value, entry.source) == ("all-target", Source.ALL_BROKERS)
        assert not entry.is_sensitive


def in_sync_but_one(rule: str) -> World:
    """[1, 2, 3] is to be [1, 2, 4]; 4 is in sync, 2 is not, and min ISR is 1."""
    world = World(broker_count=4)
    ask(world, change(ALL_BROKERS, (COMPLETION_RULE, SET, rule)))
    world.given(replicas=(1, 2, 3), isr=(1, 3), leader=1)
    world.reassign(1, 2, 4)
    world.sync(1, 3, 4)
    return world


def test_by_min_isr_it_is_enough_that_those_who_are_added_are_in_sync() -> None:
    assert in_sync_but_one("min-isr").partition().replicas == (1, 2, 4)


def test_by_all_target_everyone_who_stays_must_be_in_sync_too() -> None:
    """`PartitionReassignmentReplicas.maybeCompleteReassignment` of Kafka."""
    world = in_sync_but_one("all-target")
    assert world.partition().moving
    world.sync(1, 2, 3, 4)
    assert (world.partition().replicas, world.partition().moving) == ((1, 2, 4), False)


def test_by_all_target_min_isr_does_not_count() -> None:
    world = World(broker_count=4)
    ask(world, change(ALL_BROKERS, ALL_TARGET, ("min.insync.replicas", SET, "3")))
    world.given(replicas=(1, 2), isr=(1, 2), leader=1)
    world.reassign(1, 3)
    world.sync(1, 2, 3)
    assert (world.partition().isr, world.partition().moving) == ((1, 3), False)


def test_by_all_target_a_fence_completes_nothing_that_lacks_the_fenced() -> None:
    world = World(broker_count=4)
    ask(world, change(ALL_BROKERS, ALL_TARGET))
    world.given(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1)
    world.reassign(1, 2, 4)
    world.fence(2)
    world.sync(1, 3, 4)
    assert world.partition().moving, "2 is to stay, and is not in sync"
    world.join(2, 2)
    world.sync(1, 2, 3, 4)
    assert not world.partition().moving


def test_a_change_of_the_rule_completes_what_only_waited_for_it() -> None:
    world = in_sync_but_one("all-target")
    ask(world, change(ALL_BROKERS, (COMPLETION_RULE, SET, "min-isr")))
    assert (world.partition().replicas, world.partition().moving) == ((1, 2, 4), False)


@pytest.mark.parametrize("target", [(4, 1, 2), (4, 5, 6)])
def test_by_all_target_a_move_in_steps_leaves_a_dead_broker_behind(target: Replicas) -> None:
    """Only who is to stay is waited for: in one step such a move does not wait for 3 either."""
    world = World(broker_count=6)
    ask(world, change(ALL_BROKERS, ALL_TARGET, (PARALLEL_REPLICAS, SET, "1")))
    world.given(replicas=(3, 1, 2), isr=(3, 1, 2), leader=3)
    world.fence(3)
    world.reassign(*target)
    for _ in target:
        world.sync(*(each for each in world.partition().replicas if each != 3))
    assert (world.partition().replicas, world.partition().moving) == (target, False)


def test_by_all_target_a_step_before_the_last_drops_nobody_whom_min_isr_needs() -> None:
    world = World(broker_count=6)
    limit = (PARALLEL_REPLICAS, SET, "1")
    ask(world, change(ALL_BROKERS, ALL_TARGET, limit, ("min.insync.replicas", SET, "2")))
    world.given(replicas=(1, 2, 3, 4), isr=(1, 2), leader=1)
    world.fence(5)
    # 5 would come first; as long as it is dead 6 does, and 1 makes room for it.
    world.reassign(5, 6)
    assert (world.partition().adding, world.partition().removing) == ((6,), (1,))
    world.sync(1, 6)
    partition = world.partition()
    assert (partition.replicas, partition.isr) == ((6, 1, 2, 3, 4), (1, 6)), "6 would be alone"
    assert partition.waits
    world.heartbeat(5)
    world.sync(1, 6, 5)
    assert (world.partition().replicas, world.partition().moving) == ((5, 6), False)
