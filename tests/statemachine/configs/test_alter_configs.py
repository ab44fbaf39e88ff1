"""Changes of configurations: records, and refusals."""

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemachine.commands import IncrementalAlterConfigs
from statemachine.errors import Error
from statemachine.limits import CONFIG_VALUE_BYTES_MAX
from statemachine.records import kafka_records
from statemachine.vocabulary import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from tests.statemachine.support.config_requests import (
    ALL_BROKERS,
    APPEND,
    DELETE,
    MIN_ISR,
    SET,
    SUBTRACT,
    TOPIC,
    UNCLEAN,
    a_topic,
    ask,
    change,
    errors,
    refused,
    replacement,
)
from tests.statemachine.support.world import World
from tests.support.parameters import at_most_in_quick

# What is recorded.


def test_a_value_that_is_there_already_is_recorded_for_brokers_only() -> None:
    """KAFKA-14136: a broker reads a key store again when its path is set to what it was."""
    world = World(broker_count=2)
    a_topic(world)
    for count in (1, 0):
        decision = ask(world, change(TOPIC, ("retention.ms", SET, "5"), ("flush.ms", DELETE, None)))
        assert len(decision.records) == count
    for _ in range(2):
        (record,) = ask(world, change(ALL_BROKERS, ("num.io.threads", SET, "9"))).records
        assert record == kafka_records.Config(
            resource_type=BROKER_RESOURCE, resource_name="", name="num.io.threads", value="9"
        )


def test_lists_grow_from_their_default_and_hold_everything_once() -> None:
    world = World(broker_count=2)
    a_topic(world)
    ask(world, change(TOPIC, ("cleanup.policy", APPEND, "compact,delete")))
    assert world.image.configs[TOPIC] == {"cleanup.policy": "delete,compact"}
    ask(world, change(TOPIC, ("cleanup.policy", SUBTRACT, "delete, compactness")))
    assert world.image.configs[TOPIC] == {"cleanup.policy": "compact"}
    throttled = "follower.replication.throttled.replicas"
    ask(world, change(TOPIC, (throttled, APPEND, "0:1"), ("cleanup.policy", DELETE, None)))
    ask(world, change(TOPIC, (throttled, APPEND, "1:2,0:1")))
    assert world.image.configs[TOPIC] == {throttled: "0:1,1:2"}
    ask(world, change(TOPIC, (throttled, SUBTRACT, "0:1,1:2")))
    assert world.image.configs[TOPIC] == {throttled: ""}
    named = refused(world, TOPIC, ("cleanup.policy", APPEND, "shrink"))
    assert (
        "INVALID_CONFIG: Invalid value delete,shrink for configuration cleanup.policy: it must be"
        " one or more of compact" in named
    )


def test_a_replacement_removes_what_it_does_not_name() -> None:
    world = World(broker_count=2)
    a_topic(world)
    ask(world, change(TOPIC, ("retention.ms", SET, "5"), ("flush.ms", SET, "6")))
    command = IncrementalAlterConfigs(
        changes=(replacement(TOPIC, {"flush.ms": "6", "segment.ms": "7"}),)
    )
    decision = world.ask(command)
    assert [(each.name, each.value) for each in decision.records] == [  # type: ignore[union-attr]
        ("segment.ms", "7"),
        ("retention.ms", None),
    ]
    assert world.image.configs[TOPIC] == {"flush.ms": "6", "segment.ms": "7"}
    assert world.ask(command).records == ()
    empty = IncrementalAlterConfigs(changes=(replacement(TOPIC, {}),))
    assert errors(world.ask(empty)) == [Error.NONE]
    assert TOPIC not in world.image.configs


def test_a_validated_change_leaves_no_record() -> None:
    world = World(broker_count=2)
    a_topic(world)
    unclean = change(TOPIC, (UNCLEAN, SET, "true"), (MIN_ISR, SET, "2"))
    assert ask(world, unclean, validate_only=True).records == ()
    replaced = replacement(TOPIC, {"flush.ms": "6"})
    assert world.ask(IncrementalAlterConfigs(changes=(replaced,), validate_only=True)).records == ()


# What is refused. Each message says what would be right.


