"""Many connections at work for a while, and what was measured of it."""

import asyncio
from array import array
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from bench import machine
from bench.faults import RunFailed
from bench.report import Processes, Row
from quorum.transport.address import Address

WARM_UP_SECONDS: Final = 1.0


class Connection(Protocol):
    """Asks for one commit after the other, from `go` to `halt`."""

    latencies: "array[float] | None"
    """The list for latencies, in seconds; None if nothing is measured."""

    def itself(self) -> asyncio.Protocol:
        """The factory for the protocol of a connection."""
        ...

    def go(self) -> None:
        """Ask, and ask again upon each answer."""
        ...

    def halt(self) -> "asyncio.Future[None]":
        """Ask no more; done when the answer under way has come."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


Make = Callable[[Callable[[str], None]], Connection]
"""Makes a connection, which tells by the call that it is given what has gone wrong."""


class Load:
    """Connections to `leader`, one of each of `makes`. Call `run` once."""

    def __init__(self, leader: Address, makes: Sequence[Make], processes: Processes) -> None:
        self._leader = leader
        self._processes = processes
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._askers = [make(self._fail) for make in makes]

    async def run(self, seconds: float) -> Row:
        """Warm up, measure, and return once nothing is under way; raises `RunFailed`."""
        loop = asyncio.get_running_loop()
        for asker in self._askers:
            await loop.create_connection(asker.itself, *self._leader)
        for asker in self._askers:
            asker.go()
        await self._pass(WARM_UP_SECONDS)
        latencies: array[float] = array("d")
        used, begun = machine.used(self._processes.all), loop.time()
        for asker in self._askers:
            asker.latencies = latencies
        await self._pass(seconds)
        for asker in self._askers:
            asker.latencies = None
        passed, spent = loop.time() - begun, machine.used(self._processes.all).since(used)
        await self._halt()
        return Row.of(latencies, len(self._askers), passed, self._processes, spent)

    async def _pass(self, seconds: float) -> None:
        await asyncio.wait({self._failure}, timeout=seconds)
        if self._failure.done():
            self._failure.result()

    async def _halt(self) -> None:
        """Let what is under way be answered, so that every partition's last change is known."""
        for halted in [asker.halt() for asker in self._askers]:
            await asyncio.wait({halted, self._failure}, return_when=asyncio.FIRST_COMPLETED)
            if self._failure.done():
                self._failure.result()
        for asker in self._askers:
            asker.close()

    def _fail(self, reason: str) -> None:
        if not self._failure.done():
            self._failure.set_exception(RunFailed(reason))
