"""Virtual time: a heap of what is still to happen. Nothing waits, and nothing happens by itself."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final, TypeAlias

from chaos.violation import Violation

EVENTS_AT_ONCE_MAX: Final = 5_000
"""Events of one millisecond. More of them are nodes that keep each other busy for ever."""

Happening: TypeAlias = Callable[[], None]


class Timeline:
    """What happens when. Of several things at one moment, that one is first which was put first."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.events = 0
        """How much has happened so far."""
        self._heap: list[tuple[int, int, Happening]] = []
        self._put = 0
        self._events_before = 0

    def after(self, delay_ms: int, happen: Happening) -> None:
        """Let this happen, once, so much later; at 0 it happens after all that is due now."""
        assert delay_ms >= 0
        self._put += 1
        heappush(self._heap, (self.now_ms + delay_ms, self._put, happen))

    def run_until(self, is_over: Callable[[], bool], *, deadline_ms: int) -> bool:
        """Let everything happen in its order; False if the deadline came before it was over."""
        heap = self._heap
        while not is_over():
            at_ms, _, happen = heap[0]
            if at_ms > deadline_ms:
                self.now_ms = deadline_ms
                return False
            heappop(heap)
            if at_ms > self.now_ms:
                self.now_ms, self._events_before = at_ms, self.events
            self.events += 1
            if self.events - self._events_before > EVENTS_AT_ONCE_MAX:
                raise Violation("liveness", "the nodes keep each other busy without end")
            happen()
        return True
