"""Even loads: choose brokers for items so that loads are even and moves are few.

An *item* chooses some of the brokers eligible for it, within bounds for each rack. Some brokers are
*free* for it (it has them already); any other is a move. The *load* of a broker is the number of
items that chose it plus its fixed load. Items *hop* along the cheapest paths from brokers with too
much load to brokers with too little, until the loads are as even as possible.
"""

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

STEPS_PER_YIELD: Final = 200
"""Items looked at, or paths followed, between two yields: about two milliseconds."""

Work = Generator[None, None, None]
"""A computation in slices; it is complete when the generator ends."""

COSTS: Final = (-1, 0, 1)
"""The possible costs of a hop: one move fewer, as many moves, one move more."""


class Item(Struct, frozen=True, kw_only=True, gc=False):
    """The choices of one item: `count` of the eligible brokers, from each rack within the bounds.

    The caller ensures that the bounds can be kept: each rack has at least `most` eligible brokers,
    and `count` is between the sums of the bounds.
    """

    count: int
    eligible: int
    free: int
    least: tuple[int, ...]
    most: tuple[int, ...]


def bits_of(brokers: int) -> Iterator[int]:
    """Yield the brokers of a set, in order."""
    while brokers:
        low = brokers & -brokers
        yield low.bit_length() - 1
        brokers ^= low


class Choices:
    """The brokers that each item has chosen, and the load of each broker."""

    __slots__ = ("_items", "_rack_of", "_racks", "_wider", "chosen", "held", "loads")

    def __init__(self, racks: Sequence[int], items: Sequence[Item], loads: Sequence[int]) -> None:
        """Take disjoint `racks` and fixed `loads` by broker; `begin` makes the first choices."""
        self._items = items
        self._racks = racks
        self._rack_of = [
            next(place for place, rack in enumerate(racks) if rack >> broker & 1)
            for broker in range(len(loads))
        ]
        self.loads = list(loads)
        self.held: list[dict[int, None]] = [{} for _ in loads]
        """The items that chose each broker, as ordered sets."""
        self.chosen: list[int] = []
        self._wider: list[int] = []

    def begin(self) -> Work:
        """Choose brokers for each item with the fewest moves."""
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
        """Return the brokers that the item could choose instead, one set for each of `COSTS`."""
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
        """Let the item choose `other` instead of `broker`."""
        self.chosen[number] ^= 1 << broker | 1 << other
        del self.held[broker][number]
        self.held[other][number] = None
        self.loads[broker] -= 1
        self.loads[other] += 1
        self._wider[number] = self._with_room(number)

    def _with_room(self, number: int) -> int:
        """Return the brokers in racks where the item may choose one more."""
        item, chosen = self._items[number], self.chosen[number]
        return sum(
            rack
            for rack, most in zip(self._racks, item.most, strict=True)
            if (chosen & rack).bit_count() < most
        )

    def _fewest_moves(self, item: Item, number: int) -> int:
        """Choose as many free brokers as the bounds allow; spread the rest by the item's number."""
        chosen = 0
        counts = self._counts(item)
        for rack, count in zip(self._racks, counts, strict=True):
            free = _first(item.free & item.eligible & rack, count, 0)
            others = item.eligible & rack & ~free
            chosen |= free | _first(others, count - free.bit_count(), number % len(self.loads))
        assert chosen.bit_count() == item.count, f"item {number} cannot keep its bounds"
        return chosen

    def _counts(self, item: Item) -> list[int]:
        """Return how many to choose from each rack so that most free brokers are kept."""
        counts = [
            min(max((item.free & item.eligible & rack).bit_count(), least), most)
            for rack, least, most in zip(self._racks, item.least, item.most, strict=True)
        ]
        surplus = sum(counts) - item.count
        for place, (least, most) in enumerate(zip(item.least, item.most, strict=True)):
            # Brokers above the least are free here: each one less costs one move in any rack.
            change = min(max(surplus, counts[place] - most), counts[place] - least)
            counts[place] -= change
            surplus -= change
        return counts


