"""A controller that records the stalls of its event loop.

`python -m bench.stops FILE start --config SETTINGS` is `metaquorum start --config SETTINGS`, with a
timer in its event loop that is due every millisecond. A late timer means that other work used the
loop or the processor; the processor time of the loop's thread distinguishes the two. Times are
those of the clock that all processes of a machine share.
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
"""Shorter stalls are not recorded: a timer is often late by a millisecond."""
_STOP: Final = Struct(">ddd")


class Stop(NamedTuple):
    """A stall of the event loop of a controller."""

    ended: float
    """The time by `perf_counter`."""
    seconds: float
    computed: float
    """The processor time of the loop's thread within these."""


class Watch:
    """The timer in an event loop, and the file to which it writes."""

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
    """The recorded stalls between two times of `perf_counter`."""
    data = file.read_bytes() if file.exists() else b""
    for at in range(0, len(data) - _STOP.size + 1, _STOP.size):
        stop = Stop(*_STOP.unpack_from(data, at))
        if begun <= stop.ended <= ended:
            yield stop


def watch(file: Path) -> None:
    """Run the controller of this process in an event loop with the timer."""
    make = loop_factory() or asyncio.new_event_loop

    def make_watched() -> asyncio.AbstractEventLoop:
        loop = make()
        Watch(loop, file)
        return loop

    process.loop_factory = lambda: make_watched


if __name__ == "__main__":
    watch(Path(sys.argv.pop(1)))
    main.metaquorum()
