"""What a broker is to hold, by what the metadata says; nothing is opened here."""

from typing import cast
from uuid import UUID

from broker.limits import SETTLED_AT_ONCE
from broker.partition.assignment import Assignment, PartitionKey, assignment_of
from broker.partition.partition import Partition
from broker.replica_manager import LogAction, PendingLogActions, log_action
from statemachine import commands
from statemachine.vocabulary import NO_LEADER
from tests.statemachine.support.world import World

HERE = cast(Partition, object())


def assigned(leader: int) -> Assignment:
    return Assignment(replicas=(1, 2), isr=(1,), leader=leader, leader_epoch=0, partition_epoch=0)


def test_what_is_assigned_and_not_here_is_opened_and_the_other_way_round_removed() -> None:
    assert log_action(None, assigned(1)) is LogAction.OPEN
    assert log_action(HERE, None) is LogAction.REMOVE
    assert log_action(HERE, assigned(1)) is log_action(None, None) is LogAction.NOTHING


def test_what_nobody_leads_stays() -> None:
    assert log_action(HERE, assigned(NO_LEADER)) is LogAction.NOTHING


def test_what_is_unsettled_is_taken_once_and_not_all_at_a_time() -> None:
    unsettled = PendingLogActions()
    keys = [PartitionKey(UUID(int=1), number) for number in range(SETTLED_AT_ONCE + 1)]
    for key in [*keys, *keys]:
        unsettled.note(key)
    assert unsettled.take() == keys[:-1]
    assert unsettled
    assert unsettled.take() == keys[-1:]
    assert not unsettled


def test_a_broker_holds_what_it_is_a_replica_of_whether_it_is_in_sync_or_not() -> None:
    world = World(3)
    key = PartitionKey(UUID(int=9 << 90), 0)
    new = commands.NewTopic(name="t", topic_id=key.topic_id, assignments=((0, (1, 2)),))
    world.ask(commands.CreateTopics(topics=(new,)))
    world.ask(commands.FenceBrokers(broker_ids=(2,)))
    found = assignment_of(world.image, 2, key)
    assert found is not None
    assert (found.replicas, found.isr, found.leader) == ((1, 2), (1,), 1)
    assert assignment_of(world.image, 3, key) is None
