"""Bulk replay: apply many committed records at once, with the same result as one by one.

Records of ordinary partitions become rows together, without a value for each. Consecutive ISR
changes of one topic change its rows together. All other records are replayed one by one, in order.
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
from statemachine.records.row_codec import WIDTH_MAX, DirectoryNumbers, Rows, rows_of
from statemachine.records.shapes import SameShapeRecords, shape_of
from statemachine.replay import change_partition, replay

_ALIKE_MIN: Final = 8
"""Fewer partitions of one shape are as fast one by one."""

_SAMPLED: Final = 16
"""One value of so many is sampled in a search for partition records."""

_APART: Final = frozenset(
    {
        kafka_records.Topic,
        kafka_records.Config,
        kafka_records.FeatureLevel,
        kafka_records.RegisterBroker,
        kafka_records.RegisterController,
        kafka_records.ClientQuota,
        kafka_records.ProducerIds,
        kafka_records.AccessControlEntry,
        kafka_records.RemoveAccessControlEntry,
        kafka_records.UserScramCredential,
        kafka_records.RemoveUserScramCredential,
        kafka_records.DelegationToken,
        kafka_records.RemoveDelegationToken,
        *get_args(own_records.OurRecord),
    }
)
"""Records that change no partition."""


def replay_values(image: Image, values: Sequence[bytes], offset: int) -> None:
    """Change `image` by these encoded records, the first of which is at `offset`.

    Raises `MalformedRecord`; records before the malformed one may have been replayed or not.
    """
    _replay(image, values, offset, 1)
    image.index.settle()
    image.advance(offset + len(values))


def load_values(image: Image, values: Sequence[bytes], offset: int) -> None:
    """Replay records of a snapshot, all of them at `offset`.

    The end offset of the image stays, and its index is not settled.
    """
    _replay(image, values, offset, 0)


def replay_isrs(image: Image, changes: IsrsOfTopic, offset: int) -> None:
    """Replay these ISR changes, the first one at `offset`; the index is settled."""
    if not _change_isrs(image, changes, offset):
        for at, record in enumerate(IsrChanges([changes]), offset):
            replay(image, record, at)
    image.advance(offset + len(changes.numbers))


def _replay(image: Image, values: Sequence[bytes], offset: int, step: int) -> None:
    """Replay the values; consecutive records are `step` offsets apart."""
    if not any(map(_says_partition, values[::_SAMPLED])):
        _replay_changes(image, values, offset, step)
        return
    stretches = _stretches(map(len, values))
    found, mismatches = _rows_by_size(values, stretches, image.common.directories)
    if mismatches:
        sizes = [0 if at in mismatches else len(value) for at, value in enumerate(values)]
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
    """Consecutive values of one size."""

    size: int
    begin: int
    end: int


def _stretches(sizes: Iterable[int]) -> list[_Stretch]:
    found, at = [], 0
    for size, same in groupby(sizes):
        end = at + len(list(same))
        found.append(_Stretch(size, at, end))
        at = end
    return found


def _says_partition(value: bytes) -> bool:
    return value.startswith(PARTITION_FRAMES)


def _rows_by_size(
    values: Sequence[bytes], stretches: list[_Stretch], directories: DirectoryNumbers
) -> tuple[dict[int, Rows], set[int]]:
    """Return rows of the ordinary partitions by the size of their values, one shape for each size.

    Also return the positions of values with such a size and another content.
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
        records = SameShapeRecords(shape, members)
        mismatches = records.mismatches()
        if mismatches:
            at = list(chain.from_iterable([range(each.begin, each.end) for each in same]))
            others.update([at[mismatch] for mismatch in mismatches])
            members = [each for place, each in enumerate(members) if place not in mismatches]
            records = SameShapeRecords(shape, members)
        rows = rows_of(records, directories)
        if rows is not None:
            found[size] = rows
    return found, others


def _add(
    image: Image, values: Sequence[bytes], rows: Rows, first: int, offset: int, step: int
) -> None:
    """Add the partitions of these values, which are in `rows` from `first` on."""
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
    """Replay consecutive ISR changes of one topic together, and all other records one by one."""
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
    """Replay each value by itself; equal content of partition changes is decoded once."""
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
            # The record may have created or deleted a topic.
            raw_id = b""


def _is_apart(image: Image, record: kafka_records.Record) -> bool:
    """Return True if the record changes no partition, so that the index may be settled later.

    A snapshot has such records among its partitions, and settling the index for each one of them
    would be one long pause.
    """
    if not isinstance(record, kafka_records.Partition):
        return type(record) in _APART
    topic = image.topics.get(record.topic_id)
    number = record.partition_id
    if topic is None or not 0 <= number < len(topic.keys):
        return True
    return topic.keys[number] == NO_KEY
