"""From what a client names to a partition of this broker, or the error that sends it elsewhere."""

from typing import Any
from uuid import UUID

from broker.apis.codes import Code
from broker.partition.assignment import PartitionKey
from broker.partition.partition import Partition
from broker.replica_manager import ReplicaManager
from broker.replication.replication_quota import TokenBucket
from quorum.protocol import codec
from statemachine.brokers.registration import BrokerRegistration
from statemachine.image.image import Image
from statemachine.records.kafka_records import Endpoint
from statemachine.vocabulary import NO_LEADER


class PartitionLookup:
    """Looks partitions up in what this broker holds and in the metadata."""

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager

    @property
    def image(self) -> Image:
        return self._manager.image

    @property
    def throttle(self) -> TokenBucket:
        """What this broker may give to followers that are throttled."""
        return self._manager.throttles.leader

    def partition(self, topic: str, number: int) -> Partition | Code:
        """The partition of this name, if this broker holds it."""
        topic_id = self.image.topic_ids.get(topic)
        if topic_id is None:
            return Code.UNKNOWN_TOPIC_OR_PARTITION
        return self._held(PartitionKey(topic_id, number))

    def partition_by_id(self, topic_id: UUID | None, number: int) -> Partition | Code:
        """As `partition`, by the id of the topic (KIP-516)."""
        if topic_id is None or topic_id not in self.image.topics:
            return Code.UNKNOWN_TOPIC_ID
        return self._held(PartitionKey(topic_id, number))

    def _held(self, key: PartitionKey) -> Partition | Code:
        partition = self._manager.partitions.get(key)
        if partition is not None:
            return partition
        if key in self._manager.failed:
            return Code.KAFKA_STORAGE_ERROR
        topic = self.image.topics.get(key.topic_id)
        if topic is None or topic.partition(key.number) is None:
            return Code.UNKNOWN_TOPIC_OR_PARTITION
        return Code.NOT_LEADER_OR_FOLLOWER

    def hint(self, topic: str, number: int) -> dict[str, int]:
        """Who leads, for a client that came to the wrong broker (KIP-951)."""
        found = self.image.topic_named(topic)
        partition = None if found is None else found.partition(number)
        if partition is None:
            return {"leader_id": NO_LEADER, "leader_epoch": -1}
        return {"leader_id": partition.leader, "leader_epoch": partition.leader_epoch}

    def endpoints(self, schema: type[Any]) -> tuple[Any, ...]:
        """Where the live brokers listen, as the `NodeEndpoint` of an answer."""
        endpoint = codec.nested(schema, "NodeEndpoint")
        return tuple(
            codec.make(
                endpoint,
                node_id=broker.broker_id,
                host=where.host,
                port=where.port,
                rack=broker.rack,
            )
            for broker, where in live_brokers(self.image)
        )


def live_brokers(image: Image) -> list[tuple[BrokerRegistration, Endpoint]]:
    """The brokers that are not fenced, with where clients and brokers reach them, by id."""
    return [
        (broker, broker.endpoints[0])
        for _, broker in sorted(image.brokers.items())
        if not broker.fenced and broker.endpoints
    ]
