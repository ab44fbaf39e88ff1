"""Append the records of a decision to the log and replay them into the image, in slices.

Several batches form a transaction (KIP-868): it is aborted if the lead is lost in between, and
Kafka's brokers apply it only at its end. Until the last batch is replayed, decisions, reads and
later commits wait.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from controller.deferred import DeferredEventQueue
from controller.ports import RaftClient
from quorum.core.limits import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, UNCOMMITTED_RECORDS_MAX
from quorum.core.vocabulary import Offset
from quorum.metadata_loader import MetadataLoader
from quorum.ports import Clock
from statemachine.commands import (
    AlterPartition,
    AlterReassignments,
    BeginMove,
    CancelMoves,
    Command,
    CreatePartitions,
    CreateTopics,
    FenceBrokers,
    IdempotentCommand,
    RollBackMove,
    is_dry_run,
)
from statemachine.image.bulk_replay import replay_isrs, replay_values
from statemachine.image.image import Image
from statemachine.image.partition_table import IsrChange
from statemachine.limits import (
    CREATED_PARTITIONS_MAX,
    DISTRUSTED_PARTITIONS_MAX,
    LEAVING_PARTITIONS_MAX,
)
from statemachine.partitions.registration import PartitionRegistration as PartitionValue
from statemachine.records.codec import encode
from statemachine.records.isr_changes import IsrChanges, encode_isr, encode_isrs
from statemachine.records.kafka_records import (
    BeginTransaction,
    EndTransaction,
    Partition,
    Record,
    RegisterBroker,
    RemoveTopic,
)
from statemachine.replay import replay_decided, replay_isr
from statemachine.slices import Slices

REPLAYED_US: Final = 6
"""Cost of replaying one record."""
REMOVED_US: Final = 500
"""Cost of replaying the removal of a topic with a thousand partitions."""
_REFUSED_US: Final = 1_000_000
"""More than any slice: the append waits for the next turn."""
_AT_ONCE: Final = 16
"""Records replayed between two pauses."""
TOGETHER_US: Final = 2
"""Cost of replaying one of many new partitions."""
ISR_REPLAYED_US: Final = 2
"""Cost of replaying one of many ISRs."""
_TOGETHER: Final = 128
"""New partitions replayed between two pauses."""

TRANSACTION_RECORDS_MAX: Final = 120_000
"""Records of one decision."""

CUT_RECORDS_MAX: Final = 2_500
"""Records of one of several batches: a few milliseconds to append."""

_NAME: Final = "one decision"
_ENCODED_US: Final = 3
"""Cost of encoding one record."""
_ENCODED_AT_ONCE: Final = 16
_WRITTEN_TOGETHER_US: Final = 1
"""Cost of encoding one of many records that change only an ISR."""
_PUT_TOGETHER_US: Final = 1_000
"""Cost of assembling a large batch."""

assert TRANSACTION_RECORDS_MAX + 2 <= UNCOMMITTED_RECORDS_MAX
assert max(CREATED_PARTITIONS_MAX, LEAVING_PARTITIONS_MAX) < TRANSACTION_RECORDS_MAX
assert DISTRUSTED_PARTITIONS_MAX < BATCH_RECORDS_MAX


def records_asked(image: Image, command: Command) -> int:
    """Estimate the records of a decision if nothing is refused.

    0 for a decision that is quick or empty; never more than one decision may have.
    """
    if is_dry_run(command):
        return 0
    match command:
        case IdempotentCommand(command=asked):
            return records_asked(image, asked)
        case (
            AlterReassignments(reassignments=parts)
            | BeginMove(reassignments=parts)
            | AlterPartition(proposals=parts)
        ):
            count = len(parts)
        case CancelMoves(everything=True):
            count = len(image.index.moving)
        case CancelMoves():
            count = sum(len(image.index.keys_of_move(each)) for each in command.moves)
        case RollBackMove(move_id=move_id) if move_id in image.moves:
            count = image.moves[move_id].begun.partitions
        case CreateTopics(topics=topics):
            count = sum(max(each.partition_count, len(each.assignments)) for each in topics)
        case CreatePartitions(topics=more):
            count = sum(each.count - _partitions(image, each.name) for each in more)
        case FenceBrokers(broker_ids=broker_ids):
            count = sum(image.index.count(image.index.isr_of, each) for each in broker_ids)
        case _:
            return 0
    return min(max(0, count), TRANSACTION_RECORDS_MAX)


def _partitions(image: Image, name: str) -> int:
    topic_id = image.topic_ids.get(name)
    return 0 if topic_id is None else len(image.topics[topic_id].partitions)


class Batch(NamedTuple):
    """Records that are appended together, and their bytes."""

    records: Sequence[Record]
    values: list[bytes]


def batching(records: Sequence[Record], level: int) -> Slices[list[Batch] | None]:
    """Return the batches for `records` at this level of metadata.version; None if too large."""
    values, has_broker = yield from _written(records, level)
    if not values:
        return []
    if len(values) <= BATCH_RECORDS_MAX and sum(map(len, values)) <= BATCH_BYTES_MAX:
        return [Batch(records, values)]
    if len(values) > TRANSACTION_RECORDS_MAX or max(map(len, values)) > BATCH_BYTES_MAX:
        return None
    # A broker's epoch is the offset of its record, and the opening record would shift it.
    assert not has_broker
    yield _PUT_TOGETHER_US
    begin, end = BeginTransaction(name=_NAME), EndTransaction()
    every = (begin, *records, end)
    return (yield from _cut(every, [encode(begin, level), *values, encode(end, level)]))


def _written(records: Sequence[Record], level: int) -> Slices[tuple[list[bytes], bool]]:
    """Return the encoded records, and whether one of them registers a broker."""
    values: list[bytes] = []
    if isinstance(records, IsrChanges):
        for some in records.topics:
            values += encode_isrs(some, level)
            yield _WRITTEN_TOGETHER_US * len(some.numbers)
        return values, False
    has_broker = False
    for each in records:
        values.append(encode(each, level))
        has_broker = has_broker or isinstance(each, RegisterBroker)
        if not len(values) % _ENCODED_AT_ONCE:
            yield _ENCODED_AT_ONCE * _ENCODED_US
    return values, has_broker


def _cut(records: Sequence[Record], values: list[bytes]) -> Slices[list[Batch]]:
    found: list[Batch] = []
    start = size_bytes = 0
    for place, value in enumerate(values):
        is_full = place - start == CUT_RECORDS_MAX or size_bytes + len(value) > BATCH_BYTES_MAX
        if is_full:
            found.append(Batch(records[start:place], values[start:place]))
            start, size_bytes = place, 0
            yield _PUT_TOGETHER_US
        size_bytes += len(value)
    found.append(Batch(records[start:], values[start:]))
    return found


class RecordAppender:
    """Appends records on the active controller."""

    def __init__(
        self, loader: MetadataLoader[Image], deferred: DeferredEventQueue, clock: Clock
    ) -> None:
        self._loader = loader
        self._deferred = deferred
        self._clock = clock
        self.last_ms = 0
        """The time of the last append."""
        self._start: Offset | None = None
        self._high_watermark = Offset(0)
        self._end = Offset(0)

    @property
    def is_halfway(self) -> bool:
        """True while the log has records that the image lacks."""
        return self._start is not None

    def append(
        self,
        quorum: RaftClient,
        batches: list[Batch],
        decided: Mapping[int, PartitionValue] = MappingProxyType({}),
    ) -> Slices[None]:
        """Propose these batches, which the quorum accepts, and replay them.

        They are proposed one by one, and the list is emptied: to free them all at once would take
        long. `decided` are the changed partitions.
        """
        image = self._loader.image
        self.last_ms = self._clock()
        batches.reverse()
        while batches:
            batch = batches.pop()
            while not quorum.accepts(len(batch.values)):
                # The lead is being transferred, or the disk is full: retry until the lead is lost.
                yield _REFUSED_US
            self._take_end()
            base = quorum.propose(batch.values)
            assert base == image.end_offset, f"{base}, not {image.end_offset}"
            self._start = base if self._start is None else self._start
            if isinstance(batch.records, IsrChanges):
                yield from self._replay_isrs(batch.records, base)
            elif len(batch.values) >= _TOGETHER and _says_partitions(batch):
                yield from self._replay_together(batch, base)
            else:
                yield from self._replay(batch, base, decided)
        self._take_end()
        self._start = None
        if self._high_watermark > self._loader.end:
            self.committed(self._high_watermark)

    def append_at_once(self, quorum: RaftClient, change: IsrChange, level: int) -> None:
        """Append the record of one ISR change while no other append is under way."""
        assert self._start is None, "another append is under way"
        self.last_ms = self._clock()
        image = self._loader.image
        value = encode_isr(change.topic.topic_id, change.number, change.isr.after, level)
        base = quorum.propose([value])
        assert base == image.end_offset, f"{base}, not {image.end_offset}"
        replay_isr(image, change, base)

    def _replay(
        self, batch: Batch, offset: int, decided: Mapping[int, PartitionValue]
    ) -> Slices[None]:
        for at in range(0, len(batch.records), _AT_ONCE):
            some = batch.records[at : at + _AT_ONCE]
            replay_decided(self._loader.image, some, offset + at, decided)
            removed = sum([isinstance(record, RemoveTopic) for record in some])
            yield REPLAYED_US * len(some) + REMOVED_US * removed

    def _replay_together(self, batch: Batch, offset: int) -> Slices[None]:
        """Replay new partitions together, in a third of the time."""
        for at in range(0, len(batch.values), _TOGETHER):
            some = batch.values[at : at + _TOGETHER]
            replay_values(self._loader.image, some, offset + at)
            yield TOGETHER_US * len(some)

    def _replay_isrs(self, changes: IsrChanges, offset: int) -> Slices[None]:
        for some in changes.topics:
            replay_isrs(self._loader.image, some, offset)
            offset += len(some.numbers)
            yield ISR_REPLAYED_US * len(some.numbers)

    def _take_end(self) -> None:
        """Advance the image past control records that were put behind the batches."""
        if self._end:
            self._loader.image.advance(self._end)
            self._end = Offset(0)

    def committed(self, high_watermark: Offset) -> None:
        """Note that everything below is committed; an append under way applies that at its end."""
        self._high_watermark = high_watermark
        told = high_watermark if self._start is None else min(self._start, high_watermark)
        self._loader.image.committed(told)
        self._loader.took(told)
        self._deferred.leave()

    def advanced(self, end: Offset) -> None:
        """Note that the log continues to `end` with control records."""
        if self.is_halfway:
            self._end = end
        else:
            self._loader.image.advance(end)

    def lose(self) -> None:
        """Undo what is not committed: the lead is lost."""
        image = self._loader.image
        image.rewind(self._loader.end)
        image.end_undo_log()
        if self.is_halfway:
            self._loader.raise_to(self._high_watermark)
        self._start, self._end = None, Offset(0)


def _says_partitions(batch: Batch) -> bool:
    """Return True if a record from the middle is a partition; a transaction begins with others."""
    return isinstance(batch.records[len(batch.records) // 2], Partition)
