"""The event queue of one controller: work in order, in slices of about two milliseconds.

The image must not change during a decision, so decisions follow each other in order. A long one
pauses between slices for the quorum, the network and the disk.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from statemachine.slices import Slices

SLICE_US: Final = 2_000
"""The work in one turn, by its own estimate."""

WAITING_PIECES_MAX: Final = 10_000
"""Pieces of work that wait for their turn; the queue takes no further one."""

Later: TypeAlias = Callable[[Callable[[], None]], object]
"""Schedules a call after everything that is due now."""


class _Piece(NamedTuple):
    work: Slices[None]
    lost: Callable[[], None]


class ControllerEventQueue:
    """Pieces of work in order; the first one may be under way."""

    def __init__(self, later: Later | None, slice_us: int | None = None) -> None:
        """Without `later` nothing is sliced; `slice_us` overrides the length of a turn."""
        self._later = later
        self._slice_us = slice_us
        self._pieces: deque[_Piece] = deque()
        self._is_due = False
        self._is_busy = False

    @property
    def is_idle(self) -> bool:
        """True if nothing is under way or waits."""
        return not self._pieces

    @property
    def is_full(self) -> bool:
        """True if the queue takes no further work."""
        return len(self._pieces) >= WAITING_PIECES_MAX

    def add(self, work: Slices[None], lost: Callable[[], None]) -> None:
        """Add work behind all other work, and start it if there is none.

        `lost` is called if the lead is lost before. An exception of the work ends it and is raised
        here, or where `later` calls.
        """
        self._pieces.append(_Piece(work, lost))
        # Work that is added by the work under way waits for its end.
        if not self._is_busy:
            self._go_on()

    def add_next(self, work: Slices[None], lost: Callable[[], None]) -> None:
        """Add work directly behind that under way."""
        self._pieces.insert(1, _Piece(work, lost))

    def lose(self) -> None:
        """Drop all work and call `lost` of each piece, in order."""
        pieces, self._pieces = self._pieces, deque()
        for piece in pieces:
            piece.work.close()
            piece.lost()

    def _go_on(self) -> None:
        self._is_busy = True
        left_us = SLICE_US if self._slice_us is None else self._slice_us
        try:
            while self._pieces and left_us > 0:
                left_us = self._take(left_us)
        finally:
            self._is_busy = bool(self._pieces) and self._later is not None
            if self._later is not None and self._is_busy and not self._is_due:
                self._is_due = True
                self._later(self._on_turn)

    def _take(self, left_us: int) -> int:
        """Work on the first piece, and return the remaining time of this turn.

        Without `later` work costs no time.
        """
        share = 0 if self._later is None else 1
        try:
            for cost_us in self._pieces[0].work:
                left_us -= share * cost_us
                if left_us <= 0:
                    return left_us
        except BaseException:
            self._pieces.popleft()
            raise
        self._pieces.popleft()
        return left_us

    def _on_turn(self) -> None:
        self._is_due = False
        self._go_on()
