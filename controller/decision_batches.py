"""How many records a command asks for, and how those of a decision become batches. Appends nothing.

What fits in one batch counts as a whole by itself. More than that is put between BeginTransaction
and EndTransaction (KIP-868), and so counts as a whole all the same: for our images, and for Kafka's
brokers, which show nothing of a transaction before it has ended.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from quorum.core.limits import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, UNCOMMITTED_RECORDS_MAX
from statemachine.commands import (
    AlterPartition,
    AlterReassignments,
    BeginMove,
    CancelMoves,
    Command,
    CreatePartitions,
    CreateTopics,
    FenceBrokers,
    Keyed,
    RollBackMove,
)
from statemachine.image import Image
from statemachine.isr_changes import IsrChanges
from statemachine.limits import (
    CREATED_PARTITIONS_MAX,
    DISTRUSTED_PARTITIONS_MAX,
    LEAVING_PARTITIONS_MAX,
)
from statemachine.records import BeginTransaction, EndTransaction, Record, RegisterBroker
from statemachine.serde import encode
from statemachine.serde.writing import Writer, written_isrs
from statemachine.slices import Slices, whole

TRANSACTION_RECORDS_MAX: Final = 120_000
"""Records of one decision."""

CUT_RECORDS_MAX: Final = 2_500
"""Records of one batch, where there are several: a few milliseconds to append."""

_NAME: Final = "one decision"
_ENCODED_US: Final = 3
"""To write one record."""
_ENCODED_AT_ONCE: Final = 16
_WRITTEN_TOGETHER_US: Final = 1
"""The same of one that changes an ISR alone, as many others do."""
_PUT_TOGETHER_US: Final = 1_000
"""To put together a batch of many."""

assert TRANSACTION_RECORDS_MAX + 2 <= UNCOMMITTED_RECORDS_MAX
assert max(CREATED_PARTITIONS_MAX, LEAVING_PARTITIONS_MAX) < TRANSACTION_RECORDS_MAX
assert DISTRUSTED_PARTITIONS_MAX < BATCH_RECORDS_MAX


def records_asked(image: Image, command: Command) -> int:
    """About as many records as the decision will have if nothing of what is asked is refused.

    0 for what decides quickly, or to nothing; never more than one decision may have.
    """
    match command:
        case Keyed(command=asked):
            return records_asked(image, asked)
        case (
            AlterReassignments(reassignments=parts, dry_run=False)
            | BeginMove(reassignments=parts)
            | AlterPartition(proposals=parts)
        ):
            count = len(parts)
        case CancelMoves(dry_run=False, everything=True):
            count = len(image.index.moving)
        case CancelMoves(dry_run=False):
            count = sum(len(image.index.keys_of_move(each)) for each in command.moves)
        case RollBackMove(move_id=move_id, dry_run=False) if move_id in image.moves:
            count = image.moves[move_id].begun.partitions
        case CreateTopics(topics=topics, validate_only=False):
            count = sum(max(each.partition_count, len(each.assignments)) for each in topics)
        case CreatePartitions(topics=more, validate_only=False):
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


def batches_of(records: Sequence[Record], level: int) -> list[Batch] | None:
    """The batches for `records`, written at this level of metadata.version; None if too large."""
    return whole(batching(records, level))


def batching(records: Sequence[Record], level: int) -> Slices[list[Batch] | None]:
    """As `batches_of`, in slices."""
    values, has_broker = yield from _written(records, level)
    if not values:
        return []
    if len(values) == 1 and len(values[0]) <= BATCH_BYTES_MAX:
        return [Batch(records, values)]
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
    """The values of the records, and whether one of them registers a broker."""
    values: list[bytes] = []
    if isinstance(records, IsrChanges):
        for some in records.topics:
            values += written_isrs(some, level)
            yield _WRITTEN_TOGETHER_US * len(some.numbers)
        return values, False
    write = Writer(level).value
    has_broker = False
    for each in records:
        values.append(write(each))
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
