import asyncio

import pytest

from quorum.transport.sweeper import Sweeper
from tests.quorum.transport.conftest import Run
from tests.quorum.transport.loopback import ManualClock


class Deadlines:
    """Holds deadlines, and notes when each one was dealt with."""

    def __init__(self, *deadlines_ms: int) -> None:
        self.left = sorted(deadlines_ms)
        self.swept: list[tuple[int, int]] = []

    def sweep(self, now_ms: int) -> int | None:
        self.swept += [(deadline, now_ms) for deadline in self.left if deadline <= now_ms]
        self.left = [deadline for deadline in self.left if deadline > now_ms]
        return min(self.left, default=None)


def test_nothing_is_swept_before_its_deadline_and_all_of_it_then(run: Run) -> None:
    async def test() -> None:
        clock = ManualClock()
        start = clock.ms
        sweeper = Sweeper(clock)
        first, second = Deadlines(start + 10, start + 30), Deadlines(start + 20)
        sweeper.watch(first, start + 10)
        sweeper.watch(second, start + 20)
        for clock.ms in range(start, start + 50, 5):
            sweeper.sweep()
        assert [(at - start, now - start) for at, now in first.swept] == [(10, 10), (30, 30)]
        assert [(at - start, now - start) for at, now in second.swept] == [(20, 20)]
        sweeper.close()

    run(test())


def test_an_earlier_deadline_counts_and_a_later_one_does_not(run: Run) -> None:
    async def test() -> None:
        clock = ManualClock()
        start = clock.ms
        sweeper = Sweeper(clock)
        deadlines = Deadlines(start + 10)
        for after_ms in (50, 10, 30):
            sweeper.watch(deadlines, start + after_ms)
        clock.ms += 10
        sweeper.sweep()
        assert deadlines.swept
        sweeper.close()

    run(test())


def test_a_forgotten_item_is_not_swept_even_if_it_is_due_with_another(run: Run) -> None:
    async def test() -> None:
        clock = ManualClock()
        sweeper = Sweeper(clock)
        victim = Deadlines(clock.ms)

        class Forgetful:
            def sweep(self, now_ms: int) -> int | None:
                sweeper.forget(victim)
                return None

        sweeper.watch(Forgetful(), clock.ms)
        sweeper.watch(victim, clock.ms)
        sweeper.sweep()
        assert not victim.swept
        sweeper.forget(victim)
        sweeper.close()

    run(test())


def test_a_missed_deadline_is_an_internal_error(run: Run) -> None:
    async def test() -> None:
        clock = ManualClock()
        sweeper = Sweeper(clock)

        class Lazy:
            def sweep(self, now_ms: int) -> int | None:
                return now_ms

        sweeper.watch(Lazy(), clock.ms)
        with pytest.raises(AssertionError):
            sweeper.sweep()
        sweeper.close()

    run(test())


def test_the_timer_sweeps_by_itself(run: Run) -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        swept: asyncio.Future[int] = loop.create_future()

        class Once:
            def sweep(self, now_ms: int) -> int | None:
                swept.set_result(now_ms)
                return None

        sweeper = Sweeper(lambda: int(loop.time() * 1_000))
        deadline_ms = sweeper.now_ms() + 8
        sweeper.watch(Once(), deadline_ms + 1_000_000)
        sweeper.watch(Once(), deadline_ms)
        assert await swept >= deadline_ms
        sweeper.close()

    run(test())
