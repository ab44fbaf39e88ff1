"""Reassignment beyond the protocol's examples: order, completion, cancel, redirection, refusals."""

from collections.abc import Sequence

import pytest

from statemachine import commands
from statemachine.errors import Error
from statemachine.reassignment.move_queries import reassigned
from statemachine.slices import whole
from statemachine.vocabulary import RECOVERING
from tests.statemachine.support.world import TOPIC_ID, World


@pytest.fixture
def world() -> World:
    """Partition 0 on brokers 1, 2 and 3, all in sync, led by 1; min ISR is 2."""
    world = World(broker_count=6)
    world.given(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, configs={"min.insync.replicas": "2"})
    return world


def test_replicas_end_up_in_the_order_asked_for(world: World) -> None:
    world.reassign(4, 3, 5)
    assert world.partition().replicas == (1, 2, 3, 4, 5)
    world.sync(1, 3, 4)
    assert world.partition().moving
    world.sync(1, 3, 4, 5)
    after = world.partition()
    assert (after.replicas, after.isr, after.leader) == ((4, 3, 5), (3, 4, 5), 4)
    assert not after.moving


def test_growth_and_catch_up_leave_the_leader_epoch_alone(world: World) -> None:
    before = world.partition()
    world.reassign(1, 4, 5)
    world.sync(1, 2, 3, 4)
    after = world.partition()
    assert (after.leader, after.leader_epoch) == (before.leader, before.leader_epoch)
    assert after.partition_epoch == before.partition_epoch + 2


def test_adding_alone_completes_with_a_new_leader_epoch(world: World) -> None:
    epoch = world.partition().leader_epoch
    world.reassign(1, 2, 3, 4)
    world.sync(1, 2, 3, 4)
    after = world.partition()
    assert (after.replicas, after.moving, after.leader) == ((1, 2, 3, 4), False, 1)
    assert after.leader_epoch == epoch + 1


def test_a_pure_removal_completes_in_its_first_change(world: World) -> None:
    answer = world.reassign(1, 2)
    after = world.partition()
    assert answer.replicas == after.replicas == after.isr == (1, 2)
    assert (after.partition_epoch, after.leader_epoch) == (3, 2)


def test_removing_the_leader_elects_the_first_of_the_target(world: World) -> None:
    world.reassign(3, 2)
    after = world.partition()
    assert (after.replicas, after.leader, after.leader_epoch) == ((3, 2), 3, 2)


def test_a_reorder_completes_in_its_first_change_and_keeps_the_leader(world: World) -> None:
    world.reassign(3, 2, 1)
    after = world.partition()
    assert (after.replicas, after.leader, after.leader_epoch) == ((3, 2, 1), 1, 2)
    assert not after.moving


def test_a_reorder_under_min_isr_waits_until_the_isr_is_back(world: World) -> None:
    world.sync(1)
    world.reassign(3, 2, 1)
    waiting = world.partition()
    assert (waiting.replicas, waiting.target, waiting.moving) == ((1, 2, 3), (3, 2, 1), True)
    world.sync(1, 3)
    assert world.partition().replicas == (3, 2, 1)
    assert not world.partition().moving


def test_completion_waits_for_the_min_isr_even_when_all_added_are_in_sync(world: World) -> None:
    """Kafka would wait for all of the target instead; ours is the seed's rule."""
    world.sync(1)
    world.reassign(2, 3, 4)
    world.sync(1, 4)
    assert world.partition().moving
    # 2 catches up: of the target two are in sync, and 3 need not be.
    world.sync(1, 2, 4)
    after = world.partition()
    assert (after.replicas, after.isr, after.leader) == ((2, 3, 4), (2, 4), 2)


def test_the_min_isr_is_never_more_than_the_replicas_aimed_at(world: World) -> None:
    world.configure("min.insync.replicas", "5")
    world.reassign(2)
    assert world.partition().replicas == world.partition().isr == (2,)


