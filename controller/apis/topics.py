"""CreateTopics (19), DeleteTopics (20) and CreatePartitions (37)."""

import random
from typing import Any
from uuid import UUID

from controller.apis.request import KafkaRequest, outcome
from controller.service import Service
from statemachine.commands import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    NewTopic,
    PartitionsCreated,
    TopicsCreated,
    TopicsDeleted,
)

# An id only has to differ from all others: replay takes it from the record.
_ids = random.SystemRandom()


async def create_topics(request: KafkaRequest, service: Service) -> Any:
    command = CreateTopics(
        topics=tuple(_new_topic(each) for each in request.message.topics),
        validate_only=request.message.validate_only,
        default_partition_count=service.defaults.num_partitions,
        default_replication_factor=service.defaults.replication_factor,
    )
    answer = await service.carry_out(command, TopicsCreated, who=str(request.principal))
    return request.respond(
        topics=[
            outcome(each, num_partitions=each.partition_count, configs=()) for each in answer.topics
        ]
    )


async def delete_topics(request: KafkaRequest, service: Service) -> Any:
    command = DeleteTopics(topics=_to_delete(request.message))
    answer = await service.carry_out(command, TopicsDeleted, who=str(request.principal))
    return request.respond(responses=map(outcome, answer.topics))


async def create_partitions(request: KafkaRequest, service: Service) -> Any:
    command = CreatePartitions(
        topics=tuple(_more_partitions(each) for each in request.message.topics),
        validate_only=request.message.validate_only,
    )
    answer = await service.carry_out(command, PartitionsCreated, who=str(request.principal))
    return request.respond(results=map(outcome, answer.topics))


def _more_partitions(topic: Any) -> MorePartitions:
    assignments = topic.assignments
    return MorePartitions(
        name=topic.name,
        count=topic.count,
        assignments=(
            None if assignments is None else tuple(each.broker_ids for each in assignments)
        ),
    )


def _new_topic(topic: Any) -> NewTopic:
    return NewTopic(
        name=topic.name,
        topic_id=new_topic_id(),
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple((each.partition_index, each.broker_ids) for each in topic.assignments),
        configs=tuple((each.name, each.value) for each in topic.configs),
    )


def new_topic_id() -> UUID:
    """Return a random id that is not reserved by Kafka (KIP-516)."""
    return UUID(int=_ids.getrandbits(128), version=4)


def _to_delete(message: Any) -> tuple[str | UUID, ...]:
    """Return the topics to delete: names before version 6, names or ids from then on (KIP-516)."""
    if hasattr(message, "topic_names"):
        return tuple(message.topic_names)
    return tuple(each.topic_id if each.name is None else each.name for each in message.topics)
