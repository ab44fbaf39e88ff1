"""Partitions advance step by step, as many at a time as the limits allow (KIP-435)."""

import pytest

from statemachine import commands
from statemachine.errors import Error
from statemachine.limits import PASSED_OVER_MAX, STEPS_BEGUN_MAX
from statemachine.partitions.registration import PartitionRegistration, moves_leader
from statemachine.reassignment.settings import (
    LEADER_MOVEMENTS,
    PARALLEL_PARTITIONS,
    PARALLEL_REPLICAS,
    REPLICA_MOVEMENTS,
    limits,
)
from statemachine.records import kafka_records
from statemachine.vocabulary import Replicas
from tests.statemachine.support.config_requests import (
    ALL_BROKERS,
    DELETE,
    MIN_ISR,
    SET,
    ask,
    change,
)
from tests.statemachine.support.world import TOPIC_ID, World


def limited(world: World, **numbers: int) -> World:
    """R, P, L and the limit of all movements M."""
    names = {
        "R": PARALLEL_REPLICAS,
        "P": PARALLEL_PARTITIONS,
        "L": LEADER_MOVEMENTS,
        "M": REPLICA_MOVEMENTS,
    }
    ask(world, change(ALL_BROKERS, *((names[k], SET, str(n)) for k, n in numbers.items())))
    return world


def some(world: World, count: int, replicas: Replicas = (1, 2, 3)) -> None:
    """Create so many partitions with these replicas, all in sync."""
    for _ in range(count):
        world.given(replicas=replicas, isr=replicas, leader=replicas[0])


def catch_up(world: World, number: int = 0) -> PartitionRegistration:
    """All replicas of the partition that are alive are in sync now; what it is then."""
    partition = world.partition(number)
    live = tuple(r for r in partition.replicas if world.image.brokers[r].live)
    world.sync(*live, number=number)
    return world.partition(number)


def stepping(world: World) -> list[int]:
    """The partitions with a step under way."""
    return [number for _, number in world.image.index.partitions(world.image.index.stepping)]


def test_the_example_of_the_protocol_with_its_leaders_and_epochs() -> None:
    """KIP-435: [0, 1, 2, 3, 4] to [5, 6, 7, 8, 9] by R = 2; brokers are one higher here."""
    world = limited(World(broker_count=10), R=2)
    some(world, 1, (1, 2, 3, 4, 5))
    assert world.reassign(6, 7, 8, 9, 10).error is Error.NONE
    seen = []
    while world.partition().moving:
        grown = world.partition()
        after = catch_up(world)
        done = tuple(r for r in after.replicas if r not in after.adding)
        seen.append((grown.adding, grown.removing, done, after.leader))
    assert seen == [
        ((6,), (), (6, 1, 2, 3, 4, 5), 6),  # +5, new leader (5) is elected
        ((7,), (1, 2), (6, 7, 3, 4, 5), 6),  # -[0,1] +[6]
        ((8, 9), (3, 4), (6, 7, 8, 9, 5), 6),  # -[2,3] +[7,8]
        ((10,), (5,), (6, 7, 8, 9, 10), 6),  # -[4] +[9], requested order is matched
    ]
    after = world.partition()
    # One for each of four completions, on the epoch of 1 that it began with.
    assert (after.leader_epoch, after.target, after.original) == (5, (), ())


def test_a_step_that_completes_and_the_next_one_are_one_list_of_records() -> None:
    world = limited(World(broker_count=6), R=2)
    some(world, 1)
    world.reassign(4, 5, 6)
    decision = world.ask(
        commands.AlterPartition(
            broker_id=1,
            broker_epoch=world.epoch(1),
            proposals=(world.proposal((1, 2, 3, 4)),),
        )
    )
    ended, begun = decision.records
    assert isinstance(ended, kafka_records.PartitionChange)
    assert isinstance(begun, kafka_records.PartitionChange)
    assert (ended.adding, ended.target, ended.leader) == ((), (4, 5, 6), 4)
    assert (begun.adding, begun.removing, begun.leader) == ((5,), (1, 2), None)
    assert world.partition().stage.step == 2


