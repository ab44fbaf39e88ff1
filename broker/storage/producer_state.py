"""The idempotent producers of a partition, to detect duplicate and missing batches. Pure.

The leader checks the sequence before it appends. Leader, follower and recovery all record every
batch in the log, so that the next leader has the same state. A producer has at most five requests
in flight, which bounds the batches that it may repeat (KIP-98, KIP-185).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from broker.limits import PRODUCER_BATCHES_REMEMBERED, PRODUCERS_PER_PARTITION_MAX
from quorum.protocol.errors import ErrorCode

NO_PRODUCER: Final = -1
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


class BatchOrigin(NamedTuple):
    """The producer fields of a batch header."""

    producer_id: int
    producer_epoch: int
    first_sequence: int
    last_sequence: int


class SequenceError(Enum):
    """The reason to reject a batch of an idempotent producer, with Kafka's error code."""

    code: int
    meaning: str

    OUT_OF_ORDER = (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        "an earlier batch of this producer is missing",
    )
    OLD_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH, "a newer epoch of this producer is in the log"

    def __init__(self, code: int, meaning: str) -> None:
        self.code = code
        self.meaning = meaning


@dataclass(slots=True)
class ProducerStateEntry:
    """One producer: its newest epoch and its last batches, oldest first."""

    epoch: int
    batches: list[ProducedBatch]

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end_offset


def origin(
    producer_id: int, producer_epoch: int, base_sequence: int, record_count: int
) -> BatchOrigin:
    """The producer fields of a batch; sequences wrap from 2^31-1 to 0."""
    last = (base_sequence + record_count - 1) & SEQUENCE_MAX
    return BatchOrigin(producer_id, producer_epoch, base_sequence, last)


class ProducerStateManager:
    """The producers of one partition.

    Invariant: each entry has from one to `PRODUCER_BATCHES_REMEMBERED` batches with rising offsets;
    at most `PRODUCERS_PER_PARTITION_MAX` entries, in the order of their last batch.
    """

    __slots__ = ("_states",)

    def __init__(self) -> None:
        self._states: dict[int, ProducerStateEntry] = {}

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[tuple[int, ProducerStateEntry]]:
        return iter(self._states.items())

    def check(self, batch: BatchOrigin) -> ProducedBatch | SequenceError | None:
        """Check the sequence of a batch; None means that it is the next one.

        A `ProducedBatch` is the same batch, already in the log: acknowledge it with its offsets. An
        unknown producer may start with any sequence, because its earlier batches may have expired
        or been deleted (KIP-360).
        """
        state = self._states.get(batch.producer_id)
        if state is None:
            return None
        if batch.producer_epoch < state.epoch:
            return SequenceError.OLD_EPOCH
        if batch.producer_epoch > state.epoch:
            return None if batch.first_sequence == 0 else SequenceError.OUT_OF_ORDER
        for known in state.batches:
            same = known.first_sequence == batch.first_sequence
            if same and known.last_sequence == batch.last_sequence:
                return known
        if batch.first_sequence == _next(state.last_sequence):
            return None
        return SequenceError.OUT_OF_ORDER

    def record(
        self, batch: BatchOrigin, base_offset: int, end_offset: int, timestamp_ms: int
    ) -> None:
        """Record a batch that is in the log, whatever its sequence."""
        if batch.producer_id == NO_PRODUCER:
            return
        produced = ProducedBatch(
            batch.first_sequence, batch.last_sequence, base_offset, end_offset, timestamp_ms
        )
        state = self._states.pop(batch.producer_id, None)
        if state is None or state.epoch != batch.producer_epoch:
            state = ProducerStateEntry(batch.producer_epoch, [produced])
        else:
            state.batches.append(produced)
            del state.batches[:-PRODUCER_BATCHES_REMEMBERED]
        # Re-inserted: the mapping is ordered by the last batch.
        self._states[batch.producer_id] = state
        if len(self._states) > PRODUCERS_PER_PARTITION_MAX:
            del self._states[next(iter(self._states))]

    def truncate(self, end_offset: int) -> bool:
        """Forget the batches at or after `end_offset`.

        Return whether some producer has none left: rebuild the state from the log then, because its
        earlier batches are not remembered.
        """
        complete = True
        for producer_id, state in list(self._states.items()):
            if state.end_offset <= end_offset:
                continue
            state.batches[:] = [each for each in state.batches if each.end_offset <= end_offset]
            if not state.batches:
                del self._states[producer_id]
                complete = False
        return not complete

    def restore(self, states: Iterable[tuple[int, int, Iterable[ProducedBatch]]]) -> None:
        """Load saved entries: producer id, epoch and batches."""
        for producer_id, epoch, batches in states:
            self._states[producer_id] = ProducerStateEntry(epoch, list(batches))


def _next(sequence: int) -> int:
    return (sequence + 1) & SEQUENCE_MAX
