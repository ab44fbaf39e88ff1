"""Run a load on many connections and measure it."""

import asyncio
from array import array
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from bench import machine
from bench.faults import RunFailed
from bench.report import Processes, Row
from quorum.transport.address import Address, dial
from quorum.transport.security.tls import ClientTls

WARM_UP_SECONDS: Final = 1.0


class Connection(Protocol):
    """A client that requests commits in sequence, from `go` to `halt`."""

    latencies: "array[float] | None"
    """The measured latencies in seconds; None during the warm-up."""

    def itself(self) -> asyncio.Protocol:
        """The factory for the protocol of a connection."""
        ...

    def go(self) -> None:
        """Send the first request; each answer triggers the next one."""
        ...

    def halt(self) -> "asyncio.Future[None]":
        """Send no further requests; the result is done when the outstanding answer has arrived."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


Make = Callable[[Callable[[str], None]], Connection]
"""Makes a connection, which reports an error by calling the function that it gets."""


class Load:
    """One connection to `leader` for each item of `makes`, over TLS if given. Call `run` once."""

    def __init__(
        self,
        leader: Address,
        makes: Sequence[Make],
        processes: Processes,
        tls: ClientTls | None = None,
    ) -> None:
        self._leader = leader
        self._tls = tls
        self._processes = processes
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._connections = [make(self._fail) for make in makes]

    async def run(self, seconds: float) -> Row:
        """Warm up, measure, and return once no request is outstanding; raises `RunFailed`."""
        loop = asyncio.get_running_loop()
        tls = None if self._tls is None else self._tls.context()
        for connection in self._connections:
            await dial(connection.itself, self._leader, tls=tls)
        for connection in self._connections:
            connection.go()
        await self._pass(WARM_UP_SECONDS)
        latencies: array[float] = array("d")
        used, begun = machine.used(self._processes.all), loop.time()
        for connection in self._connections:
            connection.latencies = latencies
        await self._pass(seconds)
        for connection in self._connections:
            connection.latencies = None
        passed, spent = loop.time() - begun, machine.used(self._processes.all).since(used)
        await self._halt()
        return Row.of(latencies, len(self._connections), passed, self._processes, spent)

    async def _pass(self, seconds: float) -> None:
        await asyncio.wait({self._failure}, timeout=seconds)
        if self._failure.done():
            self._failure.result()

    async def _halt(self) -> None:
        """Wait for the outstanding answers, so that the last change of every partition is known."""
        for halted in [connection.halt() for connection in self._connections]:
            await asyncio.wait({halted, self._failure}, return_when=asyncio.FIRST_COMPLETED)
            if self._failure.done():
                self._failure.result()
        for connection in self._connections:
            connection.close()

    def _fail(self, reason: str) -> None:
        if not self._failure.done():
            self._failure.set_exception(RunFailed(reason))
