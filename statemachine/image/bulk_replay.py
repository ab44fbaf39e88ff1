"""Bulk replay: apply many committed records at once, with the same result as one by one.

Most records are alike. Those of ordinary partitions become rows together, without a value for any.
ISR changes of one topic that follow each other change its rows together. Everything else is
replayed one by one, in its place.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, count, groupby
from typing import Final, NamedTuple, get_args

from statemachine.image.image import Image
from statemachine.image.partition_table import NO_KEY, Topic
from statemachine.limits import PARTITION_NUMBER_MAX
from statemachine.records import kafka_records, own_records
from statemachine.records.codec import CHANGE_FRAMES, PARTITION_FRAMES, change_of, decode, number_of
from statemachine.records.isr_changes import IsrChanges, IsrsOfTopic, decode_isrs, raw_topic_of
from statemachine.records.primitives import uuid_of
from statemachine.records.row_codec import WIDTH_MAX, Numbers, Rows, rows_of
from statemachine.records.shapes import SameShapeRecords, shape_of
from statemachine.replay import change_partition, replay

_ALIKE_MIN: Final = 8
"""Partitions of one shape that are read together; of fewer each is as fast by itself."""

_SAMPLED: Final = 16
"""Every so many values are looked at before it is worth while to look for partitions."""

_APART: Final = frozenset(
    {
        kafka_records.Topic,
        kafka_records.Config,
        kafka_records.FeatureLevel,
        kafka_records.RegisterBroker,
        kafka_records.RegisterController,
        kafka_records.ClientQuota,
        kafka_records.ProducerIds,
        *get_args(own_records.OurRecord),
    }
)
"""Records that change no partition."""


def replay_values(image: Image, values: Sequence[bytes], offset: int) -> None:
    """Change `image` by the records that these values say, the first of which is at `offset`.

    Raises `MalformedRecord`; what precedes such a record may have been replayed or not.
    """
    _replay(image, values, offset, 1)
    image.index.settle()
    image.advance(offset + len(values))


def load_values(image: Image, values: Sequence[bytes], offset: int) -> None:
    """As `replay_values`, for records of a snapshot, each of which counts as at `offset`.

    The image does not end anywhere else for that, and its index is not settled.
    """
    _replay(image, values, offset, 0)


def replay_isrs(image: Image, changes: IsrsOfTopic, offset: int) -> None:
    """As `replay` of each of the records, the first one at `offset`, on a settled image."""
    if not _change_isrs(image, changes, offset):
        for at, record in enumerate(IsrChanges([changes]), offset):
            replay(image, record, at)
    image.advance(offset + len(changes.numbers))


def _replay(image: Image, values: Sequence[bytes], offset: int, step: int) -> None:
    """The offsets of two records that follow each other are `step` apart."""
    if not any(map(_says_partition, values[::_SAMPLED])):
        _replay_changes(image, values, offset, step)
        return
    stretches = _stretches(map(len, values))
    found, strangers = _rows_by_size(values, stretches, image.common.directories)
    if strangers:
        sizes = [0 if at in strangers else len(value) for at, value in enumerate(values)]
        stretches = _stretches(sizes)
    taken = dict.fromkeys(found, 0)
    for size, at, end in stretches:
        rows = found.get(size)
        if rows is None:
            _replay_changes(image, values[at:end], offset + step * at, step)
        else:
            first = taken[size]
            taken[size] += end - at
            _add(image, values[at:end], rows, first, offset + step * at, step)


class _Stretch(NamedTuple):
    """Values of one size that follow each other."""

    size: int
    begin: int
    end: int


def _stretches(sizes: Iterable[int]) -> list[_Stretch]:
    found, at = [], 0
    for size, alike in groupby(sizes):
        end = at + len(list(alike))
        found.append(_Stretch(size, at, end))
        at = end
    return found


def _says_partition(value: bytes) -> bool:
    return value.startswith(PARTITION_FRAMES)


def _rows_by_size(
    values: Sequence[bytes], stretches: list[_Stretch], directories: Numbers
) -> tuple[dict[int, Rows], set[int]]:
    """Rows of the values that say ordinary partitions of one shape, by the size of such a value.

    Also the places of the values that are as long, and say something else.
    """
    places: dict[int, list[_Stretch]] = {}
    for stretch in stretches:
        places.setdefault(stretch.size, []).append(stretch)
    found: dict[int, Rows] = {}
    others: set[int] = set()
    for size, same in places.items():
        if sum([each.end - each.begin for each in same]) < _ALIKE_MIN:
            continue
        members = list(chain.from_iterable([values[each.begin : each.end] for each in same]))
        sample = next(filter(_says_partition, members), None)
        shape = None if sample is None else shape_of(sample, WIDTH_MAX)
        if shape is None:
            continue
        alike = SameShapeRecords(shape, members)
        strangers = alike.strangers()
        if strangers:
            at = list(chain.from_iterable([range(each.begin, each.end) for each in same]))
            others.update([at[stranger] for stranger in strangers])
            members = [each for place, each in enumerate(members) if place not in strangers]
            alike = SameShapeRecords(shape, members)
        rows = rows_of(alike, directories)
        if rows is not None:
            found[size] = rows
    return found, others


def _add(
    image: Image, values: Sequence[bytes], rows: Rows, first: int, offset: int, step: int
) -> None:
    """Take in the partitions that these values say; they are in `rows` from `first` on."""
    at, end = first, first + len(values)
    while at < end:
        until = rows.end_of_topic(at, end)
        topic = image.topics.get(uuid_of(rows.topic(at)))
        begin = at - first
        if topic is not None and _follow(topic, rows, at, until):
            image.add_rows(topic, rows, slice(at, until), offset + step * begin)
        else:
            _replay_others(image, values[begin : until - first], offset + step * begin, step)
        at = until


def _follow(topic: Topic, rows: Rows, begin: int, end: int) -> bool:
    """Return True if these are the topic's next partitions, in order."""
    first = len(topic.partitions)
    last = first + end - begin - 1
    return last <= PARTITION_NUMBER_MAX and rows.are_numbered(begin, end, first)


