"""Share a listener among its connections: turns of the event loop, memory for large requests and
for answers that wait to be read.

Nothing here reads a request. A connection that may not go on waits here, unread, so that a flood
slows its sender.
"""

import asyncio
import enum
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from typing import Final, Protocol

from quorum.transport.limits import (
    TURN_NS,
    TURN_REQUESTS_MAX,
    UNREAD_CHECK_MS,
    UNREAD_MS_MAX,
)
from quorum.transport.sweeper import Sweeper

_NO_TURN: Final = 0


class Waiting(Protocol):
    """A connection that waits."""

    is_open: bool
    is_served_first: bool
    network: str
    """The address that counts for limits per address."""

    def on_turn(self) -> None:
        """Hand on requests: it is this connection's turn."""
        ...

    def on_room(self, size_bytes: int) -> None:
        """Go on reading: these bytes have been taken for it."""
        ...


class _WaitingForTurn:
    """Connections in the order of their turns: addresses take turns, and the connections of each.

    So a client waits for a few requests of each address, however many connections another has.
    """

    def __init__(self, connections: Iterable[Waiting] = ()) -> None:
        self._of_address: dict[str, deque[Waiting]] = {}
        self._count = 0
        for each in connections:
            self.add(each)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Waiting]:
        return chain.from_iterable(self._of_address.values())

    def add(self, connection: Waiting) -> None:
        self._of_address.setdefault(connection.network, deque()).append(connection)
        self._count += 1

    def take(self) -> Waiting:
        """Remove and return the next one; its address comes last now."""
        address = next(iter(self._of_address))
        connections = self._of_address.pop(address)
        connection = connections.popleft()
        if connections:
            self._of_address[address] = connections
        self._count -= 1
        return connection


class RequestPacer:
    """The bound on the requests that a listener hands on in one turn of the event loop.

    Connections that were not finished go first in the next turn.
    """

    def __init__(self, clock_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock_ns = clock_ns
        self._ends_ns = _NO_TURN
        self._left = 0
        self._waiting = _WaitingForTurn()
        self._is_going_on = False
        self.is_held = False
        """True while only connections that are served first may hand on requests."""

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
        self._waiting.add(connection)
        if self._ends_ns == _NO_TURN:
            self._start()

    def hold(self) -> None:
        """Give no more turns until `go_on`; connections that are served first need none.

        Called again and again meanwhile, as connections that wait close, or are then served first.
        """
        self.is_held = True
        self._left = 0
        self._waiting = _WaitingForTurn(each for each in self._waiting if each.is_open)
        if any(each.is_served_first for each in self._waiting):
            # The caller may be in the middle of an answer.
            self._loop.call_soon(self._let_first_go_on)

    def go_on(self) -> None:
        """Give turns again."""
        self.is_held = False
        if self._ends_ns == _NO_TURN:
            self._start()

    def _let_first_go_on(self) -> None:
        first = [each for each in self._waiting if each.is_served_first]
        self._waiting = _WaitingForTurn(each for each in self._waiting if not each.is_served_first)
        for each in first:
            each.on_turn()

    def _start(self) -> None:
        self._ends_ns = self._clock_ns() + TURN_NS
        self._left = 0 if self.is_held else TURN_REQUESTS_MAX
        self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._ends_ns = _NO_TURN
        if self.is_held or not self._waiting:
            return
        self._start()
        self._is_going_on = True
        try:
            for _ in range(len(self._waiting)):
                if not self._waiting or not self._has_left():
                    break
                self._waiting.take().on_turn()
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


class Answering(Protocol):
    """A connection whose answers wait to be read."""

    is_served_first: bool
    unread_since_ms: int | None
    """The time since which more waits than one connection may leave unread, or None."""

    def count_unread(self, now_ms: int) -> int:
        """Return the bytes that wait, and keep `unread_since_ms`."""
        ...

    def give_up(self, reason: str) -> None:
        """Close at once, and drop what waits."""
        ...


class UnreadAnswers:
    """The bytes of answers that wait to be read, of all connections of a listener.

    Connections that are served first have a sum of their own. `pacer` is held while the sum is at
    its limit; None holds nobody.
    """

    def __init__(
        self,
        bytes_max: int,
        connections: Collection[Answering],
        sweeper: Sweeper,
        *,
        pacer: RequestPacer | None,
    ) -> None:
        self._bytes_max = bytes_max
        # The connections are counted once in so many bytes of answers, and not for each answer.
        self._step_bytes = bytes_max // 16
        self._connections = connections
        self._sweeper = sweeper
        self._pacer = pacer
        self._is_of_first = pacer is None
        # No event tells that an answer has left, so this is an upper bound of the sum.
        self._bytes_at_most = 0
        self._count_at = bytes_max
        self._is_full = False
        self._is_exhausted = False

    def now_ms(self) -> int:
        """Return the time of the listener."""
        return self._sweeper.now_ms()

    def add(self, size_bytes: int) -> bool:
        """Count an answer; return False if there is twice as much as there may be."""
        self._bytes_at_most += size_bytes
        if self._bytes_at_most > self._count_at:
            self._count(self.now_ms())
        return not self._is_exhausted

    def sweep(self, now_ms: int) -> int | None:
        """Count again, and close peers that do not read; return when to do so again, or None."""
        unread_bytes = self._count(now_ms)
        for connection in self._silent(now_ms) if self._is_full else ():
            if not self._is_beyond(unread_bytes, self._bytes_max):
                break
            unread_bytes -= connection.count_unread(now_ms)
            connection.give_up(
                f"{self._bytes_max} bytes of answers of all connections wait to be read, which is "
                f"the limit, and it has not read its own for {UNREAD_MS_MAX} ms"
            )
        self._note(unread_bytes)
        return now_ms + UNREAD_CHECK_MS if self._is_full else None

    def _count(self, now_ms: int) -> int:
        unread_bytes = 0
        for each in self._connections:
            if each.is_served_first == self._is_of_first:
                unread_bytes += each.count_unread(now_ms)
        self._note(unread_bytes)
        if self._is_full:
            self._sweeper.watch(self, now_ms + UNREAD_CHECK_MS)
        return unread_bytes

    def _silent(self, now_ms: int) -> list[Answering]:
        """Return the connections that have left too much unread for too long, the longest first."""
        found = [
            (each.unread_since_ms, each)
            for each in self._connections
            if each.is_served_first == self._is_of_first and each.unread_since_ms is not None
        ]
        found = [each for each in found if now_ms - each[0] >= UNREAD_MS_MAX]
        found.sort(key=lambda each: each[0])
        return [connection for _, connection in found]

    def _is_beyond(self, unread_bytes: int, bytes_max: int) -> bool:
        """Return True unless a step below the limit is free: so much may come uncounted."""
        return unread_bytes + self._step_bytes > bytes_max

    def _note(self, unread_bytes: int) -> None:
        self._bytes_at_most = unread_bytes
        self._is_full = self._is_beyond(unread_bytes, self._bytes_max)
        self._is_exhausted = self._is_beyond(unread_bytes, 2 * self._bytes_max)
        self._count_at = unread_bytes + self._step_bytes if self._is_full else self._bytes_max
        if self._pacer is None:
            return
        if self._is_full:
            self._pacer.hold()
        elif self._pacer.is_held:
            self._pacer.go_on()
