"""Memoized decisions equal separate decisions for each partition, and so does their replay.

The slow ways are the twins: every change decided by itself, every record written by itself, and
replayed as everyone else replays it.
"""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from statemachine import commands
from statemachine.configs.effective import MIN_ISR
from statemachine.decide import decide
from statemachine.image.image import Image
from statemachine.partitions.change_builder import ChangeMemo
from statemachine.reassignment.settings import PARALLEL_PARTITIONS, PARALLEL_REPLICAS
from statemachine.records import kafka_records
from statemachine.records.codec import encode
from statemachine.records.primitives import layout
from statemachine.replay import replay, replay_decided
from statemachine.vocabulary import BROKER_RESOURCE, CLUSTER_DEFAULT, DIRECTORY_UNASSIGNED
from tests.statemachine import test_decide_properties
from tests.statemachine.image.test_snapshot_written import any_record
from tests.statemachine.support.reference_checks import contents
from tests.statemachine.support.world import TOPIC_ID, World, directory
from tests.support.parameters import at_most_in_quick

BROKERS = (1, 2, 3, 4, 5)
REPLICAS = st.sampled_from([(1, 2, 3), (2, 3, 4), (1, 4), (5, 1, 2), (3, 2, 1)])
WISHES = st.one_of(REPLICAS, REPLICAS, st.sampled_from([(9,), (), (2, 2), (-1,), None]))


def each_by_itself(patch: pytest.MonkeyPatch) -> None:
    """Nothing is taken over from one partition for another."""

    def decided(*arguments: Any) -> Any:
        return arguments[-1]()

    patch.setattr(ChangeMemo, "change", decided)


def a_topic(data: st.DataObject, *, elr: bool) -> World:
    """One with partitions of which several are alike, but for their epochs and directories."""
    world = World(broker_count=len(BROKERS), elr=elr)
    for number in range(data.draw(st.integers(2, 8))):
        replicas = data.draw(REPLICAS)
        missing = data.draw(st.sampled_from([0, 0, 0, 1]))
        is_assigned = data.draw(st.sampled_from([True, True, True, False]))
        world.given(
            configs={MIN_ISR: data.draw(st.sampled_from("12"))} if not number else None,
            replicas=replicas,
            isr=replicas[: len(replicas) - missing],
            leader=replicas[0],
            leader_epoch=data.draw(st.integers(0, 3)),
            partition_epoch=data.draw(st.integers(0, 300)),
            directories=tuple(
                directory(each) if is_assigned else DIRECTORY_UNASSIGNED for each in replicas
            ),
        )
    for name in (PARALLEL_PARTITIONS, PARALLEL_REPLICAS):
        if data.draw(st.sampled_from([False, False, True])):
            world.replay(
                kafka_records.Config(
                    resource_type=BROKER_RESOURCE,
                    resource_name=CLUSTER_DEFAULT,
                    name=name,
                    value=data.draw(st.sampled_from("12")),
                )
            )
    return world


def moves(data: st.DataObject, world: World) -> commands.Command:
    """Proposals for several partitions, for some of them more than once."""
    count = len(world.image.topics[TOPIC_ID].partitions)
    numbers = data.draw(st.lists(st.integers(0, count), min_size=1, max_size=12))
    return commands.AlterReassignments(
        reassignments=tuple(
            commands.Reassignment(topic="t", partition=each, replicas=data.draw(WISHES))
            for each in numbers
        ),
        throttle_bytes_per_s=data.draw(st.sampled_from([0, 0, 7])),
    )