def test_asking_for_what_is_or_what_is_under_way_changes_nothing(world: World) -> None:
    for _ in range(2):
        before = world.image.end_offset
        assert world.reassign(*world.partition().aimed).error is Error.NONE
        assert world.image.end_offset == before
        world.reassign(1, 2, 4)


def test_fencing_completes_a_move_that_by_now_may_complete() -> None:
    """The completion is checked in every change: here the min ISR had sunk in the meantime."""
    world = World(broker_count=4)
    world.given(replicas=(1, 2, 3), isr=(1, 2), leader=1, configs={"min.insync.replicas": "2"})
    world.reassign(2, 3)
    assert world.partition().moving
    world.configure("min.insync.replicas", "1")
    world.fence(1)
    after = world.partition()
    assert (after.replicas, after.isr, after.leader) == ((2, 3), (2,), 2)


def test_a_leader_lost_while_moving_is_followed_by_one_that_stays(world: World) -> None:
    """Elected among the replicas, 2 would have to go again at the completion."""
    world.reassign(3, 4)
    world.fence(1)
    assert (world.partition().leader, world.partition().isr) == (3, (2, 3))


# Cancel.


def test_cancel_reverts_to_the_replicas_of_before_in_their_order(world: World) -> None:
    before = world.partition()
    world.reassign(4, 5, 3)
    world.sync(1, 2, 3, 4)
    answer = world.cancel()
    after = world.partition()
    assert answer.error is Error.NONE
    assert answer.replicas == after.replicas == before.replicas
    assert after.isr == (1, 2, 3)
    assert (after.leader, after.leader_epoch) == (1, before.leader_epoch + 1)
    assert not after.moving


def test_cancel_of_a_pure_removal_that_waits_only_ends_it(world: World) -> None:
    world.sync(1, 2)
    world.reassign(1, 3)
    assert world.partition().moving
    world.cancel()
    after = world.partition()
    assert (after.replicas, after.isr, after.removing) == ((1, 2, 3), (1, 2), ())


def test_cancel_elects_anew_when_the_leader_was_only_being_added(world: World) -> None:
    world.reassign(4, 5)
    world.sync(1, 2, 3, 4)
    world.fence(1)
    assert world.partition().leader == 4
    world.cancel()
    assert (world.partition().replicas, world.partition().leader) == ((1, 2, 3), 2)


def test_cancel_without_a_move_says_so(world: World) -> None:
    assert world.cancel().error is Error.NO_REASSIGNMENT_IN_PROGRESS


def test_cancel_is_refused_if_too_few_would_be_in_sync(world: World) -> None:
    world.reassign(4, 5)
    world.sync(1, 4)
    before = world.partition()
    answer = world.cancel()
    assert answer.error is Error.INVALID_REPLICA_ASSIGNMENT
    assert "1 in sync where 2 must be" in answer.message
    assert world.partition() == before


def test_cancel_goes_through_under_min_isr_if_unclean_election_is_on(world: World) -> None:
    world.configure("unclean.leader.election.enable", "true")
    world.reassign(4, 5)
    world.sync(1, 4)
    assert world.cancel().error is Error.NONE
    after = world.partition()
    assert (after.replicas, after.isr, after.leader) == ((1, 2, 3), (1,), 1)
    assert after.recovery != RECOVERING


def test_cancel_elects_uncleanly_if_nobody_of_before_is_in_sync(world: World) -> None:
    world.configure("unclean.leader.election.enable", "true")
    world.reassign(4, 5)
    world.sync(1, 4)
    world.fence(1)
    world.cancel()
    after = world.partition()
    assert (after.replicas, after.isr, after.leader) == ((1, 2, 3), (2,), 2)
    assert after.recovery == RECOVERING


def test_cancel_is_refused_if_nobody_of_before_is_in_sync_or_alive(world: World) -> None:
    world.configure("unclean.leader.election.enable", "true")
    world.reassign(4, 5)
    world.sync(1, 4)
    world.fence(1, 2, 3)
    answer = world.cancel()
    assert answer.error is Error.INVALID_REPLICA_ASSIGNMENT
    assert "none of 1, 2, 3 is in sync or alive" in answer.message


