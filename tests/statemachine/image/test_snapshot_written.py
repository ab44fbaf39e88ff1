"""The snapshot of any image loads as the same image, whatever happens meanwhile."""

import gc
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemachine import commands
from statemachine.image.image import Image
from statemachine.image.partition_table import PartitionTable
from statemachine.image.read_view import LISTED_AT_ONCE
from statemachine.image.snapshot import (
    GROUP_RECORDS_MAX,
    UNCOMMITTED_RECORDS_MAX,
    Snapshot,
    begin,
    load,
)
from statemachine.reassignment.throttle import LISTS
from statemachine.records import kafka_records, own_records
from statemachine.records.codec import decode
from statemachine.replay import replay
from tests.statemachine.support.kafka_schemas import KAFKA
from tests.statemachine.support.own_schemas import OURS
from tests.statemachine.support.random_records import struct_of
from tests.statemachine.support.reference_checks import contents
from tests.statemachine.support.world import World, directory
from tests.statemachine.test_decide_properties import a_busy_cluster, act
from tests.support.parameters import at_most_in_quick

SCHEMAS = {**KAFKA, **OURS}
FEW = st.integers(0, 3)
REPLICAS = st.lists(st.integers(0, 4), max_size=3).map(tuple)
DIRECTORIES = st.lists(st.integers(0, 4).map(directory), max_size=3).map(tuple)
ABOUT: dict[type, dict[str, st.SearchStrategy[Any]]] = {
    shape: {
        "broker_id": FEW,
        "broker_epoch": FEW,
        "controller_id": FEW,
        "partition_id": FEW,
        "replicas": REPLICAS,
        "isr": REPLICAS,
        "elr": REPLICAS,
        "last_known_elr": REPLICAS,
        "directories": DIRECTORIES,
        "log_dirs": DIRECTORIES,
        "resource_name": st.sampled_from("abc"),
        "mechanism": FEW,
        "token_id": st.sampled_from("abc"),
        "id": FEW.map(lambda number: UUID(int=number)),
        "registered_at": st.none(),
        "stopping_at": st.none(),
        "topic_name": st.sampled_from(["", "0", "1"]),
        "target": st.one_of(st.just(()), REPLICAS),
        "move": FEW,
    }
    for shape in SCHEMAS
}
OWNED: dict[str, st.SearchStrategy[Any]] = {
    "resource_type": st.sampled_from([2, 4]),
    "resource_name": st.sampled_from("01"),
    "name": st.sampled_from(LISTS),
    "owned": FEW,
}
TOPIC_IDS = FEW.map(lambda number: UUID(int=number))
ENDING = (
    kafka_records.BeginTransaction,
    kafka_records.EndTransaction,
    kafka_records.AbortTransaction,
)


def any_record(shape: type) -> st.SearchStrategy[kafka_records.Record]:
    """Records of this type, now and then about something that other records mention too."""
    if shape is kafka_records.Topic:
        # No controller gives one name to two topics.
        return TOPIC_IDS.map(lambda id_: kafka_records.Topic(name=str(id_.int), topic_id=id_))
    fields = {
        name: values
        for name, values in {**ABOUT[shape], "topic_id": TOPIC_IDS}.items()
        if name in shape.__struct_fields__  # type: ignore[attr-defined]
    }
    if shape in OURS:
        about = {"id": FEW, "through": FEW, "key": st.sampled_from("abc"), "through_ms": FEW}
        fields |= {n: about[n] for n in about if n in shape.__struct_fields__}  # type: ignore[attr-defined]
    if shape is own_records.ConfigOwned:
        fields |= OWNED
    if shape is kafka_records.FeatureLevel:
        fields["name"] = st.sampled_from(["metadata.version", "x"])
    # Drawn in their place and not over it: long lists that nobody sees would be most of the work.
    return struct_of(shape, SCHEMAS[shape][1], known=fields)


ANY = st.one_of(*(any_record(shape) for shape in SCHEMAS if shape not in ENDING))
TOPICS = st.one_of(
    *(
        any_record(s)
        for s in (kafka_records.Topic, kafka_records.RemoveTopic, kafka_records.Partition)
    )
)
MOVES = st.one_of(
    *(
        any_record(s)
        for s in (own_records.MoveBegun, kafka_records.PartitionChange, kafka_records.Partition)
    )
)
RECORDS = st.one_of(ANY, TOPICS, MOVES, any_record(own_records.ConfigOwned))


def whole(snapshot: Snapshot | None) -> list[bytes]:
    """All records of a snapshot that can be taken."""
    assert snapshot is not None
    return [value for group in snapshot for value in group]


def loaded(values: list[bytes], end: int) -> Image:
    """The image that these records of a snapshot give."""
    return load(values, end)


