"""A controller needs no loop, task or socket below it: a replica that takes its turns will do."""

from uuid import UUID

from broker.unavailable import Unavailable
from statemachine import commands
from statemachine.errors import Error
from statemachine.features import RANGES
from tests.broker.lone_controller import Lone


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
