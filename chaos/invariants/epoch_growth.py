"""R31: the growth of epochs, read from the disks.

An election adds one to the highest epoch of the quorum. More than that comes from a request that
was forged, and reaches the disk of the replica that believed it first. One process believes 2^20 of
such epochs, and one more in 100 ms.
"""

from typing import Final

from chaos.invariants.durable_state import Incarnation
from chaos.violation import Violation

LEAP_MAX: Final = 1 << 20
REFILL_MS: Final = 100
SLACK: Final = 1_000
"""Elections of which the disk saw only the last one, and clocks that are fast."""


class EpochGrowth:
    """The epochs that were skipped in one run."""

    def __init__(self) -> None:
        self._highest = 0
        self._skipped: dict[int, int] = {}

    @property
    def highest(self) -> int:
        """The highest epoch on any disk so far."""
        return self._highest

    def kept(self, who: Incarnation, now_ms: int) -> None:
        """The vote on its disk may have changed."""
        epoch = who.durable.vote.epoch
        leap, self._highest = epoch - self._highest - 1, max(epoch, self._highest)
        if leap <= 0:
            return
        skipped = self._skipped[who.boot] = self._skipped.get(who.boot, 0) + leap
        if skipped > LEAP_MAX + now_ms // REFILL_MS + SLACK:
            raise Violation("R31", f"{who} has skipped {skipped} epochs, and is in {epoch}")
