"""Encode the records of one decision; parts that repeat are encoded once.

Of a thousand changes most differ only in their partition, which stands at the beginning of the
value. The rest is remembered for the duration of the decision.

"""

from collections.abc import Callable
from itertools import repeat
from operator import add, attrgetter
from struct import Struct
from typing import Any, Final, TypeAlias
from uuid import UUID

from statemachine.partitions.isr_changes import IsrsOfTopic
from statemachine.records import kafka_records
from statemachine.records.codec import CHANGE_HEAD_BYTES, encode

_FRAME_BYTES: Final = 3
_HEAD: Final = Struct(f">{_FRAME_BYTES}si16s")
"""Frame, number and topic, with which the values of both kinds of records begin."""

assert _HEAD.size == CHANGE_HEAD_BYTES

_APART: Final = frozenset({"partition_id", "topic_id", "directories"})
"""What is not looked up. Ids of directories are slow to hash: they are compared instead."""


def _said(
    shape: type[kafka_records.Partition | kafka_records.PartitionChange],
) -> Callable[[Any], Any]:
    return attrgetter(*(name for name in shape.__struct_fields__ if name not in _APART))


_SAID: Final = {
    shape: _said(shape) for shape in (kafka_records.Partition, kafka_records.PartitionChange)
}

_Known: TypeAlias = tuple[Any, bytes, bytes]
"""Directories, and what then stands before and behind number and topic."""


def written_isrs(changes: IsrsOfTopic, level: int) -> list[bytes]:
    """The values of records that change ISRs of one topic, each as `encode` has it."""
    topic_id, numbers, isrs = changes
    written = {
        isr: encode(
            kafka_records.PartitionChange(partition_id=0, topic_id=topic_id, isr=isr), level
        )
        for isr in dict.fromkeys(isrs)
    }
    frame = written[isrs[0]][:_FRAME_BYTES]
    rests = {isr: value[CHANGE_HEAD_BYTES:] for isr, value in written.items()}
    heads = map(_HEAD.pack, repeat(frame), numbers, repeat(topic_id.bytes))
    return list(map(add, heads, map(rests.__getitem__, isrs)))


class Writer:
    """Writes records as this level of metadata.version has them, each as `encode` does."""

    __slots__ = ("_known", "_level", "_raw_id", "_topic_id")

    def __init__(self, level: int) -> None:
        self._level = level
        self._known: dict[type, dict[Any, _Known]] = {shape: {} for shape in _SAID}
        self._topic_id: UUID | None = None
        self._raw_id = b""

    def value(self, record: kafka_records.Record) -> bytes:
        """The value of a log record that says this."""
        if not isinstance(record, (kafka_records.PartitionChange, kafka_records.Partition)):
            return encode(record, self._level)
        shape = type(record)
        said, known_of = _SAID[shape](record), self._known[shape]
        known = known_of.get(said)
        if known is None or known[0] != record.directories:
            value = encode(record, self._level)
            known_of[said] = (
                record.directories,
                value[:_FRAME_BYTES],
                value[CHANGE_HEAD_BYTES:],
            )
            return value
        if record.topic_id is not self._topic_id:
            self._topic_id, self._raw_id = record.topic_id, record.topic_id.bytes
        return _HEAD.pack(known[1], record.partition_id, self._raw_id) + known[2]
