"""The idempotent producers of a partition, to detect duplicate and missing batches. Pure.

The leader checks the sequence before it appends. Leader, follower and recovery all record every
batch in the log, so that the next leader has the same state. A producer has at most five requests
in flight, which bounds the batches that it may repeat (KIP-98, KIP-185).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from broker.limits import PRODUCER_BATCHES_REMEMBERED, PRODUCERS_PER_PARTITION_MAX
from quorum.protocol.errors import ErrorCode
from quorum.records.batch import Header

SEQUENCE_MAX: Final = 2**31 - 1


class ProducedBatch(NamedTuple):
    """One batch of an idempotent producer and its offsets."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    end_offset: int
    """Exclusive."""
    timestamp_ms: int
    """The largest timestamp of the batch."""


@dataclass(slots=True)
class ProducerStateEntry:
    """One producer: its newest epoch and its last batches, oldest first."""

    epoch: int
    batches: list[ProducedBatch]


SavedProducer: TypeAlias = tuple[int, int, list[ProducedBatch]]
"""Producer id, epoch and batches."""


class ProducerStateManager:
    """The producers of one partition.

    Invariant: each entry has from one to `PRODUCER_BATCHES_REMEMBERED` batches with rising offsets;
    at most `PRODUCERS_PER_PARTITION_MAX` entries, in the order of their last batch.
    """

    __slots__ = ("_states",)

    def __init__(self) -> None:
        self._states: dict[int, ProducerStateEntry] = {}

    def check(self, header: Header) -> ProducedBatch | ErrorCode | None:
        """Check the sequence of a batch; None means that it is the next one.

        A `ProducedBatch` is the same batch, already in the log: acknowledge it with its offsets. An
        unknown producer may start with any sequence, because its earlier batches may have expired
        or been deleted (KIP-360).
        """
        state = self._states.get(header.producer_id)
        if state is None:
            return None
        first = header.base_sequence
        if header.producer_epoch < state.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if header.producer_epoch > state.epoch:
            return None if first == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        for known in state.batches:
            if (known.first_sequence, known.last_sequence) == (first, last_sequence(header)):
                return known
        if first == (state.batches[-1].last_sequence + 1) & SEQUENCE_MAX:
            return None
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def record(self, header: Header) -> None:
        """Record a batch that is in the log, whatever its sequence."""
        if header.producer_id < 0 or header.base_sequence < 0:
            return
        produced = ProducedBatch(
            header.base_sequence,
            last_sequence(header),
            header.base_offset,
            header.end_offset,
            header.max_timestamp_ms,
        )
        state = self._states.pop(header.producer_id, None)
        if state is None or state.epoch != header.producer_epoch:
            state = ProducerStateEntry(header.producer_epoch, [produced])
        else:
            state.batches.append(produced)
            del state.batches[:-PRODUCER_BATCHES_REMEMBERED]
        # Re-inserted: the mapping is ordered by the last batch.
        self._states[header.producer_id] = state
        if len(self._states) > PRODUCERS_PER_PARTITION_MAX:
            del self._states[next(iter(self._states))]

    def truncate(self, end_offset: int) -> bool:
        """Forget the batches at or after `end_offset`.

        Return whether some producer has none left: rebuild the state from the log then, because its
        earlier batches are not remembered.
        """
        complete = True
        for producer_id, state in list(self._states.items()):
            if state.batches[-1].end_offset <= end_offset:
                continue
            state.batches[:] = [each for each in state.batches if each.end_offset <= end_offset]
            if not state.batches:
                del self._states[producer_id]
                complete = False
        return not complete

    def saved(self) -> list[SavedProducer]:
        """The entries to save."""
        return [(id, each.epoch, each.batches) for id, each in self._states.items()]

    def restore(self, saved: Iterable[SavedProducer]) -> None:
        """Load saved entries."""
        for producer_id, epoch, batches in saved:
            self._states[producer_id] = ProducerStateEntry(epoch, batches)


def last_sequence(header: Header) -> int:
    """The sequence of the last record of a batch; sequences wrap from 2^31-1 to 0."""
    return (header.base_sequence + header.record_count - 1) & SEQUENCE_MAX
