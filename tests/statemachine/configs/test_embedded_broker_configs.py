"""The configurations of embedded brokers: what one cannot change while it runs is refused."""

import pytest

from statemachine.image.snapshot import begin, load
from statemachine.vocabulary import BROKER_RESOURCE
from tests.statemachine.support.config_requests import (
    ALL_BROKERS,
    DELETE,
    SET,
    TOPIC,
    a_topic,
    ask,
    change,
    refused,
    replacement,
)
from tests.statemachine.support.world import EMBEDDED_FEATURES, World

EMBEDDED = (BROKER_RESOURCE, "1")
KAFKAS = (BROKER_RESOURCE, "2")
THREADS = "num.io.threads"
RATE = "leader.replication.throttled.rate"


def mixed() -> World:
    """A cluster of an embedded broker, 1, and one of Kafka's, 2."""
    world = World()
    world.join(1, features=EMBEDDED_FEATURES)
    world.join(2)
    return world


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("listeners", "PLAINTEXT://h:1", "set it in the file of broker 1 and restart it; while it"),
        (THREADS, "9", "num.io.threads cannot be changed while an embedded broker runs"),
        # The name is wrong, whatever the value.
        (THREADS, "x", f"while it runs, it takes {RATE}, follower.replication.throttled.rate"),
        ("listener.name.x.ssl.keystore.location", "/f", "while an embedded broker runs"),
        ("node.id", "3", "set it in the broker's own file, and restart it"),
        ("bogus.key", "1", "INVALID_REQUEST: bogus.key is not a configuration of brokers"),
        ("num.io.thread", "1", "is not a configuration of brokers; did you mean num.io.threads?"),
        (RATE, "x", "it must be a whole number"),
        ("reassignment.completion.rule", "min-isr", "applies to the whole cluster"),
    ],
)
def test_an_embedded_broker_takes_its_throttles_only(name: str, value: str, words: str) -> None:
    assert words in refused(mixed(), EMBEDDED, (name, SET, value))


def test_unchanged_and_removed_values_are_taken_whatever_their_names() -> None:
    world = World(broker_count=2)
    ask(world, change(EMBEDDED, (THREADS, SET, "7"), ("bogus.key", SET, "1")))
    world.fence(1)
    world.join(1, 2, features=EMBEDDED_FEATURES)
    ask(world, replacement(EMBEDDED, {THREADS: "7", RATE: "5"}))
    assert "restart it" in refused(world, EMBEDDED, (THREADS, SET, "8"))
    ask(world, change(EMBEDDED, (THREADS, DELETE, None), ("bogus.key", DELETE, None)))


def test_kafkas_brokers_topics_and_the_default_of_all_brokers_stay_as_they_were() -> None:
    world = mixed()
    a_topic(world)
    for resource in (KAFKAS, ALL_BROKERS):
        ask(world, change(resource, (THREADS, SET, "9"), ("bogus.key", SET, "1")))
    ask(world, change(TOPIC, ("flush.ms", SET, "1")))
    ask(world, change(KAFKAS, ("listeners", SET, "PLAINTEXT://h:1")))


def test_each_registration_says_anew_what_a_broker_is() -> None:
    """A broker that has not said it is Kafka's, as all were to controllers before."""
    world = World(broker_count=1)
    ask(world, change(EMBEDDED, (THREADS, SET, "9")))
    world.fence(1)
    world.join(1, 2, features=EMBEDDED_FEATURES)
    assert "restart it" in refused(world, EMBEDDED, (THREADS, SET, "8"))
    world.fence(1)
    world.join(1, 3)
    ask(world, change(EMBEDDED, (THREADS, SET, "8")))


def test_a_snapshot_keeps_what_a_broker_is() -> None:
    world = mixed()
    world.fence(1)
    end = world.image.end_offset
    snapshot = begin(world.image, end)
    assert snapshot is not None
    loaded = load([value for group in snapshot for value in group], end)
    assert {id: each.is_embedded for id, each in loaded.brokers.items()} == {1: True, 2: False}
