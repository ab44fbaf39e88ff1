"""Queries about an image for the other packages. They return frozen values."""

from collections.abc import Collection, Iterator
from uuid import UUID

from msgspec import Struct

from statemachine.brokers.registration import BrokerRegistration
from statemachine.configs.effective import min_isr
from statemachine.image.image import Image
from statemachine.image.partition_index import in_order
from statemachine.image.partition_table import Topic
from statemachine.partitions.registration import PartitionRegistration
from statemachine.vocabulary import TOPIC_RESOURCE, BrokerId, MoveId, Replicas


class Underway(Struct, frozen=True, kw_only=True, gc=False):
    """A partition whose replicas are being reassigned."""

    topic: str
    topic_id: UUID
    partition: int
    replicas: Replicas
    adding: Replicas
    removing: Replicas
    target: Replicas
    """The replicas that it will have, in order."""
    move_id: MoveId
    """The move that it belongs to; NO_MOVE where a controller of Kafka's has begun it."""
    isr: Replicas
    min_isr: int
    """In sync must be at least these many, and every adding replica, for the move to complete."""


class TopicDescription(Struct, frozen=True, kw_only=True, gc=False):
    """A topic with its partitions and its own configuration."""

    name: str
    topic_id: UUID
    partitions: tuple[tuple[int, PartitionRegistration], ...]
    configs: tuple[tuple[str, str], ...]


class BrokerDescription(Struct, frozen=True, kw_only=True, gc=False):
    """A broker with how much it carries."""

    broker: BrokerRegistration
    replica_count: int
    in_sync_count: int
    leader_count: int


def reassignments(
    image: Image, partitions: Collection[tuple[str, int]] | None = None
) -> tuple[Underway, ...]:
    """Return the reassignments under way (api 46), all or among these, by topic and number."""
    return tuple(reassigned(image, partitions))


def reassigned(
    image: Image, partitions: Collection[tuple[str, int]] | None = None
) -> Iterator[Underway]:
    """As `reassignments`, one after the other; the image must not change meanwhile."""
    if partitions is None:
        found = in_order(image.index, image.index.moving)
    else:
        found = _named(image, partitions)
    return (
        _underway(image, topic, number, partition)
        for topic, number in found
        if (partition := topic.partition(number)) is not None and partition.moving
    )


def _named(image: Image, partitions: Collection[tuple[str, int]]) -> Iterator[tuple[Topic, int]]:
    for name, number in sorted(set(partitions)):
        topic = image.topic_named(name)
        if topic is not None:
            yield topic, number


def _underway(
    image: Image, topic: Topic, number: int, partition: PartitionRegistration
) -> Underway:
    return Underway(
        topic=topic.name,
        topic_id=topic.topic_id,
        partition=number,
        replicas=partition.replicas,
        adding=partition.adding,
        removing=partition.removing,
        target=partition.final,
        move_id=partition.stage.move,
        isr=partition.isr,
        min_isr=min_isr(image, topic.name, partition),
    )


def describe_topic(image: Image, topic: str | UUID) -> TopicDescription | None:
    """The topic of this name or id, or None."""
    found = image.topic_named(topic) if isinstance(topic, str) else image.topics.get(topic)
    if found is None:
        return None
    configs = image.configs.get((TOPIC_RESOURCE, found.name), {})
    return TopicDescription(
        name=found.name,
        topic_id=found.topic_id,
        partitions=tuple(found.existing()),
        configs=tuple(sorted(configs.items())),
    )


def describe_broker(image: Image, broker_id: BrokerId) -> BrokerDescription | None:
    """The broker of this id, or None."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return None
    index = image.index
    return BrokerDescription(
        broker=broker,
        replica_count=index.count(index.replicas_of, broker_id),
        in_sync_count=index.count(index.isr_of, broker_id),
        leader_count=index.count(index.leader_of, broker_id),
    )


def describe_brokers(image: Image) -> tuple[BrokerDescription, ...]:
    """Every registered broker, in order of id."""
    return tuple(
        description
        for broker_id in sorted(image.brokers)
        if (description := describe_broker(image, broker_id)) is not None
    )
