"""Moves: their begin, their partitions, and their end."""

import pytest

from statemachine import commands
from statemachine.errors import Error
from statemachine.limits import MOVE_PART_PARTITIONS_MAX, REFUSED_SHOWN_MAX
from statemachine.partitions.registration import PartitionRegistration
from statemachine.reassignment.move import Left
from statemachine.records import kafka_records, own_records
from statemachine.records.codec import plan_of
from statemachine.vocabulary import MoveKind, MoveOutcome, Replicas
from tests.statemachine.support.world import TOPIC_ID, World


@pytest.fixture
def world() -> World:
    """Partitions 0, 1 and 2 on brokers 1, 2 and 3, all in sync, led by 1; min ISR is 2."""
    world = World(broker_count=6)
    for _ in range(3):
        world.given(
            replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, configs={"min.insync.replicas": "2"}
        )
    return world


def move(world: World, asked: dict[int, Replicas], **fields: object) -> commands.MoveStarted:
    """Ask for a move of these partitions of topic "t"."""
    reassignments = tuple(
        commands.Reassignment(topic="t", partition=number, replicas=replicas)
        for number, replicas in asked.items()
    )
    command = commands.BeginMove(reassignments=reassignments, who="ann", **fields)  # type: ignore[arg-type]
    answer = world.ask(command).answer
    assert isinstance(answer, commands.MoveStarted)
    return answer


def cancel(world: World, **fields: object) -> commands.MovesCancelled:
    """Cancel what is named."""
    answer = world.ask(commands.CancelMoves(**fields)).answer  # type: ignore[arg-type]
    assert isinstance(answer, commands.MovesCancelled)
    return answer


def roll_back(world: World, move_id: int) -> commands.MoveStarted:
    """Roll the move back; whoever tries it just before is told what then becomes of it."""
    before = partitions_of(world)
    trying = world.ask(commands.RollBackMove(move_id=move_id, who="ann", dry_run=True))
    answer = world.ask(commands.RollBackMove(move_id=move_id, who="ann")).answer
    tried, after = trying.answer, partitions_of(world)
    assert not trying.records
    assert isinstance(answer, commands.MoveStarted)
    assert isinstance(tried, commands.MoveStarted)
    assert (tried.error, tried.message) == (answer.error, answer.message)
    assert (tried.refused_count, tried.refused) == (answer.refused_count, answer.refused)
    changed = [place for place in after if after[place] != before[place]]
    assert [(each.topic, each.partition) for each in tried.foreseen] == changed
    for each in tried.foreseen:
        partition = after[each.topic, each.partition]
        # At once, or as what the move that begins aims at.
        assert each.replicas == (partition.target or partition.replicas)
    return answer


def partitions_of(world: World) -> dict[tuple[str, int], PartitionRegistration]:
    """Every partition that there is."""
    return {
        (topic.name, number): partition
        for topic in world.image.topics.values()
        for number, partition in topic.existing()
    }


def ended(world: World, move_id: int = 1) -> own_records.MoveEnded:
    """The outcome of the move."""
    found = world.image.moves[move_id].ended
    assert found is not None, world.image.moves[move_id]
    return found


def in_move(world: World, move_id: int) -> list[int]:
    """The partitions that belong to the move."""
    keys = world.image.index.of_move.get(move_id)
    return [] if keys is None else [number for _, number in world.image.index.partitions(keys)]


# Beginning.


def test_a_move_is_kept_with_who_asked_when_and_for_what(world: World) -> None:
    answer = move(world, {0: (1, 2, 4), 2: (5, 6)}, name="away", priority=3)
    assert (answer.move_id, answer.accepted, answer.refused_count) == (1, 2, 0)
    begun = world.image.moves[1].begun
    assert (begun.who, begun.asked_at_ms, begun.name) == ("ann", world.now_ms, "away")
    assert (begun.kind, begun.priority, begun.partitions) == (MoveKind.REASSIGN, 3, 2)
    (topic,) = plan_of(world.image.moves[1].parts[0])
    assert topic.topic_id == TOPIC_ID
    assert [(each.number, each.target, each.original) for each in topic.partitions] == [
        (0, (1, 2, 4), (1, 2, 3)),
        (2, (5, 6), (1, 2, 3)),
    ]
    stage = world.partition(2).stage
    assert (stage.move, stage.step, stage.since_ms) == (1, 1, world.now_ms)