def _first(brokers: int, count: int, start: int) -> int:
    """Return the first `count` brokers of the set from `start` on, wrapping around."""
    found = 0
    for part in (brokers >> start << start, brokers & ((1 << start) - 1)):
        for broker in bits_of(part):
            if found.bit_count() == count:
                return found
            found |= 1 << broker
    return found


class Phase:
    """One search for paths; only `follow` changes the choices."""

    def __init__(self, choices: Choices, sources: int, sinks: int) -> None:
        self._choices = choices
        self._sources = sources
        self._sinks = sinks
        self.reached = sources
        """The brokers on any path from a source, at any cost."""
        self.cheapest: int | None = None
        """The cost of the cheapest path to a sink, in moves; None if there is no path."""
        self._cost: dict[int, int] = dict.fromkeys(bits_of(sources), 0)
        self._at_cost: dict[int, int] = {0: sources}
        self._hops: dict[int, int] = {}
        self._at_hops: list[int] = []
        self._unused: dict[int, list[int]] = {}
        """The items that each broker may still pass on, the next one last."""
        self._alive = 0

    def search(self) -> Work:
        """Find the reachable brokers, their costs, and the hops of the cheapest paths."""
        count = len(self._choices.loads)
        reach = [[0] * count for _ in COSTS]
        for number in range(len(self._choices)):
            for broker in bits_of(self._choices.chosen[number]):
                found = self._choices.targets(number, broker)
                for row, targets in zip(reach, found, strict=True):
                    row[broker] |= targets
            if number % STEPS_PER_YIELD == 0:
                yield
        yield from self._search_costs(reach)
        reached = [cost for broker, cost in self._cost.items() if self._sinks >> broker & 1]
        if reached:
            self.cheapest = min(reached)
            self._sinks &= self._at_cost[self.cheapest]
            yield from self._count_hops(reach)

    def _search_costs(self, reach: list[list[int]]) -> Work:
        """Bellman-Ford with a queue of the brokers whose distance has changed."""
        waiting = deque(bits_of(self._sources))
        is_waiting = self._sources
        while waiting:
            yield
            broker = waiting.popleft()
            is_waiting &= ~(1 << broker)
            for change, row in zip(COSTS, reach, strict=True):
                cost = self._cost[broker] + change
                cheap = sum(at for known, at in self._at_cost.items() if known <= cost)
                better = row[broker] & ~cheap
                for other in bits_of(better):
                    if other in self._cost:
                        self._at_cost[self._cost[other]] &= ~(1 << other)
                    self._cost[other] = cost
                if better:
                    self._at_cost[cost] = self._at_cost.get(cost, 0) | better
                    waiting.extend(bits_of(better & ~is_waiting))
                    is_waiting |= better
                    self.reached |= better

    def _count_hops(self, reach: list[list[int]]) -> Work:
        """Count the hops to each broker on the shortest of the cheapest paths."""
        level = self._sources & self._at_cost[0]
        seen = 0
        while level:
            seen |= level
            self._at_hops.append(level)
            self._hops.update(dict.fromkeys(bits_of(level), len(self._at_hops) - 1))
            further = 0
            for broker in bits_of(level):
                for change, row in zip(COSTS, reach, strict=True):
                    further |= row[broker] & self._at_cost.get(self._cost[broker] + change, 0)
                yield
            level = further & ~seen
        self._at_hops.append(0)
        self._alive = seen

    def follow(self, above: int, below: int) -> Work:
        """Move load from sources with more than `above` to sinks with less than `below`.

        At least one path is followed, and any other that is still open afterwards.
        """
        loads = self._choices.loads
        steps = 0
        for source in bits_of(self._at_hops[0]):
            while loads[source] > above and self._follow_one(source, below):
                steps += 1
                if steps % STEPS_PER_YIELD == 0:
                    yield
        assert steps, "a path that was found could not be followed"

    def _follow_one(self, source: int, below: int) -> bool:
        """Follow one path; return whether there was one. Dead ends are excluded from then on."""
        path: list[tuple[int, int, int]] = []
        broker = source
        while True:
            if path and self._sinks >> broker & 1 and self._choices.loads[broker] < below:
                return self._done(path)
            hop = self._hop_from(broker)
            if hop is not None:
                number, other = hop
                path.append((number, broker, other))
                broker = other
                continue
            self._alive &= ~(1 << broker)
            if not path:
                return False
            _, broker, _ = path.pop()

    def _hop_from(self, broker: int) -> tuple[int, int] | None:
        """Return an item and the broker it can hop to, one hop further on a cheapest path."""
        choices, cost = self._choices, self._cost[broker]
        # A hop never makes a used item usable again.
        numbers = self._unused.get(broker)
        if numbers is None:
            numbers = self._unused[broker] = list(reversed(choices.held[broker]))
        level = self._at_hops[self._hops[broker] + 1] & self._alive
        wanted = [self._at_cost.get(cost + change, 0) & level for change in COSTS]
        while level and numbers:
            number = numbers[-1]
            if choices.chosen[number] >> broker & 1:
                found = choices.targets(number, broker)
                possible = 0
                for each, want in zip(found, wanted, strict=True):
                    possible |= each & want
                if possible:
                    return number, (possible & -possible).bit_length() - 1
            numbers.pop()
        return None

    def _done(self, path: list[tuple[int, int, int]]) -> bool:
        """Take every hop of the path and return True, or none of them and return False."""
        for place, (number, broker, other) in enumerate(path):
            if not any(each >> other & 1 for each in self._choices.targets(number, broker)):
                for number_, broker_, other_ in reversed(path[:place]):
                    self._choices.move(number_, other_, broker_)
                return False
            self._choices.move(number, broker, other)
        return True


