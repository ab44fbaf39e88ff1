"""Long responses are made in slices; short ones do not wait for them."""

import asyncio
from collections.abc import Generator, Iterator

import pytest

from quorum.protocol.errors import RequestRefused
from quorum.transport.long_responses import SLICE_SECONDS, UNDER_WAY_MAX, LongResponses

HERE = "127.0.0.1"
THERE = "127.0.0.2"


class Clock:
    """Every step of the work takes half a slice."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def steps(self, count: int, result: str) -> Generator[None, None, str]:
        for _ in range(count):
            self.now += SLICE_SECONDS / 2
            yield
        return result


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def long(clock: Clock) -> LongResponses:
    return LongResponses(clock)


async def test_a_short_response_is_made_at_once(long: LongResponses, clock: Clock) -> None:
    assert long.make(clock.steps(1, "short"), HERE).result() == "short"


async def test_a_long_one_is_made_between_other_work(long: LongResponses, clock: Clock) -> None:
    made, turns = long.make(clock.steps(10, "long"), HERE), 0
    while not made.done():
        await asyncio.sleep(0)
        turns += 1
    assert made.result() == "long"
    assert 4 <= turns <= 6


async def test_short_ones_pass_long_ones_and_long_ones_wait(
    long: LongResponses, clock: Clock
) -> None:
    ends: list[str] = []
    for name in ("first", "second"):
        made = long.make(clock.steps(10, name), HERE)
        made.add_done_callback(lambda each: ends.append(each.result()))
    assert long.make(clock.steps(1, "short"), HERE).result() == "short"
    assert not ends
    assert await made == "second"
    assert ends == ["first", "second"]


async def test_work_that_nobody_waits_for_ends(long: LongResponses, clock: Clock) -> None:
    dropped, kept = (long.make(clock.steps(1_000, name), HERE) for name in ("dropped", "kept"))
    before = clock.now
    dropped.cancel()
    assert await kept == "kept"
    assert clock.now - before < 600 * SLICE_SECONDS


async def test_more_than_the_limit_are_refused(long: LongResponses, clock: Clock) -> None:
    made = []
    for address in (HERE, THERE):
        made += [long.make(clock.steps(10, address), address) for _ in range(UNDER_WAY_MAX // 2)]
        with pytest.raises(RequestRefused, match="256 long responses are under way"):
            await long.make(clock.steps(10, address), address)
    with pytest.raises(RequestRefused, match="256 long responses are under way"):
        await long.make(clock.steps(10, "third"), "127.0.0.3")
    assert {HERE, THERE} == {*await asyncio.gather(*made)}


async def test_addresses_take_turns(long: LongResponses, clock: Clock) -> None:
    many = [long.make(clock.steps(10, "many"), HERE) for _ in range(100)]
    assert await long.make(clock.steps(10, "one"), THERE) == "one"
    assert sum(each.done() for each in many) <= 2
    assert await asyncio.gather(*many) == ["many"] * 100


async def test_those_whose_clients_are_gone_keep_nobody_out(
    long: LongResponses, clock: Clock
) -> None:
    first, *gone = (long.make(clock.steps(10, "first"), HERE) for _ in range(UNDER_WAY_MAX // 2))
    for each in gone:
        each.cancel()
    assert await long.make(clock.steps(10, "next"), HERE) == "next"
    assert (first.result(), long.under_way) == ("first", 0)
    first, *gone = (long.make(clock.steps(10, "first"), HERE) for _ in range(UNDER_WAY_MAX // 2))
    for each in (first, *gone):
        each.cancel()
    assert await long.make(clock.steps(10, "alone"), HERE) == "alone"


async def test_an_error_reaches_who_waits_and_nobody_else(
    long: LongResponses, clock: Clock
) -> None:
    def broken() -> Iterator[None]:
        yield from clock.steps(10, "")
        raise ZeroDivisionError

    def work() -> Generator[None, None, str]:
        yield from broken()
        return "never"

    failing, other = long.make(work(), HERE), long.make(clock.steps(10, "other"), HERE)
    assert await other == "other"
    with pytest.raises(ZeroDivisionError):
        failing.result()
