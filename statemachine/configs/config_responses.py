"""The fields of the responses to DescribeConfigs (32) and DescribeClientQuotas (48).

Controllers and brokers describe from their own image, and a broker adds its own file.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from statemachine.configs.describe_configs import (
    NO_BROKER,
    BrokerFile,
    ConfigEntry,
    describe_configs,
    describe_loggers,
)
from statemachine.configs.quotas import QuotaFilter, matching_quotas, quota_key, quotas_of
from statemachine.errors import Error, Refusal
from statemachine.image.image import Image, QuotaHolder
from statemachine.security.rights import UNLIMITED, Access, config_right
from statemachine.slices import SORTED_US, Slices, sort_in_slices
from statemachine.vocabulary import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLUSTER_DEFAULT,
    Resource,
)

MESSAGE_CHARACTERS_MAX: Final = 1_000
"""The length of an error message, which may quote the request; old versions have 16 bits for it."""


LoggersOf = Callable[[str], Mapping[str, str] | str]
NO_LOGGERS: Final = "this node has no loggers"


def config_results(
    image: Image,
    request: Any,
    answering: BrokerFile = NO_BROKER,
    *,
    access: Access = UNLIMITED,
    loggers_of: LoggersOf = lambda node: NO_LOGGERS,
) -> Iterator[Mapping[str, Any]]:
    """Yield the results of a DescribeConfigs response, one for each resource asked for.

    Each is as of the time at which it is taken. `loggers_of` returns the log levels of a node, or
    the reason why this one does not know them.
    """
    for asked in request.resources:
        resource = asked.resource_type, asked.resource_name
        right, name = config_right(*resource, alters=False)
        if access.may(right, name):
            found = _configs_of(image, resource, answering, loggers_of)
        else:
            found = Refusal(right.error, access.refusal(right, name))
        result = _error_fields(found if isinstance(found, Refusal) else None)
        result |= {"resource_type": resource[0], "resource_name": resource[1], "configs": ()}
        if not isinstance(found, Refusal):
            wanted = asked.configuration_keys
            chosen = (each for each in found if not wanted or each.name in wanted)
            result["configs"] = [_entry(request, each) for each in chosen]
        yield result


def _configs_of(
    image: Image, resource: Resource, answering: BrokerFile, loggers_of: LoggersOf
) -> tuple[ConfigEntry, ...] | Refusal:
    kind, name = resource
    if kind == BROKER_LOGGER_RESOURCE:
        levels = loggers_of(name)
        if isinstance(levels, str):
            return Refusal(Error.INVALID_REQUEST, levels)
        return describe_loggers(levels)
    own = answering.broker
    is_of_another = kind == BROKER_RESOURCE and name not in (CLUSTER_DEFAULT, own)
    if is_of_another and own != NO_BROKER.broker:
        reason = f"this is broker {own}; send the request to broker {name}"
        return Refusal(Error.INVALID_REQUEST, reason)
    return describe_configs(image, resource, answering)


def _entry(request: Any, entry: ConfigEntry) -> Mapping[str, Any]:
    # Version 3 is the first with documentation.
    documented = getattr(request, "include_documentation", False)
    synonyms = entry.synonyms if request.include_synonyms else ()
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.is_read_only,
        "config_source": entry.source,
        "is_sensitive": entry.is_sensitive,
        "synonyms": [
            {"name": each.name, "value": each.value, "source": each.source} for each in synonyms
        ],
        "config_type": entry.type,
        "documentation": entry.documentation if documented else None,
    }


def quotas_response(
    image: Image, request: Any, holders: Iterable[QuotaHolder]
) -> Slices[Mapping[str, Any]]:
    """Return the fields of a DescribeClientQuotas response about these entities.

    If the image changes between two slices, the quotas of each entity are those of the time at
    which they are taken, and `holders` must not be its table.
    """
    filters = [
        QuotaFilter(type=each.entity_type, match=each.match_type, name=each.match)
        for each in request.components
    ]
    matching = matching_quotas(holders, filters, strict=request.strict)
    if isinstance(matching, Refusal):
        return {**_error_fields(matching), "entries": None}
    entries = []
    for holder in (yield from sort_in_slices(matching, key=quota_key)):
        if quotas := quotas_of(image, holder):
            entity = [{"entity_type": part.type, "entity_name": part.name} for part in holder]
            values = [{"key": key, "value": value} for key, value in quotas.items()]
            entries.append({"entity": entity, "values": values})
        yield SORTED_US
    return {**_error_fields(None), "entries": entries}


def _error_fields(refusal: Refusal | None) -> dict[str, Any]:
    if refusal is None:
        return {"error_code": Error.NONE.code, "error_message": None}
    message = refusal.message
    if len(message) > MESSAGE_CHARACTERS_MAX:
        message = f"{message[:MESSAGE_CHARACTERS_MAX]}..."
    return {"error_code": refusal.error.code, "error_message": message}