def spread(choices: Choices) -> Work:
    """Level the loads as far as possible, with as few moves as possible."""
    yield from choices.begin()
    groups = [(1 << len(choices.loads)) - 1]
    while groups:
        group = groups.pop()
        part = yield from _levelled(choices, group)
        if part:
            groups += [group & ~part, part]
    yield from save_moves(choices)


def _levelled(choices: Choices, group: int) -> Generator[None, None, int]:
    """Level the brokers of the group; return the part that no path leaves, or 0 once level."""
    loads = choices.loads
    count = group.bit_count()
    low = sum(loads[broker] for broker in bits_of(group)) // count
    for above, below in ((low + 1, low + 1), (low, low)):
        while True:
            sources = _brokers(b for b in bits_of(group) if loads[b] > above)
            sinks = _brokers(b for b in bits_of(group) if loads[b] < below)
            if not sources or not sinks:
                break
            phase = Phase(choices, sources, sinks)
            yield from phase.search()
            if phase.cheapest is None:
                return phase.reached & group
            yield from phase.follow(above, below)
    return 0


def save_moves(choices: Choices) -> Work:
    """Swap the loads of brokers that differ by one wherever that saves moves.

    Moves can be saved only if a group was levelled in parts.
    """
    loads = choices.loads
    is_saving = True
    while is_saving:
        is_saving = False
        for high in sorted(set(loads)):
            sources = _brokers(b for b, load in enumerate(loads) if load == high)
            sinks = _brokers(b for b, load in enumerate(loads) if load == high - 1)
            if not sources or not sinks:
                continue
            phase = Phase(choices, sources, sinks)
            yield from phase.search()
            if phase.cheapest is not None and phase.cheapest < 0:
                yield from phase.follow(high - 1, high)
                is_saving = True


def _brokers(found: Iterable[int]) -> int:
    return sum(1 << broker for broker in found)
