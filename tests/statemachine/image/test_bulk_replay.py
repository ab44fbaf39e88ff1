"""Bulk replay gives the same image as single records."""

import random
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemachine.image import bulk_replay
from statemachine.image.bulk_replay import replay_values
from statemachine.image.delta import MetadataDelta
from statemachine.image.image import Image
from statemachine.image.snapshot import LOADED_AT_ONCE, Loading, begin, load
from statemachine.records import kafka_records
from statemachine.records.codec import decode, encode
from statemachine.records.primitives import MalformedRecord
from statemachine.replay import replay
from tests.statemachine.image.test_snapshot_written import (
    ENDING,
    RECORDS,
    TOPIC_IDS,
    any_record,
    whole,
)
from tests.statemachine.support.reference_checks import contents
from tests.support.call_trace import calls
from tests.support.parameters import at_most_in_quick

CHANGES = st.one_of(
    any_record(kafka_records.PartitionChange),
    st.builds(
        kafka_records.PartitionChange,
        partition_id=st.integers(0, 2),
        topic_id=TOPIC_IDS,
        isr=st.lists(st.integers(0, 4), max_size=3).map(tuple),
    ),
)
LOGS = st.lists(
    st.one_of(
        CHANGES, CHANGES, any_record(kafka_records.Partition), RECORDS, *map(any_record, ENDING)
    ),
    min_size=1,
    max_size=60,
)


def bytes_of(record: kafka_records.Record, rng: random.Random) -> bytes:
    """As some level of metadata.version has it, if it can say all of it."""
    level = rng.choice((15, 20, 29))
    try:
        return encode(record, level)
    except AssertionError:
        return encode(record, 29)


def one_by_one(image: Image, values: list[bytes]) -> None:
    for value in values:
        replay(image, decode(value), image.end_offset)


def begun() -> Image:
    """A watched image with some partitions, so that changes have something to change."""
    image = Image()
    for number in range(3):
        replay(image, kafka_records.Topic(name=str(number), topic_id=UUID(int=number)), number)
    for number in range(9):
        partition = kafka_records.Partition(
            partition_id=number // 3,
            topic_id=UUID(int=number % 3),
            replicas=(0, 1, 2),
            isr=(0, 1, 2),
            leader=0,
            leader_epoch=0,
            partition_epoch=0,
            directories=(UUID(int=7),) * 3,
        )
        replay(image, partition, 3 + number)
    image.watch()
    return image


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(150))
@given(log=LOGS, rng=st.randoms(use_true_random=False), data=st.data())
def test_the_image_is_the_same_wherever_the_records_are_divided(
    log: list[kafka_records.Record], rng: random.Random, data: st.DataObject
) -> None:
    values = [bytes_of(record, rng) for record in log]
    expected, image = begun(), begun()
    one_by_one(expected, values)
    at = 0
    with pytest.MonkeyPatch.context() as patch:
        # Elsewhere it takes more than are ever drawn.
        patch.setattr(bulk_replay, "_ALIKE_MIN", data.draw(st.integers(1, 3)))
        while at < len(values):
            size = data.draw(st.integers(1, len(values) - at))
            replay_values(image, values[at : at + size], image.end_offset)
            at += size
    assert contents(image) == contents(expected)
    assert ordered(image.drain()) == ordered(expected.drain())


def ordered(touched: MetadataDelta) -> list[list[Any]]:
    """The delta, in the order in which keys were named first."""
    return [
        list(each)
        for each in (touched.partitions, touched.deleted, touched.brokers, touched.configs)
    ]


@given(log=LOGS, rng=st.randoms(use_true_random=False))
def test_a_snapshot_that_is_being_taken_shows_nothing_of_them(
    log: list[kafka_records.Record], rng: random.Random
) -> None:
    image = begun()
    then = contents(image)
    snapshot = begin(image, image.end_offset)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk_replay, "_ALIKE_MIN", rng.randint(1, 3))
        replay_values(image, [bytes_of(record, rng) for record in log], image.end_offset)
    back = load(whole(snapshot), then["end_offset"])
    assert contents(back) == then


ISRS = st.lists(
    st.builds(
        kafka_records.PartitionChange,
        partition_id=st.integers(0, 4),
        topic_id=st.just(UUID(int=0)),
        isr=st.lists(st.integers(0, 2), unique=True, max_size=3).map(tuple),
    ),
    unique_by=lambda change: change.partition_id,
    min_size=1,
)