def test_a_step_that_only_drops_is_complete_at_once_and_the_next_one_begins() -> None:
    world = limited(World(broker_count=6), R=1)
    some(world, 1)
    world.reassign(4, 5, 6)
    at = catch_up(world)
    # By way of (4, 2, 3).
    assert (at.replicas, at.adding, at.removing) == ((4, 2, 3, 5), (5,), (2,))
    assert at.stage.step == 3


def test_with_the_default_a_move_is_one_step_whoever_is_alive() -> None:
    world = World(broker_count=6)
    world.fence(5)
    some(world, 3)
    for number in range(3):
        world.reassign(4, 5, 6, number=number)
    assert [world.partition(n).adding for n in range(3)] == [(4, 5, 6)] * 3
    assert limits(world.image).is_unlimited


def test_only_so_many_partitions_have_a_step_under_way_and_each_slot_is_refilled() -> None:
    world = limited(World(broker_count=4), P=2)
    some(world, 5, (1, 2))
    for number in range(5):
        world.reassign(1, 3, number=number)
    assert stepping(world) == [0, 1]
    catch_up(world, 1)
    # It does not wait for partition 0, the slowest.
    assert stepping(world) == [0, 2]
    world.cancel(0)
    assert stepping(world) == [2, 3]


def test_a_topic_that_is_deleted_gives_its_slots_to_others() -> None:
    world = limited(World(broker_count=4), P=1)
    other = kafka_records.Topic(name="s", topic_id=type(TOPIC_ID)(int=77))
    world.replay(other)
    world.replay(
        kafka_records.Partition(
            partition_id=0,
            topic_id=other.topic_id,
            replicas=(1, 2),
            isr=(1, 2),
            leader=1,
            leader_epoch=1,
            partition_epoch=1,
        )
    )
    some(world, 1, (1, 2))
    world.reassign(1, 3, topic="s")
    world.reassign(1, 3)
    assert stepping(world) == [0]
    assert not world.partition().steps
    world.ask(commands.DeleteTopics(topics=("s",)))
    assert world.partition().steps


def test_only_so_many_steps_move_a_leader_and_others_take_the_place() -> None:
    world = limited(World(broker_count=4), P=3, L=1)
    some(world, 4, (1, 2))
    for number, target in enumerate([(3, 2), (4, 2), (1, 3), (1, 4)]):
        world.reassign(*target, number=number)
    assert stepping(world) == [0, 2, 3]
    assert [n for n in stepping(world) if moves_leader(world.partition(n))] == [0]
    assert catch_up(world, 0).leader == 3
    assert stepping(world) == [1, 2, 3]


def test_the_total_of_adding_replicas_is_limited_and_fitting_steps_go_first() -> None:
    world = limited(World(broker_count=6), M=2)
    some(world, 3)
    world.reassign(1, 2, 4, number=0)
    world.reassign(1, 4, 5, number=1)
    world.reassign(1, 2, 5, number=2)
    # One is left: partition 1 would add two.
    assert stepping(world) == [0, 2]
    catch_up(world, 0)
    assert stepping(world) == [2]
    catch_up(world, 2)
    assert stepping(world) == [1]


@pytest.mark.thorough
def test_a_large_step_is_passed_over_a_bounded_number_of_times() -> None:
    world = limited(World(broker_count=6), M=2)
    some(world, 4)
    world.reassign(1, 2, 4, number=0)
    world.reassign(1, 2, 4, number=1)
    world.reassign(1, 4, 5, number=2)
    at, there, rounds = 0, {0: 4, 1: 4, 3: 3}, 0
    while not world.partition(2).moving or not world.partition(2).steps:
        rounds += 1
        assert rounds < 2 * PASSED_OVER_MAX, "the big one never has its turn"
        small = [n for n in stepping(world) if n != 2]
        at = small[0] if rounds % 2 else small[-1]
        catch_up(world, at)
        there[at] = 3 if there[at] == 4 else 4
        world.reassign(1, 2, there[at], number=at)
    assert rounds >= PASSED_OVER_MAX - 10


