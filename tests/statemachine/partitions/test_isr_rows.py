"""Many ISRs that are decided by rows come to what each would by itself; and so they are replayed.

The slow ways are the twins: every partition decided as a value, every record written by itself, and
replayed as everyone else replays it.
"""

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from statemachine import commands
from statemachine.decide import decide
from statemachine.errors import Error
from statemachine.image.bulk_replay import replay_isrs
from statemachine.image.image import Image
from statemachine.partitions import isr
from statemachine.reassignment.settings import PARALLEL_PARTITIONS
from statemachine.records import kafka_records
from statemachine.records.codec import encode
from statemachine.records.isr_changes import IsrChanges, encode_isrs
from statemachine.replay import replay
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
from tests.statemachine.support.reference_checks import contents
from tests.statemachine.support.world import LEVEL, World
from tests.support.parameters import at_most_in_quick


def by_itself(world: World, command: commands.Command) -> commands.Decision:
    """The decision in which each partition is a value."""
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(isr, "MANY_MIN", 1 << 30)
        return decide(world.image, command, now_ms=world.now_ms)


def together(world: World, command: commands.Command) -> commands.Decision:
    """The decision by rows, as far as it is possible."""
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(isr, "MANY_MIN", 1)
        return decide(world.image, command, now_ms=world.now_ms)


def retake(world: World, changes: IsrChanges) -> None:
    """They are taken into the image of a leader, undone up to anywhere, and taken in once more."""
    image, begin = world.image, world.image.end_offset
    stages = [contents(image)]
    image.begin_undo_log(begin)
    for record in changes:
        replay(image, record, image.end_offset)
        stages.append(contents(image))
    image.rewind(begin)
    assert contents(image) == stages[0]
    for some in changes.topics:
        replay_isrs(image, some, image.end_offset)
    assert contents(image) == stages[-1]
    for stage in reversed(stages):
        image.rewind(stage["end_offset"])
        assert contents(image) == stage
    image.end_undo_log()


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(60), deadline=None)
@given(data=st.data(), elr=st.booleans())
def test_isrs_that_are_decided_by_rows_come_to_what_each_would_by_itself(
    data: st.DataObject, elr: bool
) -> None:
    world = any_topics(data, elr=elr)
    for _ in range(4):
        disturb(data, world)
        command = any_isrs(data, world)
        found, expected = together(world, command), by_itself(world, command)
        # What each comes to as a value is known only where values were made.
        assert replace(found, decided={}) == replace(expected, decided={})
        if isinstance(found.records, IsrChanges):
            written = [value for some in found.records.topics for value in encode_isrs(some, LEVEL)]
            assert written == [encode(record, LEVEL) for record in expected.records]
            retake(world, found.records)
        for record in expected.records:
            world.replay(record)


@pytest.fixture
def world() -> Topics:
    return Topics({"a": [(1, 2, 3)] * 9, "b": [(1, 2, 3)] * 9})


def test_only_isr_changes_without_side_effects_are_decided_by_rows(world: Topics) -> None:
    def is_by_rows(command: commands.AlterPartition) -> bool:
        return isinstance(decide(world.image, command).records, IsrChanges)

    assert is_by_rows(many(world))
    assert is_by_rows(world.isrs(*many(world).proposals, world.wish("b", 3, (1, 3))))
    assert is_by_rows(world.isrs(*many(world).proposals[1:], world.wish("a", 0, (1, 2, 3))))
    assert not is_by_rows(many(world, count=isr.MANY_MIN - 1))
    assert not is_by_rows(many(world, isr=(1, 2, 3))), "nothing changes"
    for odd in (
        world.wish("a", 0, (1, 2)),
        world.wish("b", 9, (1, 2)),
        world.wish("b", -1, (1, 2)),
        world.wish("b", 0, (1, 2), leader_epoch=1),
        world.wish("b", 0, (1, 2), partition_epoch=1),
        world.wish("b", 0, (1, 4)),
        world.wish("b", 0, (2, 3)),
        world.wish("b", 0, (1,), recovery=1),
        world.wish("b", 0, (1, 2), topic_id=UUID(int=3)),
    ):
        assert not is_by_rows(world.isrs(*many(world).proposals, odd))
    assert not is_by_rows(
        world.isrs(
            *many(world).proposals, world.wish("b", 0, (1,)), *many(world, count=1).proposals
        )
    )
    assert not is_by_rows(from_broker_2(many(world)))
    world.replay(kafka_records.PartitionChange(partition_id=0, topic_id=TOPICS["b"], leader=2))
    led_by_another = [world.wish("b", number, (1, 2)) for number in (1, 0)]
    assert is_by_rows(world.isrs(*many(world).proposals, led_by_another[0]))
    assert not is_by_rows(world.isrs(*many(world).proposals, *led_by_another))


def test_nothing_is_decided_by_rows_while_a_partition_waits_for_a_step(world: Topics) -> None:
    world.replay(
        kafka_records.Config(
            resource_type=BROKER_RESOURCE,
            resource_name=CLUSTER_DEFAULT,
            name=PARALLEL_PARTITIONS,
            value="1",
        )
    )
    world.ask(
        commands.AlterReassignments(
            reassignments=tuple(
                commands.Reassignment(topic="b", partition=number, replicas=(1, 2, 4))
                for number in range(2)
            )
        )
    )
    assert world.image.index.waiting
    assert not isinstance(decide(world.image, many(world)).records, IsrChanges)


def test_an_epoch_that_no_row_has_room_for_is_replayed_all_the_same(world: Topics) -> None:
    """No record says such a one: it is counted, and a row has 32 bits for it."""
    last = kafka_records.Partition(
        partition_id=9,
        topic_id=TOPICS["a"],
        replicas=(1, 2),
        isr=(1, 2),
        leader=1,
        leader_epoch=0,
        partition_epoch=2**31 - 1,
    )
    world.replay(last)
    decision = decide(world.image, many(world, isr=(1,), count=10))
    assert isinstance(decision.records, IsrChanges)
    assert isinstance(decision.answer, commands.PartitionsAltered)
    assert {each.error for each in decision.answer.partitions} == {Error.NONE}
    retake(world, decision.records)


def test_records_that_are_made_when_they_are_asked_for_are_a_sequence(world: Topics) -> None:
    changes = decide(world.image, many(world)).records
    assert isinstance(changes, IsrChanges)
    each = tuple(changes)
    assert (len(changes), changes[0], changes[-2:]) == (9, each[0], each[-2:])
    assert changes == each
    assert each == changes
    assert changes != each[1:]
    assert str(changes) == str(each)
    image = Image()
    for some in changes.topics:
        replay_isrs(image, some, 0)
    assert image.end_offset == 9, "nothing changes in an image without the topic"
