"""The garbage collector is off during long work, and on again afterwards."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from admin import daemon
from admin.daemon import GarbageCollector


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """Restore the state of the collector after each test."""
    assert gc.isenabled()
    yield
    gc.enable()


async def enabled() -> bool:
    """True if the collector is enabled before the time limit."""
    for _ in range(1_000_000):
        if gc.isenabled():
            return True
        await asyncio.sleep(0)
    return False


async def test_it_rests_until_some_time_after_the_last_slice() -> None:
    held = GarbageCollector(asyncio.get_running_loop(), after_seconds=0.02)
    for _ in range(5):
        held.pause()
        await asyncio.sleep(0)
        assert not gc.isenabled()
    assert await enabled()
    held.pause()
    assert not gc.isenabled()
    assert await enabled()


async def test_it_never_rests_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "GC_PAUSE_SECONDS_MAX", 0.01)
    held = GarbageCollector(asyncio.get_running_loop(), after_seconds=1e6)
    worked = 0
    for _ in range(1_000_000):
        held.pause()
        await asyncio.sleep(0)
        worked += gc.isenabled()
        if worked == 3:
            return
    raise AssertionError("it has never worked")