def append(image: Image, record: kafka_records.Record) -> None:
    """The log goes on with this record."""
    replay(image, record, image.end_offset)


@settings(max_examples=at_most_in_quick(40))
@given(log=st.lists(RECORDS, min_size=1, max_size=40))
def test_a_snapshot_of_any_log_is_read_as_the_same_image(log: list[kafka_records.Record]) -> None:
    image = Image()
    for record in log:
        append(image, record)
    back = loaded(whole(begin(image, image.end_offset)), image.end_offset)
    assert contents(back) == contents(image)


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(40))
@given(data=st.data(), before=st.lists(RECORDS, max_size=40))
def test_records_replayed_meanwhile_are_not_in_a_snapshot(
    data: st.DataObject, before: list[kafka_records.Record]
) -> None:
    """Every group is made when it is asked for, and the image goes on in between."""
    image = Image()
    append(image, kafka_records.NoOp())
    for record in before:
        append(image, record)
    then, end = contents(image), image.end_offset
    values: list[bytes] = []
    for group in slowly(begin(image, end)):
        values += group
        for record in data.draw(st.lists(st.one_of(RECORDS, *map(any_record, ENDING)), max_size=4)):
            append(image, record)
    assert contents(loaded(values, end)) == then


def slowly(snapshot: Snapshot | None) -> Iterator[list[bytes]]:
    """The records of a snapshot one by one, as if each were a group."""
    assert snapshot is not None
    assert snapshot._values is not None
    for value in snapshot._values:
        yield [] if value is None else [value]
    snapshot.close()


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(30))
@given(data=st.data())
def test_uncommitted_changes_are_not_in_a_snapshot_and_may_be_undone_meanwhile(
    data: st.DataObject,
) -> None:
    """The active controller replays at append, loses the lead, and replays what others wrote."""
    image = Image()
    for record in data.draw(st.lists(RECORDS, min_size=1, max_size=20)):
        append(image, record)
    image.begin_undo_log(image.end_offset)
    for record in data.draw(st.lists(RECORDS, max_size=10)):
        append(image, record)
    end, then = image.end_offset, contents(image)
    image.committed(end)
    for record in data.draw(st.lists(st.one_of(RECORDS, *map(any_record, ENDING)), max_size=10)):
        append(image, record)
    values: list[bytes] = []
    for group in slowly(begin(image, end)):
        values += group
        if data.draw(st.sampled_from([False, False, False, True])):
            image.rewind(end)
        for record in data.draw(st.lists(RECORDS, max_size=3)):
            append(image, record)
    assert contents(loaded(values, end)) == then


@settings(max_examples=at_most_in_quick(10))
@given(data=st.data(), level=st.sampled_from([15, 17, 23, 29]))
def test_a_busy_cluster_comes_back_and_decides_alike(data: st.DataObject, level: int) -> None:
    world = a_busy_cluster(data, steps=8, level=level, elr=level >= 23)
    snapshot = begin(world.image, world.image.end_offset)
    then, end = contents(world.image), world.image.end_offset
    for _ in range(3):
        act(data, world)
    assert contents(loaded(whole(snapshot), end)) == then


def test_it_says_nothing_that_a_lower_level_cannot_read() -> None:
    """At the levels of Kafka 3.7 a Partition has no directories: the record is of version 0."""
    for level, version in ((15, 0), (17, 1), (29, 2)):
        world = World(broker_count=1, level=level)
        world.given(replicas=(1,), isr=(1,), leader=1)
        values = whole(begin(world.image, world.image.end_offset))
        assert [value[2] for value in values if value[1] == 3] == [version]


def test_metadata_version_comes_first_as_kafka_needs_it() -> None:
    world = World(broker_count=2)
    first, *_ = whole(begin(world.image, world.image.end_offset))
    assert decode(first) == kafka_records.FeatureLevel(name="metadata.version", level=30)


def test_none_is_taken_in_the_middle_of_a_transaction() -> None:
    """KIP-868: what it has begun may yet turn out never to have been."""
    image = Image()
    append(image, kafka_records.BeginTransaction())
    append(image, kafka_records.FeatureLevel(name="metadata.version", level=30))
    assert begin(image, image.end_offset) is None
    append(image, kafka_records.EndTransaction())
    assert len(whole(begin(image, image.end_offset))) == 1


def test_the_active_controller_looks_at_the_transactions_of_its_committed_part() -> None:
    image = Image()
    image.begin_undo_log(0)
    append(image, kafka_records.Topic(name="a", topic_id=UUID(int=1)))
    append(image, kafka_records.BeginTransaction())
    append(image, kafka_records.Topic(name="b", topic_id=UUID(int=2)))
    append(image, kafka_records.EndTransaction())
    assert begin(image, 2) is None
    assert len(whole(begin(image, 1))) == 1
    assert len(whole(begin(image, 4))) == 2


