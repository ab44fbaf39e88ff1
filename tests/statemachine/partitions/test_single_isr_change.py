"""An ISR change decided at once equals the full decision."""

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemachine import commands
from statemachine.decide import decide, decide_at_once
from statemachine.image.partition_table import IsrChange, RowIsr
from statemachine.limits import PLAIN_ISRS_REMEMBERED_MAX
from statemachine.partitions.isr import PlainIsrs
from statemachine.reassignment.settings import PARALLEL_PARTITIONS
from statemachine.records import kafka_records
from statemachine.records.codec import encode
from statemachine.records.isr_changes import encode_isr
from statemachine.replay import replay_isr
from statemachine.vocabulary import BROKER_RESOURCE, CLUSTER_DEFAULT
from tests.statemachine.support.isr_histories import (
    TOPICS,
    Topics,
    any_isrs,
    any_topics,
    disturb,
    from_broker_2,
    many,
)
from tests.statemachine.support.reference_checks import check_image, contents
from tests.statemachine.support.world import LEVEL, World
from tests.support.parameters import at_most_in_quick


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(60), deadline=None)
@given(data=st.data(), elr=st.booleans())
def test_an_isr_that_is_decided_at_once_comes_to_what_it_would_by_slices(
    data: st.DataObject, elr: bool
) -> None:
    world, known = any_topics(data, elr=elr), PlainIsrs()
    for _ in range(4):
        disturb(data, world)
        for wish in any_isrs(data, world).proposals:
            command = world.isrs(wish)
            before = contents(world.image)
            found = decide_at_once(world.image, command, known=known)
            expected = decide(world.image, command, now_ms=world.now_ms)
            assert contents(world.image) == before
            if found is None:
                world.ask(command)
                continue
            change, answer = found
            assert answer == expected.answer
            assert [encode(each, LEVEL) for each in expected.records] == written(change)
            if change is not None:
                take(world, change, expected)


def written(change: IsrChange | None) -> list[bytes]:
    """The record that the active controller appends for it."""
    if change is None:
        return []
    return [encode_isr(change.topic.topic_id, change.number, change.isr.after, LEVEL)]


def take(world: World, change: IsrChange, expected: commands.Decision) -> None:
    """It is taken into the image of a leader, undone, and taken in once more."""
    image, begin = world.image, world.image.end_offset
    before = contents(image)
    image.begin_undo_log(begin)
    for _ in range(2):
        image.rewind(begin)
        assert contents(image) == before
        replay_isr(image, change, begin)
        check_image(image)
    image.end_undo_log()
    assert change.topic.partition(change.number) in expected.decided.values()


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


def test_what_was_decided_is_not_repeated_after_a_change_of_its_conditions(world: Topics) -> None:
    asked = many(world, count=1)
    assert is_at_once(world, asked)
    (epochs,) = {each.broker_epoch for each in asked.proposals[0].isr if each.broker_id == 2}
    world.replay(kafka_records.FenceBroker(broker_id=2, broker_epoch=epochs))
    assert not is_at_once(world, asked), "a member may not join"
    world.replay(kafka_records.UnfenceBroker(broker_id=2, broker_epoch=epochs))
    assert is_at_once(world, asked)
    assert not is_at_once(world, from_broker_2(asked)), "another sender"
    changed = kafka_records.PartitionChange(partition_id=0, topic_id=TOPICS["a"], leader=2)
    world.replay(changed)
    current = many(world, count=1)
    assert not is_at_once(world, current), "another leader"


def test_a_change_at_once_can_be_undone_and_is_told_to_views_and_deltas(world: Topics) -> None:
    image, begin = world.image, world.image.end_offset
    before, topic = contents(image), image.topics[TOPICS["a"]]
    row = topic.partitions.row(0)
    found = decide_at_once(image, many(world, count=1))
    assert found is not None
    change, _ = found
    assert change is not None
    image.begin_undo_log(begin)
    image.watch()
    view = image.begin_read_view(begin)
    replay_isr(image, change, begin)
    check_image(image)
    assert contents(image) != before
    assert list(view.partitions.of(topic)) == [(0, row), (1, None)]
    image.end_read_view(view)
    assert list(image.drain().partitions) == [(topic.topic_id, 0)]
    image.rewind(begin)
    assert contents(image) == before


def test_few_of_the_decided_isrs_are_remembered(world: Topics) -> None:
    known = PlainIsrs()
    assert decide_at_once(world.image, many(world, count=1), known=known) is not None
    isr = RowIsr((1,), (1,), b"")
    for number in range(PLAIN_ISRS_REMEMBERED_MAX):
        known.keep((number,), isr)
    assert decide_at_once(world.image, many(world, isr=(1, 3), count=1), known=known) is not None
    assert len(known) <= 2


def test_an_epoch_that_no_row_has_room_for_is_not_decided_at_once(world: Topics) -> None:
    last = kafka_records.Partition(
        partition_id=2,
        topic_id=TOPICS["a"],
        replicas=(1, 2),
        isr=(1, 2),
        leader=1,
        leader_epoch=0,
        partition_epoch=2**31 - 1,
    )
    world.replay(last)
    assert not is_at_once(world, world.isrs(world.wish("a", 2, (1,))))
    assert is_at_once(world, world.isrs(world.wish("a", 2, (1, 2)))), "nothing changes"


def move(name: str, number: int, *replicas: int) -> commands.AlterReassignments:
    """The partition is to have these replicas."""
    wish = commands.Reassignment(topic=name, partition=number, replicas=replicas)
    return commands.AlterReassignments(reassignments=(wish,))
