"""The answers to DescribeConfigs (32) and DescribeClientQuotas (48), from what was found.

Brokers and controllers answer both, each from an image of its own and with the same words. Nothing
is looked up here but what is handed in.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from quorum.protocol import codec
from statemachine.config_queries import ConfigEntry
from statemachine.errors import Refusal
from statemachine.image import Image, Resource
from statemachine.quotas import QuotaFilter, QuotasFound, describe_quotas

MESSAGE_CHARACTERS_MAX: Final = 1_000
"""Of an error message: it may repeat what was asked, and old versions have 16 bits for it."""

_ZERO: Final = timedelta(0)

Describe = Callable[[Resource], tuple[ConfigEntry, ...] | Refusal]


def describe_configs_answer(schema: type[Any], message: Any, describe: Describe) -> Any:
    """kio's response of `schema`: of every resource in `message`, what `describe` finds."""
    results = []
    for asked in message.resources:
        found = describe((asked.resource_type, asked.resource_name))
        if isinstance(found, Refusal):
            results.append(_result(schema, asked, found.error.code, found.message, ()))
        else:
            wanted = asked.configuration_keys
            entries = tuple(
                _entry(schema, message, each) for each in found if not wanted or each.name in wanted
            )
            results.append(_result(schema, asked, 0, None, entries))
    return codec.make(schema, throttle_time=_ZERO, results=tuple(results))


def describe_configs_refusal(schema: type[Any], message: Any, error: int, reason: str) -> Any:
    """The response that says this error of every resource."""
    results = tuple(_result(schema, asked, error, reason, ()) for asked in message.resources)
    return codec.make(schema, throttle_time=_ZERO, results=results)


def _result(
    schema: type[Any], asked: Any, error: int, reason: str | None, entries: tuple[Any, ...]
) -> Any:
    return codec.make(
        codec.nested(schema, "DescribeConfigsResult"),
        error_code=codec.error_code(error),
        error_message=_bounded(reason),
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=entries,
    )


def _entry(schema: type[Any], message: Any, entry: ConfigEntry) -> Any:
    of_synonym = codec.nested(schema, "DescribeConfigsSynonym")
    synonyms = entry.synonyms if message.include_synonyms else ()
    # Version 3 is the first that can ask for it, and that has a place for it.
    documented = getattr(message, "include_documentation", False)
    return codec.make_known(
        codec.nested(schema, "DescribeConfigsResourceResult"),
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=tuple(
            codec.make(of_synonym, name=each.name, value=each.value, source=each.source)
            for each in synonyms
        ),
        config_type=entry.type,
        documentation=entry.documentation if documented else None,
    )


def describe_quotas_answer(schema: type[Any], message: Any, image: Image) -> Any:
    """kio's response of `schema`: the quotas in `image` that `message` asks for."""
    filters = [
        QuotaFilter(type=each.entity_type, match=each.match_type, name=each.match)
        for each in message.components
    ]
    found = describe_quotas(image, filters, strict=message.strict)
    if isinstance(found, Refusal):
        return describe_quotas_refusal(schema, found.error.code, found.message)
    return codec.make(
        schema,
        throttle_time=_ZERO,
        error_code=codec.error_code(0),
        error_message=None,
        entries=tuple(_quotas(schema, each) for each in found),
    )


def describe_quotas_refusal(schema: type[Any], error: int, reason: str) -> Any:
    """The response that says this error of all."""
    return codec.make(
        schema,
        throttle_time=_ZERO,
        error_code=codec.error_code(error),
        error_message=_bounded(reason),
        entries=None,
    )


def _quotas(schema: type[Any], found: QuotasFound) -> Any:
    of_entity, of_value = codec.nested(schema, "EntityData"), codec.nested(schema, "ValueData")
    return codec.make(
        codec.nested(schema, "EntryData"),
        entity=tuple(
            codec.make(of_entity, entity_type=part.type, entity_name=part.name)
            for part in found.entity
        ),
        values=tuple(codec.make(of_value, key=key, value=value) for key, value in found.quotas),
    )


def _bounded(reason: str | None) -> str | None:
    if reason is None or len(reason) <= MESSAGE_CHARACTERS_MAX:
        return reason
    return f"{reason[:MESSAGE_CHARACTERS_MAX]}..."