@pytest.mark.interpreted
@given(first=ISRS, then=ISRS, data=st.data())
def test_changes_replayed_together_are_undone_one_by_one(
    first: list[kafka_records.PartitionChange],
    then: list[kafka_records.PartitionChange],
    data: st.DataObject,
) -> None:
    """And a snapshot that begins meanwhile has what is committed alone."""
    image, expected = begun(), begun()
    for kept in (image, expected):
        for number in range(3, 5):
            added = kafka_records.Partition(
                partition_id=number,
                topic_id=UUID(int=0),
                replicas=(2, 0, 1),
                isr=(0, 1, 2)[: number - 2],
                leader=0,
                leader_epoch=0,
                partition_epoch=4,
            )
            replay(kept, added, kept.end_offset)
    start = image.end_offset
    values = [encode(change, 29) for change in (*first, *then)]
    end = data.draw(st.integers(0, len(values)))
    image.begin_undo_log(start)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk_replay, "_ALIKE_MIN", 1)
        replay_values(image, values[: len(first)], start)
        replay_values(image, values[len(first) :], start + len(first))
    one_by_one(expected, values[:end])
    snapshot = begin(image, start + end)
    back = load(whole(snapshot), start + end)
    assert contents(back) == contents(expected)
    image.rewind(start + end)
    assert contents(image) == contents(expected)


def isr(number: int, *members: int) -> bytes:
    change = kafka_records.PartitionChange(partition_id=number, topic_id=UUID(int=0), isr=members)
    return encode(change, 29)


def test_every_change_of_a_partition_is_counted_and_the_last_one_stands() -> None:
    image = begun()
    replay_values(image, [isr(0, 0, 1), isr(1, 0), isr(0, 0, 2), isr(0, 0, 1)], 12)
    topic = image.topics[UUID(int=0)]
    (zero, one) = (topic.partition(number) for number in (0, 1))
    assert zero is not None
    assert one is not None
    assert (zero.isr, zero.partition_epoch, zero.leader_epoch) == ((0, 1), 3, 0)
    assert (one.isr, one.partition_epoch) == ((0,), 1)
    assert image.end_offset == 16


@pytest.mark.interpreted
@pytest.mark.parametrize("rounds", [1, 2, 9])
def test_changes_of_the_same_rows_again_and_again_are_replayed_as_one(rounds: int) -> None:
    """A log of a million ISR changes of a thousand partitions is replayed at each restart."""
    numbers = range(3)
    values = [isr(number, *members) for members in ((0, 1), (0, 2)) for number in numbers] * rounds
    image, expected = begun(), begun()
    for kept in (image, expected):
        one_by_one(kept, [isr(0, 0)])
    one_by_one(expected, values)
    found = calls(lambda: replay_values(image, values, image.end_offset))
    assert contents(image) == contents(expected)
    one_by_one_below = bulk_replay._ALIKE_MIN
    assert found["Image.set_partition"] == (len(values) if len(values) < one_by_one_below else 0)


def test_other_records_about_a_partition_keep_their_order() -> None:
    """Without its topic a change changes nothing, and a partition that is new begins anew."""
    image = begun()
    gone = encode(kafka_records.RemoveTopic(topic_id=UUID(int=0)), 29)
    again = encode(kafka_records.Topic(name="0", topic_id=UUID(int=0)), 29)
    replay_values(image, [isr(0, 0, 1), gone, isr(0, 0), again, isr(0, 1)], 12)
    assert image.topics[UUID(int=0)].partition(0) is None


@pytest.mark.parametrize("cut", [-1, -5, 23, 10, 4])
def test_a_change_that_ends_early_is_refused_as_it_is_alone(cut: int) -> None:
    broken = isr(0, 0, 1)[:cut]
    with pytest.raises(MalformedRecord) as alone:
        decode(broken)
    with pytest.raises(MalformedRecord) as together:
        replay_values(begun(), [isr(0, 0, 1), broken], 12)
    assert str(together.value) == str(alone.value)


def test_a_snapshot_is_loaded_in_slices_and_is_an_image_when_it_is_whole() -> None:
    topics = (
        kafka_records.Topic(name=str(number), topic_id=UUID(int=number))
        for number in range(LOADED_AT_ONCE * 2 + 1)
    )
    values = [encode(each, 29) for each in topics]
    taken = 0

    def counted() -> Iterator[bytes]:
        nonlocal taken
        for value in values:
            taken += 1
            yield value

    loading = Loading(counted(), 77)
    sizes = []
    while not loading.go_on():
        sizes.append(taken)
    assert sizes == [LOADED_AT_ONCE, LOADED_AT_ONCE * 2]
    assert loading.image.end_offset == 77
    assert len(loading.image.topics) == len(values)