# Redirection.


def test_a_new_target_drops_what_was_added_and_is_not_in_sync(world: World) -> None:
    world.reassign(1, 2, 4, 5)
    world.sync(1, 2, 3, 4)
    world.reassign(1, 2, 6)
    after = world.partition()
    # 5 goes at once; 4 is in sync and goes with 3 when the move completes.
    assert (after.replicas, after.adding, after.removing) == ((1, 2, 3, 4, 6), (6,), (3, 4))
    world.sync(1, 2, 3, 4, 6)
    assert world.partition().replicas == (1, 2, 6)


def test_a_replica_asked_for_again_is_still_being_added(world: World) -> None:
    """Otherwise the move would complete without it."""
    world.reassign(1, 2, 4)
    world.reassign(1, 4, 5)
    assert world.partition().adding == (4, 5)
    world.sync(1, 2, 3, 5)
    assert world.partition().moving
    world.sync(1, 2, 4, 5)
    assert world.partition().replicas == (1, 4, 5)


def test_going_back_by_a_new_target_is_a_move_like_any_other(world: World) -> None:
    world.reassign(4, 5, 6)
    world.reassign(1, 2, 3)
    after = world.partition()
    assert (after.replicas, after.moving, after.leader_epoch) == ((1, 2, 3), False, 2)


def test_cancel_after_a_redirection_leaves_nothing_of_either_target(world: World) -> None:
    world.reassign(1, 4, 5)
    world.sync(1, 2, 3, 4)
    world.reassign(1, 2, 6)
    assert world.partition().replicas == (1, 2, 3, 4, 6)
    world.cancel()
    assert world.partition().replicas == world.partition().isr == (1, 2, 3)


def test_a_redirected_move_keeps_its_original_replicas(world: World) -> None:
    """Although a replica of the first target stays for now, because it is in sync."""
    world.reassign(1, 4, 5)
    world.sync(1, 2, 3, 4)
    world.reassign(1, 2, 6)
    assert world.partition().replicas == (1, 2, 3, 4, 6)
    assert world.partition().original == (1, 2, 3)


def test_a_move_that_kafka_began_completes_and_is_cancelled_without_a_target(
    world: World,
) -> None:
    """Kafka's controller puts the target first and knows no target: 4, 1 to come, 2, 3 to go."""
    for number in (1, 2):
        world.given(replicas=(4, 1, 2, 3), adding=(4,), removing=(2, 3), isr=(1, 2, 3), leader=1)
        assert world.partition(number).aimed == (4, 1)
    world.sync(1, 2, 3, 4, number=1)
    assert (world.partition(1).replicas, world.partition(1).leader) == ((4, 1), 1)
    world.cancel(number=2)
    assert (world.partition(2).replicas, world.partition(2).isr) == ((1, 2, 3), (1, 2, 3))


# The request.


@pytest.mark.parametrize(
    ("replicas", "named"),
    [((), "empty"), ((1, -4, -5), "-4, -5"), ((1, 2, 2, 3, 3), "2, 3"), ((1, 7, 8), "7, 8")],
)
def test_an_assignment_that_cannot_be_is_refused_by_name(
    world: World, replicas: tuple[int, ...], named: str
) -> None:
    before = world.partition()
    answer = world.reassign(*replicas)
    assert answer.error is Error.INVALID_REPLICA_ASSIGNMENT
    assert named in answer.message
    assert world.partition() == before


@pytest.mark.parametrize(
    ("replicas", "said"),
    [
        (range(7, 100_007), "includes broker 7, 8, "),
        ([1] * 50_000 + [2] * 50_000, "names more than once: 1, 2"),
        (range(-100_000, 0), "negative: -100000, "),
    ],
)
def test_an_assignment_of_any_length_is_refused_in_a_line(
    world: World, replicas: Sequence[int], said: str
) -> None:
    answer = world.reassign(*replicas)
    assert answer.error is Error.INVALID_REPLICA_ASSIGNMENT
    assert said in answer.message
    assert "and 99,980 more" in answer.message
    assert len(answer.message) < 300


