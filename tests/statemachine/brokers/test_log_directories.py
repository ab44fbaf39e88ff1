"""AssignReplicasToDirs, and directories that fail (KIP-858)."""

from uuid import UUID

import pytest

from statemachine import commands
from statemachine.commands import DirectoryAssignment
from statemachine.errors import Error
from statemachine.vocabulary import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    Directories,
)
from tests.statemachine.support.world import TOPIC_ID, World, directory

GOOD, BAD = directory(11), directory(12)


def a_world(*, elr: bool = False) -> World:
    """Brokers 1 to 3; broker 1 has two directories."""
    world = World(elr=elr)
    world.join(1, log_dirs=(GOOD, BAD))
    world.join(2)
    world.join(3)
    return world


def in_directories(world: World, *of_broker_1: UUID, isr: tuple[int, ...] = (1, 2)) -> None:
    """Partitions on brokers 1 and 2, led by 1, with broker 1's replica in these directories."""
    for each in of_broker_1:
        world.given(replicas=(1, 2), isr=isr, leader=1, directories=(each, directory(2)))


def assign(
    world: World, *asked: tuple[UUID, int], broker_id: int = 1, epoch: int | None = None
) -> commands.ReplicasAssigned:
    """A broker says where its replicas of topic "t" are."""
    answer = world.ask(
        commands.AssignReplicasToDirs(
            broker_id=broker_id,
            broker_epoch=world.epoch(broker_id) if epoch is None else epoch,
            assignments=tuple(
                DirectoryAssignment(directory_id=each, topic_id=TOPIC_ID, partition=number)
                for each, number in asked
            ),
        )
    ).answer
    assert isinstance(answer, commands.ReplicasAssigned)
    return answer


def errors(answer: commands.ReplicasAssigned) -> list[Error]:
    """The result for each replica."""
    return [each.error for each in answer.replicas]


def test_an_assignment_is_recorded_for_the_senders_replica_alone() -> None:
    world = a_world()
    in_directories(world, DIRECTORY_UNASSIGNED)
    before = world.partition()
    assert errors(assign(world, (BAD, 0))) == [Error.NONE]
    after = world.partition()
    assert after.directories == (BAD, directory(2))
    assert after.partition_epoch == before.partition_epoch + 1
    assert (after.leader, after.leader_epoch, after.isr) == (1, before.leader_epoch, (1, 2))
    end = world.image.end_offset
    assert errors(assign(world, (BAD, 0))) == [Error.NONE]
    assert world.image.end_offset == end


def test_a_partition_from_before_directories_learns_of_one_at_a_time() -> None:
    world = a_world()
    world.given(replicas=(2, 1), isr=(2, 1), leader=2)
    assert errors(assign(world, (GOOD, 0))) == [Error.NONE]
    assert world.partition().directories == (DIRECTORY_MIGRATING, GOOD)


def test_every_replica_that_is_asked_for_is_answered_on_its_own() -> None:
    world = a_world()
    in_directories(world, GOOD)
    world.given(replicas=(2, 3), isr=(2, 3), leader=2)
    answer = world.ask(
        commands.AssignReplicasToDirs(
            broker_id=1,
            broker_epoch=world.epoch(1),
            assignments=(
                DirectoryAssignment(directory_id=BAD, topic_id=UUID(int=5), partition=0),
                DirectoryAssignment(directory_id=BAD, topic_id=TOPIC_ID, partition=9),
                DirectoryAssignment(directory_id=BAD, topic_id=TOPIC_ID, partition=-1),
                DirectoryAssignment(directory_id=BAD, topic_id=TOPIC_ID, partition=1),
                DirectoryAssignment(directory_id=BAD, topic_id=TOPIC_ID, partition=0),
            ),
        )
    ).answer
    assert isinstance(answer, commands.ReplicasAssigned)
    assert errors(answer) == [
        Error.UNKNOWN_TOPIC_ID,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.NONE,
    ]
    assert world.partition(0).directories == (BAD, directory(2))


@pytest.mark.parametrize("gone", [DIRECTORY_LOST, directory(99)])
def test_a_replica_in_a_directory_that_is_not_there_is_not_in_sync(gone: UUID) -> None:
    world = a_world()
    in_directories(world, GOOD)
    assert errors(assign(world, (gone, 0))) == [Error.NONE]
    after = world.partition()
    assert (after.leader, after.isr, after.directories) == (2, (2,), (gone, directory(2)))
    assert errors(assign(world, (GOOD, 0))) == [Error.NONE]
    assert world.partition().directories == (GOOD, directory(2))


def test_an_assignment_goes_with_the_completion_that_comes_with_it() -> None:
    """Completion changes the replicas, and with them the list of directories."""
    world = a_world()
    world.given(
        replicas=(1, 2, 3),
        isr=(1, 3),
        leader=1,
        adding=(3,),
        removing=(2,),
        target=(1, 3),
        original=(1, 2),
        directories=(DIRECTORY_UNASSIGNED, directory(2), directory(3)),
    )
    assert errors(assign(world, (BAD, 0))) == [Error.NONE]
    after = world.partition()
    assert (after.replicas, after.directories) == ((1, 3), (BAD, directory(3)))


