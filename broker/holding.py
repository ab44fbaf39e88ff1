"""What a broker is to hold: the part it plays in each partition, and which logs to open and remove.

The metadata is the only source of what should be here, and it may change its mind at any time: what
needs the disk is done by what it says then. Pure: nothing here opens or removes anything. In
production `broker.manager` does, in the simulation a process on a virtual disk.
"""

from enum import Enum, auto
from itertools import islice

from broker.hosting import PartitionKey, TopicSettings
from broker.limits import SETTLED_AT_ONCE
from broker.partition import Partition
from broker.replica import Assignment, LiveEpochs
from broker.throttling import throttled
from statemachine.configs import min_isr
from statemachine.image import Image
from statemachine.throttle_configs import FOLLOWER_REPLICAS, LEADER_REPLICAS
from statemachine.vocabulary import BROKER_RESOURCE, CLUSTER_DEFAULT, TOPIC_RESOURCE, BrokerId


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
        throttled(configs.get(LEADER_REPLICAS, ""), broker_id),
        throttled(configs.get(FOLLOWER_REPLICAS, ""), broker_id),
    )


def live_epochs(image: Image) -> LiveEpochs:
    """The broker epoch of each broker that is neither fenced nor stopping."""
    return {each.broker_id: each.epoch for each in image.brokers.values() if each.live}


class Settling(Enum):
    """What is to be done with one partition on the disk."""

    OPEN = auto()
    REMOVE = auto()
    NOTHING = auto()


class Unsettled:
    """The partitions that are here and should not be, or the other way round."""

    def __init__(self) -> None:
        self._keys: dict[PartitionKey, None] = {}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._keys)

    def note(self, key: PartitionKey) -> None:
        """The metadata asks for something else than what is here."""
        self._keys[key] = None

    def take(self) -> list[PartitionKey]:
        """The next few, to be settled now."""
        taken = list(islice(self._keys, SETTLED_AT_ONCE))
        for key in taken:
            del self._keys[key]
        return taken


def settling(partition: Partition | None, assignment: Assignment | None) -> Settling:
    """What becomes of a partition that is here, or is not, by what the metadata says now."""
    if partition is not None and assignment is None:
        return Settling.REMOVE
    if partition is None and assignment is not None:
        return Settling.OPEN
    return Settling.NOTHING
