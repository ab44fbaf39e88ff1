"""What a partition remembers of its idempotent producers, so that a batch sent twice is kept once.

Pure: it sees only the headers of batches. The leader asks `verdict` before it appends; leader and
follower, and recovery as well, `note` every batch that is in the log, so that whoever leads next
knows the same. Which batches a producer may repeat is bounded by the five requests that it may
have under way (KIP-98, KIP-185).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from broker.limits import PRODUCER_BATCHES_REMEMBERED, PRODUCERS_PER_PARTITION_MAX

NO_PRODUCER: Final = -1
SEQUENCE_MAX: Final = 2**31 - 1


class ProducedBatch(NamedTuple):
    """One batch of an idempotent producer and where it lies in the log."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    end_offset: int
    """Exclusive."""
    timestamp_ms: int
    """The largest timestamp of the batch."""


class BatchOrigin(NamedTuple):
    """What the header of a batch says of its producer."""

    producer_id: int
    producer_epoch: int
    first_sequence: int
    last_sequence: int


class SequenceError(Enum):
    """Why a batch of an idempotent producer is not appended, with Kafka's error code."""

    code: int
    meaning: str

    OUT_OF_ORDER = 45, "a batch that this producer sent before is missing"
    OLD_EPOCH = 47, "a newer epoch of this producer is in the log"

    def __init__(self, code: int, meaning: str) -> None:
        self.code = code
        self.meaning = meaning


@dataclass(slots=True)
class ProducerStateEntry:
    """One producer: its newest epoch, and the last batches it wrote in it, oldest first."""

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
    """The origin of a batch; sequences run from 0 to 2^31-1 and start over."""
    last = (base_sequence + record_count - 1) & SEQUENCE_MAX
    return BatchOrigin(producer_id, producer_epoch, base_sequence, last)


class ProducerStateManager:
    """The producers of one partition.

    Invariant: every state has from one to `PRODUCER_BATCHES_REMEMBERED` batches, their offsets
    rising; at most `PRODUCERS_PER_PARTITION_MAX` states, in the order of their last batch.
    """

    __slots__ = ("_states",)

    def __init__(self) -> None:
        self._states: dict[int, ProducerStateEntry] = {}

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[tuple[int, ProducerStateEntry]]:
        return iter(self._states.items())

    def verdict(self, batch: BatchOrigin) -> ProducedBatch | SequenceError | None:
        """What to do with a batch that a client sent: None says that it is the next one.

        A `ProducedBatch` is the same batch, already in the log: it is acknowledged with the place
        that it has. A producer that is not known may begin with any sequence, because what it
        wrote before may have been forgotten or deleted (KIP-360).
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

    def note(
        self, batch: BatchOrigin, base_offset: int, end_offset: int, timestamp_ms: int
    ) -> None:
        """Remember a batch that is in the log now, whatever its sequence: the log decides."""
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
        # Put in last: the order of the mapping is the order of the last batches.
        self._states[batch.producer_id] = state
        if len(self._states) > PRODUCERS_PER_PARTITION_MAX:
            del self._states[next(iter(self._states))]

    def truncate(self, end_offset: int) -> bool:
        """Forget the batches at or after `end_offset`.

        Returns whether some producer has none left: what it wrote before those must then be read
        from the log again, into an empty `ProducerStateManager`.
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
        """Take over what was remembered elsewhere: producer id, epoch and batches of each."""
        for producer_id, epoch, batches in states:
            self._states[producer_id] = ProducerStateEntry(epoch, list(batches))


def _next(sequence: int) -> int:
    return (sequence + 1) & SEQUENCE_MAX
