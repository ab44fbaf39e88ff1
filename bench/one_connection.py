"""The base of connections that request commits in sequence, without the requests."""

import asyncio
from array import array
from collections.abc import Callable
from typing import Self, cast


class OneConnection(asyncio.Protocol):
    """The base of `bench.load.Connection`s; a subclass adds `go`."""

    def __init__(self, name: str, fail: Callable[[str], None]) -> None:
        """`fail` is called with the description of an error of this connection."""
        self._name = name
        self._fail = fail
        self._transport: asyncio.Transport | None = None
        self._asked_at = 0.0
        self._halted: asyncio.Future[None] | None = None
        self.latencies: array[float] | None = None
        """The measured latencies in seconds; None during the warm-up."""

    def itself(self) -> Self:
        """The factory for the protocol of a connection."""
        return self

    def halt(self) -> "asyncio.Future[None]":
        """Send no further requests; the result is done when the outstanding answer has arrived."""
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
