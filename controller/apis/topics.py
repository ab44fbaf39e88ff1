"""CreateTopics (19), DeleteTopics (20) and CreatePartitions (37)."""

import random
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from controller.apis.access import access_of, refused
from controller.apis.request import KafkaRequest, outcome
from controller.service import Service
from quorum.protocol.apis import ApiKey
from quorum.protocol.errors import ErrorCode
from statemachine.commands import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    MutationClient,
    NewTopic,
    PartitionsAdded,
    PartitionsCreated,
    TopicCreated,
    TopicDeleted,
    TopicsCreated,
    TopicsDeleted,
)
from statemachine.errors import Error
from statemachine.image.image import Image
from statemachine.security.rights import (
    ALTER_TOPIC,
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DELETE_CLUSTER,
    DELETE_TOPIC,
    DESCRIBE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
    Access,
)

_STRICT_SINCE: Final[Mapping[int, int]] = MappingProxyType(
    {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}
)
"""The version from which on a quota of controller mutations refuses a request (KIP-599)."""

# An id only has to differ from all others: replay takes it from the record.
_ids = random.SystemRandom()


async def create_topics(request: KafkaRequest, service: Service) -> Any:
    access, asked = access_of(request, service), request.message.topics
    allowed = frozenset(each.name for each in asked)
    if not access.may(CREATE_CLUSTER, is_told=False):
        allowed = access.allowed(CREATE_TOPIC, allowed)
    shown = access.allowed(DESCRIBE_TOPIC_CONFIGS, allowed, is_told=False)
    command = CreateTopics(
        topics=tuple(_new_topic(each) for each in asked if each.name in allowed),
        validate_only=request.message.validate_only,
        default_partition_count=service.defaults.num_partitions,
        default_replication_factor=service.defaults.replication_factor,
        client=_client(request),
    )
    answer = await service.carry_out(command, TopicsCreated, who=str(request.principal))
    decided = iter(answer.topics)
    results = [
        next(decided)
        if each.name in allowed
        else refused(TopicCreated, access, CREATE_TOPIC, each.name, name=each.name)
        for each in asked
    ]
    return request.respond(
        throttle_time=service.throttle_time(answer),
        topics=[_created(each, is_shown=each.name in shown) for each in results],
    )


def _created(result: TopicCreated, *, is_shown: bool) -> dict[str, Any]:
    if result.error is Error.NONE and not is_shown:
        return outcome(
            result,
            num_partitions=-1,
            replication_factor=-1,
            configs=(),
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        )
    return outcome(result, num_partitions=result.partition_count, configs=())


async def delete_topics(request: KafkaRequest, service: Service) -> Any:
    access, asked = access_of(request, service), _to_delete(request.message)
    kept: dict[str | UUID, TopicDeleted] = {}
    if not access.may(DELETE_CLUSTER, is_told=False):
        kept = await _not_deletable(asked, access, service)
    command = DeleteTopics(
        topics=tuple(each for each in asked if each not in kept), client=_client(request)
    )
    answer = await service.carry_out(command, TopicsDeleted, who=str(request.principal))
    decided = iter(answer.topics)
    results = [kept[each] if each in kept else next(decided) for each in asked]
    return request.respond(
        throttle_time=service.throttle_time(answer), responses=map(outcome, results)
    )


async def _not_deletable(
    asked: tuple[str | UUID, ...], access: Access, service: Service
) -> dict[str | UUID, TopicDeleted]:
    """Return the results for the topics that the client may not delete.

    Only a client that may describe a topic hears whether it exists, and the name of an id. An
    unknown id has no name to have rights on; the decision answers it.
    """

    def read(image: Image) -> dict[str | UUID, str]:
        found = {
            each: image.topic_named(each) if isinstance(each, str) else image.topics.get(each)
            for each in asked
        }
        return {each: topic.name for each, topic in found.items() if topic is not None}

    existing = (await service.read(read)).value
    kept: dict[str | UUID, TopicDeleted] = {}
    for each in dict.fromkeys(asked):
        name = each if isinstance(each, str) else existing.get(each)
        if name is None or access.may(DELETE_TOPIC, name):
            continue
        is_known = access.may(DESCRIBE_TOPIC, name, is_told=False)
        if isinstance(each, UUID):
            kept[each] = TopicDeleted(
                error=DELETE_TOPIC.error,
                message=access.refusal(DELETE_TOPIC, name if is_known else str(each)),
                name=name if is_known else None,
                topic_id=each,
            )
        elif is_known and each not in existing:
            kept[each] = TopicDeleted(
                error=Error.UNKNOWN_TOPIC_OR_PARTITION,
                message=f"there is no topic {each}",
                name=each,
                topic_id=None,
            )
        else:
            kept[each] = refused(TopicDeleted, access, DELETE_TOPIC, name, name=name, topic_id=None)
    return kept


async def create_partitions(request: KafkaRequest, service: Service) -> Any:
    access, asked = access_of(request, service), request.message.topics
    allowed = access.allowed(ALTER_TOPIC, (each.name for each in asked))
    command = CreatePartitions(
        topics=tuple(_more_partitions(each) for each in asked if each.name in allowed),
        validate_only=request.message.validate_only,
        client=_client(request),
    )
    answer = await service.carry_out(command, PartitionsCreated, who=str(request.principal))
    decided = iter(answer.topics)
    # A name that is given twice is answered once, as by Kafka.
    results = [
        next(decided)
        if name in allowed
        else refused(PartitionsAdded, access, ALTER_TOPIC, name, name=name)
        for name in dict.fromkeys(each.name for each in asked)
    ]
    return request.respond(
        throttle_time=service.throttle_time(answer), results=map(outcome, results)
    )


def _client(request: KafkaRequest) -> MutationClient:
    """Return the client whose quota the request uses."""
    return MutationClient(
        user=request.principal.name,
        client_id=request.client_id or "",
        is_strict=request.version >= _STRICT_SINCE[request.api_key],
    )


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
