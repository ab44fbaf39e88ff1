"""Values and sources of configurations, and the tables of valid ones."""

import re
from functools import partial

import pytest

from statemachine.configs.broker_configs import (
    BROKER_CONFIGS,
    PER_BROKER,
    STATIC_BROKER_CONFIGS,
    base_name,
    broker_value_refusal,
)
from statemachine.configs.definitions import ConfigType, Definition
from statemachine.configs.describe_configs import BrokerFile, ConfigEntry, Source, describe_configs
from statemachine.configs.group_configs import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS, pattern_fault
from statemachine.configs.resources import is_sensitive
from statemachine.configs.topic_configs import BROKER_SYNONYMS, TOPIC_CONFIGS
from statemachine.errors import Refusal
from statemachine.reassignment.settings import CLUSTER_CONFIGS
from statemachine.records import kafka_records
from statemachine.vocabulary import BROKER_RESOURCE, TOPIC_RESOURCE
from tests.statemachine.support.world import World

EVERY: list[Definition] = [
    definition
    for table in (
        TOPIC_CONFIGS,
        BROKER_CONFIGS,
        CLUSTER_CONFIGS,
        GROUP_CONFIGS,
        CLIENT_METRICS_CONFIGS,
    )
    for definition in table.values()
]


@pytest.mark.parametrize("definition", EVERY, ids=lambda each: each.name)
def test_every_default_is_a_value_that_may_be_set(definition: Definition) -> None:
    assert definition.default is None or definition.refusal(definition.default) is None
    assert definition.documentation.endswith(".")
    assert definition.type is not ConfigType.UNKNOWN


def test_a_topic_setting_has_the_type_of_its_broker_default() -> None:
    for name, of_brokers in BROKER_SYNONYMS.items():
        assert TOPIC_CONFIGS[name].type is BROKER_CONFIGS[of_brokers].type, name


def test_the_names_that_kafka_lists_for_single_brokers_are_per_broker() -> None:
    """`DynamicListenerConfig` and `SslConfigs` of Kafka, without what concerns the whole broker."""
    assert {"listeners", "ssl.keystore.location", "sasl.jaas.config"} <= PER_BROKER
    assert not PER_BROKER & {"max.connections", "num.network.threads", "num.io.threads"}
    assert len(STATIC_BROKER_CONFIGS) > 200


@pytest.mark.parametrize(
    ("name", "base", "sensitive"),
    [
        ("num.io.threads", "num.io.threads", False),
        ("ssl.key.password", "ssl.key.password", True),
        ("listener.name.x.ssl.key.password", "ssl.key.password", True),
        ("listener.name.x.plain.sasl.jaas.config", "sasl.jaas.config", True),
        ("listener.name.x.plain.connections.max.reauth.ms", "connections.max.reauth.ms", False),
        ("node.id", "node.id", False),
        ("delegation.token.secret.key", "delegation.token.secret.key", True),
        ("plug.in", "plug.in", True),
        ("listener.name.x", "listener.name.x", True),
    ],
)
def test_a_listener_and_a_mechanism_stand_before_the_name(
    name: str, base: str, sensitive: bool
) -> None:
    assert base_name(name) == base
    assert is_sensitive(BROKER_RESOURCE, name) is sensitive


def test_a_listener_has_the_bounds_of_what_it_configures() -> None:
    refusal = partial(broker_value_refusal, is_embedded=False)
    assert refusal("1", "listener.name.x.ssl.client.auth", "maybe") is not None
    assert refusal("1", "listener.name.x.ssl.client.auth", "none") is None
    assert refusal("", "listener.name.x.max.connections", "5") is None
    assert refusal("", "listener.name.x.ssl.client.auth", "none") is not None


@pytest.mark.parametrize("pattern", ["a.*", "(a|b)+?", "[^a]]", r"\(", "[a[b]]", "(?:a)", "x{2}"])
def test_patterns_that_java_takes_are_taken(pattern: str) -> None:
    assert pattern_fault(pattern) is None


