"""The time of one event loop, for nodes that must tolerate a busy machine."""

import asyncio
from typing import Final

from quorum.clocks import monotonic_ms

STEP_MS: Final = 10


class OwnTime:
    """A clock that goes on by one step each time its loop gets round to it, however late that is.

    On a machine at rest it goes as fast as any other. On a busy one it is slow, as is everything
    that happens in its loop: so whoever is waited for has had its turns when time is up.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._now_ms = monotonic_ms()
        self._next = self._loop.call_later(STEP_MS / 1_000, self._step)

    def __call__(self) -> int:
        return self._now_ms

    def stop(self) -> None:
        """Let it stand still."""
        self._next.cancel()

    def _step(self) -> None:
        self._now_ms += STEP_MS
        self._next = self._loop.call_later(STEP_MS / 1_000, self._step)
