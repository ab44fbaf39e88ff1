"""Placement of planned replicas: rack quotas, and the items of a plan.

Each rack gets as even a share of a partition's replicas as the racks allow.
"""

from collections.abc import Generator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from statemachine.reassignment.planner.even_loads import (
    STEPS_PER_YIELD,
    Choices,
    Item,
    bits_of,
    spread,
)
from statemachine.vocabulary import BrokerId, Replicas

Racks = Mapping[BrokerId, str | None]
"""The brokers and their racks; None for a broker without a rack."""

_BOUNDS_KEPT_MAX: Final = 1_000
"""Partitions of a plan mostly repeat a few of them."""


@lru_cache(maxsize=_BOUNDS_KEPT_MAX)
def bounds(
    kept: tuple[int, ...], room: tuple[int, ...], count: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the least and the most of `count` new replicas that each rack gets.

    By rack, `kept` is the number of replicas that stay, and `room` that of brokers that could get
    one. `count` is at most the sum of `room`.
    """
    assert count <= sum(room), f"{count} more do not fit into {room}"
    level = 0
    while sum(_up_to(level, kept, room)) < count:
        level += 1
    return _up_to(level - 1, kept, room), _up_to(level, kept, room)


def _up_to(level: int, kept: Sequence[int], room: Sequence[int]) -> tuple[int, ...]:
    """Return the additions that bring each rack up to this level, as far as it has room."""
    return tuple([min(max(0, level - has), free) for has, free in zip(kept, room, strict=True)])


def rack_names(racks: Racks) -> dict[BrokerId, str]:
    """Return the rack of each broker; one name for all if any broker has no rack.

    Rack rules cannot hold for brokers whose rack is unknown.
    """
    if any(rack is None for rack in racks.values()):
        return dict.fromkeys(racks, "")
    return {broker: rack for broker, rack in racks.items() if rack is not None}


Named = tuple[str, int]
"""A partition: its topic and its number."""

Assignment = Mapping[Named, Replicas]
"""The replicas of partitions, the preferred leader first."""


class Question(Struct, frozen=True, kw_only=True, gc=False):
    """The choice for one partition: `count` of the candidates in addition to the kept brokers."""

    kept: Replicas
    count: int
    candidates: int
    """A set in bits of the table, without the kept brokers."""
    has: Replicas
    """The candidates that already have a replica: choosing them is no move."""


class Table:
    """The brokers of a plan in order of id, with a bit and a rack each."""

    def __init__(self, racks: Racks) -> None:
        self.brokers = tuple(sorted(racks))
        self.bit = {broker: 1 << place for place, broker in enumerate(self.brokers)}
        names = rack_names(racks)
        self._place = {name: place for place, name in enumerate(sorted(set(names.values())))}
        self._rack_of = {broker: self._place[name] for broker, name in names.items()}
        self.racks = [0] * len(self._place)
        for broker, place in self._rack_of.items():
            self.racks[place] |= self.bit[broker]

    def bits(self, brokers: Sequence[BrokerId]) -> int:
        """Return these brokers as a set, without those that are not in the table."""
        found = 0
        for broker in brokers:
            found |= self.bit.get(broker, 0)
        return found

    def item(self, question: Question) -> Item:
        """Return the question as an item, with its bounds for each rack."""
        kept = [0] * len(self.racks)
        for broker in question.kept:
            if broker in self._rack_of:
                kept[self._rack_of[broker]] += 1
        room = tuple([(question.candidates & rack).bit_count() for rack in self.racks])
        least, most = bounds(tuple(kept), room, question.count)
        return Item(
            count=question.count,
            eligible=question.candidates,
            free=self.bits(question.has),
            least=least,
            most=most,
        )


def answer(
    table: Table, questions: Sequence[Question], loads: Mapping[BrokerId, int]
) -> Generator[None, None, list[Replicas]]:
    """Return the chosen brokers for each question; `loads` are the brokers' fixed loads."""
    if not questions:
        return []
    items = []
    for number, question in enumerate(questions):
        items.append(table.item(question))
        if number % STEPS_PER_YIELD == 0:
            yield
    choices = Choices(table.racks, items, [loads.get(broker, 0) for broker in table.brokers])
    yield from spread(choices)
    return [tuple([table.brokers[bit] for bit in bits_of(each)]) for each in choices.chosen]


def in_place_of(before: Replicas, members: Replicas) -> Replicas:
    """Return the members in the order of `before`, new ones in the places of removed ones.

    Surplus new members come last; surplus places are closed.
    """
    staying, coming = set(before) & set(members), [b for b in members if b not in before]
    found = []
    for broker in before:
        if broker in staying:
            found.append(broker)
        elif coming:
            found.append(coming.pop(0))
    return (*found, *coming)


def led_evenly(
    members: Assignment, before: Assignment, leads: Mapping[BrokerId, int]
) -> Generator[None, None, dict[Named, Replicas]]:
    """Return the same replicas, with preferred leaders spread evenly over the brokers.

    As few preferred leaders change as that allows; the others keep their order. `leads` is the
    number of other partitions that have each broker as preferred leader.
    """
    table = Table(dict.fromkeys({broker for each in members.values() for broker in each}))
    questions = [
        Question(kept=(), count=1, candidates=table.bits(each), has=before[named][:1])
        for named, each in members.items()
    ]
    found = yield from answer(table, questions, leads)
    return {
        named: (first, *[broker for broker in each if broker != first])
        for (named, each), (first,) in zip(members.items(), found, strict=True)
    }
