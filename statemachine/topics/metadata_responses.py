"""The fields of the responses that describe brokers and topics.

These are Metadata (3), DescribeCluster (60) and DescribeTopicPartitions (75). A response has the
fields that its version knows; the others are left out when it is encoded.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

from statemachine.errors import Error
from statemachine.image.image import Image
from statemachine.image.partition_table import Topic
from statemachine.partitions.registration import PartitionRegistration
from statemachine.vocabulary import NO_LEADER, BrokerId


def live_brokers(image: Image) -> list[Mapping[str, Any]]:
    """Return the fields of the unfenced brokers, sorted by id, which each has under two names."""
    return [
        {
            "node_id": broker_id,
            "broker_id": broker_id,
            "host": broker.endpoints[0].host,
            "port": broker.endpoints[0].port,
            "rack": broker.rack,
            "is_fenced": False,
        }
        for broker_id, broker in sorted(image.brokers.items())
        if not broker.fenced and broker.endpoints
    ]


def live_ids(image: Image) -> set[BrokerId]:
    """Return the ids of the unfenced brokers."""
    return {each["broker_id"] for each in live_brokers(image)}


def metadata_topics(
    image: Image | None, asked: Iterable[Any] | None, *, by_id: bool
) -> Iterator[Mapping[str, Any]]:
    """Yield the topics of a Metadata response: all of them, or those asked for.

    The image is None while the node does not know which topics there are. Without `by_id`, the
    version of the response has no place for a topic without a name.
    """
    is_known = image is not None
    image = image or Image()
    live = live_ids(image)
    if asked is None:
        for _, known_id in sorted(image.topic_ids.items()):
            yield _whole_topic(image.topics[known_id], live)
        return
    for each in asked:
        name: str | None = each.name
        topic_id: Any = getattr(each, "topic_id", None)
        if name is None and not by_id:
            yield topic_fields("", topic_id, error=Error.INVALID_REQUEST)
            continue
        found = image.topic_named(name) if name is not None else image.topics.get(topic_id)
        if found is not None:
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
) -> list[Mapping[str, Any]]:
    """Return the fields of partitions; a leader that is not live is shown as none."""
    return [
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
    ]
