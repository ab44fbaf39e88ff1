"""Values of a partition on a broker: key, assignment, topic settings, and the reasons to refuse.

An assignment is what the metadata says about a partition of which this broker is a replica.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias
from uuid import UUID

from broker.replication.replication_quota import NOTHING, ThrottledPartitions, throttled_partitions
from quorum.core.vocabulary import LogEnd
from statemachine.configs.effective import min_isr
from statemachine.image.image import Image
from statemachine.reassignment.throttle import FOLLOWER_REPLICAS, LEADER_REPLICAS
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
    """A partition as the metadata log names it."""

    topic_id: UUID
    number: int


class TopicSettings(NamedTuple):
    """What the configuration of a topic means for the partitions of a broker."""

    message_bytes_max: int
    is_append_time: bool = False
    """Whether the leader's clock, not the producer's, stamps the records."""
    leader_throttled: ThrottledPartitions = NOTHING
    """The partitions that this broker, where it leads them, gives followers at a limited rate."""
    follower_throttled: ThrottledPartitions = NOTHING
    """The partitions that this broker, where it follows, copies at a limited rate."""


LiveEpochs: TypeAlias = Mapping[BrokerId, int]
"""Broker epoch of each broker that the metadata shows as neither fenced nor stopping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What the metadata says of one partition, as far as its replicas care.

    Invariant: the leader is in the ISR or there is none, and the ISR is part of the replicas.
    """

    replicas: Replicas
    isr: Replicas
    leader: BrokerId
    leader_epoch: int
    partition_epoch: int
    min_isr: int = 1
    """Effective: never more than the replicas that the partition is meant to have."""
    recovery: int = RECOVERED
    """RECOVERING from an unclean election until the leader says that it has (KIP-704)."""

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


class Refusal(Enum):
    """Why a replica does not do what it is asked, with Kafka's error code."""

    code: int
    meaning: str

    OFFSET_OUT_OF_RANGE = 1, "the offset is not within the log"
    UNKNOWN_TOPIC_OR_PARTITION = 3, "this broker holds no such partition"
    NOT_LEADER_OR_FOLLOWER = 6, "this broker does not lead the partition"
    REQUEST_TIMED_OUT = 7, "the followers did not confirm in time"
    NOT_ENOUGH_REPLICAS = 19, "fewer replicas are in sync than min.insync.replicas asks for"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, "fewer replicas than asked for were left in sync"
    KAFKA_STORAGE_ERROR = 56, "the log cannot be read or written"
    FENCED_LEADER_EPOCH = 74, "the leader epoch of the request is over"
    UNKNOWN_LEADER_EPOCH = 75, "the leader epoch of the request is not known here yet"
    STALE_BROKER_EPOCH = 77, "a newer incarnation of this follower is registered"
    OFFSET_NOT_AVAILABLE = 78, "the new leader does not know yet what is committed"
    INCONSISTENT_TOPIC_ID = 103, "the partition belongs to a topic of another id"

    def __init__(self, code: int, meaning: str) -> None:
        self.code = code
        self.meaning = meaning


def assignment_of(image: Image, broker_id: BrokerId, key: PartitionKey) -> Assignment | None:
    """What the metadata says of a partition of which this broker is a replica, else None."""
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
    """The settings of a topic that matter to its partitions; the last is where none is set."""
    configs = image.configs.get((TOPIC_RESOURCE, topic), {})
    shared = image.configs.get((BROKER_RESOURCE, CLUSTER_DEFAULT), {})
    bytes_max = configs.get("max.message.bytes", shared.get("message.max.bytes", ""))
    time_type = configs.get("message.timestamp.type", "")
    return TopicSettings(
        int(bytes_max) if bytes_max.isdecimal() else message_bytes_max,
        time_type == "LogAppendTime",
        throttled_partitions(configs.get(LEADER_REPLICAS, ""), broker_id),
        throttled_partitions(configs.get(FOLLOWER_REPLICAS, ""), broker_id),
    )


def live_epochs(image: Image) -> LiveEpochs:
    """The broker epoch of each broker that is neither fenced nor stopping."""
    return {each.broker_id: each.epoch for each in image.brokers.values() if each.live}


DelayedProduce: TypeAlias = Callable[[Refusal | None], None]
"""Told once: None, or why what it waits for will not be confirmed."""


class Appended(NamedTuple):
    """Where a producer's batch lies."""

    base_offset: int
    end_offset: int
    append_time_ms: int = -1


class Fetched(NamedTuple):
    """What a leader says to a follower's fetch: go on, or where the two logs part."""

    diverging: LogEnd | None
