"""The program of docs/embedding.md, unchanged, on three processes."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from tests.process.counter_processes import Counters, listing
from tests.support.ports import free_ports

pytestmark = pytest.mark.process

LINES_MAX: Final = 40
INCREMENTS: Final = 20
CLIENT: Final = "a-client-with-a-long-name-" * 10
"""Long, so that few increments are enough for a snapshot."""


@pytest.fixture
async def counters(tmp_path: Path) -> AsyncIterator[Counters]:
    running = Counters(tmp_path, tuple(free_ports(tmp_path, 3).values()))
    for number in (1, 2, 3):
        await running.start(number)
    yield running
    await running.close()


def test_the_program_has_forty_lines_at_most() -> None:
    lines = [line for line in listing().splitlines() if line.strip()]
    assert len(lines) <= LINES_MAX


async def test_it_counts_through_kill_9_of_its_leader(counters: Counters) -> None:
    leaders = set()
    for number in range(1, 3 * INCREMENTS + 1):
        leader, total = await counters.total(f"{CLIENT} {number} {number}")
        leaders.add(leader)
        assert total == number * (number + 1) // 2, counters.said()
        if number % INCREMENTS == 0:
            await counters.kill(leader)
            # Asked again of another, who may have heard of it already: it counts once.
            leader, total = await counters.total(f"{CLIENT} {number} {number}")
            assert total == number * (number + 1) // 2, counters.said()
            _, read = await counters.total("")
            assert read == total
            await counters.start(next(each for each in (1, 2, 3) if each not in counters.processes))
    assert len(leaders) > 1
    for number in (1, 2, 3):
        assert counters.snapshots(number), counters.said()
