"""Decode many ISR changes of one topic without a value for each.

Such records differ in the partition number and in little else: the rest is decoded once.

"""

from array import array
from collections.abc import Sequence
from operator import itemgetter
from struct import Struct
from typing import Final, NamedTuple

from statemachine.records.codec import CHANGE_FRAMES, CHANGE_HEAD_BYTES, TOPIC_ID_BYTES
from statemachine.records.shapes import ID_BYTES, from_wire
from statemachine.vocabulary import Replicas

_TOPIC_AT: Final = CHANGE_HEAD_BYTES - TOPIC_ID_BYTES
_NUMBER_AT: Final = _TOPIC_AT - ID_BYTES

# As functions of the interpreter's own, for each is called for every record.
topic_said = itemgetter(slice(_TOPIC_AT, CHANGE_HEAD_BYTES))
"""The id of the topic that a change of a partition is about."""
_frame = itemgetter(slice(_NUMBER_AT))
_number = itemgetter(slice(_NUMBER_AT, _TOPIC_AT))
_rest = itemgetter(slice(CHANGE_HEAD_BYTES, None))

_FRAMES: Final = frozenset(CHANGE_FRAMES)
_ISR_AT: Final = 4
"""Behind the head: one tagged field, tag 0, its size, and one more than its members."""
_MEMBERS_MAX: Final = 31
"""More do not fit, as a tagged field, into a size of one byte."""


class IsrsSaid(NamedTuple):
    """The partitions in the order of their records, and the ISR that each is given."""

    numbers: "array[int]"
    isrs: list[Replicas]


def isrs_said(values: Sequence[bytes]) -> IsrsSaid | None:
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
    return IsrsSaid(numbers, list(map(said.__getitem__, rests)))


def _isr(rest: bytes) -> Replicas | None:
    """The ISR that stands alone behind the head of a change, or None."""
    count = (len(rest) - _ISR_AT) // ID_BYTES
    if not 0 <= count <= _MEMBERS_MAX or len(rest) != _ISR_AT + ID_BYTES * count:
        return None
    if rest[:_ISR_AT] != bytes((1, 0, 1 + ID_BYTES * count, count + 1)):
        return None
    return Struct(f">{count}i").unpack_from(rest, _ISR_AT)
