"""Requests of brokers to their controller over the Kafka protocol, sent by a test."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from quorum.protocol.apis import ApiKey
from statemachine.features.features import RANGES
from tests.support.kafka_client import Form, KafkaClient

CAUGHT_UP: Final = 2**62
"""The metadata offset of a broker that has applied all there is."""


@dataclass
class Broker:
    """A registered and unfenced broker, of which there is nothing but its name."""

    client: KafkaClient
    broker_id: int
    epoch: int

    async def heartbeat(self, **values: Any) -> Any:
        """The answer to a heartbeat of a broker that wants nothing."""
        fields = {
            "broker_id": self.broker_id,
            "broker_epoch": self.epoch,
            "current_metadata_offset": CAUGHT_UP,
            "want_fence": False,
            "want_shut_down": False,
        }
        return await self.client.ask(ApiKey.BROKER_HEARTBEAT, 1, **{**fields, **values})

    async def propose(
        self,
        topic_id: UUID,
        members: Sequence["Broker"],
        *,
        partition_epoch: int,
        leader_epoch: int = 0,
        partition: int = 0,
    ) -> Any:
        """The result of a proposed ISR of a partition."""
        form = Form(ApiKey.ALTER_PARTITION, 3)
        wish = form.part(
            "PartitionData",
            partition_index=partition,
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            new_isr_with_epochs=tuple(
                form.part("BrokerState", broker_id=each.broker_id, broker_epoch=each.epoch)
                for each in members
            ),
        )
        topic = form.part("TopicData", topic_id=topic_id, partitions=(wish,))
        answer = await self.client.send(
            form,
            form.request(broker_id=self.broker_id, broker_epoch=self.epoch, topics=(topic,)),
        )
        return answer.topics[0].partitions[0] if answer.topics else answer


def registration(form: Form, broker_id: int, cluster_id: str, **values: Any) -> Any:
    """A BrokerRegistration request of any version."""
    fields = {
        "broker_id": broker_id,
        "cluster_id": cluster_id,
        "incarnation_id": UUID(int=0xB0 << 100 | broker_id),
        "listeners": (
            form.part(
                "Listener", name="PLAINTEXT", host="127.0.0.1", port=9092, security_protocol=0
            ),
        ),
        "features": tuple(
            form.part(
                "Feature",
                name=each.name,
                min_supported_version=each.min_supported,
                max_supported_version=each.max_supported,
            )
            for each in RANGES
        ),
        "rack": None,
        "log_dirs": (UUID(int=0xD1 << 100 | broker_id),),
    }
    return form.request(**{**fields, **values})


async def joined(client: KafkaClient, broker_id: int, cluster_id: str) -> Broker:
    """A broker that has registered and been unfenced."""
    form = Form(ApiKey.BROKER_REGISTRATION, 4)
    answer = await client.send(form, registration(form, broker_id, cluster_id))
    assert answer.error_code.value == 0, answer
    broker = Broker(client, broker_id, answer.broker_epoch)
    answer = await broker.heartbeat()
    assert not answer.is_fenced, answer
    return broker


async def created(client: KafkaClient, name: str, *partitions: Sequence[int]) -> UUID:
    """The id of a new topic whose partitions have these replicas."""
    form = Form(ApiKey.CREATE_TOPICS, 7)
    answer = await client.send(form, creation(form, name, *partitions))
    (topic,) = answer.topics
    assert topic.error_code.value == 0, topic
    topic_id: UUID = topic.topic_id
    return topic_id


def creation(form: Form, name: str, *partitions: Sequence[int], timeout_ms: int = 20_000) -> Any:
    """A CreateTopics request for one topic with these replicas."""
    topic = form.part(
        "CreatableTopic",
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=tuple(
            form.part(
                "CreatableReplicaAssignment", partition_index=number, broker_ids=tuple(replicas)
            )
            for number, replicas in enumerate(partitions)
        ),
        configs=(),
    )
    return form.request(
        topics=(topic,), timeout=timedelta(milliseconds=timeout_ms), validate_only=False
    )
