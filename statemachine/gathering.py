"""Keys of partitions on their way into bitmaps: sorted by broker first, and put in together.

A bitmap takes hundreds of keys at once in the time of a few single ones. What is gathered is in no
bitmap until it is settled; whoever gathers sees to it that nobody looks before.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from pyroaring import BitMap

from statemachine.serde.rows import Rows
from statemachine.vocabulary import BrokerId

Part = dict[BrokerId, BitMap]
"""The keys of the partitions that each broker plays one part for."""

SETTLED_AT_ONCE: Final = 50_000
"""Keys that are put into bitmaps before anyone else gets a turn: a few milliseconds."""

_FEW: Final = 16
"""So many keys are put into a bitmap one by one as fast."""


class Gathering:
    """The keys of rows that have been added, by what their brokers are to them."""

    __slots__ = ("_held", "_in_sync", "_is_empty", "_isr", "_leaders", "_led")

    def __init__(self, replicas_of: Part, isr_of: Part, leader_of: Part) -> None:
        self._led = _Keys(replicas_of, isr_of, leader_of)
        self._in_sync = _Keys(replicas_of, isr_of)
        self._held = _Keys(replicas_of)
        self._isr = _Keys(isr_of)
        self._leaders = _Keys(leader_of)
        self._is_empty = True

    def gather(self, rows: Rows, places: slice, keys: Sequence[int]) -> None:
        """The partitions at these places of the rows have these keys."""
        self._is_empty = False
        if rows.are_whole:
            first, *others = rows.replicas
            self._led.gather(first[places], keys)
            for column in others:
                self._in_sync.gather(column[places], keys)
            return
        for column in rows.replicas:
            self._held.gather(column[places], keys)
        for column in rows.isr:
            self._isr.gather(column[places], keys)
        self._leaders.gather(rows.leaders[places], keys)

    def settle(self) -> bool:
        """Put some keys where they belong, which takes a few milliseconds; whether that was all."""
        if not self._is_empty:
            room = SETTLED_AT_ONCE
            for keys in (self._led, self._in_sync, self._held, self._isr, self._leaders):
                room = keys.settle(room)
            self._is_empty = room > 0
        return self._is_empty


class _Keys:
    """Keys that are to be put into the same parts, by broker."""

    __slots__ = ("_by_broker", "_parts")

    def __init__(self, *parts: Part) -> None:
        self._parts = parts
        self._by_broker: defaultdict[BrokerId, array[int]] = defaultdict(_no_keys)

    def gather(self, brokers: Iterable[BrokerId], keys: Sequence[int]) -> None:
        by_broker = self._by_broker
        for broker_id, key in zip(brokers, keys, strict=True):
            by_broker[broker_id].append(key)

    def settle(self, room: int) -> int:
        """Settle about as many as there is room for, and return how much room is left."""
        by_broker, parts = self._by_broker, self._parts
        while by_broker and room > 0:
            broker_id, keys = by_broker.popitem()
            for part in parts:
                _put(part, broker_id, keys)
            room -= len(keys) * len(parts)
        return room


def _put(part: Part, broker_id: BrokerId, keys: "array[int]") -> None:
    bitmap = part.get(broker_id)
    if bitmap is None:
        part[broker_id] = BitMap(keys)
    elif len(keys) > _FEW:
        bitmap.update(keys)
    else:
        for key in keys:
            bitmap.add(key)


def _no_keys() -> "array[int]":
    return array("I")
