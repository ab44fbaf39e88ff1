"""Whether a disk is so quick that the event loop itself may wait for it; times it, and no more.

Handing a commit to a thread and back costs several switches between threads, and while the loop is
busy the thread waits milliseconds for the interpreter. Where a commit takes a fraction of that, it
is better made in the loop. A disk that becomes slow holds the loop up twice; from then on commits
go to the thread again, and now and then one is made in the loop to see whether the disk is quick.
"""

from typing import Final

QUICK_SECONDS: Final = 0.000_5
"""A commit that takes longer, on the average, is not waited for. Timed by the wall: on a machine
with more to do than it has cores the thread has it, which the system gives a share of its own."""

COUNTED_SECONDS_MAX: Final = 4 * QUICK_SECONDS
"""As so long counts a commit that takes longer: a single one, on a machine that had something else
to do, says nothing of the disk. Two of them within a few commits do."""

FEW_RECORDS: Final = 8
"""A commit of more is made by the thread where others are to be told first: whoever has so many
records at a time has more on the way, and the loop can take that in while the disk works."""

FIRST_TRY_AFTER: Final = 2
"""Commits by the thread before the first one is tried in the loop."""

TRY_AFTER: Final = 16
TRY_AFTER_MAX: Final = 1_024
"""Commits by the thread before one is tried in the loop again; doubled while the disk is slow."""

_SHARE_OF_LAST: Final = 1 / 8


class Pace:
    """How long commits in the loop take; a disk is slow until it has been tried."""

    __slots__ = ("_is_quick", "_mean_seconds", "_try_after", "_until_try")

    def __init__(self) -> None:
        self._is_quick = False
        self._mean_seconds = 0.0
        self._try_after = TRY_AFTER // 2
        self._until_try = FIRST_TRY_AFTER

    def may_wait(self) -> bool:
        """Whether to make the next commit in the loop, and then to say how long it `took`."""
        if self._is_quick:
            return True
        self._until_try -= 1
        return self._until_try <= 0

    def took(self, seconds: float) -> None:
        """Note how long a commit in the loop took."""
        if self._is_quick:
            counted = min(seconds, COUNTED_SECONDS_MAX)
            self._mean_seconds += (counted - self._mean_seconds) * _SHARE_OF_LAST
        else:
            self._mean_seconds = seconds
        was_quick, self._is_quick = self._is_quick, self._mean_seconds < QUICK_SECONDS
        if was_quick or self._is_quick:
            self._try_after = TRY_AFTER
        else:
            self._try_after = min(2 * self._try_after, TRY_AFTER_MAX)
        self._until_try = self._try_after
