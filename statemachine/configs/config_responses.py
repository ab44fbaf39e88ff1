"""The fields of the responses to DescribeConfigs (32) and DescribeClientQuotas (48).

Controllers and brokers describe from their own image, and a broker adds its own file.
"""

from collections.abc import Mapping
from typing import Any, Final

from statemachine.configs.describe_configs import (
    NO_BROKER,
    BrokerFile,
    ConfigEntry,
    describe_configs,
)
from statemachine.configs.quotas import QuotaFilter, describe_quotas
from statemachine.errors import Error, Refusal
from statemachine.image.image import Image
from statemachine.security.rights import UNLIMITED, Access, config_right
from statemachine.vocabulary import BROKER_RESOURCE, CLUSTER_DEFAULT, Resource

MESSAGE_CHARACTERS_MAX: Final = 1_000
"""The length of an error message, which may quote the request; old versions have 16 bits for it."""


def configs_response(
    image: Image,
    request: Any,
    answering: BrokerFile = NO_BROKER,
    *,
    access: Access = UNLIMITED,
) -> Mapping[str, Any]:
    """Return the fields of a DescribeConfigs response: a result for each resource asked for."""
    results = []
    for asked in request.resources:
        resource = asked.resource_type, asked.resource_name
        right, name = config_right(*resource, alters=False)
        if access.may(right, name):
            found = _configs_of(image, resource, answering)
        else:
            found = Refusal(right.error, access.refusal(right, name))
        result = _error_fields(found if isinstance(found, Refusal) else None)
        result |= {"resource_type": resource[0], "resource_name": resource[1], "configs": ()}
        if not isinstance(found, Refusal):
            wanted = asked.configuration_keys
            chosen = (each for each in found if not wanted or each.name in wanted)
            result["configs"] = [_entry(request, each) for each in chosen]
        results.append(result)
    return {"results": results}


def _configs_of(
    image: Image, resource: Resource, answering: BrokerFile
) -> tuple[ConfigEntry, ...] | Refusal:
    kind, name = resource
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


def quotas_response(image: Image, request: Any) -> Mapping[str, Any]:
    """Return the fields of a DescribeClientQuotas response."""
    filters = [
        QuotaFilter(type=each.entity_type, match=each.match_type, name=each.match)
        for each in request.components
    ]
    found = describe_quotas(image, filters, strict=request.strict)
    if isinstance(found, Refusal):
        return {**_error_fields(found), "entries": None}
    entries = [
        {
            "entity": [{"entity_type": part.type, "entity_name": part.name} for part in holder],
            "values": [{"key": key, "value": value} for key, value in quotas.items()],
        }
        for holder, quotas in found.items()
    ]
    return {**_error_fields(None), "entries": entries}


def _error_fields(refusal: Refusal | None) -> dict[str, Any]:
    if refusal is None:
        return {"error_code": Error.NONE.code, "error_message": None}
    message = refusal.message
    if len(message) > MESSAGE_CHARACTERS_MAX:
        message = f"{message[:MESSAGE_CHARACTERS_MAX]}..."
    return {"error_code": refusal.error.code, "error_message": message}
