"""The partitions that a broker must hold by the metadata; nothing is opened here."""

from uuid import UUID

from broker.partition.assignment import PartitionKey, assignment_of
from statemachine import commands
from tests.statemachine.support.world import World


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
