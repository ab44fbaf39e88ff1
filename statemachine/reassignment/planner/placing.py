"""Placement of planned replicas: rack quotas, and the items of a plan.

Each rack gets as even a share of a partition's replicas as the racks allow.

"""

from collections.abc import Generator, Mapping, Sequence

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
"""The brokers and the rack of each; None where it has named none."""


def bounds(
    kept: Sequence[int], room: Sequence[int], count: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The least and the most that each rack gets of `count` more, by rack.

    `kept` are the replicas that stay in each rack, `room` the brokers that could have one more.
    There is room for all of them.
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
    """The rack of each broker; one name for all of them unless each has named its own.

    What is not known of some can be kept for none.
    """
    if any(rack is None for rack in racks.values()):
        return dict.fromkeys(racks, "")
    return {broker: rack for broker, rack in racks.items() if rack is not None}


Named = tuple[str, int]
"""A partition: its topic and its number."""

Assignment = Mapping[Named, Replicas]
"""The replicas of partitions, the preferred leader first."""


class Question(Struct, frozen=True, kw_only=True, gc=False):
    """The choice for one partition: `count` brokers of the candidates besides those kept."""

    kept: Replicas
    count: int
    candidates: int
    """As bits of the table's brokers, none of them kept."""
    has: Replicas
    """Those among the candidates that are no move, for it has them."""


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
        self._bounds: dict[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]] = {}

    def bits(self, brokers: Sequence[BrokerId]) -> int:
        """Return these brokers as a set, without those that are not in the table."""
        found = 0
        for broker in brokers:
            found |= self.bit.get(broker, 0)
        return found

    def item(self, question: Question) -> Item:
        """The question as an item, with how many of each rack there may be."""
        kept = [0] * len(self.racks)
        for broker in question.kept:
            if broker in self._rack_of:
                kept[self._rack_of[broker]] += 1
        room = [(question.candidates & rack).bit_count() for rack in self.racks]
        key = (tuple(kept), tuple(room), (question.count,))
        found = self._bounds.get(key)
        if found is None:
            found = self._bounds[key] = bounds(kept, room, question.count)
        least, most = found
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
    """Return the new brokers of each partition; `loads` is the other load of the brokers."""
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
    """The members in the order of before, each newcomer in the place of one that goes.

    Whoever has no place to take comes last; a place that nobody takes is closed.
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
    members: Assignment, before: Mapping[Named, BrokerId], leads: Mapping[BrokerId, int]
) -> Generator[None, None, dict[Named, Replicas]]:
    """The same replicas, with the first chosen so that brokers are preferred equally often.

    As few preferred leaders change as that allows; the others keep their order. `leads` is how
    often brokers are the preferred leader of other partitions.
    """
    table = Table(dict.fromkeys({broker for each in members.values() for broker in each}))
    questions = [
        Question(kept=(), count=1, candidates=table.bits(each), has=(before[named],))
        for named, each in members.items()
    ]
    found = yield from answer(table, questions, leads)
    return {
        named: (first, *[broker for broker in each if broker != first])
        for (named, each), (first,) in zip(members.items(), found, strict=True)
    }
