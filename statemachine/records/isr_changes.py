"""Many ISR changes of one topic, without a value for each record; brokers request them in bulk.

Their records differ mainly in the partition number, so everything else is encoded and decoded once.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from operator import add, itemgetter
from struct import Struct
from typing import Any, Final, NamedTuple, overload
from uuid import UUID

from statemachine.limits import CHANGES_REMEMBERED_MAX
from statemachine.records.codec import (
    CHANGE_FRAMES,
    CHANGE_HEAD_BYTES,
    TOPIC_ID_BYTES,
    encode,
    partition_version,
)
from statemachine.records.kafka_records import PartitionChange
from statemachine.records.primitives import uuid_of
from statemachine.records.shapes import ID_BYTES, from_wire
from statemachine.vocabulary import Replicas

_TOPIC_AT: Final = CHANGE_HEAD_BYTES - TOPIC_ID_BYTES
_NUMBER_AT: Final = _TOPIC_AT - ID_BYTES
_HEAD: Final = Struct(f">{_NUMBER_AT}si16s")
"""Frame, number and topic."""

# Built-in functions for speed: each is called for every record.
raw_topic_of = itemgetter(slice(_TOPIC_AT, CHANGE_HEAD_BYTES))
"""Return the topic id of an encoded PartitionChange."""
_frame = itemgetter(slice(_NUMBER_AT))
_number = itemgetter(slice(_NUMBER_AT, _TOPIC_AT))
_rest = itemgetter(slice(CHANGE_HEAD_BYTES, None))

_ANY_TOPIC: Final = UUID(int=0)
_FRAMES: Final = frozenset(CHANGE_FRAMES)
_ISR_AT: Final = 4
"""The bytes between head and ISR: one tagged field, tag 0, its size, the ISR's length plus one."""
_MEMBERS_MAX: Final = 31
"""With more members, the size of the tagged field takes more than one byte."""


class IsrsOfTopic(NamedTuple):
    """Partitions of one topic, in the order of their records, and their new ISRs."""

    topic_id: UUID
    numbers: Sequence[int]
    isrs: list[Replicas]


class IsrChanges(Sequence[PartitionChange]):
    """A sequence of records that set these ISRs and change nothing else."""

    __slots__ = ("_count", "topics")

    def __init__(self, topics: Sequence[IsrsOfTopic]) -> None:
        self.topics = topics
        self._count = sum([len(each.numbers) for each in topics])

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[PartitionChange]:
        for topic_id, numbers, isrs in self.topics:
            for number, isr in zip(numbers, isrs, strict=True):
                yield PartitionChange(partition_id=number, topic_id=topic_id, isr=isr)

    @overload
    def __getitem__(self, at: int) -> PartitionChange: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[PartitionChange]: ...

    def __getitem__(self, at: Any) -> Any:
        return tuple(self)[at]

    def __eq__(self, other: object) -> bool:
        """Compare the records."""
        return isinstance(other, tuple | IsrChanges) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(tuple(self))


def encode_isrs(changes: IsrsOfTopic, level: int) -> list[bytes]:
    """Return the values of the records of these changes, the same bytes as from `encode`."""
    topic_id, numbers, isrs = changes
    frame = CHANGE_FRAMES[partition_version(level)]
    heads = map(_HEAD.pack, repeat(frame), numbers, repeat(topic_id.bytes))
    return list(map(add, heads, map(_encoded, isrs, repeat(level))))


def encode_isr(topic_id: UUID, number: int, isr: Replicas, level: int) -> bytes:
    """Return the value of one such record."""
    frame = CHANGE_FRAMES[partition_version(level)]
    return _HEAD.pack(frame, number, topic_id.bytes) + _encoded(isr, level)


@lru_cache(CHANGES_REMEMBERED_MAX)
def _encoded(isr: Replicas, level: int) -> bytes:
    """Return the bytes after the head of a record that sets this ISR."""
    value = encode(PartitionChange(partition_id=0, topic_id=_ANY_TOPIC, isr=isr), level)
    return value[CHANGE_HEAD_BYTES:]


def decode_isrs(values: Sequence[bytes]) -> IsrsOfTopic | None:
    """Decode changes of partitions of one topic; None if one of them changes more than its ISR."""
    if not _FRAMES.issuperset(map(_frame, values)):
        return None
    rests = list(map(_rest, values))
    said: dict[bytes, Replicas] = {}
    for rest in set(rests):
        isr = _isr(rest)
        if isr is None:
            return None
        said[rest] = isr
    numbers = from_wire("i", bytearray().join(map(_number, values)))
    return IsrsOfTopic(
        uuid_of(raw_topic_of(values[0])), numbers, list(map(said.__getitem__, rests))
    )


def _isr(rest: bytes) -> Replicas | None:
    """Return the ISR after the head of a change, or None if anything else is there."""
    count = (len(rest) - _ISR_AT) // ID_BYTES
    if not 0 <= count <= _MEMBERS_MAX or len(rest) != _ISR_AT + ID_BYTES * count:
        return None
    if rest[:_ISR_AT] != bytes((1, 0, 1 + ID_BYTES * count, count + 1)):
        return None
    return Struct(f">{count}i").unpack_from(rest, _ISR_AT)
