"""Many ISRs that are decided by rows come to what each would by itself; and so they are replayed.

The slow ways are the twins: every partition decided as a value, every record written by itself, and
replayed as everyone else replays it.
"""

from typing import Final
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from statemachine import commands, isr_rows, records
from statemachine.bulk import replay_isrs
from statemachine.configs import MIN_ISR
from statemachine.decide import decide
from statemachine.errors import Error
from statemachine.image import Image
from statemachine.isr_changes import IsrChanges
from statemachine.replay import replay
from statemachine.serde import encode
from statemachine.serde.writing import written_isrs
from statemachine.settings import PARALLEL_PARTITIONS
from statemachine.vocabulary import BROKER_RESOURCE, CLUSTER_DEFAULT, TOPIC_RESOURCE, Replicas
from tests.statemachine.checks import contents
from tests.statemachine.world import LEVEL, World

TOPICS: Final = {"a": UUID(int=1 << 80), "b": UUID(int=2 << 80)}
REPLICAS: Final = st.sampled_from([(1, 2, 3), (1, 2, 3), (1, 3, 4), (2, 1, 3)])
SELDOM = st.sampled_from([False] * 9 + [True])


class Topics(World):
    """Two topics; broker 1 leads most of their partitions."""

    def __init__(self, assignments: dict[str, list[Replicas]], *, elr: bool = False) -> None:
        self.members: dict[tuple[commands.IsrMember, ...], tuple[commands.IsrMember, ...]] = {}
        """ISRs that are asked for: the same are one and the same, as in a request that is read."""
        super().__init__(broker_count=4, elr=elr)
        self.ask(
            commands.CreateTopics(
                topics=tuple(
                    commands.NewTopic(
                        name=name, topic_id=TOPICS[name], assignments=tuple(enumerate(each))
                    )
                    for name, each in assignments.items()
                )
            )
        )

    def wish(self, name: str, number: int, isr: Replicas, **fields: object) -> commands.IsrProposal:
        """What the leader of a partition asks for; `fields` override."""
        partition = self.image.topics[TOPICS[name]].partition(number)
        members = tuple(self.member(each) for each in isr)
        known: dict[str, object] = {
            "topic_id": TOPICS[name],
            "partition": number,
            "leader_epoch": -1 if partition is None else partition.leader_epoch,
            "partition_epoch": -1 if partition is None else partition.partition_epoch,
            "isr": self.members.setdefault(members, members),
        }
        return commands.IsrProposal(**{**known, **fields})  # type: ignore[arg-type]

    def isrs(self, *wishes: commands.IsrProposal) -> commands.AlterPartition:
        """From broker 1."""
        return commands.AlterPartition(
            broker_id=1, broker_epoch=self.epoch(1), proposals=tuple(wishes)
        )


def many(world: Topics, *, isr: Replicas = (1, 2), count: int = 9) -> commands.AlterPartition:
    """The same ISR for the first partitions of topic "a"."""
    return world.isrs(*(world.wish("a", number, isr) for number in range(count)))


def any_isrs(data: st.DataObject, world: Topics) -> commands.AlterPartition:
    """Mostly of partitions that broker 1 leads, in the order of their topics, and possible."""
    wishes: list[commands.IsrProposal] = []
    for name, topic_id in TOPICS.items():
        for number, partition in world.image.topics[topic_id].existing():
            if partition.leader != 1 and not data.draw(SELDOM):
                continue
            isr = data.draw(
                st.sampled_from([partition.replicas, partition.isr, (1,), (2, 1), (1, 3)])
            )
            epoch = partition.partition_epoch - data.draw(SELDOM)
            recovery = int(data.draw(SELDOM))
            wishes.append(world.wish(name, number, isr, partition_epoch=epoch, recovery=recovery))
    if data.draw(SELDOM) and wishes:
        wishes.append(wishes[data.draw(st.integers(0, len(wishes) - 1))])
    if data.draw(SELDOM):
        wishes.append(world.wish("a", 99, (1,)))
    return world.isrs(*wishes)


