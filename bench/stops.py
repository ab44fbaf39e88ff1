"""A controller that takes note of how long its event loop stands still.

`python -m bench.stops FILE start --config SETTINGS` is `metaquorum start --config SETTINGS`, with a
timer in its loop that is due every millisecond. When it comes late, something else had the loop, or
the processor: what the loop's own thread computed meanwhile tells the two apart. Moments are those
of the clock that all processes of a machine share.
"""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from time import perf_counter, thread_time
from typing import Final, NamedTuple

from admin.cli import main
from quorum import process
from quorum.process import loop_factory

TICK_SECONDS: Final = 0.001
NOTED_SECONDS: Final = 0.003
"""Shorter ones are nobody's concern: a timer is a millisecond late as a rule."""
_STOP: Final = Struct(">ddd")


class Stop(NamedTuple):
    """A time in which the loop of a controller had no turn for anybody else."""

    ended: float
    """By `perf_counter`."""
    seconds: float
    computed: float
    """Of these, what its own thread used of a processor."""


class Watch:
    """The timer in one loop, and the file that it writes to."""

    def __init__(self, loop: asyncio.AbstractEventLoop, file: Path) -> None:
        self._loop = loop
        self._file = file.open("ab", buffering=0)
        self._begin()

    def _begin(self) -> None:
        self._began, self._computed = perf_counter(), thread_time()
        self._loop.call_later(TICK_SECONDS, self._end)

    def _end(self) -> None:
        now = perf_counter()
        seconds = now - self._began - TICK_SECONDS
        if seconds >= NOTED_SECONDS:
            self._file.write(_STOP.pack(now, seconds, thread_time() - self._computed))
        self._begin()


def stops_in(file: Path, begun: float, ended: float) -> Iterator[Stop]:
    """Those that were noted between two moments of `perf_counter`."""
    data = file.read_bytes() if file.exists() else b""
    for at in range(0, len(data) - _STOP.size + 1, _STOP.size):
        stop = Stop(*_STOP.unpack_from(data, at))
        if begun <= stop.ended <= ended:
            yield stop


def watch(file: Path) -> None:
    """Let the controller of this process run in a loop that is watched."""
    make = loop_factory() or asyncio.new_event_loop

    def make_watched() -> asyncio.AbstractEventLoop:
        loop = make()
        Watch(loop, file)
        return loop

    process.loop_factory = lambda: make_watched


if __name__ == "__main__":
    watch(Path(sys.argv.pop(1)))
    main.metaquorum()
