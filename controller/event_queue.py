"""The work of one controller, piece after piece and a slice at a time, so that nobody stands still.

The image must not change under a decision, so that decisions follow each other, in the order in
which they were asked for. Those that take long are interrupted about every two milliseconds: then
the quorum, the network and the disk have their turns, and the work goes on after them. What a piece
of work is, is not known here.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from statemachine.slices import Slices

SLICE_US: Final = 2_000
"""Of work in one turn, by what it says of itself."""

WAITING_PIECES_MAX: Final = 10_000
"""Pieces of work that wait for their turn; there is no room for a further one."""

Later: TypeAlias = Callable[[Callable[[], None]], object]
"""Has something called in a moment, and once, after whatever else is due now."""


class _Piece(NamedTuple):
    work: Slices[None]
    lost: Callable[[], None]


class ControllerEventQueue:
    """Pieces of work in the order in which they came; the first one may be under way."""

    def __init__(self, later: Later | None, slice_us: int | None = None) -> None:
        """Without `later` everything is done at once; `slice_us` is for one turn, None as usual."""
        self._later = later
        self._slice_us = slice_us
        self._pieces: deque[_Piece] = deque()
        self._is_due = False
        self._is_busy = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way, or waits."""
        return not self._pieces

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another piece of work."""
        return len(self._pieces) >= WAITING_PIECES_MAX

    def add(self, work: Slices[None], lost: Callable[[], None]) -> None:
        """Do this after what came before it, now if there is nothing; `lost` if it comes to that.

        What the work raises ends it, and is raised here or where `later` calls.
        """
        self._pieces.append(_Piece(work, lost))
        # Who is added by a piece of work that is under way waits for its end.
        if not self._is_busy:
            self._go_on()

    def lose(self) -> None:
        """Nothing of this will be done any more; say so to everyone, in their order."""
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
            if self._is_busy:
                self._call_again()

    def _take(self, left_us: int) -> int:
        """Do the first piece, or as much of it as that is enough for; returns what is left of it.

        What is done at once costs nothing.
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

    def _call_again(self) -> None:
        assert self._later is not None, "what is done at once is done by now"
        if not self._is_due:
            self._is_due = True
            self._later(self._called)

    def _called(self) -> None:
        self._is_due = False
        self._go_on()
