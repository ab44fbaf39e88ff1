"""The most even loads there are, and among all choices that have them one with the fewest moves.

This is a minimum cost flow with convex costs, from items over racks to brokers, solved on the
brokers alone. A *hop* is an item's change from one broker to another; a path of hops takes load
from where it begins to where it ends.

- At the start every item has its fewest moves, so that no circle of hops has a negative cost.
- Loads are levelled along paths that are cheapest. That keeps circles from becoming negative: at
  every moment the moves are the fewest for the loads there are.
- Brokers that no path leads out of carry what they carry by necessity: they are levelled among
  themselves, and so are the others. The loads then are the most even ones by every measure.
- Last, brokers whose loads differ by one exchange them wherever that saves moves.

What is first among equals is so by the order of items and brokers: the same question has the same
answer.
"""

from collections.abc import Generator, Iterable

from statemachine.planning.choices import Choices, Work, bits_of
from statemachine.planning.paths import Phase


def spread(choices: Choices) -> Work:
    """Level the loads as far as that is possible, with the fewest moves that this takes."""
    yield from choices.begin()
    groups = [(1 << len(choices.loads)) - 1]
    while groups:
        group = groups.pop()
        part = yield from _levelled(choices, group)
        if part:
            groups += [group & ~part, part]
    yield from save_moves(choices)


def _levelled(choices: Choices, group: int) -> Generator[None, None, int]:
    """Level the brokers of the group; what part of it no path leads out of, or 0."""
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
    """Let brokers whose loads differ by one exchange them wherever that takes moves back.

    Only where a group was levelled in parts can there be anything left to save.
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