def disturb(data: st.DataObject, world: Topics) -> None:
    """Something else happens, for which less may be plain."""
    if data.draw(SELDOM):
        world.fence(data.draw(st.sampled_from([2, 3, 4])))
    if data.draw(SELDOM):
        world.ask(
            commands.AlterReassignments(
                reassignments=(commands.Reassignment(topic="a", partition=0, replicas=(1, 4)),)
            )
        )
    if data.draw(SELDOM):
        world.replay(
            records.Config(
                resource_type=BROKER_RESOURCE,
                resource_name=CLUSTER_DEFAULT,
                name=PARALLEL_PARTITIONS,
                value=data.draw(st.sampled_from(["1", None])),
            )
        )
    if data.draw(SELDOM):
        world.replay(
            records.Config(resource_type=TOPIC_RESOURCE, resource_name="a", name=MIN_ISR, value="2")
        )


def by_itself(world: World, command: commands.Command) -> commands.Decision:
    """What is decided where each partition is a value."""
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(isr_rows, "MANY_MIN", 1 << 30)
        return decide(world.image, command, now_ms=world.now_ms)


def together(world: World, command: commands.Command) -> commands.Decision:
    """What is decided by rows, as far as it can be."""
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(isr_rows, "MANY_MIN", 1)
        return decide(world.image, command, now_ms=world.now_ms)


def retake(world: World, changes: IsrChanges) -> None:
    """They are taken into the image of a leader, undone up to anywhere, and taken in once more."""
    image, begin = world.image, world.image.end_offset
    stages = [contents(image)]
    image.journal_from(begin)
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
    image.stop_journal()


@settings(max_examples=60, deadline=None)
@given(data=st.data(), elr=st.booleans())
def test_isrs_that_are_decided_by_rows_come_to_what_each_would_by_itself(
    data: st.DataObject, elr: bool
) -> None:
    assignments: dict[str, list[Replicas]] = {
        name: [*data.draw(st.lists(REPLICAS, min_size=1, max_size=6))] for name in TOPICS
    }
    world = Topics(assignments, elr=elr)
    for _ in range(4):
        disturb(data, world)
        command = any_isrs(data, world)
        found, expected = together(world, command), by_itself(world, command)
        # What each comes to as a value is known only where values were made.
        assert replace(found, decided={}) == replace(expected, decided={})
        if isinstance(found.records, IsrChanges):
            written = [
                value for some in found.records.topics for value in written_isrs(some, LEVEL)
            ]
            assert written == [encode(record, LEVEL) for record in expected.records]
            retake(world, found.records)
        for record in expected.records:
            world.replay(record)


@pytest.fixture
def world() -> Topics:
    return Topics({"a": [(1, 2, 3)] * 9, "b": [(1, 2, 3)] * 9})


def test_what_is_plain_is_decided_by_rows_and_the_rest_is_not(world: Topics) -> None:
    def is_by_rows(command: commands.AlterPartition) -> bool:
        return isinstance(decide(world.image, command).records, IsrChanges)

    assert is_by_rows(many(world))
    assert is_by_rows(world.isrs(*many(world).proposals, world.wish("b", 3, (1, 3))))
    assert is_by_rows(world.isrs(*many(world).proposals[1:], world.wish("a", 0, (1, 2, 3))))
    assert not is_by_rows(many(world, count=isr_rows.MANY_MIN - 1))
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
    world.replay(records.PartitionChange(partition_id=0, topic_id=TOPICS["b"], leader=2))
    led_by_another = [world.wish("b", number, (1, 2)) for number in (1, 0)]
    assert is_by_rows(world.isrs(*many(world).proposals, led_by_another[0]))
    assert not is_by_rows(world.isrs(*many(world).proposals, *led_by_another))


def from_broker_2(command: commands.AlterPartition) -> commands.AlterPartition:
    """The same from a broker that leads nothing of it."""
    return commands.AlterPartition(
        broker_id=2, broker_epoch=command.broker_epoch + 2, proposals=command.proposals
    )


def test_nothing_is_decided_by_rows_while_a_partition_waits_for_a_step(world: Topics) -> None:
    world.replay(
        records.Config(
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
    world.image.index.begin_anew()
    assert not isinstance(decide(world.image, many(world)).records, IsrChanges)


def test_an_epoch_that_no_row_has_room_for_is_replayed_all_the_same(world: Topics) -> None:
    """No record says such a one: it is counted, and a row has 32 bits for it."""
    last = records.Partition(
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