def _replay_changes(image: Image, values: Sequence[bytes], offset: int, step: int) -> None:
    """Replay consecutive ISR changes of one topic together, and all others in their place."""
    if len(values) < _ALIKE_MIN:
        _replay_others(image, values, offset, step)
        return
    done = at = 0
    for _, group in groupby(values, raw_topic_of):
        some = list(group)
        begin, at = at, at + len(some)
        changes = decode_isrs(some) if len(some) >= _ALIKE_MIN else None
        if changes is None:
            continue
        _replay_others(image, values[done:begin], offset + step * done, step)
        done = at if _change_isrs(image, changes, offset + step * begin) else begin
    _replay_others(image, values[done:], offset + step * done, step)


def _change_isrs(image: Image, changes: IsrsOfTopic, offset: int) -> bool:
    """Change the ISRs if each partition has a row; otherwise return False.

    Of a partition that is named several times only the last ISR counts, and the number of changes.
    """
    topic = image.topics.get(changes.topic_id)
    if topic is None:
        return False
    image.index.settle()
    last = dict(zip(changes.numbers, changes.isrs, strict=True))
    if len(last) == len(changes.numbers):
        return image.change_isrs(topic, changes, offset)
    count_of = Counter(changes.numbers)
    merged = changes._replace(numbers=list(last), isrs=list(last.values()))
    return image.change_isrs(topic, merged, offset, [count_of[number] for number in last])


def _replay_others(image: Image, values: Sequence[bytes], offset: int, step: int) -> None:
    """Replay each by itself; equal content of partition changes is decoded once."""
    raw_id, topic = b"", None
    for at, value in zip(count(offset, step), values, strict=False):
        if value.startswith(CHANGE_FRAMES):
            change = change_of(value)
            image.index.settle()
            image.at(at)
            if raw_topic_of(value) != raw_id:
                raw_id = raw_topic_of(value)
                topic = image.topics.get(uuid_of(raw_id))
            if topic is not None:
                change_partition(image, topic, number_of(value), change)
        else:
            record = decode(value)
            if not _is_apart(image, record):
                image.index.settle()
            replay(image, record, at)
            # A topic may have come or gone.
            raw_id = b""


def _is_apart(image: Image, record: kafka_records.Record) -> bool:
    """Return True if the record changes no partition, so that the index may be settled later.

    What a snapshot holds besides ordinary partitions is such, and would have to wait otherwise, in
    one go, until all of them are in their bitmaps.
    """
    if not isinstance(record, kafka_records.Partition):
        return type(record) in _APART
    topic = image.topics.get(record.topic_id)
    number = record.partition_id
    if topic is None or not 0 <= number < len(topic.keys):
        return True
    return topic.keys[number] == NO_KEY
