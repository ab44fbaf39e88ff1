"""The answer to a forwarded request that no controller has answered: one error for all it asked.

Kafka's requests have an error at the top, or one for each thing that was asked for, or both.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from quorum.protocol import codec
from quorum.protocol.apis import ApiKey

_ZERO: Final = timedelta(0)

_Results = Callable[[type[Any], Any, dict[str, Any]], dict[str, Any]]
"""From (schema of the answer, request, error fields) to the fields with the results."""


def refusal(api_key: int, version: int, message: Any, code: int, reason: str) -> bytes:
    """The body of the answer to `message` that says `code` of everything in it."""
    schema = codec.response_schema(api_key, version)
    error = {"error_code": codec.error_code(code), "error_message": reason}
    results = _RESULTS.get(ApiKey(api_key), _nothing)(schema, message, error)
    payload = codec.make_known(schema, throttle_time=_ZERO, **error, **results)
    return codec.encode_response_body(api_key, version, payload)


def _nothing(schema: type[Any], _message: Any, _error: dict[str, Any]) -> dict[str, Any]:
    """The error stands at the top; of the fields below it those that are there are empty."""
    names = ("responses", "results", "topics", "nodes", "brokers", "hurt", "moves", "partitions")
    return {name: () for name in names if name in schema.__dataclass_fields__}


def _created_topics(schema: type[Any], message: Any, error: dict[str, Any]) -> dict[str, Any]:
    of_topic = codec.nested(schema, "CreatableTopicResult")
    return {
        "topics": tuple(
            codec.make_known(
                of_topic,
                name=topic.name,
                topic_id=None,
                num_partitions=-1,
                replication_factor=-1,
                configs=None,
                **error,
            )
            for topic in message.topics
        )
    }


def _created_partitions(schema: type[Any], message: Any, error: dict[str, Any]) -> dict[str, Any]:
    of_topic = codec.nested(schema, "CreatePartitionsTopicResult")
    return {
        "results": tuple(codec.make(of_topic, name=topic.name, **error) for topic in message.topics)
    }


def _deleted_topics(schema: type[Any], message: Any, error: dict[str, Any]) -> dict[str, Any]:
    of_topic = codec.nested(schema, "DeletableTopicResult")
    if hasattr(message, "topics"):
        named = [(topic.name, topic.topic_id) for topic in message.topics]
    else:
        named = [(name, None) for name in message.topic_names]
    return {
        "responses": tuple(
            codec.make_known(of_topic, name=name, topic_id=topic_id, **error)
            for name, topic_id in named
        )
    }


def _elected_leaders(schema: type[Any], message: Any, error: dict[str, Any]) -> dict[str, Any]:
    of_topic = codec.nested(schema, "ReplicaElectionResult")
    of_partition = codec.nested(schema, "PartitionResult")
    return {
        "replica_election_results": tuple(
            codec.make(
                of_topic,
                topic=topic.topic,
                partition_result=tuple(
                    codec.make(of_partition, partition_id=number, **error)
                    for number in topic.partitions
                ),
            )
            for topic in message.topic_partitions or ()
        )
    }


def _altered_configs(schema: type[Any], message: Any, error: dict[str, Any]) -> dict[str, Any]:
    of_resource = codec.nested(schema, "AlterConfigsResourceResponse")
    return {
        "responses": tuple(
            codec.make(
                of_resource,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                **error,
            )
            for each in message.resources
        )
    }


def _altered_quotas(schema: type[Any], message: Any, error: dict[str, Any]) -> dict[str, Any]:
    of_entry, of_entity = codec.nested(schema, "EntryData"), codec.nested(schema, "EntityData")
    return {
        "entries": tuple(
            codec.make(
                of_entry,
                entity=tuple(
                    codec.make(
                        of_entity, entity_type=each.entity_type, entity_name=each.entity_name
                    )
                    for each in entry.entity
                ),
                **error,
            )
            for entry in message.entries
        )
    }


_RESULTS: Final[Mapping[ApiKey, _Results]] = MappingProxyType(
    {
        ApiKey.CREATE_TOPICS: _created_topics,
        ApiKey.CREATE_PARTITIONS: _created_partitions,
        ApiKey.DELETE_TOPICS: _deleted_topics,
        ApiKey.ELECT_LEADERS: _elected_leaders,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _altered_configs,
        ApiKey.ALTER_CONFIGS: _altered_configs,
        ApiKey.ALTER_CLIENT_QUOTAS: _altered_quotas,
    }
)