def test_under_min_isr_goes_first_then_leader_moves_then_the_oldest_request() -> None:
    world = limited(World(broker_count=6), P=1)
    ask(world, change(ALL_BROKERS, (MIN_ISR, SET, "2")))
    some(world, 4)
    world.given(replicas=(1, 2, 3), isr=(1,), leader=1)
    some(world, 1)
    for number, target in enumerate([(1, 2, 5), (1, 2, 6), (1, 2, 4), (4, 2, 3), (1, 4, 5)]):
        world.reassign(*target, number=number)
    world.reassign(1, 2, 6, number=5)
    order = []
    while found := stepping(world):
        order.append(found[0])
        catch_up(world, found[0])
    # 0 had begun before the others came.
    assert order == [0, 4, 3, 1, 2, 5]


def test_dead_brokers_are_waited_for_and_their_return_is_enough() -> None:
    world = limited(World(broker_count=4), P=5)
    some(world, 2, (1, 2))
    world.fence(3)
    world.reassign(1, 3, number=0)
    world.reassign(1, 4, number=1)
    assert stepping(world) == [1]
    world.heartbeat(3)
    assert stepping(world) == [0, 1]


def test_a_partition_that_nobody_leads_waits_until_somebody_does() -> None:
    world = limited(World(broker_count=4), P=5)
    some(world, 1, (1,))
    world.fence(1)
    world.reassign(3)
    assert stepping(world) == []
    world.heartbeat(1)
    assert stepping(world) == [0]


def test_a_limit_that_is_raised_or_lifted_lets_others_begin_at_once() -> None:
    world = limited(World(broker_count=4), P=1)
    some(world, 4, (1, 2))
    for number in range(4):
        world.reassign(1, 3, number=number)
    limited(world, P=2)
    assert stepping(world) == [0, 1]
    ask(world, change(ALL_BROKERS, (PARALLEL_PARTITIONS, DELETE, None)))
    assert stepping(world) == [0, 1, 2, 3]


def test_a_limit_that_is_lowered_changes_nothing_that_is_under_way() -> None:
    world = limited(World(broker_count=6), R=3, P=2)
    some(world, 3)
    for number in range(3):
        world.reassign(1, 5, 6, number=number)
    before = [world.partition(number) for number in (0, 1)]
    limited(world, R=1, P=1)
    assert [world.partition(number) for number in (0, 1)] == before
    catch_up(world, 0)
    assert stepping(world) == [1], "there are as many as may be"
    catch_up(world, 1)
    assert world.partition(2).adding == (5,)


def test_a_cancel_reverts_the_step_under_way_and_drops_the_rest() -> None:
    world = limited(World(broker_count=6), R=1)
    some(world, 1)
    world.reassign(4, 5, 6)
    catch_up(world)
    at = world.partition()
    assert (at.replicas, at.adding, at.removing) == ((4, 2, 3, 5), (5,), (2,))
    answer = world.cancel()
    assert (answer.error, answer.replicas) == (Error.NONE, (4, 2, 3))
    after = world.partition()
    assert (after.replicas, after.moving, after.leader) == ((4, 2, 3), False, 4)


def test_a_cancel_of_one_that_waits_only_ends_it() -> None:
    world = limited(World(broker_count=4), P=1)
    some(world, 2, (1, 2))
    world.reassign(1, 3, number=0)
    world.reassign(1, 4, number=1)
    waiting = world.partition(1)
    assert (waiting.waits, waiting.replicas) == (True, (1, 2))
    assert world.cancel(1).replicas == (1, 2)
    assert not world.partition(1).moving


