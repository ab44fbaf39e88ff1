"""The work of a query in one turn of the loop, counted: entries looked at, and comparisons."""

from collections.abc import Generator, ItemsView, Iterator, Mapping, ValuesView
from typing import Any, TypeVar

from controller.event_queue import SLICE_US

K = TypeVar("K")
V = TypeVar("V")


class Work:
    """Counts the steps that are taken with its tables and names."""

    def __init__(self, turn_us: int = SLICE_US) -> None:
        """`turn_us` is the work in one turn, by its own estimate."""
        self.steps = 0
        self._turn_us = turn_us

    def table(self, entries: Mapping[K, V]) -> dict[K, V]:
        """Return a table that counts each entry that an iteration comes to."""
        return _Table(self, entries)

    def name(self, text: str) -> str:
        """Return a name that counts each comparison for its place in an order."""
        found = _Name(text)
        found.work = self
        return found

    def in_turns(self, reading: Any) -> tuple[Any, int]:
        """Return the result of a query, and the most steps that it takes in one turn.

        A query that does not read in slices takes one turn.
        """
        if not isinstance(reading, Generator):
            return reading, self.steps
        turns, left_us = [0], self._turn_us
        while True:
            self.steps = 0
            try:
                cost_us = next(reading)
            except StopIteration as end:
                turns[-1] += self.steps
                return end.value, max(turns)
            turns[-1] += self.steps
            left_us -= cost_us
            if left_us <= 0:
                turns.append(0)
                left_us = self._turn_us


class _Table(dict[K, V]):
    def __init__(self, work: Work, entries: Mapping[K, V]) -> None:
        super().__init__(entries)
        self._work = work

    def __iter__(self) -> Iterator[K]:
        for each in super().__iter__():
            self._work.steps += 1
            yield each

    def items(self) -> Any:
        return ItemsView(self)

    def values(self) -> Any:
        return ValuesView(self)


class _Name(str):
    work: Work

    def __lt__(self, other: str) -> bool:
        self.work.steps += 1
        return super().__lt__(other)

    def __gt__(self, other: str) -> bool:
        self.work.steps += 1
        return super().__gt__(other)
