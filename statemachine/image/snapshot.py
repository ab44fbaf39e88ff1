"""Snapshots: an image as records, and back.

A snapshot holds the records that lead to an image, not those that led to it: a deleted topic is in
none of them, a change is part of what it changed. Beginning a transaction is never in it. They
come in the order in which Kafka writes them, the level of metadata.version first, because its
readers need that to read on.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias
from uuid import UUID

from msgspec.structs import asdict

from statemachine.image.bulk_replay import load_values
from statemachine.image.image import Image, QuotaHolder
from statemachine.image.partition_table import Topic
from statemachine.image.read_view import ReadView
from statemachine.partitions.registration import PartitionRegistration
from statemachine.reassignment.move import move_records, owned_records
from statemachine.records import kafka_records, own_records
from statemachine.records.codec import encode, partition_version
from statemachine.vocabulary import (
    LEVEL_DIRECTORIES,
    LEVEL_ELR,
    LEVEL_STOPPING_BROKERS,
    METADATA_VERSION,
    Resource,
)

GROUP_RECORDS_MAX: Final = 256
"""Records that are written before anyone else gets a turn: about a millisecond."""

GROUP_BYTES_MAX: Final = 256 * 1024
"""A group that has reached this is closed, so that long values do not add up."""

LOADED_AT_ONCE: Final = 2_000
"""Records that are loaded before anyone else gets a turn: a few milliseconds."""

UNCOMMITTED_RECORDS_MAX: Final = 10_000
"""Uncommitted records that are searched when a snapshot begins: a few milliseconds."""

NOBODY: Final = -1
"""Which broker a block of producer ids was for is forgotten, as in Kafka's snapshots."""


class Snapshot:
    """The records that give an image as it was at `end`, in groups; each is made when asked for.

    The image may go on meanwhile. One snapshot of an image is under way at a time: it ends when
    all groups have been taken, or with `close`.
    """

    def __init__(self, image: Image, past: ReadView) -> None:
        self.end = past.end
        """The offset after the last record that is contained."""
        self._image = image
        self._past = past
        self._values = _values(past)

    def __iter__(self) -> Iterator[Sequence[bytes]]:
        return self

    def __next__(self) -> Sequence[bytes]:
        """At most `GROUP_RECORDS_MAX` records; sometimes none, which is only a pause."""
        group: list[bytes] = []
        size_bytes = 0
        for value in self._values:
            if value is None:
                return group
            group.append(value)
            size_bytes += len(value)
            if len(group) == GROUP_RECORDS_MAX or size_bytes >= GROUP_BYTES_MAX:
                return group
        self.close()
        if not group:
            raise StopIteration
        return group

    def close(self) -> None:
        """Give it up; a second call changes nothing."""
        self._image.end_read_view(self._past)
        self._values = iter(())


def begin(image: Image, end: int) -> Snapshot | None:
    """A snapshot of what the image was when it ended at `end`, which is committed.

    None while it cannot be taken: in the middle of a metadata transaction (KIP-868), whose records
    may yet turn out never to have been, or with too much behind `end` that is not committed.
    """
    if image.end_offset - end > UNCOMMITTED_RECORDS_MAX:
        return None
    past = image.begin_read_view(end)
    if past.transaction is not None:
        image.end_read_view(past)
        return None
    return Snapshot(image, past)


class Loading:
    """An image that is being made of the records of a snapshot that ends at `end`, some at a time.

    The records have no offsets of their own, so each counts as the last that the snapshot
    contains, as in Kafka. Two things an image takes from an offset: when a broker registered, and
    when it began to stop. Our own snapshots say them; for Kafka's this errs on the safe side: a
    broker is waited for until it has read up to the snapshot's end, which is at or behind the
    record that it has to have read.
    """

    def __init__(self, values: Iterable[bytes], end: int) -> None:
        self.image = Image()
        self.end = end
        """The offset after the last record that the snapshot contains."""
        self._values = iter(values)
        self._is_read = False

    def go_on(self) -> bool:
        """Take in at most `LOADED_AT_ONCE` records, or what follows from them all; whether the
        image is whole. Raises MalformedRecord, and `ValueError` where values cannot be read.
        """
        if not self._is_read:
            values = list(islice(self._values, LOADED_AT_ONCE))
            load_values(self.image, values, self.end - 1)
            self._is_read = len(values) < LOADED_AT_ONCE
        if not self._is_read or not self.image.index.settle_some():
            return False
        self.image.advance(self.end)
        return True


def load(values: Iterable[bytes], end: int) -> Image:
    """Make the image of a snapshot at once; raises as `Loading`."""
    loading = Loading(values, end)
    while not loading.go_on():
        pass
    return loading.image


