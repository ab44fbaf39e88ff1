"""Responses that take long to make: in slices, between the other work of the event loop.

The first slice is made at once, so a short response waits for nobody. The rest of long ones is made
in turns of the addresses, and one after the other for each address: a client that asks for many of
them waits, and others hardly notice.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from time import perf_counter
from typing import Any, Final, TypeAlias, TypeVar

from quorum.protocol.errors import ErrorCode, RequestRefused

T = TypeVar("T")

SLICE_SECONDS: Final = 0.002
"""The time of one slice. The work must pause more often than that."""
UNDER_WAY_MAX: Final = 256
"""Long responses that are under way on one node; half of them may be of one address."""

Entry: TypeAlias = tuple[Generator[None, None, Any], "asyncio.Future[Any]"]


class LongResponses:
    """The long responses that a node makes; used in the thread of the loop alone."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        """`clock` returns seconds; it measures the slices."""
        self._clock = clock
        self._of_address: dict[str, deque[Entry]] = {}
        """Those under way; the address that comes first has the next slice."""
        self._is_going_on = False

    @property
    def under_way(self) -> int:
        """The number of responses of which more than the first slice is to be made."""
        return sum(map(len, self._of_address.values()))

    def make(self, work: Generator[None, None, T], network: str) -> asyncio.Future[T]:
        """Run the work, now as far as it fits into a slice; return what it will return.

        The work pauses by a yield. It is dropped once the future is cancelled. Errors of the work,
        and the refusal of one above the limit, are those of the future. `network` is the address of
        the client that counts for limits per address.
        """
        made: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self._run(work, made):
            return made
        if not self._has_room(network):
            # Those whose clients are gone keep nobody out.
            self._drop_cancelled()
        if not self._has_room(network):
            work.close()
            reason = f"{UNDER_WAY_MAX} long responses are under way; ask again later"
            made.set_exception(RequestRefused(ErrorCode.REQUEST_TIMED_OUT, reason))
            return made
        self._of_address.setdefault(network, deque()).append((work, made))
        if not self._is_going_on:
            self._is_going_on = True
            asyncio.get_running_loop().call_soon(self._go_on)
        return made

    def _has_room(self, network: str) -> bool:
        of_address = len(self._of_address.get(network, ()))
        return self.under_way < UNDER_WAY_MAX and of_address < UNDER_WAY_MAX // 2

    def _run(self, work: Generator[None, None, T], made: asyncio.Future[T]) -> bool:
        """Run a slice of the work; return True if it has ended."""
        until = self._clock() + SLICE_SECONDS
        try:
            next(work)
            while self._clock() < until:
                next(work)
        except StopIteration as end:
            made.set_result(end.value)
            return True
        except Exception as error:  # noqa: BLE001 - whoever awaits the response gets it
            made.set_exception(error)
            return True
        return False

    def _go_on(self) -> None:
        """Run a slice of the first response of the next address, whose turn comes last then."""
        self._drop_cancelled()
        if self._of_address:
            address = next(iter(self._of_address))
            entries = self._of_address.pop(address)
            if self._run(*entries[0]):
                entries.popleft()
            if entries:
                self._of_address[address] = entries
        self._is_going_on = bool(self._of_address)
        if self._is_going_on:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _drop_cancelled(self) -> None:
        for address, entries in tuple(self._of_address.items()):
            for _ in range(len(entries)):
                work, made = entries.popleft()
                if made.cancelled():
                    work.close()
                else:
                    entries.append((work, made))
            if not entries:
                del self._of_address[address]
