"""Bitmap builder: collect keys by broker, and add them to the bitmaps together.

Adding hundreds of keys at once takes as long as adding a few single ones. Keys are in no bitmap
until `settle`, and the caller must not read the bitmaps before.
"""

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, TypeAlias

from pyroaring import BitMap, BitMap64

from statemachine.records.row_codec import Rows
from statemachine.vocabulary import BrokerId

Part = dict[BrokerId, BitMap]
"""The keys of the partitions for which each broker has one role."""

SETTLED_AT_ONCE: Final = 50_000
"""Keys that one slice of work puts into bitmaps: a few milliseconds."""

SORTED_AT_ONCE: Final = 65_536
"""Keys that are sorted together: a few milliseconds."""

_FEW: Final = 16
"""Up to so many keys, adding one by one is as fast."""
_FEW_TO_SORT: Final = 8_192
"""Up to so many keys, sorting one by one is as fast if there are many brokers."""

_LOWER: Final = 0 if array("H", (1,)).tobytes()[0] else 1
_UPPER: Final = 1 - _LOWER
"""The positions of the two halves of a number in memory."""

_Keys: TypeAlias = "array[int]"


class BitmapBuilder:
    """The keys of added rows, by the roles that brokers have for them."""

    __slots__ = (
        "_begin",
        "_end",
        "_held",
        "_in_sync",
        "_is_empty",
        "_isr",
        "_keys",
        "_leaders",
        "_led",
        "_rows",
    )

    def __init__(self, replicas_of: Part, isr_of: Part, leader_of: Part) -> None:
        self._led = _Sorting(replicas_of, isr_of, leader_of)
        self._in_sync = _Sorting(replicas_of, isr_of)
        self._held = _Sorting(replicas_of)
        self._isr = _Sorting(isr_of)
        self._leaders = _Sorting(leader_of)
        self._is_empty = True
        self._rows: Rows | None = None
        """The last added rows, from `_begin` to `_end`; more of them may follow."""
        self._begin = self._end = 0
        self._keys = array("I")
        """The keys of `_rows`."""

    def gather(self, rows: Rows, places: slice, keys: _Keys) -> None:
        """Add the partitions at these positions of the rows, which have these keys.

        Consecutive rows are collected over many topics and then added together.
        """
        self._is_empty = False
        if rows is not self._rows or places.start != self._end:
            self._pass_on()
            self._rows, self._begin = rows, places.start
        self._end = places.stop
        self._keys += keys

    def _pass_on(self) -> None:
        """Add the last rows to the roles that they belong to."""
        rows, keys, places = self._rows, self._keys, slice(self._begin, self._end)
        self._rows, self._keys = None, array("I")
        if rows is None:
            return
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
        """Add some keys to the bitmaps within a few milliseconds; return True if none is left."""
        if not self._is_empty:
            self._pass_on()
            budget = SETTLED_AT_ONCE
            for sorting in (self._led, self._in_sync, self._held, self._isr, self._leaders):
                if budget > 0:
                    budget = sorting.settle(budget)
            self._is_empty = budget > 0
        return self._is_empty


class _Sorting:
    """Keys for the same roles, by broker."""

    __slots__ = ("_brokers", "_by_broker", "_keys", "_parts")

    def __init__(self, *parts: Part) -> None:
        self._parts = parts
        self._by_broker: defaultdict[BrokerId, _Keys] = defaultdict(_no_keys)
        self._brokers = array("i")
        self._keys = _no_keys()
        """Unsorted keys, one for each of `_brokers`."""

    def gather(self, brokers: "array[int]", keys: _Keys) -> None:
        """Add a key for each broker."""
        self._brokers += brokers
        self._keys += keys
        if len(self._keys) >= SORTED_AT_ONCE:
            self._sort()

    def settle(self, budget: int) -> int:
        """Put about `budget` keys into bitmaps, and return the rest of the budget."""
        budget -= self._sort()
        by_broker, parts = self._by_broker, self._parts
        while by_broker and budget > 0:
            broker_id, keys = by_broker.popitem()
            _put(parts, broker_id, keys)
            budget -= len(keys) * len(parts)
        return budget

    def _sort(self) -> int:
        """Sort the unsorted keys by broker; return how many there were."""
        brokers, keys, by_broker = self._brokers, self._keys, self._by_broker
        self._brokers, self._keys = array("i"), _no_keys()
        if len(keys) <= _FEW_TO_SORT:
            for broker_id, key in zip(brokers, keys, strict=True):
                by_broker[broker_id].append(key)
            return len(keys)
        # A bitmap sorts four times as fast; the upper half of each number is the broker.
        halves = array("I", bytes(2 * keys.itemsize * len(keys)))
        halves[_LOWER::2], halves[_UPPER::2] = keys, array("I", brokers.tobytes())
        found = BitMap64(array("Q", halves.tobytes())).to_array()
        brokers = array("i", found.tobytes())[_UPPER::2]
        keys = array("I", found.tobytes())[_LOWER::2]
        at = 0
        while at < len(found):
            end = bisect_left(found, (found[at] >> 32) + 1 << 32, at)
            by_broker[brokers[at]] += keys[at:end]
            at = end
        return len(keys)


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