def test_none_is_taken_with_too_much_behind_it_that_is_not_committed() -> None:
    image = Image()
    image.begin_undo_log(0)
    image.advance(UNCOMMITTED_RECORDS_MAX)
    assert begin(image, 0) is not None
    image = Image()
    image.begin_undo_log(0)
    image.advance(UNCOMMITTED_RECORDS_MAX + 1)
    assert begin(image, 0) is None


def test_topics_that_come_and_go_while_they_are_listed_are_as_they_were() -> None:
    image = Image()
    count = 2 * LISTED_AT_ONCE + 5
    for number in range(count):
        append(image, kafka_records.Topic(name=str(number), topic_id=UUID(int=number + 1)))
    end = image.end_offset
    snapshot = begin(image, end)
    assert snapshot is not None
    assert next(snapshot) == [], "the first stride only lists"
    append(image, kafka_records.RemoveTopic(topic_id=UUID(int=count)))
    append(image, kafka_records.Topic(name="new", topic_id=UUID(int=count + 1)))
    names = [record.name for record in map(decode, whole(snapshot)) if _is_topic(record)]  # type: ignore[union-attr]
    assert names == [str(number) for number in range(count)]


def _is_topic(record: kafka_records.Record) -> bool:
    return isinstance(record, kafka_records.Topic)


def test_groups_are_bounded_and_one_that_is_given_up_is_forgotten() -> None:
    image = Image()
    append(image, kafka_records.Topic(name="t", topic_id=UUID(int=1)))
    for number in range(3 * GROUP_RECORDS_MAX):
        append(
            image,
            kafka_records.Partition(
                partition_id=number,
                topic_id=UUID(int=1),
                replicas=(1,),
                isr=(1,),
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
            ),
        )
    snapshot = begin(image, image.end_offset)
    assert snapshot is not None
    assert len(next(snapshot)) <= GROUP_RECORDS_MAX
    snapshot.close()
    assert list(snapshot) == []
    again = begin(image, image.end_offset)
    assert again is not None
    sizes = [len(group) for group in again]
    assert max(sizes) <= GROUP_RECORDS_MAX
    assert sum(sizes) == 3 * GROUP_RECORDS_MAX + 1


def test_long_values_close_a_group_early() -> None:
    image = Image()
    for number in range(64):
        append(
            image,
            kafka_records.Config(
                resource_type=2, resource_name=str(number), name="x", value="y" * 32_000
            ),
        )
    snapshot = begin(image, image.end_offset)
    assert snapshot is not None
    assert max(sum(map(len, group)) for group in snapshot) < 300_000


def test_two_nodes_of_one_log_write_the_same_bytes() -> None:
    """A snapshot that was begun to be fetched from one leader can be finished from another."""
    world = World(broker_count=3)
    for name in "cab":
        world.ask(
            commands.CreateTopics(
                topics=(
                    commands.NewTopic(
                        name=name,
                        topic_id=UUID(bytes=name.encode() * 16),
                        partition_count=3,
                        replication_factor=2,
                    ),
                )
            )
        )
    world.ask(commands.DeleteTopics(topics=("a",)))
    values = whole(begin(world.image, world.image.end_offset))
    twin = loaded(values, world.image.end_offset)
    assert whole(begin(twin, twin.end_offset)) == values


def test_partitions_that_change_meanwhile_leave_the_collector_nothing_to_look_through() -> None:
    """Thousands do while a large image is written, and it looks through all that is kept at once,
    in one long stop.
    """
    image, count = Image(), 300
    append(image, kafka_records.Topic(name="t", topic_id=UUID(int=1)))
    for number in range(count):
        append(image, a_partition(number))
    columns = image.topics[UUID(int=1)].partitions
    snapshot = begin(image, image.end_offset)
    tracked = _tracked(columns)
    for number in range(count):
        change = kafka_records.PartitionChange(
            partition_id=number, topic_id=UUID(int=1), isr=(1,), directories=(directory(3),) * 2
        )
        append(image, change)
    assert _tracked(columns) - tracked < 10
    said = [record for record in map(decode, whole(snapshot)) if not _is_topic(record)]
    assert said == [a_partition(number) for number in range(count)]


def _tracked(columns: PartitionTable) -> int:
    """The objects that the collector scans, without the partitions read last."""
    columns.forget()
    gc.collect()
    return len(gc.get_objects())


def a_partition(number: int) -> kafka_records.Partition:
    return kafka_records.Partition(
        partition_id=number,
        topic_id=UUID(int=1),
        replicas=(1, 2),
        isr=(1, 2),
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=(directory(1), directory(2)),
    )