def test_the_records_of_a_move_come_before_what_it_changes(world: World) -> None:
    asked = (commands.Reassignment(topic="t", partition=0, replicas=(1, 2, 4)),)
    decision = world.ask(commands.BeginMove(reassignments=asked))
    assert [type(record) for record in decision.records] == [
        own_records.MoveBegun,
        own_records.MovePart,
        kafka_records.PartitionChange,
    ]


def test_a_request_of_kafkas_is_a_move_too(world: World) -> None:
    """KIP-455: what it asks is what an operator asked for at one time."""
    world.reassign(1, 2, 4)
    assert world.image.moves[1].begun.partitions == 1
    assert in_move(world, 1) == [0]
    world.cancel()
    assert ended(world).outcome == MoveOutcome.CANCELLED


def test_a_request_without_changes_is_no_move(world: World) -> None:
    answer = move(world, {0: (1, 2, 3)})
    assert (answer.move_id, answer.accepted, world.image.next_move_id) == (0, 0, 1)
    move(world, {0: (1, 2, 4)})
    again = move(world, {0: (1, 2, 4)})
    assert (again.move_id, again.accepted, len(world.image.moves)) == (1, 0, 1)


def test_a_refused_partition_does_not_affect_others_and_is_counted(world: World) -> None:
    answer = move(world, {0: (1, 2, 4), 1: (1, 9), 7: (1,)})
    assert (answer.move_id, answer.accepted, answer.refused_count) == (1, 1, 2)
    assert [(each.partition, each.error) for each in answer.refused] == [
        (1, Error.INVALID_REPLICA_ASSIGNMENT),
        (7, Error.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert world.image.moves[1].begun.refused == 2
    nothing = move(world, {1: (1, 9)})
    assert (nothing.move_id, nothing.refused_count, world.image.next_move_id) == (0, 1, 2)


def test_a_move_without_replicas_is_refused(world: World) -> None:
    asked = (commands.Reassignment(topic="t", partition=0, replicas=None),)
    answer = world.ask(commands.BeginMove(reassignments=asked)).answer
    assert isinstance(answer, commands.MoveStarted)
    assert answer.refused[0].error is Error.INVALID_REQUEST


def test_the_first_of_many_refused_partitions_are_shown_and_all_counted(world: World) -> None:
    count = REFUSED_SHOWN_MAX + 7
    answer = move(world, dict.fromkeys(range(3, 3 + count), (1, 2)))
    assert (answer.refused_count, len(answer.refused)) == (count, REFUSED_SHOWN_MAX)


def test_a_long_plan_is_kept_in_parts() -> None:
    world = World(broker_count=3)
    count = MOVE_PART_PARTITIONS_MAX + 1
    for number in range(count):
        fields = {"leader_epoch": 0, "partition_epoch": 0, "topic_id": TOPIC_ID}
        if not number:
            world.replay(kafka_records.Topic(name="t", topic_id=TOPIC_ID))
        partition = kafka_records.Partition(
            partition_id=number,
            replicas=(1,),
            isr=(1,),
            leader=1,
            **fields,  # type: ignore[arg-type]
        )
        world.replay(partition)
    move(world, dict.fromkeys(range(count), (2,)))
    numbers = [
        each.number
        for part in world.image.moves[1].parts
        for topic in plan_of(part)
        for each in topic.partitions
    ]
    assert len(world.image.moves[1].parts) == 2
    assert numbers == list(range(count))


def test_a_request_that_takes_a_partition_out_again_accounts_for_every_time(world: World) -> None:
    parts: list[Replicas | None] = [(1, 2, 4), None, (1, 2, 5)]
    asked = [commands.Reassignment(topic="t", partition=0, replicas=each) for each in parts]
    world.ask(commands.AlterReassignments(reassignments=tuple(asked)))
    assert world.image.moves[1].left == Left(cancelled=1)
    world.sync(1, 2, 3, 5)
    assert (ended(world).completed, ended(world).cancelled) == (1, 1)


# Ending.


def test_a_move_ends_with_its_last_partition_whatever_decided_that(world: World) -> None:
    move(world, {0: (1, 2, 4), 1: (1, 2, 4)})
    world.sync(1, 2, 3, 4, number=0)
    assert world.image.moves[1].ended is None
    world.now_ms += 500
    world.sync(1, 2, 3, 4, number=1)
    end = ended(world)
    assert (end.outcome, end.completed, end.at_ms) == (MoveOutcome.COMPLETED, 2, world.now_ms)


def test_a_move_that_completes_at_once_has_ended(world: World) -> None:
    answer = move(world, {0: (1, 2), 1: (1, 3)})
    assert (answer.move_id, answer.accepted) == (1, 2)
    assert (ended(world).outcome, ended(world).completed) == (MoveOutcome.COMPLETED, 2)


def test_fencing_a_broker_may_end_a_move() -> None:
    """The completion is checked in every change, and so is what ends with it."""
    world = World(broker_count=4)
    world.given(replicas=(1, 2, 3), isr=(1, 2), leader=1, configs={"min.insync.replicas": "2"})
    move(world, {0: (2, 3)})
    assert world.image.moves[1].ended is None
    world.configure("min.insync.replicas", "1")
    world.fence(1)
    assert ended(world).outcome == MoveOutcome.COMPLETED


def test_a_topic_that_is_deleted_leaves_its_move(world: World) -> None:
    move(world, {0: (1, 2, 4), 1: (1, 3)})
    world.ask(commands.DeleteTopics(topics=("t",)))
    end = ended(world)
    assert (end.outcome, end.completed, end.gone) == (MoveOutcome.COMPLETED, 1, 1)
    world.given(replicas=(1,), isr=(1,), leader=1)
    move(world, {0: (2,)})
    world.ask(commands.DeleteTopics(topics=("t", "t")))
    assert (ended(world, 2).outcome, ended(world, 2).gone) == (MoveOutcome.GONE, 1)


def test_another_move_takes_partitions_over(world: World) -> None:
    """Two operators ask for contradicting moves: the later one has its way, the first is told."""
    move(world, {0: (1, 2, 4), 1: (1, 2, 4)})
    move(world, {1: (1, 2, 5)})
    assert (in_move(world, 1), in_move(world, 2)) == ([0], [1])
    assert world.image.moves[1].left == Left(superseded=1)
    world.sync(1, 2, 3, 4, number=0)
    assert (ended(world).outcome, ended(world).completed) == (MoveOutcome.SUPERSEDED, 1)
    world.sync(1, 2, 3, 5, number=1)
    assert (ended(world, 2).outcome, ended(world, 2).completed) == (MoveOutcome.COMPLETED, 1)


def test_a_move_back_to_earlier_replicas_supersedes_too(world: World) -> None:
    """It is complete at once, as a cancel would be; but nobody has cancelled anything."""
    move(world, {0: (1, 2, 4), 1: (1, 2, 4)})
    move(world, {0: (1, 2, 3)})
    assert world.partition(0).replicas == (1, 2, 3)
    assert (ended(world, 2).outcome, ended(world, 2).completed) == (MoveOutcome.COMPLETED, 1)
    assert world.image.moves[1].left == Left(superseded=1)
    world.cancel(number=1)
    end = ended(world)
    assert (end.outcome, end.cancelled, end.superseded) == (MoveOutcome.CANCELLED, 1, 1)


def test_a_controller_that_knows_no_moves_takes_partitions_over(world: World) -> None:
    """A controller of Kafka leads for a while: what it says of adding and removing counts."""
    move(world, {0: (1, 2, 4)})
    world.replay(
        kafka_records.PartitionChange(
            partition_id=0,
            topic_id=TOPIC_ID,
            replicas=(1, 2, 3, 5),
            adding=(5,),
            removing=(),
            leader=1,
        )
    )
    assert world.image.moves[1].left == Left(superseded=1)
    assert in_move(world, 1) == []


def test_a_broker_that_is_unregistered_is_waited_for(world: World) -> None:
    move(world, {0: (1, 2, 4)})
    world.fence(4)
    world.ask(commands.UnregisterBroker(broker_id=4))
    assert in_move(world, 1) == [0]
    world.join(4, 2)
    world.sync(1, 2, 3, 4)
    assert ended(world).outcome == MoveOutcome.COMPLETED


def test_partitions_that_are_added_meanwhile_belong_to_no_move(world: World) -> None:
    move(world, {0: (1, 2, 4)})
    more = commands.MorePartitions(name="t", count=4)
    world.ask(commands.CreatePartitions(topics=(more,)))
    assert in_move(world, 1) == [0]
    assert len(world.partition(3).replicas) == 3


# Rolling back.


def test_a_move_is_rolled_back_to_what_its_partitions_had(world: World) -> None:
    move(world, {0: (1, 2, 4), 1: (4, 5, 6)})
    world.sync(1, 2, 3, 4, number=0)
    world.sync(1, 2, 3, 4, number=1)
    answer = roll_back(world, 1)
    assert (answer.move_id, answer.accepted) == (2, 1)
    # 1 was under way: its cancel is the way back. 0 had arrived, and moves again.
    assert (ended(world).outcome, ended(world).completed, ended(world).cancelled) == (
        MoveOutcome.CANCELLED,
        1,
        1,
    )
    assert (world.partition(1).replicas, world.partition(1).moving) == ((1, 2, 3), False)
    assert world.image.moves[2].begun.rollback_of == 1
    assert world.partition(0).target == (1, 2, 3)
    world.sync(1, 2, 3, 4, number=0)
    assert world.partition(0).replicas == (1, 2, 3)
    assert ended(world, 2).outcome == MoveOutcome.COMPLETED


def test_a_rollback_whose_cancel_is_refused_goes_back_by_a_move(world: World) -> None:
    move(world, {0: (4, 5)})
    world.sync(1, 4)
    answer = roll_back(world, 1)
    assert (answer.move_id, answer.accepted) == (2, 1)
    after = world.partition()
    assert (after.replicas, after.removing, after.target) == ((1, 2, 3, 4), (4,), (1, 2, 3))
    assert ended(world).outcome == MoveOutcome.SUPERSEDED


def test_a_rollback_says_what_cannot_go_back(world: World) -> None:
    move(world, {0: (4, 5), 1: (5, 6)})
    for number in (0, 1):
        world.sync(1, 2, 3, 4 + number, 5 + number, number=number)
    world.fence(3)
    world.ask(commands.UnregisterBroker(broker_id=3))
    answer = roll_back(world, 1)
    assert (answer.move_id, answer.refused_count) == (0, 2)
    assert "includes broker 3" in answer.refused[0].message
    world.ask(commands.DeleteTopics(topics=("t",)))
    assert roll_back(world, 1).refused[0].error is Error.UNKNOWN_TOPIC_OR_PARTITION


def test_a_move_that_is_not_there_cannot_be_rolled_back(world: World) -> None:
    assert "there is no move 7" in roll_back(world, 7).message
    move(world, {0: (1, 2)})
    world.replay(own_records.MovesForgotten(through=1))
    answer = roll_back(world, 1)
    assert (answer.error, answer.move_id) == (Error.INVALID_REQUEST, 0)
    assert "is not listed any more" in answer.message


# What a cancel goes back to.


def test_a_cancel_after_a_redirection_goes_back_to_before_the_step(world: World) -> None:
    """0,1,2 on their way to 5,6,7 were at 5,6,2 when 8,6,2 was asked for instead of it."""
    world.given(
        replicas=(5, 6, 2),
        isr=(5, 6, 2),
        leader=5,
        target=(5, 6, 1),
        original=(3, 4, 2),
        move=9,
        step=2,
    )
    world.reassign(4, 6, 2, number=3)
    assert world.partition(3).replicas == (5, 6, 2, 4)
    world.cancel(number=3)
    assert world.partition(3).replicas == (5, 6, 2)


def test_the_replicas_to_revert_to_are_recorded_when_they_cannot_be_derived(
    world: World,
) -> None:
    world.reassign(1, 4, 5)
    assert world.partition().stage.base == ()
    world.sync(1, 2, 3, 4)
    world.reassign(1, 2, 6)
    after = world.partition()
    assert (after.replicas, after.stage.base) == ((1, 2, 3, 4, 6), (1, 2, 3))
    world.cancel()
    assert world.partition().replicas == (1, 2, 3)


def test_a_partition_that_waits_for_its_first_step_is_cancelled_whatever_is_in_sync(
    world: World,
) -> None:
    """Nothing has been done that would have to be undone."""
    world.given(replicas=(1, 2), isr=(1,), leader=1, target=(4, 5), original=(1, 2), move=9)
    epoch = world.partition(3).leader_epoch
    assert world.cancel(number=3).error is Error.NONE
    after = world.partition(3)
    assert (after.replicas, after.isr, after.moving) == ((1, 2), (1,), False)
    assert after.leader_epoch == epoch + 1
