"""kafkajs, in a Node process for each call; `kafkajs.js` carries it out."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.compatibility import downloads, operations
from bench.compatibility.model import (
    BROKERS,
    EVERYWHERE,
    Act,
    Call,
    Case,
    Client,
    Operation,
    Place,
)
from bench.compatibility.runners import run

NAME: Final = "kafkajs"
PROGRAM: Final = Path(__file__).with_suffix(".js")


@contextmanager
def _started(_: Path) -> Iterator[Callable[[Case, Act], str]]:
    environ = {**os.environ, "NODE_PATH": str(downloads.kafkajs())}

    def carry_out(case: Case, act: Act) -> str:
        asked = {
            "servers": case.servers,
            "name": case.name,
            "brokers": list(case.brokers),
            "acks": case.acks,
            "codec": case.codec,
            "values": list(case.values),
            "retention": [operations.RETENTION, operations.RETENTION_MS],
            "brokerSetting": [operations.BROKER_SETTING, operations.BROKER_VALUE],
            "keptFrom": operations.KEPT_FROM,
        }
        return run(["node", str(PROGRAM), act(case)], json.dumps(asked), environ)

    yield carry_out


def _call(operation: Operation, name: str, places: Sequence[Place] = EVERYWHERE) -> Call:
    return Call(operation=operation, act=lambda _: name, places=places)


_CALLS: Final = (
    _call(operations.DESCRIBE_CLUSTER, "describeCluster"),
    _call(operations.LIST_NODES, "describeCluster"),
    _call(operations.CREATE_TOPIC, "createTopic"),
    _call(operations.LIST_TOPICS, "listTopics"),
    _call(operations.DESCRIBE_TOPIC, "describeTopic"),
    _call(operations.ADD_PARTITIONS, "addPartitions"),
    _call(operations.DELETE_TOPIC, "deleteTopic"),
    _call(operations.DESCRIBE_TOPIC_CONFIG, "describeTopicConfig"),
    _call(operations.ALTER_TOPIC_CONFIG, "alterTopicConfig"),
    _call(operations.DESCRIBE_BROKER_CONFIG, "describeBrokerConfig"),
    _call(operations.ALTER_BROKER_CONFIG, "alterBrokerConfig"),
    _call(operations.CREATE_ACL, "createAcl"),
    _call(operations.LIST_ACLS, "listAcls"),
    _call(operations.DELETE_ACL, "deleteAcl"),
    _call(operations.LIST_OFFSETS, "listOffsets", BROKERS),
    _call(operations.DELETE_RECORDS, "deleteRecords", BROKERS),
    _call(operations.REASSIGN, "reassign"),
    _call(operations.LIST_REASSIGNMENTS, "listReassignments"),
    *(_call(each, "produce", BROKERS) for each in operations.PRODUCE),
    _call(operations.PRODUCE_CODEC["gzip"], "produce", BROKERS),
    _call(operations.PRODUCE_IDEMPOTENT, "produceIdempotent", BROKERS),
    _call(operations.CONSUME_IN_GROUP, "consumeInGroup", BROKERS),
    _call(operations.LIST_GROUPS, "listGroups", BROKERS),
    _call(operations.DESCRIBE_GROUP, "describeGroup", BROKERS),
    _call(operations.RESET_GROUP, "resetGroup", BROKERS),
    _call(operations.DELETE_GROUP, "deleteGroup", BROKERS),
    _call(operations.PRODUCE_TRANSACTION, "produceTransaction", BROKERS),
)


def client() -> Client:
    """The package of the pinned version."""
    return Client(
        name=NAME,
        version=downloads.KAFKAJS,
        calls=_CALLS,
        start=_started,
        codecs=("none", "gzip"),
    )
