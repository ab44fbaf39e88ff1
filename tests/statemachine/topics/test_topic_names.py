"""Valid topic names, and names that would collide in metrics."""

from uuid import UUID

import pytest

from statemachine import commands
from statemachine.commands import NewTopic
from statemachine.errors import Error
from statemachine.topics.topics import colliding
from tests.statemachine.support.world import World


@pytest.mark.parametrize(
    ("name", "taken", "other"),
    [
        ("o.ne", {"o_ne"}, "o_ne"),
        ("o_ne", {"o.ne"}, "o.ne"),
        ("o_ne", {"o_ne"}, None),
        ("o-ne", {"o.ne", "o_ne"}, None),
        ("_.", {"._", "two"}, "._"),
        ("one", {"one", "o_ne"}, None),
        ("." * 40, {"_" * 40}, "_" * 40),
        ("." * 40, {"_" * 39, "a" * 40}, None),
        ("a.b", {f"a{number}b" for number in range(1_000)} | {"a_b"}, "a_b"),
    ],
)
def test_a_dot_and_an_underscore_are_the_same_in_metrics(
    name: str, taken: set[str], other: str | None
) -> None:
    assert colliding(name, taken) == other
    assert colliding(name, set(), dict.fromkeys(taken)) == other


def test_a_topic_whose_metrics_would_be_those_of_another_is_refused() -> None:
    world = World(broker_count=1)

    def topic(name: str, id: int) -> NewTopic:
        return NewTopic(
            name=name, topic_id=UUID(int=id << 80), partition_count=1, replication_factor=1
        )

    asked = commands.CreateTopics(topics=(topic("o.ne", 1), topic("o_ne", 2)))
    answer = world.ask(asked).answer
    assert isinstance(answer, commands.TopicsCreated)
    later = world.ask(commands.CreateTopics(topics=(topic("o_ne", 3),))).answer
    assert isinstance(later, commands.TopicsCreated)
    for refused in (answer.topics[1], later.topics[0]):
        assert refused.error is Error.INVALID_TOPIC_EXCEPTION
        assert refused.message == "Topic 'o_ne' collides with existing topic: o.ne"
