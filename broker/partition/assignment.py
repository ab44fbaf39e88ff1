"""Values of a partition on a broker: key, assignment and topic settings.

An assignment is what the metadata says about a partition of which this broker is a replica.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from broker.limits import TIMESTAMP_AFTER_MS_MAX, TIMESTAMP_BEFORE_MS_MAX
from statemachine.configs.definitions import parts
from statemachine.configs.effective import min_isr
from statemachine.image.image import Image
from statemachine.reassignment.throttle import ALL_REPLICAS, FOLLOWER_REPLICAS, LEADER_REPLICAS
from statemachine.vocabulary import (
    BROKER_RESOURCE,
    CLUSTER_DEFAULT,
    NO_LEADER,
    RECOVERED,
    TOPIC_RESOURCE,
    BrokerId,
    Replicas,
)


class PartitionKey(NamedTuple):
    """A partition, by topic id and number."""

    topic_id: UUID
    number: int


def by_topic(
    partitions: Iterable[tuple[PartitionKey, Mapping[str, Any]]],
) -> list[Mapping[str, Any]]:
    """Group the fields of partitions by topic, as requests to the controller have them."""
    topics: dict[UUID, list[Mapping[str, Any]]] = {}
    for key, fields in partitions:
        topics.setdefault(key.topic_id, []).append({"partition_index": key.number, **fields})
    return [{"topic_id": topic_id, "partitions": found} for topic_id, found in topics.items()]


class ThrottledPartitions(NamedTuple):
    """The throttled partitions of one topic on one side of one broker."""

    is_all: bool
    numbers: frozenset[int]

    def __contains__(self, number: object) -> bool:
        return self.is_all or number in self.numbers


NOT_THROTTLED: Final = ThrottledPartitions(is_all=False, numbers=frozenset())
_ALL_THROTTLED: Final = ThrottledPartitions(is_all=True, numbers=frozenset())


@lru_cache(maxsize=64)
def throttled_partitions(value: str, broker_id: BrokerId) -> ThrottledPartitions:
    """Parse `*.replication.throttled.replicas` for this broker.

    The value is `*` or a list of partition:broker pairs; invalid pairs are ignored.
    """
    found = parts(value)
    if found == [ALL_REPLICAS]:
        return _ALL_THROTTLED
    suffix = f":{broker_id}"
    mine = (each.removesuffix(suffix) for each in found if each.endswith(suffix))
    numbers = frozenset(int(each) for each in mine if each.isdecimal())
    return ThrottledPartitions(is_all=False, numbers=numbers) if numbers else NOT_THROTTLED


class TopicSettings(NamedTuple):
    """The topic settings that apply to partitions on this broker."""

    message_bytes_max: int
    is_append_time: bool = False
    """Whether the leader stamps the records with its own clock."""
    after_ms_max: int = TIMESTAMP_AFTER_MS_MAX
    """How far a timestamp may be ahead of the leader's clock."""
    before_ms_max: int = TIMESTAMP_BEFORE_MS_MAX
    """How far a timestamp may be behind the leader's clock."""
    leader_throttled: ThrottledPartitions = NOT_THROTTLED
    """Partitions that this broker, as leader, sends at a limited rate."""
    follower_throttled: ThrottledPartitions = NOT_THROTTLED
    """Partitions that this broker, as follower, copies at a limited rate."""


LiveEpochs: TypeAlias = Mapping[BrokerId, int]
"""The broker epoch of each broker that is neither fenced nor shutting down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The metadata of a partition that its replicas act on.

    Invariant: the leader is in the ISR or there is none; the ISR is a subset of the replicas.
    """

    replicas: Replicas
    isr: Replicas
    leader: BrokerId
    leader_epoch: int
    partition_epoch: int
    min_isr: int = 1
    """The effective min.insync.replicas: never more than the intended number of replicas."""
    recovery: int = RECOVERED
    """RECOVERING from an unclean election until the leader confirms that it has (KIP-704)."""

    def __post_init__(self) -> None:
        assert self.leader == NO_LEADER or self.leader in self.isr, f"{self}"
        assert set(self.isr) <= set(self.replicas), f"{self}"
        assert self.min_isr >= 1, f"{self}"

    def __str__(self) -> str:
        who = "no leader" if self.leader == NO_LEADER else f"leader {self.leader}"
        return (
            f"replicas {list(self.replicas)}, ISR {list(self.isr)}, {who}, leader epoch "
            f"{self.leader_epoch}, partition epoch {self.partition_epoch}"
        )


def assignment_of(image: Image, broker_id: BrokerId, key: PartitionKey) -> Assignment | None:
    """The assignment of a partition, or None if the broker is not a replica of it."""
    topic = image.topics.get(key.topic_id)
    found = None if topic is None else topic.partition(key.number)
    if topic is None or found is None or broker_id not in found.replicas:
        return None
    return Assignment(
        replicas=found.replicas,
        isr=found.isr,
        leader=found.leader,
        leader_epoch=found.leader_epoch,
        partition_epoch=found.partition_epoch,
        min_isr=max(1, min_isr(image, topic.name, found)),
        recovery=found.recovery,
    )


def settings_of(
    image: Image, broker_id: BrokerId, topic: str, message_bytes_max: int
) -> TopicSettings:
    """The settings of a topic for its partitions; `message_bytes_max` applies if none is
    configured."""
    configs = image.configs.get((TOPIC_RESOURCE, topic), {})
    shared = image.configs.get((BROKER_RESOURCE, CLUSTER_DEFAULT), {})
    bytes_max = configs.get("max.message.bytes", shared.get("message.max.bytes", ""))
    time_type = configs.get("message.timestamp.type", "")
    after, before = (
        configs.get(name, shared.get(f"log.{name}", ""))
        for name in ("message.timestamp.after.max.ms", "message.timestamp.before.max.ms")
    )
    return TopicSettings(
        int(bytes_max) if bytes_max.isdecimal() else message_bytes_max,
        time_type == "LogAppendTime",
        int(after) if after.isdecimal() else TIMESTAMP_AFTER_MS_MAX,
        int(before) if before.isdecimal() else TIMESTAMP_BEFORE_MS_MAX,
        throttled_partitions(configs.get(LEADER_REPLICAS, ""), broker_id),
        throttled_partitions(configs.get(FOLLOWER_REPLICAS, ""), broker_id),
    )


def live_epochs(image: Image) -> LiveEpochs:
    """The broker epoch of each broker that is neither fenced nor stopping."""
    return {each.broker_id: each.broker_epoch for each in image.brokers.values() if each.live}
