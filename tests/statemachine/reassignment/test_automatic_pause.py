"""A move pauses while a partition of it is under min ISR; that partition continues (KIP-435)."""

from statemachine import commands
from statemachine.reassignment.move import Move
from statemachine.reassignment.scheduler.state import Scheduler
from statemachine.reassignment.settings import PARALLEL_PARTITIONS
from statemachine.reassignment.step import Reason
from statemachine.records import own_records
from statemachine.vocabulary import MoveState, Replicas
from tests.statemachine.support.config_requests import ALL_BROKERS, MIN_ISR, SET, ask, change
from tests.statemachine.support.world import World


def a_move(
    *targets: Replicas, partitions: int = 1, min_isr: int = 2, replicas: Replicas = (1, 2, 3)
) -> World:
    """A move of partitions with these replicas; as many as said have a step at one time."""
    world = World(broker_count=6)
    limit = (PARALLEL_PARTITIONS, SET, str(partitions))
    ask(world, change(ALL_BROKERS, limit, (MIN_ISR, SET, str(min_isr))))
    for _ in targets:
        world.given(replicas=replicas, isr=replicas, leader=replicas[0])
    asked = tuple(
        commands.Reassignment(topic="t", partition=number, replicas=target)
        for number, target in enumerate(targets)
    )
    world.ask(commands.BeginMove(reassignments=asked))
    return world


def move(world: World) -> Move:
    """The only move."""
    (found,) = world.image.moves.values()
    return found


def stepping(world: World) -> list[int]:
    return [number for _, number in world.image.index.partitions(world.image.index.stepping)]


def catch_up(world: World, number: int) -> None:
    live = [r for r in world.partition(number).replicas if world.image.brokers[r].live]
    world.sync(*live, number=number)


def test_a_move_rests_while_one_of_its_partitions_is_hurt() -> None:
    world = a_move((1, 2, 4), (1, 2, 4), (1, 2, 4))
    decision = world.fence(3)
    assert isinstance(decision.records[-1], own_records.MoveChanged)
    found = move(world)
    assert (found.state, found.since_ms) == (MoveState.PAUSED_BY_ITSELF, world.now_ms)
    assert found.reason == Reason.HURT.value
    assert found.detail == "t-0 has 2 in sync, and min ISR is 2"


def test_partitions_under_min_isr_continue() -> None:
    """A drain of a dead broker: every partition lacks it, and all of them may go."""
    world = a_move((1, 2, 4), (1, 2, 4), (1, 2, 4))
    world.fence(3)
    assert move(world).state == MoveState.PAUSED_BY_ITSELF
    for number in (0, 1, 2):
        assert stepping(world) == [number]
        catch_up(world, number)
    assert move(world).ended is not None


def test_other_partitions_wait_until_none_is_under_min_isr() -> None:
    world = a_move((1, 2, 4), (1, 2, 4), (1, 2, 4))
    # 2 leaves the ISR of partition 1 and then 3: at min ISR.
    catch_up(world, 0)
    assert stepping(world) == [1]
    world.sync(1, 3, number=2)
    assert move(world).state == MoveState.PAUSED_BY_ITSELF
    world.ask(commands.AdvanceMoves())
    catch_up(world, 1)
    assert stepping(world) == [2], "the one that is hurt goes on"
    world.sync(1, 2, 3, number=2)
    assert move(world).state == MoveState.RUNNING
    assert move(world).reason == ""


def test_a_move_that_rests_begins_nothing_and_changes_nothing_under_way() -> None:
    world = a_move((1, 2, 4), (1, 2, 4), (1, 2, 4), partitions=2)
    under_way = [world.partition(0), world.partition(1)]
    world.sync(1, 2, number=1)
    assert move(world).state == MoveState.PAUSED_BY_ITSELF
    assert world.partition(0) == under_way[0]
    catch_up(world, 0)
    assert stepping(world) == [1], "2 waits, for it is not hurt itself"
    assert world.ask(commands.AdvanceMoves()).records == ()
    world.sync(1, 2, 3, number=1)
    assert stepping(world) == [1, 2]


def test_a_new_controller_ends_the_rest_of_a_move_of_which_nothing_waits() -> None:
    world = a_move((1, 2, 4), (1, 2, 4))
    world.sync(1, 3, number=1)
    catch_up(world, 0)
    assert (stepping(world), move(world).state) == ([1], MoveState.PAUSED_BY_ITSELF)
    # A new active controller begins without a queue.
    world.scheduler = Scheduler(world.image)
    world.ask(commands.AdvanceMoves())
    world.sync(1, 2, 3, number=1)
    assert move(world).state == MoveState.RUNNING


def test_as_many_replicas_as_min_isr_are_no_reason_to_rest() -> None:
    world = a_move((1, 4), (1, 4), replicas=(1, 2))
    assert move(world).state == MoveState.RUNNING
    catch_up(world, 0)
    assert stepping(world) == [1]


def test_a_replica_that_is_only_being_added_does_not_pause_a_move() -> None:
    world = a_move((1, 2, 3, 4), (1, 2, 3, 4), min_isr=3)
    world.fence(4)
    assert move(world).state == MoveState.RUNNING


def test_with_nothing_limited_no_move_rests() -> None:
    world = a_move((1, 2, 4), (1, 2, 4), partitions=1_000)
    ask(world, change(ALL_BROKERS, (PARALLEL_PARTITIONS, 1, None)))
    world.fence(3)
    assert move(world).state == MoveState.RUNNING
    assert stepping(world) == [0, 1]
