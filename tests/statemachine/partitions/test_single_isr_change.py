"""An ISR change decided at once equals the full decision."""

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemachine import commands
from statemachine.decide import decide, decide_at_once
from statemachine.reassignment.settings import PARALLEL_PARTITIONS
from statemachine.records import kafka_records
from statemachine.replay import replay_decided
from statemachine.vocabulary import BROKER_RESOURCE, CLUSTER_DEFAULT
from tests.statemachine.support.isr_histories import (
    Topics,
    any_isrs,
    any_topics,
    disturb,
    from_broker_2,
    many,
)
from tests.statemachine.support.reference_checks import check_image, contents
from tests.support.parameters import at_most_in_quick


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(60), deadline=None)
@given(data=st.data(), elr=st.booleans())
def test_an_isr_that_is_decided_at_once_comes_to_what_it_would_by_slices(
    data: st.DataObject, elr: bool
) -> None:
    world = any_topics(data, elr=elr)
    for _ in range(4):
        disturb(data, world)
        for wish in any_isrs(data, world).proposals:
            command = world.isrs(wish)
            before = contents(world.image)
            found = decide_at_once(world.image, command)
            expected = decide(world.image, command, now_ms=world.now_ms)
            assert contents(world.image) == before
            if found is None:
                world.ask(command)
                continue
            assert tuple(found.records) == expected.records
            assert found.answer == expected.answer
            assert found.decided == expected.decided
            replay_decided(world.image, found.records, world.image.end_offset, found.decided)
            check_image(world.image)


@pytest.fixture
def world() -> Topics:
    return Topics({"a": [(1, 2, 3)] * 2, "b": [(1, 2, 3)] * 2})


def is_at_once(world: Topics, command: commands.Command) -> bool:
    """True if it is decided without a check for side effects."""
    return decide_at_once(world.image, command) is not None


def test_only_an_isr_change_without_side_effects_is_decided_at_once(world: Topics) -> None:
    assert is_at_once(world, many(world, count=1))
    assert is_at_once(world, many(world, isr=(1, 2, 3), count=1)), "nothing changes"
    assert not is_at_once(world, many(world, count=2))
    assert not is_at_once(world, world.isrs())
    for odd in (
        world.wish("a", 2, (1, 2)),
        world.wish("a", -1, (1, 2)),
        world.wish("a", 0, (1, 2), leader_epoch=1),
        world.wish("a", 0, (1, 2), partition_epoch=1),
        world.wish("a", 0, (1, 4)),
        world.wish("a", 0, (2, 3)),
        world.wish("a", 0, (1,), recovery=1),
        world.wish("a", 0, (1, 2), topic_id=UUID(int=3)),
    ):
        assert not is_at_once(world, world.isrs(odd)), odd
    assert not is_at_once(world, from_broker_2(many(world, count=1)))
    assert not is_at_once(world, commands.FenceBrokers(broker_ids=(2,)))


def test_a_partition_that_is_moving_is_looked_at_whole(world: Topics) -> None:
    world.ask(move("b", 0, 1, 2, 4))
    assert not is_at_once(world, world.isrs(world.wish("b", 0, (1, 2))))
    assert is_at_once(world, world.isrs(world.wish("b", 1, (1, 2)))), "nobody waits"


def test_nothing_is_decided_at_once_while_a_partition_waits_for_a_step(world: Topics) -> None:
    world.replay(
        kafka_records.Config(
            resource_type=BROKER_RESOURCE,
            resource_name=CLUSTER_DEFAULT,
            name=PARALLEL_PARTITIONS,
            value="1",
        )
    )
    world.ask(move("b", 0, 1, 2, 4))
    world.ask(move("b", 1, 1, 2, 4))
    assert world.image.index.waiting
    assert not is_at_once(world, many(world, count=1))


def move(name: str, number: int, *replicas: int) -> commands.AlterReassignments:
    """The partition is to have these replicas."""
    wish = commands.Reassignment(topic=name, partition=number, replicas=replicas)
    return commands.AlterReassignments(reassignments=(wish,))
