"""When the interpreter of a controller looks for garbage: not while something long is under way.

A decision about a hundred thousand partitions makes half a million objects, which go by themselves
when it is committed. To look through them meanwhile, again and again, takes a tenth of a second
each time, in which the loop stands still. So the collector rests until they have gone, but never
for long.
"""

import asyncio
import gc
from typing import Final

AFTER_SECONDS: Final = 1.0
"""After the last slice, until what it has made is committed and gone."""
SECONDS_MAX: Final = 10.0
"""Where one long decision follows another; then it is looked for once."""


class Collecting:
    """The collector of this process, for as long as `loop` runs."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, after_seconds: float = AFTER_SECONDS
    ) -> None:
        self._loop = loop
        self._after_seconds = after_seconds
        self._began = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def hold(self) -> None:
        """Something long is under way, and goes on in a moment."""
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