def test_a_stale_sender_and_an_old_level_are_refused_as_a_whole() -> None:
    world = a_world()
    in_directories(world, GOOD)
    stale = assign(world, (BAD, 0), epoch=world.epoch(1) - 1)
    assert (stale.error, stale.replicas) == (Error.STALE_BROKER_EPOCH, ())
    assert assign(world, (BAD, 0), broker_id=7, epoch=1).error is Error.STALE_BROKER_EPOCH
    assert world.partition().directories == (GOOD, directory(2))
    old = World(broker_count=2, level=16)
    answer = assign(old, (BAD, 0))
    assert answer.error is Error.UNSUPPORTED_VERSION
    assert answer.message == "metadata.version is 16, directories are assigned from 17 on"


def test_a_directory_that_fails_costs_its_replicas_and_no_others() -> None:
    world = a_world()
    in_directories(world, GOOD, BAD, DIRECTORY_UNASSIGNED)
    answer = world.heartbeat(1, offline_log_dirs=(BAD, directory(99)))
    assert (answer.error, answer.fenced) == (Error.NONE, False)
    assert world.image.brokers[1].log_dirs == (GOOD,)
    assert [world.partition(number).leader for number in range(3)] == [1, 2, 1]
    assert world.partition(1).isr == (2,)
    end = world.image.end_offset
    # The broker goes on saying so.
    world.heartbeat(1, offline_log_dirs=(BAD, directory(99)))
    assert world.image.end_offset == end


def test_the_last_replica_in_sync_leads_no_more_from_a_directory_that_failed() -> None:
    world = a_world()
    in_directories(world, BAD, isr=(1,))
    world.heartbeat(1, offline_log_dirs=(BAD,))
    assert (world.partition().leader, world.partition().isr) == (-1, (1,))
    # Nor when the broker comes back without it.
    world.fence(1)
    assert not world.heartbeat(1, offline_log_dirs=(BAD,)).fenced
    assert world.partition().leader == -1
    world.fence(1)
    world.join(1, 2, log_dirs=(GOOD, BAD))
    assert world.partition().leader == 1


def test_with_the_elr_it_stays_eligible_and_leads_once_the_directory_is_back() -> None:
    world = a_world(elr=True)
    in_directories(world, BAD, isr=(1, 2))
    world.configure("min.insync.replicas", "2")
    world.fence(2)
    world.heartbeat(1, offline_log_dirs=(BAD,))
    assert (world.partition().leader, world.partition().isr) == (-1, ())
    assert set(world.partition().elr) == {1, 2}
    assert not world.heartbeat(2).fenced
    assert world.partition().leader == 2


def test_a_broker_without_any_directory_left_is_fenced_until_it_has_one() -> None:
    world = a_world()
    in_directories(world, GOOD)
    answer = world.heartbeat(1, offline_log_dirs=(GOOD, BAD))
    assert answer.fenced
    assert world.image.brokers[1].fenced
    assert world.partition().leader == 2
    assert world.heartbeat(1, offline_log_dirs=(BAD, GOOD)).fenced
    assert not world.heartbeat(1).fenced


def test_a_level_that_knows_no_directories_takes_no_note_of_failed_ones() -> None:
    world = World(broker_count=2, level=16)
    end = world.image.end_offset
    assert not world.heartbeat(1, offline_log_dirs=(directory(1),)).fenced
    assert world.image.end_offset == end


def test_a_large_directory_fails_in_parts_and_the_last_one_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("statemachine.brokers.directories.LEAVING_PARTITIONS_MAX", 3)
    world = a_world()
    in_directories(world, *[BAD] * 5)
    command = commands.BrokerHeartbeat(
        broker_id=1,
        broker_epoch=world.epoch(1),
        metadata_offset=world.image.end_offset,
        offline_log_dirs=(BAD,),
    )
    assert not world.ask(command).is_complete
    assert [world.partition(number).leader for number in range(5)] == [2, 2, 2, 1, 1]
    assert directories_of(world) == (GOOD, BAD)
    assert world.ask(command).is_complete
    assert [world.partition(number).leader for number in range(5)] == [2] * 5
    assert directories_of(world) == (GOOD,)


def directories_of(world: World) -> Directories:
    """Those that broker 1 has."""
    return world.image.brokers[1].log_dirs


@pytest.mark.parametrize("known", [BAD, DIRECTORY_LOST, directory(77)])
def test_a_replica_in_a_directory_that_is_not_there_does_not_get_in_sync(known: UUID) -> None:
    world = a_world()
    if known == BAD:
        world.join(1, log_dirs=(GOOD,))
    world.given(replicas=(1, 2), isr=(2,), leader=2, directories=(known, directory(2)))
    answer = world.sync(1, 2)
    assert answer.error is Error.INELIGIBLE_REPLICA
    assert str(known) in answer.message
    assert world.partition().isr == (2,)
    assert errors(assign(world, (GOOD, 0))) == [Error.NONE]
    assert world.sync(1, 2).error is Error.NONE
    assert world.partition().isr == (1, 2)


def test_one_that_is_in_sync_in_a_directory_that_is_not_there_does_not_keep_others_in() -> None:
    """The controller puts it out itself, as soon as it hears of it."""
    world = a_world()
    given = (directory(77), directory(2), directory(3))
    world.given(replicas=(1, 2, 3), isr=(1, 2, 3), leader=2, directories=given)
    assert world.sync(1, 2).error is Error.NONE
    assert world.partition().isr == (1, 2)
