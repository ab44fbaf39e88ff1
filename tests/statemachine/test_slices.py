"""Work in slices: a table is sorted part by part, and its first items cost no whole order."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachine.slices import (
    SORTED_AT_ONCE_US,
    SORTED_US,
    first_in_slices,
    pauses,
    sort_in_slices,
    whole,
)

AT_ONCE = SORTED_AT_ONCE_US // SORTED_US
MANY = 3 * AT_ONCE + 1
ITEMS = st.lists(st.integers() | st.none(), max_size=2 * AT_ONCE)


@given(ITEMS)
def test_it_is_the_order_of_all_items_but_those_that_are_left_out(items: list[int | None]) -> None:
    kept = [each for each in items if each is not None]
    assert list(whole(sort_in_slices(items))) == sorted(kept)
    backwards = whole(sort_in_slices(items, key=lambda each: -each))
    assert list(backwards) == sorted(kept, reverse=True)


@pytest.mark.parametrize("cost_us", [SORTED_US, 100, 2 * SORTED_AT_ONCE_US])
@pytest.mark.parametrize("count", [1, 5, AT_ONCE, 2 * MANY])
def test_the_first_ones_are_those_of_the_order(count: int, cost_us: int) -> None:
    items = random.Random(22).sample(range(MANY), MANY)
    kept = [each if each % 3 else None for each in items]
    wanted = [each for each in range(MANY) if each % 3]
    assert whole(first_in_slices(kept, count, cost_us)) == wanted[:count]


@pytest.mark.parametrize("work", [sort_in_slices, lambda items: first_in_slices(items, 5)])
def test_every_item_is_paid_for_and_none_before_its_slice(work: Any) -> None:
    taken = 0

    def items() -> Iterator[int | None]:
        nonlocal taken
        for number in range(MANY):
            taken += 1
            yield number if number % 2 else None

    paid_us = 0
    for cost_us in work(items()):
        assert taken - paid_us // SORTED_US <= AT_ONCE
        paid_us += cost_us
    assert paid_us == MANY * SORTED_US


def test_pauses_are_those_of_the_work() -> None:
    costs = list(sort_in_slices(range(MANY)))
    assert list(pauses(sort_in_slices(range(MANY)))) == [None] * len(costs)
    assert list(whole(pauses(sort_in_slices([2, 1])))) == [1, 2]