@pytest.mark.parametrize(
    ("resource", "op", "said"),
    [
        ((0, "t"), ("a", SET, "b"), "UNSUPPORTED_VERSION: resource type 0 is none of 2 (topic)"),
        ((8, "1"), ("a", SET, "b"), "INVALID_REQUEST: controllers do not have the log levels"),
        ((2, "u"), ("flush.ms", SET, "1"), "UNKNOWN_TOPIC_OR_PARTITION: there is no topic u"),
        ((2, ""), ("flush.ms", SET, "1"), "INVALID_REQUEST: a topic must be named"),
        ((32, ""), ("a", SET, "b"), "INVALID_REQUEST: a group must be named"),
        ((4, "-1"), ("a", SET, "b"), "INVALID_REQUEST: '-1' is not the id of a broker"),
        ((4, "01"), ("a", SET, "b"), "INVALID_REQUEST: '01' is not the id of a broker"),
        ((4, "7"), ("a", SET, "b"), "BROKER_ID_NOT_REGISTERED: no broker 7 is registered"),
        (TOPIC, ("flush", SET, "1"), "INVALID_CONFIG: Unknown topic config name: flush"),
        (
            TOPIC,
            ("flush.ms", SET, "-1"),
            "Invalid value -1 for configuration flush.ms: it must be a",
        ),
        (TOPIC, ("flush.ms", SET, None), "INVALID_REQUEST: SET of flush.ms needs a value"),
        (TOPIC, ("flush.ms", APPEND, "1"), "INVALID_CONFIG: APPEND needs a list"),
        (
            TOPIC,
            ("flush.ms", 4, "1"),
            "INVALID_REQUEST: operation 4 on flush.ms is none of 0 (SET)",
        ),
        (TOPIC, ("flush.ms", -1, "1"), "INVALID_REQUEST: operation -1"),
        (TOPIC, ("segment.bytes", SET, "14"), "Invalid value 14 for configuration segment.bytes"),
        (TOPIC, ("message.format.version", SET, "2"), "any more: Kafka 4.0 has removed it"),
        (ALL_BROKERS, ("process.roles", SET, "x"), "INVALID_REQUEST: process.roles cannot be"),
        (ALL_BROKERS, ("", SET, "x"), "INVALID_REQUEST: a configuration needs a name"),
        (ALL_BROKERS, ("listeners", SET, "x"), "name one broker"),
        (
            ALL_BROKERS,
            ("reassignment.parallel.replicas.count", SET, "1"),
            "is not a setting of reassignments; the settings are reassignment.completion.rule, ",
        ),
        (ALL_BROKERS, ("listener.name.x.ssl.key.password", SET, "x"), "name one broker"),
        ((4, "1"), ("ssl.key.password", SET, "x"), "listener.name.<listener>.ssl.key.password"),
        (
            (4, "1"),
            ("num.io.threads", SET, "0"),
            "configuration num.io.threads: it must be a whole",
        ),
        ((4, "1"), ("listener.name.x.max.connections", SET, "y"), "it must be a whole number"),
        ((4, "1"), ("log.cleaner.io.buffer.load.factor", SET, "1_0"), "it must be a number"),
        ((16, "m"), ("match", SET, "client_id=["), "INVALID_CONFIG: match=client_id=[: in the"),
        ((16, "m"), ("match", SET, "host=a"), "the name one of client_id, client_instance_id"),
        ((16, "m"), ("interval.ms", SET, "99"), "INVALID_REQUEST: interval.ms=99"),
        ((16, "m"), ("interval.ms", SET, "x"), "INVALID_CONFIG: Invalid value x for"),
        ((32, "g"), ("flush.ms", SET, "1"), "INVALID_CONFIG: flush.ms is not a configuration of g"),
        ((32, "g"), ("share.auto.offset.reset", SET, "by_duration:P"), "by_duration:PnDTnHnMn.nS"),
    ],
)
def test_a_change_that_cannot_be_is_refused(
    resource: tuple[int, str], op: tuple[str, int, str | None], said: str
) -> None:
    world = World(broker_count=2)
    a_topic(world)
    assert said in refused(world, resource, op)


def test_a_name_twice_and_a_value_too_large_are_refused() -> None:
    world = World(broker_count=1)
    a_topic(world, (1,))
    twice = refused(world, TOPIC, ("flush.ms", SET, "1"), ("flush.ms", DELETE, None))
    assert twice == "INVALID_REQUEST: flush.ms is named more than once"
    large = "x" * (CONFIG_VALUE_BYTES_MAX + 1)
    assert str(CONFIG_VALUE_BYTES_MAX) in refused(world, ALL_BROKERS, ("plug.in", SET, large))
    ask(world, change(ALL_BROKERS, ("plug.in", SET, large[1:])))
    assert "bytes" in refused(world, ALL_BROKERS, ("plug.in", SET, "ä" * (1 << 14)))
    without = IncrementalAlterConfigs(changes=(replacement(TOPIC, {"flush.ms": None}),))
    assert errors(world.ask(without)) == [Error.INVALID_REQUEST]


