"""How far it has been looked who may do more than one decision had room for. It decides nothing.

After some changes (a min ISR, whether unclean elections are allowed) many partitions may complete a
move, or elect, at once, and one decision does that for a bounded number. Those that are left are
among the ones that move or that nobody leads. They are walked through once, in the order of topic
name and number, and then no more before such a change comes again. All of it follows from an image
and is kept beside the index of its partitions while somebody decides by it.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

Place: TypeAlias = tuple[int, int]
"""Which topic of the walk, and which number in it."""

NumbersOf: TypeAlias = Callable[[str], list[int]]
"""The numbers of the topic's partitions that are to be looked at, in order."""


class Walk:
    """The topics to be walked through, and from where on."""

    __slots__ = ("_names", "_numbers", "_numbers_of", "place")

    def __init__(self, names: Iterable[str]) -> None:
        self._names = sorted(names)
        self._numbers: list[int] = []
        self._numbers_of = -1
        self.place: Place = (0, 0)
        """Whoever stands before it has been looked at."""

    @property
    def end(self) -> Place:
        """Behind everybody."""
        return (len(self._names), 0)

    @property
    def is_over(self) -> bool:
        """Whether everybody has been looked at."""
        return self.place == self.end

    def places(self, numbers_of: NumbersOf) -> Iterator[tuple[Place, str, int]]:
        """Place, topic name and number of everybody from `place` on, which stays where it is."""
        first, number = self.place
        for at in range(first, len(self._names)):
            name = self._names[at]
            if self._numbers_of != at:
                # Once for each topic, for it may be a large one.
                self._numbers, self._numbers_of = numbers_of(name), at
            numbers = self._numbers
            for each in numbers[bisect_left(numbers, number) :]:
                yield (at, each), name, each
            number = 0
