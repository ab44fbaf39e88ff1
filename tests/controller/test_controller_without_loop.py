"""A controller without an event loop: a replica that takes its turns is enough."""

from collections.abc import Iterator
from typing import TypeVar
from uuid import UUID

from controller.ports import Unavailable
from controller.quorum_controller import BULK_RECORDS
from controller.record_appender import TRANSACTION_RECORDS_MAX, records_asked
from statemachine import commands
from statemachine.errors import Error
from statemachine.features.features import RANGES
from tests.controller.lone_controller import Lone

T = TypeVar("T")


def topic(name: str, partitions: int = 1) -> commands.CreateTopics:
    new = commands.NewTopic(
        name=name,
        topic_id=UUID(bytes=name.encode().rjust(16, b"-")),
        partition_count=partitions,
        replication_factor=1,
    )
    return commands.CreateTopics(topics=(new,))


def with_a_broker() -> Lone:
    lone = Lone()
    registered = lone.ask(
        commands.RegisterBroker(
            broker_id=101,
            cluster_id="",
            our_cluster_id="",
            incarnation_id=UUID(int=0xB0),
            endpoints=(),
            features=RANGES,
            log_dirs=(UUID(int=0xD0),),
        )
    )
    lone.settle()
    (answer,) = registered
    assert isinstance(answer, commands.BrokerRegistered)
    assert answer.error is Error.NONE, answer
    heartbeat = commands.BrokerHeartbeat(
        broker_id=101,
        broker_epoch=answer.broker_epoch,
        metadata_offset=lone.controller.image.end_offset,
    )
    lone.ask(heartbeat)
    lone.settle()
    return lone


def test_a_controller_over_a_replica_alone_founds_decides_and_answers() -> None:
    lone = with_a_broker()
    created = lone.ask(topic("a"))
    assert created == []
    lone.settle()
    (answer,) = created
    assert isinstance(answer, commands.TopicsCreated)
    assert answer.topics[0].error is Error.NONE
    found = lone.look(lambda image: sorted(image.topic_ids))
    lone.settle()
    assert found == [["a"]]


def test_a_full_disk_is_named_before_the_node_itself_has_heard_of_it() -> None:
    lone = with_a_broker()
    lone.replica.room(False)
    assert lone.replica.node.has_room
    lone.settle()
    assert lone.ask(topic("a")) == [Unavailable.DISK_FULL]
    lone.replica.room(True)
    lone.settle()
    created = lone.ask(topic("a"))
    lone.settle()
    assert len(created) == 1
    assert isinstance(created[0], commands.TopicsCreated)


class Watched(tuple[T, ...]):
    """The parts of a command; it knows whether anybody has gone through them."""

    was_read = False

    def __iter__(self) -> Iterator[T]:
        self.was_read = True
        return super().__iter__()


def moves(count: int) -> Watched[commands.Reassignment]:
    return Watched(
        commands.Reassignment(topic="a", partition=number, replicas=(101,))
        for number in range(count)
    )


def test_a_long_decision_is_refused_before_it_begins_if_there_is_no_room() -> None:
    lone = with_a_broker()
    lone.replica.room(False)
    lone.settle()
    large, small = moves(BULK_RECORDS), moves(BULK_RECORDS - 1)
    refused = lone.ask(commands.AlterReassignments(reassignments=large))
    assert refused == [Unavailable.DISK_FULL]
    assert not large.was_read
    # A small one is decided: its answer may need no record.
    lone.ask(commands.AlterReassignments(reassignments=small))
    assert small.was_read


def test_as_many_records_are_asked_for_as_a_command_names() -> None:
    lone = with_a_broker()
    lone.ask(topic("a", partitions=7))
    image = lone.controller.image
    more = commands.CreatePartitions(topics=(commands.MorePartitions(name="a", count=20),))
    fewer = commands.CreatePartitions(topics=(commands.MorePartitions(name="a", count=3),))
    assert records_asked(image, topic("b", partitions=12)) == 12
    assert records_asked(image, more) == 13
    assert records_asked(image, fewer) == 0
    assert records_asked(image, commands.FenceBrokers(broker_ids=(101, 102))) == 7
    assert records_asked(image, commands.DeleteTopics(topics=("a",))) == 0
    assert records_asked(image, topic("b", partitions=10**9)) == TRANSACTION_RECORDS_MAX