@pytest.mark.parametrize("replicas", [(1, 2), None])
def test_unknown_topics_and_partitions_are_refused(
    world: World, replicas: tuple[int, ...] | None
) -> None:
    for topic, number in (("nope", 0), ("t", 1), ("t", -1)):
        asked = commands.Reassignment(topic=topic, partition=number, replicas=replicas)
        answer = world.ask(commands.AlterReassignments(reassignments=(asked,))).answer
        assert isinstance(answer, commands.ReassignmentsAltered)
        assert answer.partitions[0].error is Error.UNKNOWN_TOPIC_OR_PARTITION


def test_the_parts_of_a_request_stand_alone_and_see_each_other(world: World) -> None:
    world.given(replicas=(1, 2), isr=(1, 2), leader=1)
    parts = [(0, (1, 2, 4)), (5, (1,)), (0, None), (1, (9,)), (1, (2, 3)), (1, (2, 1, 3))]
    decision = world.ask(
        commands.AlterReassignments(
            reassignments=tuple(
                commands.Reassignment(topic="t", partition=number, replicas=replicas)
                for number, replicas in parts
            )
        )
    )
    assert isinstance(decision.answer, commands.ReassignmentsAltered)
    assert [part.error for part in decision.answer.partitions] == [
        Error.NONE,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.NONE,
        Error.INVALID_REPLICA_ASSIGNMENT,
        Error.NONE,
        Error.NONE,
    ]
    assert not world.partition(0).moving
    assert world.partition(1).target == (2, 1, 3)
    assert world.partition(1).original == (1, 2)


def test_directories_follow_their_replicas(world: World) -> None:
    """KIP-858: the one of a replica that stays is kept, a new one is the broker's only one."""
    world.reassign(3, 1, 4)
    world.sync(1, 2, 3, 4)
    after = world.partition()
    brokers = world.image.brokers
    assert after.replicas == (3, 1, 4)
    assert after.directories[2] == brokers[4].log_dirs[0]
    # Those of 1 and 3 were never said.
    assert [directory.int for directory in after.directories[:2]] == [0, 0]


def test_reassignments_in_progress_are_listed(world: World) -> None:
    world.given(replicas=(1, 2), isr=(1, 2), leader=1)
    assert tuple(whole(reassigned(world.image))) == ()
    world.reassign(3, 1, 4)
    (listed,) = whole(reassigned(world.image))
    assert listed is not None
    topic, number, partition = listed
    assert (topic.name, topic.topic_id, number) == ("t", TOPIC_ID, 0)
    assert partition.replicas == (1, 2, 3, 4)
    assert (partition.adding, partition.removing, partition.final) == ((4,), (2,), (3, 1, 4))
    asked = [("t", 1), ("t", 0), ("t", 7), ("nope", 0), ("t", 0)]
    assert tuple(whole(reassigned(world.image, asked))) == (None, listed, None, None)
    world.ask(commands.DeleteTopics(topics=("t",)))
    assert tuple(whole(reassigned(world.image))) == ()


def test_a_request_can_forbid_another_number_of_replicas(world: World) -> None:
    """KIP-860: AlterPartitionReassignments version 1."""
    asked = commands.Reassignment(topic="t", partition=0, replicas=(1, 2, 3, 4))
    command = commands.AlterReassignments(reassignments=(asked,), may_change_factor=False)
    answer = world.ask(command).answer
    assert isinstance(answer, commands.ReassignmentsAltered)
    assert answer.partitions[0].error is Error.INVALID_REPLICATION_FACTOR
    assert "from 3 to 4" in answer.partitions[0].message
    assert not world.partition().moving
