"""One timer for all deadlines of a process.

A timer per request costs more than the request. An object names its next deadline; at that time its
`sweep` handles all that are due and names the next one, late by at most `GRANULARITY_MS`.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

GRANULARITY_MS: Final = 20


class Sweepable(Protocol):
    def sweep(self, now_ms: int) -> int | None:
        """Handle every deadline up to `now_ms`; return the next one, or None."""
        ...


class Sweeper:
    """Calls `sweep` of each watched object at its deadline, grouped by `GRANULARITY_MS`.

    `clock_ms` gives monotonic milliseconds. Belongs to the running event loop of its first use.
    """

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._deadlines: dict[Sweepable, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    def now_ms(self) -> int:
        return self._clock_ms()

    def watch(self, sweepable: Sweepable, deadline_ms: int) -> None:
        """Sweep `sweepable` at `deadline_ms`, or before if it is watched for an earlier time."""
        known = self._deadlines.get(sweepable)
        if known is not None and known <= deadline_ms:
            return
        self._deadlines[sweepable] = deadline_ms
        self._arm(deadline_ms)

    def forget(self, sweepable: Sweepable) -> None:
        """Stop sweeping `sweepable`, watched or not."""
        self._deadlines.pop(sweepable, None)

    def sweep(self) -> None:
        """Handle everything due. The timer calls it; extra calls are harmless."""
        now_ms = self._clock_ms()
        due = [each for each, deadline_ms in self._deadlines.items() if deadline_ms <= now_ms]
        for sweepable in due:
            # The sweep of one object may forget another.
            if self._deadlines.pop(sweepable, None) is None:
                continue
            next_ms = sweepable.sweep(now_ms)
            if next_ms is not None:
                assert next_ms > now_ms, f"{sweepable} left {next_ms} undone at {now_ms}"
                self.watch(sweepable, next_ms)
        if self._deadlines:
            self._arm(min(self._deadlines.values()))

    def close(self) -> None:
        """Forget every object and stop the timer."""
        self._deadlines.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, deadline_ms: int) -> None:
        # Rounded up, so that deadlines close together share one wake-up.
        at_ms = -(-deadline_ms // GRANULARITY_MS) * GRANULARITY_MS
        if self._timer is not None:
            if self._timer_ms <= at_ms:
                return
            self._timer.cancel()
        delay_seconds = max(0, at_ms - self._clock_ms()) / 1_000
        self._timer_ms = at_ms
        self._timer = asyncio.get_running_loop().call_later(delay_seconds, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.sweep()