def _values(past: ReadView) -> Iterator[bytes | None]:
    level = past.tables["features"].get(METADATA_VERSION) or 0
    for said in _records(past, partition_version(level)):
        if said is None or isinstance(said, bytes):
            yield said
        else:
            yield encode(said, _level_to_say(said, level))


def _level_to_say(record: kafka_records.Record, level: int) -> int:
    """The level in force, or where the log says more than it can, the lowest that can say it.

    A committed record is never refused, so it must not be lost here either.
    """
    match record:
        case kafka_records.Partition(elr=(), last_known_elr=(), directories=()):
            return level
        case kafka_records.Partition(elr=(), last_known_elr=()):
            return max(level, LEVEL_DIRECTORIES)
        case kafka_records.Partition():
            return max(level, LEVEL_ELR)
        case kafka_records.RegisterBroker():
            return max(level, LEVEL_DIRECTORIES if record.log_dirs else LEVEL_STOPPING_BROKERS)
        case _:
            return level


_Records: TypeAlias = Iterator[kafka_records.Record | bytes | None]
"""Records or their encoded values; None is a pause."""


def _records(past: ReadView, version: int) -> _Records:
    """Yield the image as records. `version` is that of a Partition at the level in force."""
    level = past.tables["features"].get(METADATA_VERSION)
    if level is not None:
        yield kafka_records.FeatureLevel(name=METADATA_VERSION, level=level)
    yield from _listed(past, "features", _other_feature)
    yield from _listed(past, "brokers", _as_it_is)
    yield from _listed(past, "controllers", _as_it_is)
    yield from _listed(past, "topics", partial(_topic, past, version))
    yield from _listed(past, "configs", _configs)
    yield from _listed(past, "quotas", _quotas)
    yield from _singles(past)
    yield from _listed(past, "moves", lambda _, move: move_records(move))
    yield from _listed(past, "keys", _as_it_is)
    yield from _listed(past, "owned", owned_records)
    yield from _listed(past, "facts", _as_it_is)


def _listed(
    past: ReadView,
    table: str,
    records_of: Callable[[Any, Any], Iterable[kafka_records.Record | bytes]],
) -> _Records:
    """Yield the records of each entry of a table, in order."""
    for entry in past.tables[table].items():
        if entry is None:
            yield None
        else:
            yield from records_of(*entry)


def _as_it_is(_key: Any, record: kafka_records.Record) -> list[kafka_records.Record]:
    return [record]


def _other_feature(name: str, level: int) -> Iterator[kafka_records.Record]:
    if name != METADATA_VERSION:
        yield kafka_records.FeatureLevel(name=name, level=level)


def _configs(resource: Resource, configs: dict[str, str]) -> Iterator[kafka_records.Record]:
    kind, resource_name = resource
    for name, value in configs.items():
        yield kafka_records.Config(
            resource_type=kind, resource_name=resource_name, name=name, value=value
        )


def _quotas(entity: QuotaHolder, quotas: dict[str, float]) -> Iterator[kafka_records.Record]:
    for key, value in quotas.items():
        yield kafka_records.ClientQuota(entity=entity, key=key, value=value, remove=False)


def _singles(past: ReadView) -> Iterator[kafka_records.Record]:
    singles = past.tables["singles"]
    producer_id = singles.get("next_producer_id")
    if producer_id is not None:
        yield kafka_records.ProducerIds(
            broker_id=NOBODY, broker_epoch=NOBODY, next_producer_id=producer_id
        )
    paused = singles.get("all_paused")
    if paused is not None:
        yield paused
    next_id = singles.get("next_move_id")
    if next_id is not None:
        # It forgets none that follows; what it says is that no id below is used again.
        yield own_records.MovesForgotten(through=next_id - 1)


def _topic(
    past: ReadView, version: int, topic_id: UUID, topic: Topic
) -> Iterator[kafka_records.Record | bytes]:
    yield kafka_records.Topic(name=topic.name, topic_id=topic_id)
    columns, raw_id = topic.partitions, topic_id.bytes
    for number, kept in past.partitions.of(topic):
        if isinstance(kept, PartitionRegistration):
            yield _partition(topic_id, number, kept)
            continue
        value = columns.encoded(number, raw_id, version, kept)
        if value is not None:
            yield value
            continue
        partition = columns.peek(number) if kept is None else columns.said_by(kept)
        if partition is not None:
            yield _partition(topic_id, number, partition)


def _partition(
    topic_id: UUID, number: int, partition: PartitionRegistration
) -> kafka_records.Partition:
    fields = asdict(partition)
    stage = asdict(fields.pop("stage"))
    return kafka_records.Partition(partition_id=number, topic_id=topic_id, **fields, **stage)
