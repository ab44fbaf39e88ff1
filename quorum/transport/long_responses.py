"""Responses that take long to make: in slices, between the other work of the event loop.

The first slice is made at once, so a short response waits for nobody. The rest of long ones is made
one after the other: a client that asks for many of them waits, and others hardly notice.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from time import perf_counter
from typing import Any, Final, TypeVar

from quorum.protocol.errors import ErrorCode, RequestRefused

T = TypeVar("T")

SLICE_SECONDS: Final = 0.002
"""The time of one slice. The work must pause more often than that."""
UNDER_WAY_MAX: Final = 256
"""Long responses that are under way on one node."""


class LongResponses:
    """The long responses that a node makes; used in the thread of the loop alone."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        """`clock` returns seconds; it measures the slices."""
        self._clock = clock
        self._under_way: deque[tuple[Generator[None, None, Any], asyncio.Future[Any]]] = deque()
        self._is_going_on = False

    @property
    def under_way(self) -> int:
        """The number of responses of which more than the first slice is to be made."""
        return len(self._under_way)

    def make(self, work: Generator[None, None, T]) -> asyncio.Future[T]:
        """Run the work, now as far as it fits into a slice; return what it will return.

        The work pauses by a yield. It is dropped once the future is cancelled. Errors of the work,
        and the refusal of one above the limit, are those of the future.
        """
        made: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self._run(work, made):
            return made
        if len(self._under_way) >= UNDER_WAY_MAX:
            # Those whose clients are gone keep nobody out.
            self._drop_cancelled()
        if len(self._under_way) >= UNDER_WAY_MAX:
            work.close()
            reason = f"{UNDER_WAY_MAX} long responses are under way; ask again later"
            made.set_exception(RequestRefused(ErrorCode.REQUEST_TIMED_OUT, reason))
            return made
        self._under_way.append((work, made))
        if not self._is_going_on:
            self._is_going_on = True
            asyncio.get_running_loop().call_soon(self._go_on)
        return made

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
        self._drop_cancelled()
        if self._under_way and self._run(*self._under_way[0]):
            self._under_way.popleft()
        self._is_going_on = bool(self._under_way)
        if self._is_going_on:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _drop_cancelled(self) -> None:
        for _ in range(len(self._under_way)):
            work, made = self._under_way.popleft()
            if made.cancelled():
                work.close()
            else:
                self._under_way.append((work, made))
