"""Resources that have configurations: their valid values, and those that are sensitive.

The details of each kind of resource are in its own module. The error codes are Kafka's.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from statemachine.configs.broker_configs import (
    SENSITIVE_STATIC_CONFIGS,
    STATIC_BROKER_CONFIGS,
    base_name,
    broker_definition,
    broker_value_refusal,
)
from statemachine.configs.definitions import ConfigType, Definition
from statemachine.configs.effective import MIN_ISR
from statemachine.configs.group_configs import (
    CLIENT_METRICS_CONFIGS,
    GROUP_CONFIGS,
    client_metrics_refusal,
)
from statemachine.configs.topic_configs import TOPIC_CONFIGS, topic_conflict, topic_value_refusal
from statemachine.errors import Error, Refusal
from statemachine.image.image import Image
from statemachine.limits import CONFIG_NAME_CHARACTERS_MAX, CONFIG_VALUE_BYTES_MAX
from statemachine.vocabulary import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    CLUSTER_DEFAULT,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    Resource,
)

KINDS: Final[Mapping[int, str]] = MappingProxyType(
    {
        TOPIC_RESOURCE: "topic",
        BROKER_RESOURCE: "broker",
        CLIENT_METRICS_RESOURCE: "client metrics subscription",
        GROUP_RESOURCE: "group",
    }
)
"""The kinds of resources that have configurations in the log, by Kafka's numbers."""

_BROKER_ID: Final = re.compile(r"0|[1-9][0-9]{0,9}")


def resource_refusal(image: Image, resource: Resource) -> Refusal | None:
    """Return the reason why this resource has no configurations, or None."""
    kind, name = resource
    if kind == BROKER_LOGGER_RESOURCE:
        return Refusal(
            Error.INVALID_REQUEST,
            "controllers do not have the log levels of brokers: send the request to the broker",
        )
    if kind not in KINDS:
        known = ", ".join(f"{number} ({what})" for number, what in KINDS.items())
        return Refusal(Error.UNSUPPORTED_VERSION, f"resource type {kind} is none of {known}")
    if kind == BROKER_RESOURCE:
        return _broker_refusal(image, name)
    if not name:
        return Refusal(Error.INVALID_REQUEST, f"a {KINDS[kind]} must be named: it has no default")
    if kind == TOPIC_RESOURCE and name not in image.topic_ids:
        return Refusal(Error.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
    return None


def _broker_refusal(image: Image, name: str) -> Refusal | None:
    if name == CLUSTER_DEFAULT:
        return None
    if _BROKER_ID.fullmatch(name) is None:
        return Refusal(
            Error.INVALID_REQUEST,
            f"{name!r} is not the id of a broker: write a number, or nothing for all brokers",
        )
    if int(name) in image.brokers or int(name) in image.controllers:
        return None
    return Refusal(Error.BROKER_ID_NOT_REGISTERED, f"no broker {name} is registered")


def value_refusal(image: Image, resource: Resource, name: str, value: str) -> Refusal | None:
    """Return the reason to refuse this configuration of the resource, or None."""
    kind, resource_name = resource
    size = len(value.encode())
    if size > CONFIG_VALUE_BYTES_MAX or len(name) > CONFIG_NAME_CHARACTERS_MAX:
        return Refusal(
            Error.INVALID_CONFIG,
            f"the name of a configuration may have {CONFIG_NAME_CHARACTERS_MAX} characters, its"
            f" value {CONFIG_VALUE_BYTES_MAX} bytes; here are {len(name)} and {size}",
        )
    if kind == CLIENT_METRICS_RESOURCE:
        return client_metrics_refusal(name, value)
    if kind == BROKER_RESOURCE:
        broker = image.brokers.get(int(resource_name)) if resource_name else None
        is_embedded = broker is not None and broker.is_embedded
        reason = broker_value_refusal(resource_name, name, value, is_embedded=is_embedded)
        return None if reason is None else Refusal(Error.INVALID_REQUEST, reason)
    if kind == GROUP_RESOURCE:
        known = GROUP_CONFIGS.get(name)
        unknown = f"{name} is not a configuration of groups"
        reason = unknown if known is None else known.refusal(value)
    else:
        reason = topic_value_refusal(name, value, image.level)
    return None if reason is None else Refusal(Error.INVALID_CONFIG, reason)


def conflict(
    resource: Resource,
    before: Mapping[str, str],
    after: Mapping[str, str],
    *,
    sets_min_isr: bool,
    has_elr: bool,
) -> Refusal | None:
    """Return the reason to refuse `after` in place of `before`, with valid values, or None.

    `sets_min_isr`: the request names min.insync.replicas, even if its value stays the same.
    """
    kind, name = resource
    if kind == TOPIC_RESOURCE:
        reason = topic_conflict(before, after)
        return None if reason is None else Refusal(Error.INVALID_CONFIG, reason)
    if kind != BROKER_RESOURCE or not sets_min_isr or not has_elr:
        return None
    if name != CLUSTER_DEFAULT:
        return Refusal(
            Error.INVALID_CONFIG,
            f"{MIN_ISR} cannot be changed for single brokers while eligible leader replicas are"
            " in force: change it for all brokers, or for topics",
        )
    if MIN_ISR not in after:
        return Refusal(
            Error.INVALID_CONFIG,
            f"{MIN_ISR} of all brokers cannot be removed while eligible leader replicas are in"
            " force: set it to another value",
        )
    return None


def definition(kind: int, name: str) -> Definition | None:
    """Return the definition of the configuration, or None if it is not known here."""
    if kind == BROKER_RESOURCE:
        return broker_definition(name)
    return _TABLES.get(kind, {}).get(name)


def is_sensitive(kind: int, name: str) -> bool:
    """Return True if the value must not be shown: it is a password, or not known here."""
    known = definition(kind, name)
    if known is not None:
        return known.type is ConfigType.PASSWORD
    if kind != BROKER_RESOURCE:
        return True
    base = base_name(name)
    return base not in STATIC_BROKER_CONFIGS or base in SENSITIVE_STATIC_CONFIGS


_TABLES: Final[Mapping[int, Mapping[str, Definition]]] = MappingProxyType(
    {
        TOPIC_RESOURCE: TOPIC_CONFIGS,
        GROUP_RESOURCE: GROUP_CONFIGS,
        CLIENT_METRICS_RESOURCE: CLIENT_METRICS_CONFIGS,
    }
)
