"""Bitmap builder: collect keys by broker, and add them to the bitmaps together.

Adding hundreds of keys at once takes as long as adding a few single ones. Keys are in no bitmap
until `settle`; the caller sees to it that nobody reads the bitmaps before.

"""

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, TypeAlias

from pyroaring import BitMap

from statemachine.records.row_codec import (
    HALF_BITS,
    LOWER,
    UPPER,
    Rows,
    joined,
    rising,
    split_uint32,
)
from statemachine.vocabulary import BrokerId

Part = dict[BrokerId, BitMap]
"""The keys of the partitions that each broker plays one part for."""

SETTLED_AT_ONCE: Final = 50_000
"""Keys that are put into bitmaps before anyone else gets a turn: a few milliseconds."""

SORTED_AT_ONCE: Final = 65_536
"""Keys that are sorted at once: a few milliseconds."""

_FEW: Final = 16
"""So many keys are put into a bitmap one by one as fast."""
_FEW_TO_SORT: Final = 8_192
"""So many are sorted one by one as fast, where there are many brokers."""

_Keys: TypeAlias = "array[int]"


class BitmapBuilder:
    """The keys of added rows, by the parts that brokers play for them."""

    __slots__ = ("_held", "_in_sync", "_is_empty", "_isr", "_last", "_leaders", "_led")

    def __init__(self, replicas_of: Part, isr_of: Part, leader_of: Part) -> None:
        self._led = _Sorting(replicas_of, isr_of, leader_of)
        self._in_sync = _Sorting(replicas_of, isr_of)
        self._held = _Sorting(replicas_of)
        self._isr = _Sorting(isr_of)
        self._leaders = _Sorting(leader_of)
        self._is_empty = True
        self._last: _Stretch | None = None
        """The stretch gathered last, which may still grow."""

    def gather(self, rows: Rows, places: slice, keys: _Keys, *, rise: bool) -> None:
        """The partitions at these places of the rows have these keys.

        `rise` says that each key is one more than that before it. Then the rows of many topics, one
        behind the other, are passed on together.
        """
        self._is_empty = False
        if not rise:
            self._pass_on(rows, places, keys, rise=False)
            return
        last = self._last
        if last is None or not last.is_before(rows, places, keys[0]):
            self._pass_on_last()
            last = self._last = _Stretch(rows, places.start, keys[0])
        last.end = places.stop

    def _pass_on_last(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            keys = rising(last.first_key, last.end - last.begin)
            self._pass_on(last.rows, slice(last.begin, last.end), keys, rise=True)

    def _pass_on(self, rows: Rows, places: slice, keys: _Keys, *, rise: bool) -> None:
        if rows.are_whole:
            first, *others = rows.replicas
            self._led.gather(first[places], keys, rise=rise)
            for column in others:
                self._in_sync.gather(column[places], keys, rise=rise)
            return
        for column in rows.replicas:
            self._held.gather(column[places], keys, rise=rise)
        for column in rows.isr:
            self._isr.gather(column[places], keys, rise=rise)
        self._leaders.gather(rows.leaders[places], keys, rise=rise)

    def settle(self) -> bool:
        """Add some keys to the bitmaps within a few milliseconds; return True if none is left."""
        if not self._is_empty:
            self._pass_on_last()
            room = SETTLED_AT_ONCE
            for sorting in (self._led, self._in_sync, self._held, self._isr, self._leaders):
                if room > 0:
                    room = sorting.settle(room)
            self._is_empty = room > 0
        return self._is_empty


class _Stretch:
    """Places of rows that follow each other, and whose keys do."""

    __slots__ = ("begin", "end", "first_key", "rows")

    def __init__(self, rows: Rows, begin: int, first_key: int) -> None:
        self.rows = rows
        self.begin = self.end = begin
        self.first_key = first_key

    def is_before(self, rows: Rows, places: slice, key: int) -> bool:
        """Return True if the rows at these places continue after the end, with a partition of this
        key.
        """
        return (
            self.rows is rows
            and self.end == places.start
            and self.first_key + self.end - self.begin == key
        )


class _Sorting:
    """Keys that are to be put into the same parts, by broker."""

    __slots__ = ("_brokers", "_by_broker", "_keys", "_parts", "_upper")

    def __init__(self, *parts: Part) -> None:
        self._parts = parts
        self._by_broker: defaultdict[BrokerId, _Keys] = defaultdict(_no_keys)
        self._brokers = array("i")
        self._keys = _no_keys()
        """Keys that are not sorted yet, of the brokers beside them."""
        self._upper = 0
        """The upper half of each of these."""

    def gather(self, brokers: _Keys, keys: _Keys, *, rise: bool) -> None:
        """Gather a key for each broker; `rise` is True if each key is one above the last."""
        upper = keys[0] >> HALF_BITS
        if not rise or keys[-1] >> HALF_BITS != upper:
            self._take(brokers, keys)
            return
        if upper != self._upper or len(self._keys) >= SORTED_AT_ONCE:
            self._sort()
            self._upper = upper
        self._brokers += brokers
        self._keys += keys

    def settle(self, room: int) -> int:
        """Settle about as many as there is room for, and return how much room is left."""
        room -= self._sort()
        by_broker, parts = self._by_broker, self._parts
        while by_broker and room > 0:
            broker_id, keys = by_broker.popitem()
            _put(parts, broker_id, keys)
            room -= len(keys) * len(parts)
        return room

    def _take(self, brokers: _Keys, keys: _Keys) -> None:
        by_broker = self._by_broker
        for broker_id, key in zip(brokers, keys, strict=True):
            by_broker[broker_id].append(key)

    def _sort(self) -> int:
        """Give the keys that wait to their brokers; returns how many have been sorted.

        A bitmap does it: it has numbers in their order, whatever the order in which they came. The
        upper half of each is a broker, the lower one that of a key, for all keys have one upper
        half. One by one a key takes four times as long.
        """
        count, brokers, keys = (
            len(self._keys),
            split_uint32(self._brokers),
            split_uint32(self._keys),
        )
        if count <= _FEW_TO_SORT or brokers[UPPER::2].tobytes().strip(b"\0"):
            self._take(self._brokers, self._keys)
        else:
            keys[UPPER::2] = brokers[LOWER::2]
            self._cut(BitMap(joined(keys)).to_array())
        self._brokers, self._keys = array("i"), _no_keys()
        return count

    def _cut(self, found: _Keys) -> None:
        """Each broker has its stretch of `found`, whose numbers begin with the broker."""
        split = split_uint32(found)
        split[UPPER::2] = array("H", (self._upper,)) * len(found)
        keys, at = joined(split), 0
        while at < len(found):
            broker_id = found[at] >> HALF_BITS
            end = bisect_left(found, broker_id + 1 << HALF_BITS, at)
            self._by_broker[broker_id] += keys[at:end]
            at = end


def _put(parts: Sequence[Part], broker_id: BrokerId, keys: _Keys) -> None:
    many = BitMap(keys) if len(keys) > _FEW else None
    for part in parts:
        bitmap = part.get(broker_id)
        if bitmap is None:
            part[broker_id] = BitMap(keys if many is None else many)
        elif many is not None:
            bitmap.update(many)
        else:
            for key in keys:
                bitmap.add(key)


def _no_keys() -> _Keys:
    return array("I")
