"""Partitions replayed in bulk equal those of single records."""

import random
from itertools import chain
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemachine.image.bulk_replay import replay_values
from statemachine.image.image import Image
from statemachine.image.snapshot import LOADED_AT_ONCE, begin, load
from statemachine.records import kafka_records
from statemachine.records.codec import decode, encode
from statemachine.records.shapes import shape_of
from statemachine.replay import replay
from tests.statemachine.image.test_bulk_replay import CHANGES, begun, bytes_of, one_by_one, ordered
from tests.statemachine.image.test_snapshot_written import (
    ENDING,
    RECORDS,
    TOPIC_IDS,
    any_record,
    slowly,
    whole,
)
from tests.statemachine.support.reference_checks import contents, indexed, scanned
from tests.support.parameters import at_most_in_quick

LEVEL = 29


def new(
    number: int,
    topic_id: UUID,
    replicas: tuple[int, ...] = (0, 1, 2),
    **fields: object,
) -> kafka_records.Partition:
    """The record of an ordinary partition."""
    directories = tuple(UUID(int=0xD17 << 64 | each) for each in replicas)
    said = {"isr": replicas, "leader": replicas[0], "directories": directories, **fields}
    return kafka_records.Partition(
        partition_id=number,
        topic_id=topic_id,
        replicas=replicas,
        leader_epoch=number % 3,
        partition_epoch=7 * number,
        **said,  # type: ignore[arg-type]
    )


@st.composite
def runs(draw: st.DrawFn) -> list[kafka_records.Record]:
    """Partitions that follow each other, most of them alike."""
    topic_id, first = draw(TOPIC_IDS), draw(st.sampled_from((0, 3, 3, 3, 4)))
    count, brokers = draw(st.integers(6, 25)), draw(st.integers(1, 4))
    directories = draw(st.booleans())
    some = draw(st.sets(st.integers(0, 30), max_size=4))
    found: list[kafka_records.Record] = []
    for number in range(first, first + count):
        replicas = tuple((number + place) % 5 for place in range(brokers))
        fields: dict[str, object] = {} if directories else {"directories": ()}
        if number in some:
            fields |= draw(
                st.sampled_from(
                    (
                        {"isr": replicas[1:]},
                        {"isr": replicas[::-1]},
                        {"leader": -1},
                        {"leader": replicas[-1]},
                        {"leader": 9},
                        {"isr": (9, *replicas[1:])},
                        {"recovery": 1},
                        {"target": (3, 4)},
                    )
                )
            )
        found.append(new(number, topic_id, replicas, **fields))
    return found


LOGS = st.lists(
    st.one_of(
        runs(),
        runs(),
        CHANGES.map(lambda record: [record]),
        RECORDS.map(lambda record: [record]),
        st.one_of(*map(any_record, ENDING)).map(lambda record: [record]),
    ),
    min_size=1,
    max_size=8,
).map(lambda parts: list(chain.from_iterable(parts)))


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(100))
@given(log=LOGS, rng=st.randoms(use_true_random=False), data=st.data())
def test_the_image_is_the_same_whether_partitions_are_made_together_or_not(
    log: list[kafka_records.Record], rng: random.Random, data: st.DataObject
) -> None:
    values = [bytes_of(record, rng) for record in log]
    expected, image = begun(), begun()
    one_by_one(expected, values)
    at = 0
    while at < len(values):
        size = data.draw(st.integers(1, len(values) - at))
        replay_values(image, values[at : at + size], image.end_offset)
        at += size
    assert contents(image) == contents(expected)
    assert ordered(image.drain()) == ordered(expected.drain())


@settings(max_examples=at_most_in_quick(40))
@given(before=LOGS, log=LOGS, rng=st.randoms(use_true_random=False))
def test_they_are_not_in_a_snapshot_that_was_begun_before_them(
    before: list[kafka_records.Record], log: list[kafka_records.Record], rng: random.Random
) -> None:
    image = begun()
    replay_values(image, [bytes_of(record, rng) for record in before], image.end_offset)
    if image.transaction is not None:
        replay_values(image, [encode(kafka_records.EndTransaction(), LEVEL)], image.end_offset)
    then, snapshot = contents(image), begin(image, image.end_offset)
    groups = slowly(snapshot)
    taken = [value for _, group in zip(range(20), groups, strict=False) for value in group]
    replay_values(image, [bytes_of(record, rng) for record in log], image.end_offset)
    taken += [value for group in groups for value in group]
    back = load(taken, then["end_offset"])
    assert contents(back) == then


