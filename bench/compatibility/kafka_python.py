"""kafka-python 3."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from bench.compatibility import downloads, operations, reasons
from bench.compatibility.model import (
    BROKERS,
    NOWHERE,
    Act,
    Call,
    Case,
    Client,
    Failed,
    Operation,
    Place,
    Reason,
)
from bench.compatibility.runners import in_process

NAME: Final = "kafka-python"
SECONDS: Final = 20
_MS: Final = SECONDS * 1_000


@contextmanager
def _started(_: Path) -> Iterator[Callable[[Case, Act], str]]:
    # The library looks for its codecs when it is imported.
    downloads.codecs()
    with in_process() as run:
        yield run


def _asking(ask: Callable[[Any, Case], Any]) -> Callable[[Case], object]:
    """The act of an administrator, whose connection is closed afterwards."""

    def act(case: Case) -> object:
        from kafka.admin import KafkaAdminClient

        admin = KafkaAdminClient(bootstrap_servers=case.servers.split(","), request_timeout_ms=_MS)
        try:
            return ask(admin, case)
        finally:
            admin.close()

    return act


def _create_topic(admin: Any, case: Case) -> object:
    options = {
        "num_partitions": 2,
        "replication_factor": 2,
        "configs": {operations.RETENTION: operations.RETENTION_MS},
    }
    return admin.create_topics({case.name: options})


def _topic_config(case: Case, configs: Mapping[str, object] | None) -> Any:
    from kafka.admin import ConfigResource, ConfigResourceType

    return ConfigResource(ConfigResourceType.TOPIC, case.name, configs)


def _broker_config(case: Case, configs: Mapping[str, object] | None) -> Any:
    from kafka.admin import ConfigResource, ConfigResourceType

    return ConfigResource(ConfigResourceType.BROKER, str(case.brokers[0]), configs)


def _alter_topic(admin: Any, case: Case) -> object:
    return admin.alter_configs([_topic_config(case, {operations.RETENTION: "600000"})])


def _alter_broker(admin: Any, case: Case) -> object:
    change = {operations.BROKER_SETTING: operations.BROKER_VALUE}
    # By itself it refuses names that are not set yet, at embedded brokers.
    return admin.alter_configs([_broker_config(case, change)], raise_on_unknown=False)


def _at(case: Case) -> Any:
    from kafka import TopicPartition

    return TopicPartition(case.name, 0)


def _list_offsets(admin: Any, case: Case) -> object:
    from kafka.admin import OffsetSpec

    return admin.list_partition_offsets({_at(case): OffsetSpec.LATEST})


def _reassign(admin: Any, case: Case) -> object:
    return admin.alter_partition_reassignments({_at(case): list(case.brokers[1:3])})


def _cancel(admin: Any, case: Case) -> object:
    return admin.alter_partition_reassignments({_at(case): None})


def _acl(case: Case) -> Any:
    from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

    pattern = ResourcePattern(ResourceType.TOPIC, case.name)
    who = f"User:{case.name}"
    return ACL(who, "*", ACLOperation.READ, ACLPermissionType.ALLOW, pattern)


def _acl_filter(case: Case) -> Any:
    from kafka.admin import (
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        ResourcePatternFilter,
        ResourceType,
    )

    pattern = ResourcePatternFilter(ResourceType.TOPIC, case.name, ACLResourcePatternType.ANY)
    who = f"User:{case.name}"
    return ACLFilter(who, None, ACLOperation.ANY, ACLPermissionType.ANY, pattern)


def _scram(admin: Any, case: Case) -> object:
    from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

    change = UserScramCredentialUpsertion(
        case.name, ScramMechanism.SCRAM_SHA_256, "secret", iterations=operations.ITERATIONS
    )
    return admin.alter_user_scram_credentials([change])


def _describe_group(admin: Any, case: Case) -> object:
    return admin.describe_groups([case.name]), admin.list_group_offsets([case.name])


def _reset_group(admin: Any, case: Case) -> object:
    from kafka.structs import OffsetAndMetadata

    return admin.alter_group_offsets(case.name, {_at(case): OffsetAndMetadata(0, "", -1)})


def _delete_group(admin: Any, case: Case) -> object:
    return admin.delete_groups([case.name])


def _produce(more: Mapping[str, object]) -> Callable[[Case], object]:
    def act(case: Case) -> object:
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=case.servers.split(","),
            acks=case.acks if case.acks == "all" else int(case.acks),
            compression_type=None if case.codec == "none" else case.codec,
            **{"enable_idempotence": False, **more},
        )
        try:
            _send(producer, case)
        finally:
            producer.close(timeout=SECONDS)
        return "sent"

    return act


def _send(producer: Any, case: Case) -> None:
    sent = [producer.send(case.name, value.encode(), partition=0) for value in case.values]
    producer.flush(SECONDS)
    for each in sent:
        each.get(SECONDS)


def _produce_transaction(case: Case) -> object:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=case.servers.split(","), transactional_id=case.name, max_block_ms=_MS
    )
    try:
        producer.init_transactions()
        producer.begin_transaction()
        _send(producer, case)
        producer.commit_transaction()
    finally:
        producer.close(timeout=1)
    return "committed"


def _consume(case: Case) -> object:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        bootstrap_servers=case.servers.split(","),
        group_id=None,
        auto_offset_reset="earliest",
        consumer_timeout_ms=_MS,
    )
    try:
        consumer.assign([_at(case)])
        return _polled(consumer, case)
    finally:
        consumer.close()


def _consume_in_group(case: Case) -> object:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        case.name,
        bootstrap_servers=case.servers.split(","),
        group_id=case.name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=_MS,
    )
    try:
        found = _polled(consumer, case)
        consumer.commit()
        return found
    finally:
        consumer.close()


def _polled(consumer: Any, case: Case) -> list[str]:
    found: list[str] = []
    for record in consumer:
        found.append(record.value.decode())
        if len(found) == len(case.values):
            break
    else:
        raise Failed(f"only {len(found)} records came within {SECONDS} s")
    return found


def _admin_call(
    operation: Operation,
    ask: Callable[[Any, Case], Any],
    no: Mapping[Place, Reason] = NOWHERE,
) -> Call:
    return Call(operation=operation, act=_asking(ask), no=no)


def _broker_call(operation: Operation, ask: Callable[[Any, Case], Any]) -> Call:
    return Call(operation=operation, act=_asking(ask), places=BROKERS)


_CALLS: Final = (
    _admin_call(
        operations.DESCRIBE_CLUSTER,
        lambda admin, _: admin.describe_cluster(),
        {Place.CONTROLLERS: reasons.ANY_NODE},
    ),
    _broker_call(operations.LIST_NODES, lambda admin, _: admin.describe_cluster()),
    _admin_call(
        operations.LIST_APIS,
        lambda admin, _: admin.api_versions(),
        dict.fromkeys((Place.EMBEDDED, Place.CONTROLLERS), reasons.UNKNOWN_KEYS),
    ),
    _admin_call(operations.CREATE_TOPIC, _create_topic),
    _admin_call(operations.LIST_TOPICS, lambda admin, _: admin.list_topics()),
    _admin_call(operations.DESCRIBE_TOPIC, lambda admin, case: admin.describe_topics([case.name])),
    _admin_call(
        operations.ADD_PARTITIONS, lambda admin, case: admin.create_partitions({case.name: 3})
    ),
    _admin_call(operations.DELETE_TOPIC, lambda admin, case: admin.delete_topics([case.name])),
    _admin_call(
        operations.DESCRIBE_TOPIC_CONFIG,
        lambda admin, case: admin.describe_configs([_topic_config(case, None)]),
    ),
    _admin_call(operations.ALTER_TOPIC_CONFIG, _alter_topic),
    _admin_call(
        operations.DESCRIBE_BROKER_CONFIG,
        lambda admin, case: admin.describe_configs([_broker_config(case, None)]),
    ),
    _admin_call(operations.ALTER_BROKER_CONFIG, _alter_broker),
    _admin_call(operations.ALTER_SCRAM, _scram),
    _admin_call(
        operations.DESCRIBE_SCRAM,
        lambda admin, case: admin.describe_user_scram_credentials([case.name]),
    ),
    _admin_call(operations.CREATE_ACL, lambda admin, case: admin.create_acls([_acl(case)])),
    _admin_call(operations.LIST_ACLS, lambda admin, case: admin.describe_acls(_acl_filter(case))),
    _admin_call(operations.DELETE_ACL, lambda admin, case: admin.delete_acls([_acl_filter(case)])),
    _broker_call(
        operations.DESCRIBE_LOG_DIRS, lambda admin, case: admin.describe_log_dirs([case.name])
    ),
    _broker_call(operations.LIST_OFFSETS, _list_offsets),
    _broker_call(
        operations.DELETE_RECORDS,
        lambda admin, case: admin.delete_records({_at(case): operations.KEPT_FROM}),
    ),
    _admin_call(
        operations.ELECT_LEADERS, lambda admin, case: admin.elect_leaders(0, {case.name: [0]})
    ),
    _admin_call(operations.REASSIGN, _reassign),
    _admin_call(
        operations.LIST_REASSIGNMENTS, lambda admin, _: admin.list_partition_reassignments()
    ),
    _admin_call(operations.CANCEL_REASSIGNMENT, _cancel),
    _admin_call(operations.DESCRIBE_FEATURES, lambda admin, _: admin.describe_features()),
    _admin_call(
        operations.UPDATE_FEATURE, lambda admin, _: admin.update_features({operations.FEATURE: 1})
    ),
    _admin_call(operations.DESCRIBE_QUORUM, lambda admin, _: admin.describe_metadata_quorum()),
    *(
        Call(operation=each, act=_produce({}), places=BROKERS)
        for each in (*operations.PRODUCE, *operations.PRODUCE_CODEC.values())
    ),
    Call(
        operation=operations.PRODUCE_IDEMPOTENT,
        act=_produce({"enable_idempotence": True}),
        places=BROKERS,
    ),
    Call(operation=operations.CONSUME, act=_consume, places=BROKERS),
    Call(operation=operations.CONSUME_IN_GROUP, act=_consume_in_group, places=BROKERS),
    _broker_call(operations.LIST_GROUPS, lambda admin, _: admin.list_groups()),
    _broker_call(operations.DESCRIBE_GROUP, _describe_group),
    _broker_call(operations.RESET_GROUP, _reset_group),
    _broker_call(operations.DELETE_GROUP, _delete_group),
    Call(operation=operations.PRODUCE_TRANSACTION, act=_produce_transaction, places=BROKERS),
    _broker_call(operations.LIST_TRANSACTIONS, lambda admin, _: admin.list_transactions()),
)


def client() -> Client:
    """The client of the environment."""
    return Client(name=NAME, version=version(NAME), calls=_CALLS, start=_started)
