"""A connection that asks for one commit after the other: all but what it asks for."""

import asyncio
from array import array
from collections.abc import Callable
from typing import Self, cast


class OneConnection(asyncio.Protocol):
    """Asks from `go`, which is left to others, to `halt`; see `bench.load.Connection`."""

    def __init__(self, name: str, fail: Callable[[str], None]) -> None:
        """`fail` is told what has gone wrong with the connection of this name."""
        self._name = name
        self._fail = fail
        self._transport: asyncio.Transport | None = None
        self._asked_at = 0.0
        self._halted: asyncio.Future[None] | None = None
        self.latencies: array[float] | None = None
        """The list for latencies, in seconds; None if nothing is measured."""

    def itself(self) -> Self:
        """The factory for the protocol of a connection."""
        return self

    def halt(self) -> "asyncio.Future[None]":
        """Ask no more; done when the answer under way has come."""
        self._halted = asyncio.get_running_loop().create_future()
        return self._halted

    def close(self) -> None:
        """Close the connection."""
        self._fail = lambda _: None
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"the connection of {self._name} ended: {exc}")
