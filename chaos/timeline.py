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
        self._heap: list[tuple[int, int, Happening]] = []
        self._put = 0
        self._at_once = 0
        """How much has happened in this millisecond."""

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
            if at_ms != self.now_ms:
                if at_ms > deadline_ms:
                    self.now_ms = deadline_ms
                    return False
                self.now_ms, self._at_once = at_ms, 0
            heappop(heap)
            self._at_once += 1
            if self._at_once > EVENTS_AT_ONCE_MAX:
                raise Violation("liveness", "the nodes keep each other busy without end")
            happen()
        return True
