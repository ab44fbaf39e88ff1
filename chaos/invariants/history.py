"""The committed log, as the checkers have counted it, and its folded state.

A log whose prefix was replaced by a snapshot continues from here: the snapshot stands for a prefix
of this history. `State` specifies the state machine of the simulated nodes (`Ledger`) a second
time, over the bytes of the log. A record puts its text into a slot by its number. `(` opens a
transaction; its records count when `)` closes it, and are dropped when another one is opened.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from chaos.invariants.disk_format import StoredBatch, records
from chaos.invariants.voter_sets import VoterSet, voter_set_in


class History:
    """The committed log of one run; it only grows."""

    state_rule = "R20"
    """The invariant that the state of every machine equals the fold of this log."""

    def __init__(self) -> None:
        self.batches: list[StoredBatch] = []
        self.assigned: list[VoterSet] = []
        """The committed voter sets."""
        self._ends: list[int] = []
        self._by: list[int] = []
        self._states: list[Any] = []

    @property
    def end(self) -> int:
        """The end offset of the committed log."""
        return self._ends[-1] if self._ends else 0

    def add(self, batch: StoredBatch, epoch: int) -> None:
        """Add a batch, committed by the leader of this epoch."""
        self.batches.append(batch)
        self._ends.append(batch.end)
        self._by.append(epoch)
        self._states.append(self._state_after(batch))
        assigned = voter_set_in(*batch) if batch.is_control else None
        self.assigned += [] if assigned is None else [assigned]

    def has(self, batch: StoredBatch) -> bool:
        """True if exactly this batch is committed."""
        at = bisect_left(self._ends, batch.end)
        return at < len(self.batches) and self.batches[at] == batch

    def between(self, start: int, end: int) -> list[StoredBatch]:
        """The batches from `start` to `end`, both of them boundaries."""
        low, high = (bisect_right(self._ends, each) for each in (start, end))
        return self.batches[low:high]

    def before_epoch(self, epoch: int) -> list[StoredBatch]:
        """The batches that leaders of lower epochs have committed."""
        return self.batches[: bisect_left(self._by, epoch)]

    # --- as of one offset --------------------------------------------------------------------

    def is_boundary(self, offset: int) -> bool:
        """True if a committed batch ends at this offset."""
        at = bisect_left(self._ends, offset)
        return offset == 0 or (at < len(self._ends) and self._ends[at] == offset)

    def epoch_before(self, offset: int) -> int:
        """The epoch of the last record before a boundary; 0 if there is none."""
        return self.batches[bisect_left(self._ends, offset)].epoch if offset else 0

    def state_at(self, offset: int) -> Any:
        """The state at a batch boundary."""
        return self._states[bisect_left(self._ends, offset)] if offset else State()

    def contradiction(self, end: int, values: list[bytes]) -> tuple[str, str] | None:
        """The rule that a snapshot up to `end` breaks with these records, and how; or None."""
        state = self.state_at(end)
        if state.pending is not None:
            return "R21", "in the middle of a transaction"
        return (
            None if values == state.records() else ("R20", f"with {values}, not {state.records()}")
        )

    def _state_after(self, batch: StoredBatch) -> Any:
        """The state after the next committed batch."""
        return after(self._states[-1] if self._states else State(), batch)

    def assigned_at(self, offset: int) -> list[VoterSet]:
        """The voter sets below a batch boundary."""
        return [each for each in self.assigned if each.end <= offset]


def in_common(before: Sequence[StoredBatch], now: Sequence[StoredBatch]) -> int:
    """The number of leading batches that two logs share."""
    common = min(len(before), len(now))
    if before[:common] == now[:common]:
        return common
    return next(at for at in range(common) if before[at] != now[at])


SLOTS: Final = 8
OPENS: Final = b"("
CLOSES: Final = b")"

Slots: TypeAlias = tuple[bytes, ...]


class State(NamedTuple):
    """The folded state of a log. The record count detects records that are applied twice."""

    counted: int = 0
    slots: Slots = (b"",) * SLOTS
    pending: tuple[bytes, ...] | None = None
    """The records of an open transaction; None if none is open."""

    def records(self) -> list[bytes]:
        """The records of a snapshot of this state; an open transaction is not in it."""
        return [b"%d" % self.counted, *self.slots]


def after(state: State, batch: StoredBatch) -> State:
    """The state once this batch is committed."""
    if batch.is_control:
        return state
    counted, slots, pending = state.counted, list(state.slots), state.pending
    for _, value in records(batch.data):
        if value.startswith(OPENS):
            pending = ()
        elif value.startswith(CLOSES):
            for each in pending or ():
                counted, slots = counted + 1, _put(slots, each)
            pending = None
        elif pending is not None:
            pending = (*pending, value)
        else:
            counted, slots = counted + 1, _put(slots, value)
    return State(counted, tuple(slots), pending)


def _put(slots: list[bytes], value: bytes) -> list[bytes]:
    slots[int(value.split(b" ", 1)[0]) % SLOTS] = value
    return slots