def test_a_new_target_keeps_of_the_step_what_leads_there_too() -> None:
    world = limited(World(broker_count=6), R=2)
    some(world, 1, (1, 2, 3))
    world.reassign(1, 4, 5)
    assert world.partition().adding == (4, 5)
    world.reassign(1, 4, 6)
    at = world.partition()
    assert (at.replicas, at.adding, at.removing) == ((1, 2, 3, 4), (4,), (2,))
    assert at.base == (1, 2, 3)
    catch_up(world)
    assert (world.partition().adding, world.partition().removing) == ((6,), (3,))
    assert catch_up(world).replicas == (1, 4, 6)


def test_a_cancel_after_a_new_target_goes_back_to_before_the_step() -> None:
    """[1, 2, 3] to [5, 6, 4]; at (5, 6, 3) another target, and then none."""
    world = limited(World(broker_count=8), R=1)
    some(world, 1, (1, 2, 3))
    world.reassign(5, 6, 4)
    catch_up(world)
    catch_up(world)
    at = world.partition()
    assert (at.adding, at.removing) == ((4,), (3,))
    assert tuple(r for r in at.replicas if r not in at.adding) == (5, 6, 3)
    world.reassign(8, 6, 4)
    assert world.cancel().replicas == (5, 6, 3)


def test_a_new_target_under_way_leaves_nobody_behind() -> None:
    world = limited(World(broker_count=6), R=1)
    some(world, 1, (1, 2))
    world.reassign(3, 4)
    world.reassign(5, 6)
    assert 3 not in world.partition().replicas, "it was not in sync"
    while world.partition().moving:
        catch_up(world)
    assert world.partition().replicas == (5, 6)


def test_one_decision_begins_only_so_many_and_the_rest_goes_on_by_itself() -> None:
    world = limited(World(broker_count=3), P=1)
    count = STEPS_BEGUN_MAX + 20
    world.given(replicas=(1, 2), isr=(1, 2), leader=1)
    for number in range(1, count):
        world.image.set_partition(world.image.topics[TOPIC_ID], number, world.partition())
    world.ask(
        commands.AlterReassignments(
            reassignments=tuple(
                commands.Reassignment(topic="t", partition=number, replicas=(1, 3))
                for number in range(count)
            )
        )
    )
    limited(world, P=count)
    assert len(stepping(world)) == STEPS_BEGUN_MAX + 1
    decision = world.ask(commands.AdvanceMoves())
    assert decision.answer == commands.MovesAdvanced(is_left=False)
    assert len(stepping(world)) == count
    assert world.ask(commands.AdvanceMoves()).records == ()


def test_another_order_of_the_same_replicas_waits_for_no_place() -> None:
    world = limited(World(broker_count=4), P=1)
    some(world, 2, (1, 2))
    world.reassign(1, 3, number=0)
    world.reassign(2, 1, number=1)
    after = world.partition(1)
    assert (after.replicas, after.moving, after.leader) == ((2, 1), False, 1)


def test_a_validated_request_begins_nothing() -> None:
    world = limited(World(broker_count=4), P=1)
    some(world, 2, (1, 2))
    for number in range(2):
        world.reassign(1, 3, number=number)
    more = change(ALL_BROKERS, (PARALLEL_PARTITIONS, SET, "2"))
    assert ask(world, more, validate_only=True).records == ()
    assert stepping(world) == [0]


@pytest.mark.parametrize("number", ["0", "-1", "2147483648", "two", ""])
def test_a_limit_is_a_number_from_1_on(number: str) -> None:
    world = World()
    decision = world.ask(
        commands.IncrementalAlterConfigs(
            changes=(change(ALL_BROKERS, (PARALLEL_REPLICAS, SET, number)),)
        )
    )
    assert isinstance(decision.answer, commands.ConfigsAltered)
    (answer,) = decision.answer.resources
    assert "a whole number from 1 to 2147483647" in answer.message
