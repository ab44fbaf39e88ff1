"""DescribeConfigs for controllers and brokers (api 32): the values of a resource and their sources.

Sensitive values are never returned.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from statemachine.configs.broker_configs import STATIC_BROKER_CONFIGS
from statemachine.configs.definitions import ConfigType
from statemachine.configs.effective import DEFAULTS
from statemachine.configs.group_configs import GROUP_CONFIGS
from statemachine.configs.resources import definition, is_sensitive, resource_refusal
from statemachine.configs.topic_configs import (
    BROKER_SYNONYMS,
    GONE_WITH_KAFKA_4,
    LEVEL_KAFKA_4,
    TOPIC_CONFIGS,
)
from statemachine.errors import Refusal
from statemachine.image.image import Image
from statemachine.vocabulary import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    CLUSTER_DEFAULT,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    Resource,
)


class Source(IntEnum):
    """The source of a value (KIP-226)."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    FILE = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(Struct, frozen=True, gc=False):
    """A value from one source; the first synonym of a configuration is in force."""

    name: str
    value: str | None
    source: Source


class ConfigEntry(Struct, frozen=True, kw_only=True, gc=False):
    """One configuration in force."""

    name: str
    value: str | None
    """None if it is not set, or sensitive."""
    source: Source
    is_read_only: bool
    is_sensitive: bool
    type: ConfigType
    synonyms: tuple[Synonym, ...]
    documentation: str | None


class BrokerFile(Struct, frozen=True, gc=False):
    """The broker that answers, and the settings in its own file."""

    broker: str = CLUSTER_DEFAULT
    """Its id; empty if a controller answers."""
    settings: Mapping[str, str] = MappingProxyType({})


NO_BROKER: Final = BrokerFile()


def describe_loggers(levels: Mapping[str, str]) -> tuple[ConfigEntry, ...]:
    """Return the log levels of the node that answers, in order of name (KIP-412)."""
    return tuple(
        ConfigEntry(
            name=name,
            value=level,
            source=Source.BROKER_LOGGER,
            is_read_only=False,
            is_sensitive=False,
            type=ConfigType.STRING,
            synonyms=(Synonym(name, level, Source.BROKER_LOGGER),),
            documentation=None,
        )
        for name, level in sorted(levels.items())
    )


def describe_configs(
    image: Image, resource: Resource, answering: BrokerFile = NO_BROKER
) -> tuple[ConfigEntry, ...] | Refusal:
    """Return the configurations of a resource in order of name, or a refusal.

    Topics and groups have all configurations, with defaults. Brokers have those in the log, and the
    broker that answers also those in its own file.
    """
    refusal = resource_refusal(image, resource)
    if refusal is not None:
        return refusal
    kind = resource[0]
    own = image.configs.get(resource, {})
    if kind == TOPIC_RESOURCE:
        said = _of_topic(image, own, answering)
    elif kind == BROKER_RESOURCE:
        said = _of_broker(image, resource, own, answering)
    else:
        assert kind in (GROUP_RESOURCE, CLIENT_METRICS_RESOURCE), f"kind {kind} has no rules"
        said = _of_others(kind, own)
    return tuple(_entry(kind, name, synonyms) for name, synonyms in sorted(said.items()))


_Said = dict[str, list[Synonym]]


def _of_topic(image: Image, own: Mapping[str, str], answering: BrokerFile) -> _Said:
    said: _Said = {name: [Synonym(name, value, Source.TOPIC)] for name, value in own.items()}
    for name, known in TOPIC_CONFIGS.items():
        if name in GONE_WITH_KAFKA_4 and image.level >= LEVEL_KAFKA_4 and name not in own:
            continue
        of_brokers = BROKER_SYNONYMS.get(name)
        if of_brokers is not None:
            said.setdefault(name, []).extend(_by_brokers(image, of_brokers, answering))
        said.setdefault(name, []).append(Synonym(of_brokers or name, known.default, Source.DEFAULT))
    return said


def _of_broker(
    image: Image, resource: Resource, own: Mapping[str, str], answering: BrokerFile
) -> _Said:
    if resource == DEFAULTS:
        return {name: [Synonym(name, value, Source.ALL_BROKERS)] for name, value in own.items()}
    asked = BrokerFile(resource[1])
    if resource[1] == answering.broker:
        asked = answering
    names = own.keys() | image.configs.get(DEFAULTS, {}).keys() | asked.settings.keys()
    said: _Said = {name: list(_by_brokers(image, name, asked)) for name in names}
    for name, synonyms in said.items():
        known = definition(BROKER_RESOURCE, name)
        if known is not None and known.default is not None:
            synonyms.append(Synonym(name, known.default, Source.DEFAULT))
    return said


def _by_brokers(image: Image, name: str, answering: BrokerFile) -> Iterator[Synonym]:
    """Return the values set for this broker, for all brokers, and in the broker's own file."""
    own = image.configs.get((BROKER_RESOURCE, answering.broker), {})
    if answering.broker != CLUSTER_DEFAULT and name in own:
        yield Synonym(name, own[name], Source.BROKER)
    shared = image.configs.get(DEFAULTS, {})
    if name in shared:
        yield Synonym(name, shared[name], Source.ALL_BROKERS)
    known = definition(BROKER_RESOURCE, name)
    in_file = answering.settings.get(name)
    if in_file is not None and (known is None or known.default != in_file):
        yield Synonym(name, in_file, Source.FILE)


def _of_others(kind: int, own: Mapping[str, str]) -> _Said:
    source = Source.GROUP if kind == GROUP_RESOURCE else Source.CLIENT_METRICS
    said: _Said = {name: [Synonym(name, value, source)] for name, value in own.items()}
    if kind == GROUP_RESOURCE:
        for name, known in GROUP_CONFIGS.items():
            said.setdefault(name, []).append(Synonym(name, known.default, Source.DEFAULT))
    return said


def _entry(kind: int, name: str, synonyms: Sequence[Synonym]) -> ConfigEntry:
    known = definition(kind, name)
    static = kind == BROKER_RESOURCE and name in STATIC_BROKER_CONFIGS
    # The broker that answers knows settings in its file that are not Kafka's.
    of_ours = synonyms[0].source is Source.FILE and known is None and not static
    sensitive = is_sensitive(kind, name) and not of_ours
    shown = tuple(
        Synonym(each.name, None if sensitive else each.value, each.source) for each in synonyms
    )
    first = shown[0]
    return ConfigEntry(
        name=name,
        value=first.value,
        source=first.source,
        is_read_only=static or of_ours,
        is_sensitive=sensitive,
        type=ConfigType.UNKNOWN if known is None else known.type,
        synonyms=shown,
        documentation=None if known is None else known.documentation,
    )