@pytest.mark.parametrize("pattern", ["*a", "(a", "a)", "[a", "a\\", "(*)", "a|+", "(?"])
def test_patterns_that_nobody_takes_are_refused(pattern: str) -> None:
    assert pattern_fault(pattern) is not None
    with pytest.raises(re.error):
        re.compile(pattern)


def entries(
    world: World, kind: int, name: str, answering: BrokerFile | None = None
) -> dict[str, ConfigEntry]:
    found = describe_configs(world.image, (kind, name), answering or BrokerFile())
    assert not isinstance(found, Refusal)
    assert [each.name for each in found] == sorted(each.name for each in found)
    return {each.name: each for each in found}


def configure(world: World, kind: int, resource: str, name: str, value: str) -> None:
    world.replay(
        kafka_records.Config(resource_type=kind, resource_name=resource, name=name, value=value)
    )


def sources(entry: ConfigEntry) -> list[tuple[str, str | None, Source]]:
    return [(each.name, each.value, each.source) for each in entry.synonyms]


def test_the_nearest_place_that_says_something_counts() -> None:
    world = World(broker_count=2)
    world.given(replicas=(1,), isr=(1,), leader=1)
    answering = BrokerFile("1", {"log.segment.bytes": "2000000", "log.roll.ms": "8"})
    shown = entries(world, TOPIC_RESOURCE, "t", answering)
    assert shown["segment.bytes"].source is Source.FILE
    assert shown["flush.ms"].source is Source.DEFAULT
    configure(world, BROKER_RESOURCE, "", "log.roll.ms", "7")
    configure(world, BROKER_RESOURCE, "1", "log.roll.ms", "6")
    configure(world, BROKER_RESOURCE, "2", "log.roll.ms", "5")
    configure(world, TOPIC_RESOURCE, "t", "segment.ms", "4")
    assert sources(entries(world, TOPIC_RESOURCE, "t", answering)["segment.ms"]) == [
        ("segment.ms", "4", Source.TOPIC),
        ("log.roll.ms", "6", Source.BROKER),
        ("log.roll.ms", "7", Source.ALL_BROKERS),
        ("log.roll.ms", "8", Source.FILE),
        ("log.roll.ms", "604800000", Source.DEFAULT),
    ]
    # Nobody but broker 2 knows what its file says.
    assert sources(entries(world, BROKER_RESOURCE, "2", answering)["log.roll.ms"]) == [
        ("log.roll.ms", "5", Source.BROKER),
        ("log.roll.ms", "7", Source.ALL_BROKERS),
    ]
    assert "log.segment.bytes" not in entries(world, BROKER_RESOURCE, "2", answering)
    assert "log.segment.bytes" in entries(world, BROKER_RESOURCE, "1", answering)


def test_a_setting_of_an_older_controller_is_shown_without_its_value() -> None:
    world = World(broker_count=1)
    world.given(replicas=(1,), isr=(1,), leader=1, configs={"of.another.time": "x"})
    entry = entries(world, TOPIC_RESOURCE, "t")["of.another.time"]
    assert (entry.value, entry.is_sensitive, entry.type) == (None, True, ConfigType.UNKNOWN)


def test_a_setting_of_a_brokers_own_file_cannot_be_changed() -> None:
    world = World(broker_count=1)
    own = {"node.id": "1", "of.our.own": "x", "num.io.threads": "9", "password.encoder.secret": "x"}
    shown = entries(world, BROKER_RESOURCE, "1", BrokerFile("1", own))
    assert {name: (each.value, each.is_read_only) for name, each in shown.items()} == {
        "node.id": ("1", True),
        "num.io.threads": ("9", False),
        "of.our.own": ("x", True),
        "password.encoder.secret": (None, True),
        **({"min.insync.replicas": ("1", False)} if "min.insync.replicas" in shown else {}),
    }
