"""The state machine of the simulated nodes, written as an embedder would write one.

`quorum.embedding` applies committed records to it, and takes and loads its snapshots.
`chaos.invariants.history` computes the expected state independently.
"""

from collections.abc import Iterable, Iterator, Sequence

from chaos.invariants.history import CLOSES, OPENS, SLOTS, State

GROUP_RECORDS = 3
"""Small, so that a snapshot takes several turns."""


class Ledger:
    """See `quorum.embedding.Machine`."""

    def __init__(self) -> None:
        self._counted = 0
        self._slots = [b""] * SLOTS
        self._open: list[bytes] | None = None

    @property
    def is_open(self) -> bool:
        """True in the middle of a transaction, which a snapshot cannot represent."""
        return self._open is not None

    @property
    def state(self) -> State:
        """Its state, for the checkers."""
        pending = None if self._open is None else tuple(self._open)
        return State(self._counted, tuple(self._slots), pending)

    def apply(self, record: bytes) -> None:
        """See `quorum.embedding.Machine`."""
        match record[:1]:
            case b"(":
                self._open = []
            case b")":
                closed, self._open = self._open or [], None
                for each in closed:
                    self._note(each)
            case _ if self._open is not None:
                self._open.append(record)
            case _:
                self._note(record)

    def _note(self, record: bytes) -> None:
        number, _, _ = record.partition(b" ")
        self._counted += 1
        self._slots[int(number) % SLOTS] = record

    def snapshot(self) -> Iterator[Sequence[bytes]]:
        """See `quorum.embedding.Machine`."""
        records = [str(self._counted).encode(), *self._slots]
        for start in range(0, len(records), GROUP_RECORDS):
            yield records[start : start + GROUP_RECORDS]

    def load_snapshot(self, records: Iterable[bytes]) -> None:
        """See `quorum.embedding.Machine`."""
        counted, *slots = records
        if len(slots) != SLOTS:
            raise ValueError(f"{len(slots)} slots, not {SLOTS}")
        self._counted, self._slots, self._open = int(counted), slots, None


assert (OPENS, CLOSES) == (b"(", b")")
