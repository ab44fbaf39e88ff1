"""A long request and its answer are freed over several turns of the event loop."""

import asyncio

from controller.apis.request import FREED_AT_ONCE, LONG_PARTS, free_in_slices


class Counted:
    """An item that counts how many of its kind are alive."""

    alive = 0

    def __init__(self) -> None:
        Counted.alive += 1

    def __del__(self) -> None:
        Counted.alive -= 1


async def test_no_turn_frees_more_than_its_share() -> None:
    items = [Counted() for _ in range(2 * FREED_AT_ONCE + 1)]
    free_in_slices(items[:FREED_AT_ONCE], items[FREED_AT_ONCE:])
    before = len(items)
    items.clear()
    assert Counted.alive == before, "the items outlive the caller"
    freed = []
    while Counted.alive:
        await asyncio.sleep(0)
        freed.append(before - Counted.alive)
        before = Counted.alive
    assert max(freed) == FREED_AT_ONCE
    assert len(freed) == 3


async def test_a_short_request_is_freed_with_its_caller() -> None:
    items = [Counted() for _ in range(LONG_PARTS - 1)]
    free_in_slices(items)
    items.clear()
    assert not Counted.alive
