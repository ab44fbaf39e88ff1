"""Cheapest paths of hops from brokers that have too much to brokers that have too little.

One phase: find what the cheapest path from any source to any sink costs, then follow as many such
paths as there are without searching anew. Of paths that cost the same, those with fewer hops come
first: of such a path no item is needed twice in a way that would keep its second hop from being
possible. It decides neither who has too much nor when it is enough.
"""

from collections import deque

from statemachine.planning.choices import COSTS, STEPS_PER_YIELD, Choices, Work, bits_of


class Phase:
    """One search and what was followed of it. The choices change only in `follow`."""

    def __init__(self, choices: Choices, sources: int, sinks: int) -> None:
        self._choices = choices
        self._sources = sources
        self._sinks = sinks
        self.reached = sources
        """The brokers that any path leads to from a source, whatever it costs."""
        self.cheapest: int | None = None
        """What the cheapest path to a sink costs in moves; None if there is no path."""
        self._cost: dict[int, int] = dict.fromkeys(bits_of(sources), 0)
        self._at_cost: dict[int, int] = {0: sources}
        self._hops: dict[int, int] = {}
        self._at_hops: list[int] = []
        self._lists: dict[int, list[int]] = {}
        self._places: dict[int, int] = {}
        self._alive = 0

    def search(self) -> Work:
        """Find what is reached, at what cost, and by how many hops of a cheapest path."""
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
        """Bellman and Ford, with sets: who is worth looking at again waits in a queue."""
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
        """How many hops the shortest of the cheapest paths to each broker has."""
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
        """Take load from sources that have more than `above` to sinks that have less than `below`.

        At least one path is followed. Paths that the first ones leave open are followed too.
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
        """Follow one path; whether there was one. Brokers without a way on are left out."""
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
        """An item and where it could hop to, one hop further on a cheapest path."""
        choices, cost = self._choices, self._cost[broker]
        # A hop uses items up, and never makes one usable again: each is looked at until it is.
        numbers = self._lists.get(broker)
        if numbers is None:
            numbers = self._lists[broker] = list(choices.held[broker])
        level = self._at_hops[self._hops[broker] + 1] & self._alive
        wanted = [self._at_cost.get(cost + change, 0) & level for change in COSTS]
        place = self._places.get(broker, 0)
        while level and place < len(numbers):
            number = numbers[place]
            if choices.chosen[number] >> broker & 1:
                found = choices.targets(number, broker)
                possible = 0
                for each, want in zip(found, wanted, strict=True):
                    possible |= each & want
                if possible:
                    self._places[broker] = place
                    return number, (possible & -possible).bit_length() - 1
            place += 1
        self._places[broker] = place
        return None

    def _done(self, path: list[tuple[int, int, int]]) -> bool:
        """Whether every hop of the path was possible, one after the other; else nothing is."""
        for place, (number, broker, other) in enumerate(path):
            if not any(each >> other & 1 for each in self._choices.targets(number, broker)):
                for number_, broker_, other_ in reversed(path[:place]):
                    self._choices.move(number_, other_, broker_)
                return False
            self._choices.move(number, broker, other)
        return True
