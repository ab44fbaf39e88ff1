"""Which resources have configurations, and for each of them what may be set and what is secret.

One place for all resources; what is particular to one stands in its own module. The error codes
are those that Kafka answers for that resource. Nothing here changes anything.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from statemachine.config_brokers import (
    broker_config_is_sensitive,
    broker_definition,
    broker_value_refusal,
)
from statemachine.config_client_metrics import CLIENT_METRICS_CONFIGS, client_metrics_refusal
from statemachine.config_groups import GROUP_CONFIGS, group_value_refusal
from statemachine.config_topics import TOPIC_CONFIGS, topic_conflict, topic_value_refusal
from statemachine.config_types import ConfigType, Definition
from statemachine.configs import MIN_ISR
from statemachine.errors import Error, Refusal
from statemachine.image import Image, Resource
from statemachine.limits import CONFIG_NAME_CHARACTERS_MAX, CONFIG_VALUE_BYTES_MAX
from statemachine.vocabulary import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    CLUSTER_DEFAULT,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)

KINDS: Final[Mapping[int, str]] = MappingProxyType(
    {
        TOPIC_RESOURCE: "topic",
        BROKER_RESOURCE: "broker",
        CLIENT_METRICS_RESOURCE: "client metrics subscription",
        GROUP_RESOURCE: "group",
    }
)
"""What has configurations in the log, by Kafka's number of the kind."""

_BROKER_ID: Final = re.compile(r"0|[1-9][0-9]{0,9}")


def resource_refusal(image: Image, resource: Resource) -> Refusal | None:
    """Why this is nothing that has configurations, or None."""
    kind, name = resource
    if kind == BROKER_LOGGER_RESOURCE:
        return Refusal(
            Error.INVALID_REQUEST,
            "the levels of loggers are not kept by controllers: ask the broker itself",
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
    """Why the resource may not get this configuration, or None."""
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
        reason = broker_value_refusal(resource_name, name, value)
        return None if reason is None else Refusal(Error.INVALID_REQUEST, reason)
    if kind == GROUP_RESOURCE:
        reason = group_value_refusal(name, value)
    else:
        reason = topic_value_refusal(name, value, image.level)
    return None if reason is None else Refusal(Error.INVALID_CONFIG, reason)


def conflict(
    resource: Resource,
    before: Mapping[str, str],
    after: Mapping[str, str],
    *,
    touched: bool,
    has_elr: bool,
) -> Refusal | None:
    """Why `after` cannot follow `before`, each value for itself being right; or None.

    `touched` says that min.insync.replicas is among what is asked for, changed by it or not.
    """
    kind, name = resource
    if kind == TOPIC_RESOURCE:
        reason = topic_conflict(before, after)
        return None if reason is None else Refusal(Error.INVALID_CONFIG, reason)
    if kind != BROKER_RESOURCE or not touched or not has_elr:
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
    """What this configuration is, or None if nobody here knows it."""
    if kind == BROKER_RESOURCE:
        return broker_definition(name)
    return _TABLES.get(kind, {}).get(name)


def is_sensitive(kind: int, name: str) -> bool:
    """Whether its value must not be shown: it is a password, or nobody knows what it is."""
    if kind == BROKER_RESOURCE:
        return broker_config_is_sensitive(name)
    known = definition(kind, name)
    return known is None or known.type is ConfigType.PASSWORD


_TABLES: Final[Mapping[int, Mapping[str, Definition]]] = MappingProxyType(
    {
        TOPIC_RESOURCE: TOPIC_CONFIGS,
        GROUP_RESOURCE: GROUP_CONFIGS,
        CLIENT_METRICS_RESOURCE: CLIENT_METRICS_CONFIGS,
    }
)
