"""Keys that are sorted together give the same bitmaps as keys added one by one."""

from array import array
from collections import defaultdict
from itertools import chain
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from statemachine.image import bitmap_builder
from statemachine.image.bitmap_builder import BitmapBuilder, Part
from statemachine.image.snapshot import LOADED_AT_ONCE, Loading
from statemachine.records import kafka_records
from statemachine.records.codec import encode
from statemachine.records.row_codec import DirectoryNumbers, Rows, rising, rows_of
from statemachine.records.shapes import SameShapeRecords, shape_of
from tests.statemachine.image.test_bulk_replay_partitions import LEVEL, new
from tests.statemachine.support.reference_checks import indexed, scanned
from tests.support.parameters import at_most_in_quick

TOPIC = UUID(int=1)
HALF = 1 << 16
BROKERS = (0, 1, 2, 3, HALF - 1, HALF, 3 * HALF + 2)


@st.composite
def rows(draw: st.DrawFn) -> Rows:
    """Some partitions of one shape, on brokers of which some have large ids."""
    width, is_whole = draw(st.integers(1, 3)), draw(st.booleans())
    few = draw(st.sampled_from((BROKERS, BROKERS[:5])))
    said = []
    for number in range(draw(st.integers(1, 30))):
        replicas = tuple(draw(st.permutations(few))[:width])
        left = {} if is_whole else {"isr": replicas[-1:], "leader": draw(st.sampled_from((-1, 3)))}
        if left and left["leader"] not in (-1, *replicas):
            left["leader"] = -1
        said.append(encode(new(number, TOPIC, replicas, **left), LEVEL))
    return _rows(said)


def _rows(said: list[bytes]) -> Rows:
    shape = shape_of(said[0], 8)
    assert shape is not None
    found = rows_of(SameShapeRecords(shape, said), DirectoryNumbers())
    assert found is not None
    return found


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(60), deadline=None)
@given(data=st.data(), few=st.sampled_from((0, 20)), at_once=st.sampled_from((1, 40, 10_000)))
def test_keys_come_to_their_brokers_whatever_they_and_the_brokers_are(
    data: st.DataObject, few: int, at_once: int
) -> None:
    expected: list[defaultdict[int, set[int]]] = [defaultdict(set) for _ in range(3)]
    parts: list[Part] = [{}, {}, {}]
    gathered = BitmapBuilder(*parts)
    next_key = data.draw(st.sampled_from((0, HALF - 20, 5 * HALF - 3)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bitmap_builder, "_FEW", 3)
        patch.setattr(bitmap_builder, "_FEW_TO_SORT", few)
        patch.setattr(bitmap_builder, "SORTED_AT_ONCE", at_once)
        patch.setattr(bitmap_builder, "SETTLED_AT_ONCE", at_once)
        for some in data.draw(st.lists(rows(), min_size=1, max_size=5)):
            count = len(some.numbers)
            keys = array("I", range(next_key, next_key + count))
            next_key += count + data.draw(st.sampled_from((0, 0, 7, HALF)))
            if data.draw(st.booleans()):
                keys = array("I", data.draw(st.permutations(keys.tolist())))
            begin = data.draw(st.integers(0, count - 1))
            gathered.gather(some, slice(begin, count), keys[begin:])
            for columns, found in zip(
                (some.replicas, some.isr, [some.leaders]), expected, strict=True
            ):
                for column in columns:
                    for broker_id, key in zip(column[begin:], keys[begin:], strict=True):
                        found[broker_id].add(key)
            if data.draw(st.booleans()):
                gathered.settle()
        while not gathered.settle():
            pass
    for part, found in zip(parts, expected, strict=True):
        assert part == {broker_id: BitMap(each) for broker_id, each in found.items()}
    # None is another one's: what is changed in one of them changes in no other.
    bitmaps = list(chain.from_iterable(part.values() for part in parts))
    assert len({id(bitmap) for bitmap in bitmaps}) == len(bitmaps)


def test_rows_are_passed_on_together_only_where_they_follow_each_other() -> None:
    first, second = (
        _rows([encode(new(number, TOPIC, (broker,)), LEVEL) for number in range(9)])
        for broker in (7, 8)
    )
    parts: list[Part] = [{}, {}, {}]
    gathered = BitmapBuilder(*parts)
    # The third begins where the second ends, but in other rows; of the last two, one has keys
    # that do not follow those before, and one has places that do not.
    for rows, begin, end, key in (
        (first, 0, 2, 10),
        (first, 2, 4, 12),
        (second, 4, 6, 14),
        (second, 6, 7, 20),
        (second, 8, 9, 21),
    ):
        gathered.gather(rows, slice(begin, end), rising(key, end - begin))
    while not gathered.settle():
        pass
    assert parts == [{7: BitMap([10, 11, 12, 13]), 8: BitMap([14, 15, 20, 21])}] * 3


def test_records_behind_the_partitions_of_a_snapshot_wait_for_no_bitmap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that is being moved, and configurations: nothing is put into bitmaps in one go for it."""
    count = LOADED_AT_ONCE - 20
    values = [encode(kafka_records.Topic(name="a", topic_id=TOPIC), LEVEL)]
    values += [encode(new(number, TOPIC), LEVEL) for number in range(count)]
    values.append(encode(new(count, TOPIC, target=(3, 4, 5)), LEVEL))
    values += [
        encode(
            kafka_records.Config(resource_type=2, resource_name="a", name=name, value="1"), LEVEL
        )
        for name in ("min.insync.replicas", "max.message.bytes")
    ]
    monkeypatch.setattr(bitmap_builder, "SETTLED_AT_ONCE", 100)
    loading = Loading(values, 9_000)
    slices = 1
    while not loading.go_on():
        slices += 1
    # A broker's keys are put where they belong together; there are three brokers.
    assert slices >= 3
    assert indexed(loading.image) == scanned(loading.image)
    assert len(loading.image.index.waiting) == 1
