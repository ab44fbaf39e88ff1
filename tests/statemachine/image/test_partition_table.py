"""A topic has the same partitions as rows and as values, and rows are exact."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from statemachine.image.partition_table import PartitionTable, SharedState
from statemachine.limits import PARTITIONS_REMEMBERED_MAX
from statemachine.partitions.registration import PartitionRegistration, Stage
from statemachine.records import kafka_records, row_codec
from statemachine.records.codec import encode
from tests.support.parameters import at_most_in_quick

REPLICAS = st.lists(st.integers(0, 5), min_size=1, max_size=5, unique=True).map(tuple)


def directories_of(*brokers: int) -> tuple[UUID, ...]:
    return tuple(UUID(int=0xD17 << 64 | broker) for broker in brokers)


@st.composite
def ordinary(draw: st.DrawFn) -> PartitionRegistration:
    """A partition that is a row, as most are."""
    replicas = draw(REPLICAS)
    isr = draw(st.one_of(st.just(replicas), st.permutations(replicas).map(tuple)))
    isr = isr[: draw(st.integers(0, len(isr)))] if draw(st.booleans()) else isr
    return PartitionRegistration(
        replicas=replicas,
        isr=isr,
        leader=draw(st.sampled_from((-1, *replicas))),
        leader_epoch=draw(st.integers(0, 2**31 - 1)),
        partition_epoch=draw(st.integers(0, 2**31 - 1)),
        directories=draw(st.sampled_from(((), directories_of(*replicas)))),
    )


IDS = st.lists(st.integers(-1, 12), max_size=12).map(tuple)


@st.composite
def any_partition(draw: st.DrawFn) -> PartitionRegistration:
    """One of any kind, as a log may say it that nobody would write."""
    partition = draw(ordinary())
    strange: dict[str, Any] = {
        "replicas": IDS,
        "isr": IDS,
        "adding": IDS,
        "removing": IDS,
        "target": IDS,
        "original": IDS,
        "elr": IDS,
        "last_known_elr": IDS,
        "leader": st.integers(-2, 12),
        "leader_epoch": st.integers(-(2**31) - 1, 2**31),
        "partition_epoch": st.integers(-(2**31) - 1, 2**31),
        "recovery": st.integers(0, 1),
        "stage": st.builds(Stage, move=st.integers(0, 1)),
        "directories": st.lists(st.uuids(), max_size=12).map(tuple),
    }
    names = draw(st.lists(st.sampled_from(sorted(strange)), max_size=3, unique=True))
    return replace(partition, **{name: draw(strange[name]) for name in names})


PARTITIONS = st.one_of(ordinary(), ordinary(), any_partition())
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "get", "isr", "remove", "trim", "copy", "forget"]),
        st.integers(0, 9),
        PARTITIONS,
    ),
    max_size=40,
)


class Twin:
    """The partitions of a topic as a list, which is changed along with the columns."""

    def __init__(self) -> None:
        self.columns = PartitionTable(SharedState())
        self.listed: list[PartitionRegistration | None] = []

    def put(self, number: int, after: PartitionRegistration | None) -> None:
        while len(self.listed) <= number:
            self.listed.append(None)
        self.listed[number] = after
        self.columns.make_room(number + 1)
        self.columns.put(number, after)

    def remove(self, number: int, _: PartitionRegistration) -> None:
        if number < len(self.listed):
            self.put(number, None)

    def get(self, number: int, _: PartitionRegistration) -> None:
        before = self.listed[number] if number < len(self.listed) else None
        assert self.columns.get(number) == self.columns.peek(number) == before

    def isr(self, number: int, drawn: PartitionRegistration) -> None:
        """The ISR of one changes, and of another if there is another; or nothing at all."""
        isrs = {number: drawn.isr, number // 2: drawn.isr[:1]}
        became = self.columns.change_isrs(list(isrs), list(isrs.values()))
        if became is None:
            return
        was = {each: before for before, _, _, some in became for each in some}
        assert was.keys() == isrs.keys()
        for each, isr in isrs.items():
            before = self.listed[each]
            assert before is not None
            assert was[each] == before.isr
            epoch = before.partition_epoch + 1
            self.listed[each] = replace(before, isr=isr, partition_epoch=epoch)

    def trim(self, *_: object) -> None:
        while self.listed and self.listed[-1] is None:
            self.listed.pop()
        self.columns.trim()

    def copy(self, number: int, drawn: PartitionRegistration) -> None:
        """Changes of the copy are not seen in the original, nor the other way round."""
        copied = self.columns.copy()
        copied.make_room(number + 1)
        copied.put(number, drawn)
        self.check()
        self.columns = self.columns.copy()

    def forget(self, *_: object) -> None:
        self.columns.forget()

    def check(self) -> None:
        assert list(self.columns) == self.listed
        assert len(self.columns) == len(self.listed)


@pytest.mark.thorough
@settings(max_examples=at_most_in_quick(200))
@given(steps=STEPS)
def test_columns_are_a_list_of_partitions_whatever_happens_to_them(
    steps: list[tuple[str, int, PartitionRegistration]],
) -> None:
    twin = Twin()
    for step, number, partition in steps:
        getattr(twin, step)(number, partition)
        twin.check()
    assert [twin.columns.get(number) for number in range(-1, 11)] == [
        None,
        *(twin.listed + [None] * 11)[:11],
    ]


@given(partition=ordinary(), version=st.integers(0, 2), number=st.integers(0, 3))
def test_a_row_is_written_as_the_record_of_its_partition_is(
    partition: PartitionRegistration, version: int, number: int
) -> None:
    topic_id = UUID(int=7 << 64)
    columns = PartitionTable(SharedState())
    columns.make_room(number + 1)
    columns.put(number, partition)
    written = columns.encoded(number, topic_id.bytes, version)
    if partition.directories and not version:
        assert written is None
        return
    record = kafka_records.Partition(
        partition_id=number,
        topic_id=topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
    )
    assert written == encode(record, (15, 17, 29)[version])


@given(before=ordinary(), after=st.one_of(ordinary(), any_partition()))
def test_a_row_by_itself_says_the_same_whatever_becomes_of_the_partition(
    before: PartitionRegistration, after: PartitionRegistration
) -> None:
    columns = PartitionTable(SharedState())
    columns.make_room(2)
    columns.put(1, before)
    written, row = columns.encoded(1, bytes(16), 2), columns.row(1)
    assert row is not None
    columns.put(1, after)
    assert columns.encoded(1, bytes(16), 2, row) == written
    assert columns.decode_row(row) == before
    assert [columns.row(number) for number in (-1, 0, 2)] == [None] * 3


@given(partition=any_partition())
def test_a_partition_that_does_not_fit_a_row_stays_a_value(
    partition: PartitionRegistration,
) -> None:
    columns = PartitionTable(SharedState())
    columns.make_room(2)
    columns.put(1, partition)
    columns.forget()
    assert columns.get(1) == partition
    assert columns.encoded(0, bytes(16), 2) is None


def test_an_ordinary_partition_takes_no_more_than_its_row() -> None:
    columns = PartitionTable(SharedState())
    columns.make_room(1)
    columns.put(0, VALID)
    assert columns.encoded(0, bytes(16), 2) is not None


@pytest.mark.parametrize(
    "change",
    [
        {"adding": (4,), "replicas": (1, 2, 3, 4)},
        {"removing": (3,)},
        {"target": (1, 2, 4)},
        {"original": (1,)},
        {"elr": (3,), "isr": (1, 2)},
        {"last_known_elr": (3,)},
        {"recovery": 1},
        {"stage": Stage(move=1)},
        {"isr": (1, 9)},
        {"leader": 9},
        {"replicas": tuple(range(1, 10))},
        {"partition_epoch": 2**31},
    ],
    ids=str,
)
def test_a_row_represents_no_partition_that_does_not_fit(change: dict[str, Any]) -> None:
    columns = PartitionTable(SharedState())
    columns.make_room(1)
    columns.put(0, VALID)
    columns.put(0, replace(VALID, **change))
    assert columns.encoded(0, bytes(16), 2) is None
    assert columns.get(0) == replace(VALID, **change)


VALID = PartitionRegistration(
    replicas=(1, 2, 3),
    isr=(3, 1),
    leader=1,
    leader_epoch=4,
    partition_epoch=5,
    directories=directories_of(1, 2, 3),
)


def test_no_more_partitions_are_remembered_than_there_is_room_for() -> None:
    """The bound is for all topics together: those of an image share it."""
    common = SharedState()
    topics = [PartitionTable(common) for _ in range(3)]
    for columns in topics:
        columns.make_room(PARTITIONS_REMEMBERED_MAX)
        for number in range(PARTITIONS_REMEMBERED_MAX):
            columns.put(number, VALID)
            columns.get(number)
        assert sum(len(each._decoded) for each in topics) <= PARTITIONS_REMEMBERED_MAX
        assert columns.get(number) is VALID, "the last one is"


@pytest.mark.interpreted
def test_directories_beyond_those_that_have_numbers_are_kept_in_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_codec, "DIRECTORIES_NUMBERED_MAX", 4)
    columns = PartitionTable(SharedState())
    columns.make_room(3)
    others = replace(VALID, directories=directories_of(1, 4, 5))
    for number, partition in enumerate((VALID, others, VALID)):
        columns.put(number, partition)
    assert list(columns) == [VALID, others, VALID]
    assert [columns.encoded(number, bytes(16), 2) is None for number in range(3)] == [
        False,
        True,
        False,
    ]


ISRS = st.sampled_from([(1, 2, 3), (3, 1), (1, 3), (1,)])


@given(drawn=st.lists(st.tuples(ISRS, ISRS, st.sampled_from((1, 2))), min_size=1))
def test_isrs_of_partitions_that_are_alike_are_told_apart(
    drawn: list[tuple[tuple[int, ...], tuple[int, ...], int]],
) -> None:
    columns, expected = PartitionTable(SharedState()), []
    columns.make_room(len(drawn))
    for number, (before, after, leader) in enumerate(drawn):
        replicas = (leader, 3 - leader, 3)
        partition = replace(VALID, replicas=replicas, isr=before, partition_epoch=number)
        columns.put(number, partition)
        expected.append(replace(partition, isr=after, partition_epoch=number + 1))
    numbers = range(len(drawn))
    became = columns.change_isrs(numbers, [after for _, after, _ in drawn])
    assert became is not None
    told = {each: (before, after) for before, after, _, some in became for each in some}
    assert told == {number: (before, after) for number, (before, after, _) in enumerate(drawn)}
    assert list(columns) == expected


def test_an_isr_whose_epoch_has_no_place_in_a_row_leaves_the_row_as_it_is() -> None:
    columns = PartitionTable(SharedState())
    columns.make_room(1)
    last = replace(VALID, partition_epoch=2**31 - 1)
    columns.put(0, last)
    assert columns.change_isrs((0,), (VALID.isr[:1],)) is None
    columns.forget()
    assert columns.get(0) == last
