"""The progress of a reassigned partition, and the reason why it waits."""

from collections.abc import Sequence

from statemachine import commands
from statemachine.image.partition_table import Topic
from statemachine.reassignment.progress import PartitionProgress, State, progress_of
from statemachine.reassignment.settings import (
    COMPLETION_RULE,
    LEADER_MOVEMENTS,
    PARALLEL_PARTITIONS,
    PARALLEL_REPLICAS,
    REPLICA_MOVEMENTS,
)
from statemachine.reassignment.step import Reason
from tests.statemachine.support.config_requests import ALL_BROKERS, MIN_ISR, SET, ask, change
from tests.statemachine.support.world import TOPIC_ID, World


def a_world(*settings: tuple[str, int, str | None], partitions: int = 2) -> World:
    """Partitions [1, 2, 3] on six brokers."""
    world = World(broker_count=6)
    if settings:
        ask(world, change(ALL_BROKERS, *settings))
    for _ in range(partitions):
        world.given(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1)
    return world


def at(world: World, number: int = 0) -> PartitionProgress:
    """The progress of the partition."""
    found = progress_of(world.image, the_topic(world), number)
    assert found is not None
    return found


def the_topic(world: World) -> Topic:
    return world.image.topics[TOPIC_ID]


def changing(world: World) -> tuple[Sequence[int], Sequence[int]]:
    """The replicas that the step of the partition adds and removes."""
    partition = the_topic(world).partition(0)
    assert partition is not None
    return partition.adding, partition.removing


def why(world: World, number: int = 0) -> tuple[State, Reason | None, str]:
    found = at(world, number)
    return found.state, found.reason, found.detail


def test_a_partition_without_a_reassignment_has_no_progress() -> None:
    world = a_world()
    assert progress_of(world.image, the_topic(world), 0) is None
    assert progress_of(world.image, the_topic(world), 9) is None


def test_a_step_grows_then_catches_up_and_the_next_one_is_counted() -> None:
    world = a_world((PARALLEL_REPLICAS, SET, "2"))
    world.reassign(4, 5, 6)
    found = at(world)
    assert (found.step, found.of, changing(world)) == (1, 3, ((4,), ()))
    assert why(world) == (State.GROWING, Reason.CATCHING_UP, "not in sync yet: 4")
    assert found.since_ms == world.now_ms
    world.sync(1, 2, 3, 4)
    assert (at(world).step, at(world).of, changing(world)[0]) == (2, 3, (5,))


def test_the_number_of_steps_stays_the_same_to_the_end() -> None:
    world = a_world((PARALLEL_REPLICAS, SET, "1"))
    world.reassign(4, 5, 6)
    said = []
    while world.partition().moving:
        said.append((at(world).step, at(world).of))
        world.sync(*world.partition().replicas)
    # By way of steps that only drop, which are complete at once.
    assert said == [(1, 4), (3, 4), (4, 4)]


def test_a_move_in_one_go_is_step_one_of_one() -> None:
    world = a_world()
    world.reassign(4, 5, 6)
    world.sync(1, 2, 3, 5)
    assert (at(world).step, at(world).of) == (1, 1)
    assert why(world) == (State.CATCHING_UP, Reason.CATCHING_UP, "not in sync yet: 4, 6")


def test_a_broker_that_is_dead_is_named_with_when_it_was_fenced() -> None:
    world = a_world()
    world.reassign(1, 2, 4)
    world.now_ms += 60_000
    world.fence(4)
    assert why(world) == (State.GROWING, Reason.NO_LIVE_TARGET, "not alive: 4")
    assert (at(world).brokers, at(world).since_ms) == ((4,), world.now_ms)
    fenced_at_ms, world.now_ms = world.now_ms, world.now_ms + 60_000
    world.fence(4)
    assert at(world).since_ms == fenced_at_ms, "it was fenced already"
    world.ask(commands.UnregisterBroker(broker_id=4))
    assert why(world) == (State.GROWING, Reason.NOT_REGISTERED, "not registered: 4")


def test_a_partition_that_waits_for_dead_brokers_says_so() -> None:
    world = a_world((PARALLEL_PARTITIONS, SET, "5"))
    world.fence(4)
    world.reassign(1, 2, 4)
    assert why(world) == (State.WAITING, Reason.NO_LIVE_TARGET, "not alive: 4")


def test_a_partition_that_waits_for_a_slot_names_the_limit() -> None:
    world = a_world((PARALLEL_PARTITIONS, SET, "1"))
    world.reassign(1, 2, 4)
    world.reassign(1, 2, 4, number=1)
    detail = "partitions with a step under way: 1"
    assert why(world, 1) == (State.WAITING, Reason.LIMIT_PARTITIONS, detail)
    assert (at(world, 1).step, at(world, 1).of) == (1, 1)
    world = a_world((LEADER_MOVEMENTS, SET, "1"))
    world.reassign(4, 2, 3)
    world.reassign(4, 2, 3, number=1)
    assert why(world, 1)[1] is Reason.LIMIT_LEADER_MOVEMENTS
    world = a_world((REPLICA_MOVEMENTS, SET, "1"))
    world.reassign(1, 2, 4)
    world.reassign(1, 2, 4, number=1)
    assert why(world, 1)[1] is Reason.LIMIT_REPLICA_MOVEMENTS


def test_a_partition_that_waits_for_min_isr_gives_the_number_in_sync() -> None:
    world = a_world((MIN_ISR, SET, "2"))
    world.sync(1)
    world.reassign(1, 2)
    detail = "1 of those that stay are in sync, and min ISR is 2"
    assert why(world) == (State.CATCHING_UP, Reason.MIN_ISR, detail)


def test_a_partition_that_waits_by_kafkas_rule_names_the_replicas() -> None:
    world = a_world((COMPLETION_RULE, SET, "all-target"))
    world.sync(1)
    world.reassign(1, 2)
    assert why(world) == (State.CATCHING_UP, Reason.ALL_TARGET, "not in sync: 2")


def test_a_partition_that_nobody_leads_says_so() -> None:
    world = World(broker_count=4)
    world.given(replicas=(1,), isr=(1,), leader=1)
    world.reassign(2)
    world.fence(1)
    assert why(world)[:2] == (State.GROWING, Reason.NO_LEADER)


def test_a_move_that_rests_says_for_which_partition() -> None:
    world = World(broker_count=6)
    limit = (PARALLEL_PARTITIONS, SET, "1")
    ask(world, change(ALL_BROKERS, limit, (MIN_ISR, SET, "2")))
    for _ in range(2):
        world.given(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1)
    asked = [commands.Reassignment(topic="t", partition=n, replicas=(1, 2, 4)) for n in (0, 1)]
    world.ask(commands.BeginMove(reassignments=tuple(asked)))
    world.sync(1, 3, number=0)
    assert why(world, 1) == (State.PAUSED, Reason.HURT, "t-0 has 2 in sync, and min ISR is 2")
