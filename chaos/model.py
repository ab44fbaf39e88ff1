"""What the committed records make of a state, for the judges: a fold over batches.

The rules of the state machine of the simulated nodes (`chaos.ledger`), written once more, and
over the bytes of the log instead of over what the product reads from them. A record puts its text
into a slot by its number; `(` opens a transaction, whose records count when `)` closes it, and not
at all when another one is opened.
"""

from typing import Final, NamedTuple, TypeAlias

from chaos.stored import Stored, records

SLOTS: Final = 8
OPENS: Final = b"("
CLOSES: Final = b")"

Slots: TypeAlias = tuple[bytes, ...]


class State(NamedTuple):
    """What a log has come to. How many records have counted shows that none did twice."""

    counted: int = 0
    slots: Slots = (b"",) * SLOTS
    pending: tuple[bytes, ...] | None = None
    """The records of an open transaction; None where there is none."""

    def told(self) -> list[bytes]:
        """The records that a snapshot of it has: outside of a transaction, for it says nothing."""
        return [b"%d" % self.counted, *self.slots]


def after(state: State, batch: Stored) -> State:
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