@settings(max_examples=at_most_in_quick(60))
@given(log=LOGS, rng=st.randoms(use_true_random=False))
def test_a_snapshot_says_rows_as_it_says_values_and_is_loaded_as_it_is_replayed(
    log: list[kafka_records.Record], rng: random.Random
) -> None:
    image = begun()
    one_by_one(image, [bytes_of(record, rng) for record in log])
    if image.transaction is not None:
        replay(image, kafka_records.AbortTransaction(), image.end_offset)
    values = whole(begin(image, image.end_offset))
    assert values == [_again(value) for value in values]
    together, alone = load(values, image.end_offset), Image()
    for value in values:
        replay(alone, decode(value), image.end_offset - 1)
    alone.advance(image.end_offset)
    assert contents(together) == contents(alone)


def _again(value: bytes) -> bytes:
    """A Partition as it is written from the record that it says; anything else as it is."""
    return encode(decode(value), (15, 17, LEVEL)[value[2]]) if value[1] == 3 else value


def test_partitions_created_together_are_undone() -> None:
    image = begun()
    image.begin_undo_log(image.end_offset)
    then, end = contents(image), image.end_offset
    values = [encode(new(number, UUID(int=1)), LEVEL) for number in range(3, 40)]
    replay_values(image, values, end)
    assert len(image.topics[UUID(int=1)].partitions) == 40
    image.rewind(end)
    assert contents(image) == then


def test_a_transaction_that_is_aborted_takes_them_back() -> None:
    image = begun()
    then = contents(image)
    log: list[kafka_records.Record] = [
        kafka_records.BeginTransaction(),
        *(new(number, UUID(int=2)) for number in range(3, 40)),
        kafka_records.AbortTransaction(),
    ]
    replay_values(image, [encode(record, LEVEL) for record in log], image.end_offset)
    assert contents(image) == {**then, "end_offset": image.end_offset}


def test_keys_of_partitions_that_are_gone_are_given_again() -> None:
    image = begun()
    log: list[kafka_records.Record] = [
        kafka_records.RemoveTopic(topic_id=UUID(int=0)),
        *(new(number, UUID(int=1), (4, 3)) for number in range(3, 20)),
    ]
    replay_values(image, [encode(record, LEVEL) for record in log], image.end_offset)
    assert indexed(image) == scanned(image)
    assert max(max(topic.keys) for topic in image.topics.values()) < 9 + 17 - 3


def test_a_record_of_the_same_size_that_says_something_else_is_taken_in_as_what_it_is() -> None:
    partitions = [encode(new(number, UUID(int=8)), LEVEL) for number in range(40)]
    topic = kafka_records.Topic(name="8", topic_id=UUID(int=8))
    longer = "x" * (len(partitions[0]) - len(encode(topic, LEVEL)))
    other = encode(kafka_records.Topic(name=f"9{longer}", topic_id=UUID(int=9)), LEVEL)
    assert len(other) == len(partitions[0])
    image, expected = begun(), begun()
    values = [encode(topic, LEVEL), *partitions[:20], other, *partitions[20:]]
    replay_values(image, values, 12)
    one_by_one(expected, values)
    assert contents(image) == contents(expected)
    assert len(image.topics[UUID(int=8)].partitions) == 40


@pytest.mark.parametrize("count", [LOADED_AT_ONCE - 1, LOADED_AT_ONCE, 3 * LOADED_AT_ONCE + 7])
def test_a_large_snapshot_is_loaded_whole_and_its_index_with_it(count: int) -> None:
    values = [encode(kafka_records.FeatureLevel(name="metadata.version", level=LEVEL), LEVEL)]
    for topic in range(1, 4):
        topic_id = UUID(int=topic)
        values.append(encode(kafka_records.Topic(name=str(topic), topic_id=topic_id), LEVEL))
        for number in range(count // 3):
            replicas = tuple((topic * number + place) % 7 for place in range(3))
            values.append(encode(new(number, topic_id, replicas), LEVEL))
    image = load(values, 99)
    assert indexed(image) == scanned(image)
    assert whole(begin(image, 99)) == values
    assert sum(len(topic.partitions) for topic in image.topics.values()) == 3 * (count // 3)


@pytest.mark.parametrize("cut", [1, 30, 60, 112])
def test_a_record_that_ends_early_has_no_shape(cut: int) -> None:
    value = encode(new(3, UUID(int=1)), LEVEL)
    assert shape_of(value, 8) is not None
    assert shape_of(value[:-cut], 8) is None
    assert shape_of(value + b"\0", 8) is None
