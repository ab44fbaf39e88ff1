"""Wait without sleeping for a condition: every event rings, and a waiting test looks again."""

import asyncio
from collections.abc import Callable
from typing import Final

PATIENCE_SECONDS: Final = 120.0
"""The time limit of a test. Nothing is expected to take long; a busy machine may need a while."""


class Bell:
    """Rings in one event loop; `ring` is for the loop's thread, `ring_from_afar` for any."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Something has happened."""
        self._rung.set()
        self._rung = asyncio.Event()

    def ring_from_afar(self) -> None:
        """Something has happened in another thread."""
        self._loop.call_soon_threadsafe(self.ring)

    async def until(self, holds: Callable[[], object]) -> None:
        """Return as soon as `holds()` is true."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not holds():
                await self._rung.wait()
