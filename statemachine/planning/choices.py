"""Items that choose brokers: what is chosen, what could be instead, and what that costs in moves.

An *item* chooses some brokers among those eligible for it, within bounds for each rack. Some
brokers are *free* for it (it has them already); any other one is a move. The *load* of a broker is
how many items chose it, on top of what it carries anyway. Sets of brokers are integers with one bit
for each broker, so that all that an item could do is found in a few operations.

Nothing here knows partitions, topics or settings, and nothing here decides what is better.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import Final

from msgspec import Struct

STEPS_PER_YIELD: Final = 200
"""Items looked at, or paths followed, between two yields: about two milliseconds."""

Work = Generator[None, None, None]
"""What is done in pieces; it is done when it has come to its end."""

COSTS: Final = (-1, 0, 1)
"""What a hop may cost: it takes a move back, changes nothing about their number, or is one."""


class Item(Struct, frozen=True, kw_only=True, gc=False):
    """What one item may choose: `count` of the eligible, from each rack within the bounds.

    The bounds can be kept: somebody has seen to it that each rack has as many eligible brokers as
    it may have chosen, and that `count` is between the sums of the bounds.
    """

    count: int
    eligible: int
    free: int
    least: tuple[int, ...]
    most: tuple[int, ...]


def bits_of(brokers: int) -> Iterator[int]:
    """The brokers of a set, in order."""
    while brokers:
        low = brokers & -brokers
        yield low.bit_length() - 1
        brokers ^= low


class Choices:
    """What each item has chosen, and the load of each broker."""

    __slots__ = ("_items", "_rack_of", "_racks", "_wider", "chosen", "held", "loads")

    def __init__(self, racks: Sequence[int], items: Sequence[Item], loads: Sequence[int]) -> None:
        """`racks` are disjoint sets, `loads` by broker. Nothing is chosen before `begin`."""
        self._items = items
        self._racks = racks
        self._rack_of = [
            next(place for place, rack in enumerate(racks) if rack >> broker & 1)
            for broker in range(len(loads))
        ]
        self.loads = list(loads)
        self.held: list[dict[int, None]] = [{} for _ in loads]
        """The items that chose each broker: a dictionary, because it keeps the order."""
        self.chosen: list[int] = []
        self._wider: list[int] = []

    def begin(self) -> Work:
        """Let each item have its fewest moves."""
        for number, item in enumerate(self._items):
            self.chosen.append(self._fewest_moves(item, number))
            self._wider.append(self._with_room(number))
            for broker in bits_of(self.chosen[number]):
                self.held[broker][number] = None
                self.loads[broker] += 1
            if number % STEPS_PER_YIELD == 0:
                yield

    def __len__(self) -> int:
        return len(self._items)

    def targets(self, number: int, broker: int) -> tuple[int, int, int]:
        """Whom the item could have chosen instead of this one of its own, by `COSTS`."""
        item, place = self._items[number], self._rack_of[broker]
        chosen, rack = self.chosen[number], self._racks[place]
        others = rack
        if (chosen & rack).bit_count() > item.least[place]:
            others |= self._wider[number]
        others &= item.eligible & ~chosen
        if item.free >> broker & 1:
            return 0, others & item.free, others & ~item.free
        return others & item.free, others & ~item.free, 0

    def move(self, number: int, broker: int, other: int) -> None:
        """The item has `other` instead of `broker`."""
        self.chosen[number] ^= 1 << broker | 1 << other
        del self.held[broker][number]
        self.held[other][number] = None
        self.loads[broker] -= 1
        self.loads[other] += 1
        self._wider[number] = self._with_room(number)

    def _with_room(self, number: int) -> int:
        """The brokers in racks of which the item may have one more."""
        item, chosen = self._items[number], self.chosen[number]
        return sum(
            rack
            for rack, most in zip(self._racks, item.most, strict=True)
            if (chosen & rack).bit_count() < most
        )

    def _fewest_moves(self, item: Item, number: int) -> int:
        """As many free ones as the bounds allow; the others spread by the number of the item."""
        chosen = 0
        counts = self._counts(item)
        for rack, count in zip(self._racks, counts, strict=True):
            free = _first(item.free & item.eligible & rack, count, 0)
            others = item.eligible & rack & ~free
            chosen |= free | _first(others, count - free.bit_count(), number % len(self.loads))
        assert chosen.bit_count() == item.count, f"item {number} cannot keep its bounds"
        return chosen

    def _counts(self, item: Item) -> list[int]:
        """How many of each rack, so that as many free ones as possible are kept."""
        counts = [
            min(max((item.free & item.eligible & rack).bit_count(), least), most)
            for rack, least, most in zip(self._racks, item.least, item.most, strict=True)
        ]
        surplus = sum(counts) - item.count
        for place, (least, most) in enumerate(zip(item.least, item.most, strict=True)):
            # What is above the least is free here: each one less is one move, wherever it is.
            change = min(max(surplus, counts[place] - most), counts[place] - least)
            counts[place] -= change
            surplus -= change
        return counts


def _first(brokers: int, count: int, start: int) -> int:
    """The first `count` of the set, counted from `start` on and round the end."""
    found = 0
    for part in (brokers >> start << start, brokers & ((1 << start) - 1)):
        for broker in bits_of(part):
            if found.bit_count() == count:
                return found
            found |= 1 << broker
    return found
