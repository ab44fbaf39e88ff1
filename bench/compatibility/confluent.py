"""confluent-kafka, which is librdkafka."""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from importlib.metadata import version
from typing import Any, Final

from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import ConsumerGroupTopicPartitions as GroupOffsets
from confluent_kafka import (
    ElectionType,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka import admin as kafka_admin
from confluent_kafka.admin import AdminClient

from bench.compatibility import operations
from bench.compatibility.model import (
    BROKERS,
    EVERYWHERE,
    NOWHERE,
    Call,
    Case,
    Client,
    Failed,
    Operation,
    Place,
    Reason,
)
from bench.compatibility.runners import in_process

NAME: Final = "confluent-kafka"
SECONDS: Final = 20
_POLLS_MAX: Final = 100
_of: Final[Any] = kafka_admin
"""The module, whose annotations export hardly any of its names."""


def _asking(ask: Callable[[AdminClient, Case], object]) -> Callable[[Case], object]:
    """The act of an administrator, who must live until everything is answered."""

    def act(case: Case) -> object:
        admin = AdminClient({"bootstrap.servers": case.servers})
        return ask(admin, case)

    return act


def _all(futures: Any) -> list[str]:
    """The results of a request, as text; raises for the first that failed."""
    return [f"{key} {_shown(each.result(SECONDS))}" for key, each in futures.items()]


def _shown(value: Any) -> str:
    """A result in words: most of the library's have no text of their own."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return " ".join(f"{_shown(key)}={_shown(each)}" for key, each in value.items())
    if isinstance(value, list | tuple | set):
        return " ".join(map(_shown, value))
    fields = getattr(value, "__dict__", None)
    return str(value) if not fields else f"{value} {_shown(fields)}"


def _resource(case: Case) -> Any:
    return _of.ConfigResource(_of.ConfigResource.Type.TOPIC, case.name)


def _broker(case: Case) -> Any:
    return _of.ConfigResource(_of.ConfigResource.Type.BROKER, str(case.brokers[0]))


def _altered(resource: Any, name: str, value: str) -> Any:
    entry = _of.ConfigEntry(name, value, incremental_operation=_of.AlterConfigOpType.SET)
    resource.add_incremental_config(entry)
    return resource


def _at(case: Case, offset: int = -1001) -> TopicPartition:
    return TopicPartition(case.name, 0, offset)


def _acl(case: Case) -> tuple[Any, ...]:
    return (
        *(
            _of.ResourceType.TOPIC,
            case.name,
            _of.ResourcePatternType.LITERAL,
            f"User:{case.name}",
            "*",
        ),
        *(_of.AclOperation.READ, _of.AclPermissionType.ALLOW),
    )


def _create_topic(admin: AdminClient, case: Case) -> object:
    config = {operations.RETENTION: operations.RETENTION_MS}
    return _all(admin.create_topics([_of.NewTopic(case.name, 2, 2, config=config)]))


def _alter_topic(admin: AdminClient, case: Case) -> object:
    change = _altered(_resource(case), operations.RETENTION, "600000")
    return _all(admin.incremental_alter_configs([change]))


def _alter_broker(admin: AdminClient, case: Case) -> object:
    change = _altered(_broker(case), operations.BROKER_SETTING, operations.BROKER_VALUE)
    return _all(admin.incremental_alter_configs([change]))


def _scram(admin: AdminClient, case: Case) -> object:
    info = _of.ScramCredentialInfo(_of.ScramMechanism.SCRAM_SHA_256, operations.ITERATIONS)
    change = _of.UserScramCredentialUpsertion(case.name, info, b"secret")
    return _all(admin.alter_user_scram_credentials([change]))


def _produce(more: Mapping[str, object]) -> Callable[[Case], object]:
    def act(case: Case) -> object:
        producer = Producer(
            {
                "bootstrap.servers": case.servers,
                "acks": case.acks,
                "compression.type": case.codec,
                "linger.ms": 20,
                "message.timeout.ms": SECONDS * 1_000,
                **more,
            }
        )
        _send(producer, case)
        if case.acks == "0":
            # Nobody says that the records have arrived: one that ends may take them along.
            producer.poll(1)
        return "sent"

    return act


def _send(producer: Producer, case: Case) -> None:
    told: list[object] = []

    def hear(error: object, _: Message) -> None:
        told.append(error)

    for value in case.values:
        producer.produce(case.name, value.encode(), partition=0, on_delivery=hear)
    producer.flush(SECONDS)
    if told != [None] * len(case.values):
        raise Failed(f"the producer was told {told}")


def _produce_transaction(case: Case) -> object:
    producer = Producer({"bootstrap.servers": case.servers, "transactional.id": case.name})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    _send(producer, case)
    producer.commit_transaction(SECONDS)
    return "committed"


def _consume(case: Case) -> object:
    consumer = KafkaConsumer(
        {
            "bootstrap.servers": case.servers,
            # The library wants a name, and without this setting would commit under it.
            "group.id": case.name,
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([_at(case, 0)])
        return _polled(consumer, case, is_member=False)
    finally:
        consumer.close()


def _consume_in_group(case: Case) -> object:
    consumer = KafkaConsumer(
        {
            "bootstrap.servers": case.servers,
            "group.id": case.name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([case.name])
        found = _polled(consumer, case, is_member=True)
        consumer.commit(asynchronous=False)
        return found
    finally:
        consumer.close()


def _polled(consumer: KafkaConsumer, case: Case, *, is_member: bool) -> list[str]:
    found: list[str] = []
    for _ in range(_POLLS_MAX):
        message = consumer.poll(0.3)
        if message is None:
            continue
        if message.error() is None:
            found.append((message.value() or b"").decode())
        elif is_member:
            raise KafkaException(message.error())
        if len(found) == len(case.values):
            break
    return found


def _list_groups(admin: AdminClient, case: Case) -> object:
    found = admin.list_consumer_groups(request_timeout=SECONDS).result()
    if found.errors:
        raise Failed(str(found.errors))
    return [each.group_id for each in found.valid]


def _describe_group(admin: AdminClient, case: Case) -> object:
    described = _all(admin.describe_consumer_groups([case.name], request_timeout=SECONDS))
    offsets = admin.list_consumer_group_offsets([GroupOffsets(case.name)])
    return [
        *described,
        *(_shown(each.result(SECONDS).topic_partitions) for each in offsets.values()),
    ]


def _reset_group(admin: AdminClient, case: Case) -> object:
    wanted = GroupOffsets(case.name, [_at(case, 0)])
    return _all(admin.alter_consumer_group_offsets([wanted]))


def _cluster(admin: AdminClient) -> str:
    return _shown(admin.describe_cluster().result(SECONDS))


def _call(
    operation: Operation,
    ask: Callable[[AdminClient, Case], object],
    *,
    places: Sequence[Place] = EVERYWHERE,
    no: Mapping[Place, Reason] = NOWHERE,
) -> Call:
    return Call(operation=operation, act=_asking(ask), places=places, no=no)


_CALLS: Final = (
    _call(operations.DESCRIBE_CLUSTER, lambda admin, _: _cluster(admin)),
    _call(operations.LIST_NODES, lambda admin, _: _cluster(admin)),
    _call(operations.CREATE_TOPIC, _create_topic),
    _call(operations.LIST_TOPICS, lambda admin, _: list(admin.list_topics(timeout=SECONDS).topics)),
    _call(
        operations.DESCRIBE_TOPIC,
        lambda admin, case: _all(admin.describe_topics(TopicCollection([case.name]))),
    ),
    _call(
        operations.ADD_PARTITIONS,
        lambda admin, case: _all(admin.create_partitions([_of.NewPartitions(case.name, 3)])),
    ),
    _call(operations.DELETE_TOPIC, lambda admin, case: _all(admin.delete_topics([case.name]))),
    _call(
        operations.DESCRIBE_TOPIC_CONFIG,
        lambda admin, case: _all(admin.describe_configs([_resource(case)])),
    ),
    _call(operations.ALTER_TOPIC_CONFIG, _alter_topic),
    _call(
        operations.DESCRIBE_BROKER_CONFIG,
        lambda admin, case: _all(admin.describe_configs([_broker(case)])),
    ),
    _call(operations.ALTER_BROKER_CONFIG, _alter_broker),
    _call(operations.ALTER_SCRAM, _scram),
    _call(
        operations.DESCRIBE_SCRAM,
        lambda admin, case: _all(admin.describe_user_scram_credentials([case.name])),
    ),
    _call(
        operations.CREATE_ACL,
        lambda admin, case: _all(admin.create_acls([_of.AclBinding(*_acl(case))])),
    ),
    _call(
        operations.LIST_ACLS,
        lambda admin, case: _shown(
            admin.describe_acls(_of.AclBindingFilter(*_acl(case))).result(SECONDS)
        ),
    ),
    _call(
        operations.DELETE_ACL,
        lambda admin, case: _all(admin.delete_acls([_of.AclBindingFilter(*_acl(case))])),
    ),
    _call(
        operations.LIST_OFFSETS,
        lambda admin, case: _all(admin.list_offsets({_at(case): _of.OffsetSpec.latest()})),
        places=BROKERS,
    ),
    _call(
        operations.DELETE_RECORDS,
        lambda admin, case: _all(admin.delete_records([_at(case, operations.KEPT_FROM)])),
        places=BROKERS,
    ),
    _call(
        operations.ELECT_LEADERS,
        lambda admin, case: _shown(
            admin.elect_leaders(ElectionType.PREFERRED, [_at(case)]).result(SECONDS)
        ),
    ),
    *(
        Call(operation=each, act=_produce({}), places=BROKERS)
        for each in (*operations.PRODUCE, *operations.PRODUCE_CODEC.values())
    ),
    Call(
        operation=operations.PRODUCE_IDEMPOTENT,
        act=_produce({"enable.idempotence": True}),
        places=BROKERS,
    ),
    Call(operation=operations.CONSUME, act=_consume, places=BROKERS),
    Call(operation=operations.CONSUME_IN_GROUP, act=_consume_in_group, places=BROKERS),
    _call(operations.LIST_GROUPS, _list_groups, places=BROKERS),
    _call(operations.DESCRIBE_GROUP, _describe_group, places=BROKERS),
    _call(operations.RESET_GROUP, _reset_group, places=BROKERS),
    _call(
        operations.DELETE_GROUP,
        lambda admin, case: _all(admin.delete_consumer_groups([case.name])),
        places=BROKERS,
    ),
    Call(operation=operations.PRODUCE_TRANSACTION, act=_produce_transaction, places=BROKERS),
)


def client() -> Client:
    """The client of the environment."""
    return Client(name=NAME, version=version(NAME), calls=_CALLS, start=in_process)
