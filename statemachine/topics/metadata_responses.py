"""The fields of the responses that describe brokers and topics.

These are Metadata (3), DescribeCluster (60) and DescribeTopicPartitions (75). A response has the
fields that its version knows; the others are left out when it is encoded.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from uuid import UUID

from statemachine.errors import Error
from statemachine.image.image import Image
from statemachine.image.partition_table import Topic
from statemachine.partitions.registration import PartitionRegistration
from statemachine.records.kafka_records import Endpoint, RegisterBroker
from statemachine.security.authorizer import ResourceType
from statemachine.security.rights import DESCRIBE_TOPIC, UNLIMITED, Access
from statemachine.slices import pauses, sort_in_slices
from statemachine.vocabulary import NO_LEADER, BrokerId

_BY_TOPIC_ID_SINCE: Final = 12
"""The first version of Metadata (3) in which a topic may be asked for by its id. Versions 10 and 11
have the field, but a topic in their answer must have a name."""


def endpoint_of(broker: RegisterBroker, listener: str | None) -> Endpoint | None:
    """Return the endpoint of the listener of this name, or None; the first one for no name."""
    for endpoint in broker.endpoints:
        if listener is None or endpoint.name == listener:
            return endpoint
    return None


def live_brokers(image: Image, listener: str | None = None) -> list[Mapping[str, Any]]:
    """Return the fields of the unfenced brokers, sorted by id, which each has under two names.

    Their addresses are those of the listener that the client asked at; brokers without it are left
    out, because the client could not reach them.
    """
    return [
        {
            "node_id": broker_id,
            "broker_id": broker_id,
            "host": endpoint.host,
            "port": endpoint.port,
            "rack": broker.rack,
            "is_fenced": False,
        }
        for broker_id, broker in sorted(image.brokers.items())
        if not broker.fenced and (endpoint := endpoint_of(broker, listener)) is not None
    ]


def live_ids(image: Image, listener: str | None = None) -> set[BrokerId]:
    """Return the ids of the unfenced brokers that a client of this listener can reach."""
    return {each["broker_id"] for each in live_brokers(image, listener)}


def asks_for_all_topics(message: Any, version: int) -> bool:
    """Return True if a Metadata request names no topics: null, or empty in v0, means all."""
    return message.topics is None or (version == 0 and not message.topics)


def cluster_operations(message: Any, access: Access) -> Mapping[str, Any]:
    """Return the field of the operations on the cluster, if the request asks for it (KIP-430)."""
    if not getattr(message, "include_cluster_authorized_operations", False):
        return {}
    return {"cluster_authorized_operations": access.cluster_operations()}


def topic_operations(fields: Mapping[str, Any], access: Access) -> Mapping[str, Any]:
    """Return the fields of a topic that may be described, with the operations on it."""
    name = fields["name"]
    if name is None or fields["error_code"] == DESCRIBE_TOPIC.error.code:
        return fields
    return {**fields, "topic_authorized_operations": access.operations(ResourceType.TOPIC, name)}


def metadata_topics(
    image: Image | None,
    message: Any,
    version: int,
    listener: str | None = None,
    *,
    access: Access = UNLIMITED,
) -> Iterator[Mapping[str, Any] | None]:
    """Yield the topics of the response to a Metadata request, and None for a pause.

    The partitions of a topic are an iterator as well. The image may change between two steps of
    any of them: each partition is as of the time at which it is taken, and a topic that is deleted
    meanwhile may be left out.

    The image is None while the node does not know which topics there are. Whoever may not describe
    a topic does not hear whether it exists; who may and asks for it hears what else they may do.
    """
    topics = _topics(image, message, version, listener, access)
    if getattr(message, "include_topic_authorized_operations", False):
        return (None if each is None else topic_operations(each, access) for each in topics)
    return topics


def _topics(
    image: Image | None, message: Any, version: int, listener: str | None, access: Access
) -> Iterator[Mapping[str, Any] | None]:
    is_known = image is not None
    image = image or Image()
    live = live_ids(image, listener)
    if asks_for_all_topics(message, version):
        # A copy: topics come and go between two steps.
        names = yield from pauses(sort_in_slices([*image.topic_ids]))
        for each_name in names:
            topic = image.topic_named(each_name)
            is_shown = access.may(DESCRIBE_TOPIC, each_name, is_told=False)
            yield _whole_topic(topic, live) if topic is not None and is_shown else None
        return
    for each in message.topics:
        name: str | None = each.name
        topic_id: Any = getattr(each, "topic_id", None)
        if name is None and version < _BY_TOPIC_ID_SINCE:
            yield topic_fields("", topic_id, error=Error.INVALID_REQUEST)
            continue
        found = image.topic_named(name) if name is not None else image.topics.get(topic_id)
        known = name if found is None else found.name
        if known is not None and not access.may(DESCRIBE_TOPIC, known):
            # Without its id if it was asked for by name, and without its name if by id.
            yield topic_fields(name, topic_id if name is None else None, error=DESCRIBE_TOPIC.error)
        elif found is not None:
            yield _whole_topic(found, live)
        elif not is_known:
            yield topic_fields(name, topic_id, error=Error.LEADER_NOT_AVAILABLE)
        else:
            unknown = Error.UNKNOWN_TOPIC_ID if name is None else Error.UNKNOWN_TOPIC_OR_PARTITION
            yield topic_fields(name, topic_id, error=unknown)


def _whole_topic(topic: Topic, live: set[BrokerId]) -> Mapping[str, Any]:
    return topic_fields(topic.name, topic.topic_id, partition_fields(topic.existing(), live))


def topic_fields(
    name: str | None,
    topic_id: UUID | None,
    partitions: Iterable[Mapping[str, Any]] = (),
    error: Error = Error.NONE,
) -> Mapping[str, Any]:
    """Return the fields of a topic."""
    return {
        "error_code": error.code,
        "name": name,
        "topic_id": topic_id,
        "is_internal": name is not None and name.startswith("__"),
        "partitions": partitions,
    }


def partition_fields(
    partitions: Iterable[tuple[int, PartitionRegistration]], live: set[BrokerId]
) -> Iterator[Mapping[str, Any]]:
    """Yield the fields of partitions; a leader that is not live is shown as none."""
    return (
        {
            "error_code": (
                Error.NONE if partition.leader in live else Error.LEADER_NOT_AVAILABLE
            ).code,
            "partition_index": number,
            "leader_id": partition.leader if partition.leader in live else NO_LEADER,
            "leader_epoch": partition.leader_epoch,
            "replica_nodes": partition.replicas,
            "isr_nodes": partition.isr,
            "eligible_leader_replicas": partition.elr,
            "last_known_elr": partition.last_known_elr,
            "offline_replicas": [each for each in partition.replicas if each not in live],
        }
        for number, partition in partitions
    )
