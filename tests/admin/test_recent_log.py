"""The newest lines of a log are scrubbed in slices, once for all that ask meanwhile."""

import asyncio
from collections import Counter

from admin.recent_log import SLICE_SECONDS, RecentLog, newest


class Work:
    """A scrubber that takes half a slice for a line, and notes the turn of the loop."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.turn = 0
        self.lines: Counter[str] = Counter()
        self.turns: Counter[int] = Counter()

    def clock(self) -> float:
        return self.seconds

    def scrub(self, line: str) -> str:
        self.seconds += SLICE_SECONDS / 2
        self.lines[line] += 1
        self.turns[self.turn] += 1
        return line.upper()


async def test_the_loop_is_free_between_slices() -> None:
    work = Work()
    loop = asyncio.get_running_loop()

    def tick() -> None:
        work.turn += 1
        loop.call_later(0, tick)

    tick()
    log = RecentLog(["a", "b", "c", "d", "e", "f"], work.scrub, clock=work.clock)
    assert await log.read() == ("A", "B", "C", "D", "E", "F")
    assert max(work.turns.values()) == 2


async def test_those_that_ask_meanwhile_get_the_same_lines() -> None:
    work = Work()
    log = RecentLog(["a", "b", "c"], work.scrub, clock=work.clock)
    assert await asyncio.gather(*(log.read() for _ in range(10))) == [("A", "B", "C")] * 10
    assert set(work.lines.values()) == {1}
    assert await log.read() == ("A", "B", "C")
    assert set(work.lines.values()) == {2}


async def test_one_that_gives_up_leaves_the_lines_to_the_others() -> None:
    work = Work()
    log = RecentLog(["a", "b", "c"], work.scrub, clock=work.clock)
    loop = asyncio.get_running_loop()
    one, other = loop.create_task(log.read()), loop.create_task(log.read())
    await asyncio.sleep(0)
    one.cancel()
    assert await other == ("A", "B", "C")


def test_the_newest_lines_that_fit_are_kept_in_order() -> None:
    assert newest(["aaaa", "bb", "cc"], bytes_max=6) == ["bb", "cc"]
    assert newest(["aaaa"], bytes_max=4) == []
