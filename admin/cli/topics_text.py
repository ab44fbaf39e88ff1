"""Topics as Kafka's `kafka-topics.sh --describe` prints them, and as data. Pure functions."""

from collections.abc import Iterable
from typing import Any

from admin.model import NO_LEADER, PartitionDescription, TopicDescription, Topics
from quorum.log.uuids import uuid_to_text


def described(topics: Topics) -> str:
    """Every topic with its partitions, one a line."""
    return "\n".join(line for topic in _in_order(topics) for line in _lines(topic))


def topics_data(topics: Topics) -> dict[str, Any]:
    """The topics as plain values, and what they are as of."""
    return {
        "as_of_offset": topics.as_of,
        "topics": [_topic_data(topic) for topic in _in_order(topics)],
    }


def _in_order(topics: Topics) -> Iterable[TopicDescription]:
    return (topics.found[name] for name in sorted(topics.found))


def _topic_data(topic: TopicDescription) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": None if topic.topic_id is None else uuid_to_text(topic.topic_id),
        "partitions": [_partition_data(partition) for partition in topic.partitions],
    }


def _lines(topic: TopicDescription) -> Iterable[str]:
    id = "" if topic.topic_id is None else uuid_to_text(topic.topic_id)
    yield "\t".join(
        [
            f"Topic: {topic.name}",
            f"TopicId: {id}",
            f"PartitionCount: {len(topic.partitions)}",
            f"ReplicationFactor: {topic.replication_factor}",
        ]
    )
    for partition in topic.partitions:
        leader = "none" if partition.leader == NO_LEADER else str(partition.leader)
        yield "\t".join(
            [
                f"\tTopic: {topic.name}",
                f"Partition: {partition.partition}",
                f"Leader: {leader}",
                f"Replicas: {','.join(map(str, partition.replicas))}",
                f"Isr: {','.join(map(str, partition.isr))}",
            ]
        )


def _partition_data(partition: PartitionDescription) -> dict[str, Any]:
    return {
        "partition": partition.partition,
        "leader": None if partition.leader == NO_LEADER else partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "offline_replicas": list(partition.offline),
    }
