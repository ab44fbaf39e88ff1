"""Look up the partition that a request names, or the error that sends the client elsewhere."""

from typing import Any
from uuid import UUID

from broker.partition.assignment import PartitionKey
from broker.partition.partition import Partition
from broker.replica_manager import ReplicaManager
from broker.replication.replication_quota import TokenBucket
from quorum.protocol import codec
from quorum.protocol.errors import ErrorCode
from statemachine.brokers.registration import BrokerRegistration
from statemachine.image.image import Image
from statemachine.records.kafka_records import Endpoint
from statemachine.vocabulary import NO_LEADER


class PartitionLookup:
    """A lookup of partitions, in the local replicas and in the metadata."""

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager

    @property
    def image(self) -> Image:
        return self._manager.image

    @property
    def throttle(self) -> TokenBucket:
        """The token bucket of the leader throttle."""
        return self._manager.throttles.leader

    def partition(self, topic: str, number: int) -> Partition | ErrorCode:
        """The local partition of this topic name, or the error."""
        topic_id = self.image.topic_ids.get(topic)
        if topic_id is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return self._held(PartitionKey(topic_id, number))

    def partition_by_id(self, topic_id: UUID | None, number: int) -> Partition | ErrorCode:
        """The local partition of this topic id (KIP-516), or the error."""
        if topic_id is None or topic_id not in self.image.topics:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return self._held(PartitionKey(topic_id, number))

    def _held(self, key: PartitionKey) -> Partition | ErrorCode:
        partition = self._manager.partitions.get(key)
        if partition is not None:
            return partition
        if key in self._manager.failed:
            return ErrorCode.KAFKA_STORAGE_ERROR
        topic = self.image.topics.get(key.topic_id)
        if topic is None or topic.partition(key.number) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def hint(self, topic: str, number: int) -> dict[str, int]:
        """The current leader, for a client that asked the wrong broker (KIP-951)."""
        found = self.image.topic_named(topic)
        partition = None if found is None else found.partition(number)
        if partition is None:
            return {"leader_id": NO_LEADER, "leader_epoch": -1}
        return {"leader_id": partition.leader, "leader_epoch": partition.leader_epoch}

    def endpoints(self, schema: type[Any]) -> tuple[Any, ...]:
        """The addresses of the live brokers, as `NodeEndpoint` values."""
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
    """The unfenced brokers with their addresses, sorted by id."""
    return [
        (broker, broker.endpoints[0])
        for _, broker in sorted(image.brokers.items())
        if not broker.fenced and broker.endpoints
    ]
