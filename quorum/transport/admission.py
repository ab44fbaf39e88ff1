"""Share a listener among its connections: turns of the event loop, memory for large requests.

Nothing here reads a request. A connection that may not go on waits here, unread, so that a flood
slows its sender.
"""

import asyncio
import enum
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Final, Protocol

from quorum.transport.limits import TURN_NS, TURN_REQUESTS_MAX

_NO_TURN: Final = 0


class Waiting(Protocol):
    """A connection that waits."""

    def on_turn(self) -> None:
        """Hand on requests: it is this connection's turn."""
        ...

    def on_room(self, size_bytes: int) -> None:
        """Go on reading: these bytes have been taken for it."""
        ...


class RequestPacer:
    """The bound on the requests that a listener hands on in one turn of the event loop.

    Connections that were not finished go first in the next turn, in the order in which they came.
    """

    def __init__(self, clock_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock_ns = clock_ns
        self._ends_ns = _NO_TURN
        self._left = 0
        self._waiting: deque[Waiting] = deque()
        self._is_going_on = False

    @property
    def has_waiting(self) -> bool:
        """True if connections wait for their turn."""
        return bool(self._waiting)

    def take(self) -> bool:
        """Count one request; return False if the turn is over, or others are first."""
        if self._waiting and not self._is_going_on:
            return False
        if self._ends_ns == _NO_TURN:
            self._start()
        if not self._has_left():
            return False
        self._left -= 1
        return True

    def wait(self, connection: Waiting) -> None:
        """Call `on_turn` of this connection in a later turn."""
        self._waiting.append(connection)
        if self._ends_ns == _NO_TURN:
            self._start()

    def _start(self) -> None:
        self._ends_ns = self._clock_ns() + TURN_NS
        self._left = TURN_REQUESTS_MAX
        self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._ends_ns = _NO_TURN
        if not self._waiting:
            return
        self._start()
        self._is_going_on = True
        try:
            for _ in range(len(self._waiting)):
                if not self._has_left():
                    break
                self._waiting.popleft().on_turn()
        finally:
            self._is_going_on = False

    def _has_left(self) -> bool:
        return self._left > 0 and self._clock_ns() < self._ends_ns


class Claim(enum.Enum):
    """The claim of a connection to the room for large requests, in quarters of it."""

    UNAUTHENTICATED = 1
    """It finds room only while three quarters are free, and so takes none that others need."""
    CLIENT = 4
    SERVED_FIRST = 8
    """As much room again, which others cannot take from it."""


class LargeRequests:
    """The bytes of all large requests of a listener, from their first byte to their answer."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._of_host: Counter[str] = Counter()
        self._waiting: deque[tuple[Waiting, str, int, Claim]] = deque()
        self.held_bytes = 0
        """The bytes that are taken."""

    def take(self, host: str, size_bytes: int, claim: Claim = Claim.CLIENT) -> bool:
        """Take room for a request of `host`, if there is some within its claim.

        An address gets half of a claim; a connection that is served first gets what there is.
        """
        held_bytes = self._of_host.get(host, 0) + size_bytes
        bytes_max = self._bytes_max * claim.value // Claim.CLIENT.value
        of_host_max = bytes_max if claim is Claim.SERVED_FIRST else bytes_max // 2
        if held_bytes > of_host_max or self.held_bytes + size_bytes > bytes_max:
            return False
        self.held_bytes += size_bytes
        self._of_host[host] = held_bytes
        return True

    def give_back(self, host: str, size_bytes: int) -> None:
        """Give back what was taken, and let those go on that wait for room."""
        self.held_bytes -= size_bytes
        self._of_host[host] -= size_bytes
        if not self._of_host[host]:
            del self._of_host[host]
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            connection, waiting_host, needed_bytes, claim = each
            if self.take(waiting_host, needed_bytes, claim):
                connection.on_room(needed_bytes)
            else:
                self._waiting.append(each)

    def wait(self, connection: Waiting, host: str, size_bytes: int, claim: Claim) -> None:
        """Call `on_room` of this connection once so much has been taken for it."""
        self._waiting.append((connection, host, size_bytes, claim))

    def forget(self, connection: Waiting) -> None:
        """The connection has closed, and waits no more."""
        self._waiting = deque(each for each in self._waiting if each[0] is not connection)
