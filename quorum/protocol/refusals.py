"""Refuse a request: build the response with one error in every error field of its schema.

If a request names several items, the response has a result for each of them. Other fields are
empty, or have the default of the schema.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from quorum.protocol import codec, shape
from quorum.protocol.apis import ApiKey

MESSAGE_CHARACTERS_MAX: Final = 1_000
"""Characters of an error message, which may quote the request; old versions have 16 bits for its
length."""

_EMPTY: Final[Mapping[str, Any]] = MappingProxyType(
    {"bool": False, "bytes": b"", "string": "", "datetime_i64": datetime(1970, 1, 1, tzinfo=UTC)}
)
"""The empty value of a type; -1 for a number."""


def bounded(message: str) -> str:
    """Cut a long error message."""
    if len(message) <= MESSAGE_CHARACTERS_MAX:
        return message
    return f"{message[:MESSAGE_CHARACTERS_MAX]}..."


def error_fields(error: int, message: str, **values: Any) -> dict[str, Any]:
    """Return the fields of a response for an error and its message, with these values."""
    return {"error_code": error, "error_message": bounded(message) or None, **values}


def build_refusal(
    api_key: int, version: int, request: Any, error: int, message: str, **values: Any
) -> Any:
    """Build kio's response to `request` with this error and message, and with these values."""
    schema = codec.response_schema(api_key, version)
    results = _RESULTS.get(api_key)
    if results is not None:
        values[results.name] = results.items(request)
    everywhere = error_fields(error, message, throttle_time=timedelta(0))
    return codec.build(schema, _complete(schema, values, everywhere))


def _complete(
    schema: type[Any], given: Mapping[str, Any], everywhere: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the fields of a value: those given, here or `everywhere`, and the others empty."""
    found = {**everywhere, **given}
    for field in fields(schema):
        inner, is_array, is_optional = shape.type_of(field)
        is_structure = is_dataclass(inner)
        if is_structure and is_array and field.name in given:
            found[field.name] = [_complete(inner, each, everywhere) for each in given[field.name]]
        elif field.name in found or field.default is not MISSING:
            continue
        elif is_optional or is_array:
            found[field.name] = None if is_optional else ()
        elif is_structure:
            found[field.name] = _complete(inner, {}, everywhere)
        else:
            found[field.name] = _EMPTY.get(field.metadata["kafka_type"], -1)
    return found


class _Results(NamedTuple):
    """The results in a response: their field, and the items of the request."""

    name: str
    items: Callable[[Any], Iterable[Mapping[str, Any]]]


def _topics(request: Any) -> Iterable[Mapping[str, Any]]:
    return [{"name": each.name, "configs": ()} for each in request.topics]


def _resources(request: Any) -> Iterable[Mapping[str, Any]]:
    return [
        {"resource_type": each.resource_type, "resource_name": each.resource_name}
        for each in request.resources
    ]


def _to_delete(request: Any) -> Iterable[Mapping[str, Any]]:
    if hasattr(request, "topic_names"):
        return [{"name": each} for each in request.topic_names]
    return [{"name": each.name, "topic_id": each.topic_id} for each in request.topics]


def _elections(request: Any) -> Iterable[Mapping[str, Any]]:
    return [
        {"topic": each.topic, "partition_result": [{"partition_id": n} for n in each.partitions]}
        for each in request.topic_partitions or ()
    ]


def _entities(request: Any) -> Iterable[Mapping[str, Any]]:
    return [
        {
            "entity": [
                {"entity_type": part.entity_type, "entity_name": part.entity_name}
                for part in each.entity
            ]
        }
        for each in request.entries
    ]


def _creations(request: Any) -> Iterable[Mapping[str, Any]]:
    return [{} for _ in request.creations]


def _filters(request: Any) -> Iterable[Mapping[str, Any]]:
    return [{"matching_acls": ()} for _ in request.filters]


def _users(request: Any) -> Iterable[Mapping[str, Any]]:
    names = [each.name for each in (*request.deletions, *request.upsertions)]
    return [{"user": name} for name in dict.fromkeys(names)]


def _features(request: Any) -> Iterable[Mapping[str, Any]]:
    return [{"feature": each.feature} for each in request.feature_updates]


_RESULTS: Final[Mapping[int, _Results]] = MappingProxyType(
    {
        ApiKey.CREATE_TOPICS: _Results("topics", _topics),
        ApiKey.DELETE_TOPICS: _Results("responses", _to_delete),
        ApiKey.CREATE_PARTITIONS: _Results("results", _topics),
        ApiKey.ELECT_LEADERS: _Results("replica_election_results", _elections),
        ApiKey.DESCRIBE_CONFIGS: _Results("results", _resources),
        ApiKey.ALTER_CONFIGS: _Results("responses", _resources),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _Results("responses", _resources),
        ApiKey.ALTER_CLIENT_QUOTAS: _Results("entries", _entities),
        ApiKey.CREATE_ACLS: _Results("results", _creations),
        ApiKey.DELETE_ACLS: _Results("filter_results", _filters),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _Results("results", _users),
        ApiKey.UPDATE_FEATURES: _Results("results", _features),
    }
)
