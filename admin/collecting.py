"""Pause the garbage collector of a controller during long decisions.

A decision about a hundred thousand partitions creates half a million objects, which are freed when
it is committed. To walk through them again and again takes a tenth of a second each time, in which
the event loop stands still. The collector is paused until they are freed, but never for long.
"""

import asyncio
import gc
from typing import Final

AFTER_SECONDS: Final = 1.0
"""Pause after the last slice, until its objects are committed and freed."""
SECONDS_MAX: Final = 10.0
"""Longest pause, while one long decision follows another."""


class Collecting:
    """The garbage collector of this process, while `loop` runs."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, after_seconds: float = AFTER_SECONDS
    ) -> None:
        self._loop = loop
        self._after_seconds = after_seconds
        self._began = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def hold(self) -> None:
        """Pause the collector: a long decision is under way."""
        now = self._loop.time()
        if self._timer is None:
            self._began = now
            gc.disable()
        elif now >= self._began + SECONDS_MAX:
            # It is due now, and must not be put off again.
            return
        else:
            self._timer.cancel()
        end = min(now + self._after_seconds, self._began + SECONDS_MAX)
        self._timer = self._loop.call_at(end, self._release)

    def _release(self) -> None:
        self._timer = None
        gc.enable()