def isrs(data: st.DataObject, world: World) -> commands.Command:
    """From a leader, for all partitions: those that it does not lead are refused."""
    leader = data.draw(st.sampled_from([1, 1, 2, 3, 5]))
    proposals = []
    for number, partition in world.image.topics[TOPIC_ID].existing():
        others = data.draw(
            st.sampled_from([partition.replicas, partition.isr, partition.replicas[:2], (7,)])
        )
        isr = tuple(dict.fromkeys((leader, *others)))
        epoch = partition.partition_epoch - data.draw(st.sampled_from([0, 0, 0, 1]))
        recovery = data.draw(st.sampled_from([0, 0, 0, 1]))
        proposals.append(world.proposal(isr, number, partition_epoch=epoch, recovery=recovery))
    return commands.AlterPartition(
        broker_id=leader, broker_epoch=world.epoch(leader), proposals=tuple(proposals)
    )


@pytest.mark.interpreted
@settings(max_examples=at_most_in_quick(30), deadline=None)
@given(data=st.data(), elr=st.booleans())
def test_partitions_that_are_alike_come_to_what_each_would_by_itself(
    data: st.DataObject, elr: bool
) -> None:
    world = a_topic(data, elr=elr)
    for make in (moves, isrs, isrs, moves, isrs):
        command = make(data, world)
        with pytest.MonkeyPatch.context() as patch:
            each_by_itself(patch)
            apart = decide(world.image, command, now_ms=world.now_ms, scheduler=world.scheduler)
        assert world.ask(command) == apart


class Retaken(World):
    """A cluster with a second image, into which is taken over what was decided."""

    def __init__(self, *, elr: bool) -> None:
        self.twin = Image()
        self.is_deciding = False
        super().__init__(broker_count=5, elr=elr)

    def ask(self, command: commands.Command) -> commands.Decision:
        """As ever; and once more in the twin, before and after a rewind."""
        begin = self.image.end_offset
        self.is_deciding = True
        decision = super().ask(command)
        self.is_deciding = False
        before = contents(self.twin)
        self.twin.begin_undo_log(begin)
        replay_decided(self.twin, decision.records, begin, decision.decided)
        assert contents(self.twin) == contents(self.image)
        self.twin.rewind(begin)
        assert contents(self.twin) == before
        replay_decided(self.twin, decision.records, begin, decision.decided)
        self.twin.committed(self.twin.end_offset)
        self.twin.end_undo_log()
        return decision

    def replay(
        self, record: kafka_records.Record, written: kafka_records.Record | None = None
    ) -> None:
        """In both."""
        super().replay(record, written)
        if not self.is_deciding:
            replay(self.twin, record, self.twin.end_offset)


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(25), deadline=None)
@given(data=st.data(), elr=st.booleans())
def test_a_memoized_change_applies_to_partitions_in_the_same_state(
    data: st.DataObject, elr: bool
) -> None:
    world = Retaken(elr=elr)
    new = tuple(
        commands.NewTopic(
            name=name, topic_id=UUID(int=number << 80), partition_count=2, replication_factor=3
        )
        for number, name in ((1, "a"), (2, "b"))
    )
    world.ask(commands.CreateTopics(topics=new))
    for _ in range(data.draw(st.integers(5, 20))):
        test_decide_properties.act(data, world)


@settings(max_examples=at_most_in_quick(40), deadline=None)
@given(data=st.data())
def test_a_remembered_record_is_encoded_as_its_schema_encodes_it(data: st.DataObject) -> None:
    shapes = (kafka_records.Partition, kafka_records.PartitionChange, kafka_records.Config)
    drawn = data.draw(st.lists(st.one_of(*map(any_record, shapes)), min_size=1, max_size=4))
    for number in data.draw(st.lists(st.integers(0, 3), max_size=12)):
        record = drawn[number % len(drawn)]
        if isinstance(record, kafka_records.Partition | kafka_records.PartitionChange):
            topic_id = UUID(int=data.draw(st.integers(0, 1)))
            directories = data.draw(st.sampled_from([record.directories, (UUID(int=5),)]))
            record = structs.replace(
                record, partition_id=number, topic_id=topic_id, directories=directories
            )
        value, shape = encode(record, 29), record.__class__
        assert value[3:] == layout(shape, value[2]).pack(record)
