"""The newest lines of a node's log, without secrets, for a bug report.

To look for secrets in a MiB of lines takes a second of a slow machine. A thread would hold the
interpreter's lock meanwhile, and take it from the event loop at each of its system calls, so that a
few such requests leave a leader almost without time. The loop does it itself, in slices.
"""

import asyncio
from collections.abc import Callable, Collection
from time import perf_counter
from typing import Final

BYTES_MAX: Final = 1024 * 1024

SLICE_SECONDS: Final = 0.001
PAUSE_SECONDS: Final = 0.004
"""So it takes a fifth of the loop at most, however many ask."""


class RecentLog:
    """Prepares the lines for one caller at a time; those that ask meanwhile get the same ones."""

    def __init__(
        self,
        lines: Collection[str],
        scrub: Callable[[str], str],
        *,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        """`lines` is what a process remembers, oldest first; `clock` is in seconds."""
        self._lines = lines
        self._scrub = scrub
        self._clock = clock
        self._under_way: asyncio.Task[tuple[str, ...]] | None = None

    async def read(self) -> tuple[str, ...]:
        """Return the newest lines, at most `BYTES_MAX`."""
        if self._under_way is None:
            self._under_way = asyncio.get_running_loop().create_task(self._read())
        # The others still want it if this caller gives up.
        return await asyncio.shield(self._under_way)

    async def _read(self) -> tuple[str, ...]:
        try:
            scrubbed = []
            ends = self._clock() + SLICE_SECONDS
            for line in newest(self._lines):
                scrubbed.append(self._scrub(line))
                if self._clock() >= ends:
                    await asyncio.sleep(PAUSE_SECONDS)
                    ends = self._clock() + SLICE_SECONDS
            return tuple(scrubbed)
        finally:
            self._under_way = None


def newest(lines: Collection[str], bytes_max: int = BYTES_MAX) -> list[str]:
    """Return the newest lines that fit, oldest first."""
    found: list[str] = []
    left = bytes_max
    for line in reversed([*lines]):
        left -= len(line.encode(errors="replace")) + 1
        if left < 0:
            break
        found.append(line)
    return found[::-1]
