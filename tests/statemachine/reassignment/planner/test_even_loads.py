"""Choices of brokers, compared with all possible choices."""

import itertools
from collections.abc import Iterator, Sequence

import hypothesis.strategies as st
from hypothesis import given, settings

from statemachine.reassignment.planner.even_loads import Choices, Item, bits_of, save_moves, spread
from tests.support.parameters import at_most_in_quick

BROKERS = 4


def run_to_its_end(choices: Choices) -> int:
    """Level, and how often it yielded."""
    return sum(1 for _ in spread(choices))


def allowed(item: Item, racks: Sequence[int]) -> Iterator[int]:
    """Every choice that the item may make."""
    for members in itertools.combinations(bits_of(item.eligible), item.count):
        chosen = sum(1 << member for member in members)
        counts = [(chosen & rack).bit_count() for rack in racks]
        if all(
            low <= count <= high
            for low, count, high in zip(item.least, counts, item.most, strict=True)
        ):
            yield chosen


def worth(chosen: Sequence[int], items: Sequence[Item], base: Sequence[int]) -> tuple[int, int]:
    """The imbalance of the loads, then the number of moves."""
    loads = [
        carried + sum(each >> broker & 1 for each in chosen) for broker, carried in enumerate(base)
    ]
    moves = sum((each & ~item.free).bit_count() for each, item in zip(chosen, items, strict=True))
    return sum(load * load for load in loads), moves


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[int], list[Item], list[int]]:
    """Racks, items that can keep their bounds, and what brokers carry anyway."""
    brokers = draw(st.integers(1, BROKERS))
    rack_of = [draw(st.integers(0, 2)) for _ in range(brokers)]
    racks = [
        sum(1 << b for b in range(brokers) if rack_of[b] == rack) for rack in sorted({*rack_of})
    ]
    full = (1 << brokers) - 1
    items = []
    for _ in range(draw(st.integers(0, 4))):
        eligible = draw(st.integers(1, full))
        chosen = draw(st.integers(0, full)) & eligible
        free = draw(st.integers(0, full))
        counts = [(chosen & rack).bit_count() for rack in racks]
        slack = [draw(st.integers(0, 1)) for _ in racks]
        items.append(
            Item(
                count=chosen.bit_count(),
                eligible=eligible,
                free=free,
                least=tuple(max(0, c - s) for c, s in zip(counts, slack, strict=True)),
                most=tuple(
                    min(c + s, (eligible & rack).bit_count())
                    for c, s, rack in zip(counts, slack, racks, strict=True)
                ),
            )
        )
    base = [draw(st.integers(0, 3)) for _ in range(brokers)]
    return racks, items, base


@settings(max_examples=at_most_in_quick(400), deadline=None)
@given(questions())
def test_no_other_choice_is_more_even_or_as_even_with_fewer_moves(
    question: tuple[list[int], list[Item], list[int]],
) -> None:
    racks, items, base = question
    choices = Choices(racks, items, base)
    run_to_its_end(choices)
    for item, chosen in zip(items, choices.chosen, strict=True):
        assert chosen in set(allowed(item, racks))
    every = itertools.product(*[list(allowed(item, racks)) for item in items])
    best = min(worth(chosen, items, base) for chosen in every)
    assert worth(choices.chosen, items, base) == best
    assert choices.loads == [
        carried + sum(each >> broker & 1 for each in choices.chosen)
        for broker, carried in enumerate(base)
    ]


def test_loads_that_differ_by_one_are_exchanged_where_that_saves_a_move() -> None:
    item = Item(count=1, eligible=0b11, free=0b01, least=(1,), most=(1,))
    choices = Choices([0b11], [item], [0, 0])
    assert list(choices.begin()) == [None]
    choices.move(0, 0, 1)
    assert sum(1 for _ in save_moves(choices))
    assert choices.chosen == [0b01]
    assert choices.loads == [1, 0]