@pytest.mark.parametrize(
    ("configs", "named"),
    [
        ({"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}, "max.compaction.lag.ms (1)"),
        ({"remote.storage.enable": "true", "cleanup.policy": "delete,compact"}, "compact"),
        (
            {"remote.storage.enable": "true", "retention.ms": "5", "local.retention.ms": "6"},
            "local.retention.ms (6) must be from 0 to retention.ms (5), or -2",
        ),
        (
            {
                "remote.storage.enable": "true",
                "retention.bytes": "5",
                "local.retention.bytes": "-1",
            },
            "local.retention.bytes (-1)",
        ),
        (
            {
                "remote.storage.enable": "true",
                "remote.log.copy.disable": "true",
                "retention.ms": "7",
                "local.retention.ms": "6",
            },
            "remote.log.copy.disable",
        ),
    ],
)
def test_values_that_do_not_go_together_are_refused(configs: dict[str, str], named: str) -> None:
    world = World(broker_count=1)
    a_topic(world, (1,))
    last = list(configs.items())[-1]
    ask(world, change(TOPIC, *((name, SET, value) for name, value in list(configs.items())[:-1])))
    assert named in refused(world, TOPIC, (last[0], SET, last[1]))


def test_remote_storage_ends_only_with_its_data() -> None:
    world = World(broker_count=1)
    a_topic(world, (1,))
    ask(world, change(TOPIC, ("remote.storage.enable", SET, "true")))
    assert "remote.log.delete.on.disable=true" in refused(
        world, TOPIC, ("remote.storage.enable", DELETE, None)
    )
    ask(
        world,
        change(
            TOPIC,
            ("remote.storage.enable", SET, "false"),
            ("remote.log.delete.on.disable", SET, "true"),
        ),
    )


def test_below_the_level_of_kafka_4_what_3_9_knows_is_taken() -> None:
    world = World(broker_count=1, level=21)
    a_topic(world, (1,))
    ask(
        world,
        change(TOPIC, ("segment.bytes", SET, "14"), ("message.format.version", SET, "3.0-IV1")),
    )


def test_a_plug_in_setting_of_a_broker_is_accepted_unchanged() -> None:
    """KIP-226: a broker may have classes whose configurations nobody else knows."""
    world = World(broker_count=1)
    ask(
        world,
        change((BROKER_RESOURCE, "1"), ("my.reporter.url", SET, "x")),
        change(ALL_BROKERS, ("listener.name.x.num.network.threads", SET, "4")),
    )


# What is asked is what is there.

CONFIGS = {
    TOPIC: {"retention.ms": ["5", "-1"], "cleanup.policy": ["compact", "delete", "delete,compact"]},
    (TOPIC_RESOURCE, "u"): {"flush.ms": ["1", "2"], MIN_ISR: ["1", "2"], UNCLEAN: ["true"]},
    ALL_BROKERS: {"num.io.threads": ["1", "2"], MIN_ISR: ["1", "3"], UNCLEAN: ["true", "false"]},
    (BROKER_RESOURCE, "1"): {"leader.replication.throttled.rate": ["1"], "plug.in": ["", "x"]},
    (GROUP_RESOURCE, "g"): {"consumer.session.timeout.ms": ["45000", "60000"]},
    (CLIENT_METRICS_RESOURCE, "m"): {"interval.ms": ["100"], "metrics": ["*", "a,b"]},
}


@st.composite
def wishes(draw: st.DrawFn) -> tuple[bool, dict[tuple[int, str], dict[str, str | None]]]:
    """True if all is replaced, and the values to set (or remove, None) for some resources."""
    replaced = draw(st.booleans())
    wish: dict[tuple[int, str], dict[str, str | None]] = {}
    for resource in draw(st.lists(st.sampled_from(sorted(CONFIGS)), unique=True, max_size=4)):
        names = draw(st.lists(st.sampled_from(sorted(CONFIGS[resource])), unique=True))
        wish[resource] = {
            name: draw(
                st.sampled_from(CONFIGS[resource][name])
                if replaced
                else st.none() | st.sampled_from(CONFIGS[resource][name])
            )
            for name in names
        }
    return replaced, wish


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(100))
@given(st.lists(wishes(), max_size=5), st.booleans())
def test_the_records_replayed_give_exactly_what_was_asked(
    steps: list[tuple[bool, dict[tuple[int, str], dict[str, str | None]]]], unclean: bool
) -> None:
    world = World(broker_count=3)
    world.given(replicas=(1, 2), isr=(1,), leader=1)
    world.replay(kafka_records.Topic(name="u", topic_id=UUID(int=99 << 64)))
    if unclean:
        world.fence(1)
    wanted = {key: dict(each) for key, each in world.image.configs.items()}
    for replaced, wish in steps:
        for resource, values in wish.items():
            kept = {} if replaced else wanted.get(resource, {})
            after = {**kept, **values}
            wanted[resource] = {k: v for k, v in after.items() if v is not None}
        if replaced:
            command = IncrementalAlterConfigs(
                changes=tuple(replacement(key, values) for key, values in wish.items())
            )
        else:
            command = IncrementalAlterConfigs(
                changes=tuple(
                    change(
                        key,
                        *(
                            (name, DELETE if value is None else SET, value)
                            for name, value in values.items()
                        ),
                    )
                    for key, values in wish.items()
                )
            )
        assert set(errors(world.ask(command))) <= {Error.NONE}
        assert world.image.configs == {key: each for key, each in wanted.items() if each}
