"""Snapshots: an image as records, and back.

A snapshot holds the fewest records that give the image: none about deleted topics, and no changes.
It never begins a transaction. The order is Kafka's, with the level of metadata.version first,
because readers need it for all other records.
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
    LEVEL_CORDONED_DIRECTORIES,
    LEVEL_DIRECTORIES,
    LEVEL_ELR,
    LEVEL_STOPPING_BROKERS,
    METADATA_VERSION,
    Resource,
)

GROUP_RECORDS_MAX: Final = 256
"""Records that one slice of work writes: about a millisecond."""

GROUP_BYTES_MAX: Final = 256 * 1024
"""The size at which a group is closed, so that long values do not add up."""

LOADED_AT_ONCE: Final = 2_000
"""Records that one slice of work loads: a few milliseconds."""

UNCOMMITTED_RECORDS_MAX: Final = 10_000
"""Uncommitted records that the begin of a snapshot searches: a few milliseconds."""

NOBODY: Final = -1
"""Stands for the broker of the last block of producer ids, as in Kafka's snapshots."""


class Snapshot:
    """The records that give an image as it was at `end`, in groups that are made on demand.

    The image may change meanwhile. One snapshot of an image is under way at a time: it ends when
    all groups have been taken, or with `close`.
    """

    def __init__(self, image: Image, view: ReadView) -> None:
        self.end = view.end
        """The offset after the last record that the snapshot contains."""
        self._image = image
        self._view = view
        self._values = _values(view)

    def __iter__(self) -> Iterator[Sequence[bytes]]:
        return self

    def __next__(self) -> Sequence[bytes]:
        """Return at most `GROUP_RECORDS_MAX` records; an empty group is a pause."""
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
        """End the snapshot; a second call changes nothing."""
        self._image.end_read_view(self._view)
        self._values = iter(())


def begin(image: Image, end: int) -> Snapshot | None:
    """Begin a snapshot of the image as it was at `end`, which is committed.

    Return None while that is not possible: within a metadata transaction (KIP-868), which may still
    be aborted, or with too many uncommitted records after `end`.
    """
    if image.end_offset - end > UNCOMMITTED_RECORDS_MAX:
        return None
    view = image.begin_read_view(end)
    if view.transaction is not None:
        image.end_read_view(view)
        return None
    return Snapshot(image, view)


class Loading:
    """The loading of an image from the records of a snapshot that ends at `end`, in portions.

    The records have no offsets of their own, so each is replayed at the last offset that the
    snapshot contains, as in Kafka. An image takes two facts from offsets: when a broker registered,
    and when it began to stop. Snapshots of this project record them. With Kafka's snapshots a
    broker has to read up to the end of the snapshot, which is never too little.
    """

    def __init__(self, values: Iterable[bytes], end: int) -> None:
        self.image = Image()
        self.end = end
        """The offset after the last record that the snapshot contains."""
        self._values = iter(values)
        self._is_read = False

    def go_on(self) -> bool:
        """Load at most `LOADED_AT_ONCE` records, or a part of the index; True if all is loaded.

        Raises MalformedRecord, or `ValueError` if the values cannot be read.
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
    """Load the image of a snapshot at once; raises like `Loading.go_on`."""
    loading = Loading(values, end)
    while not loading.go_on():
        pass
    return loading.image


def _values(view: ReadView) -> Iterator[bytes | None]:
    level = view.tables["features"].get(METADATA_VERSION) or 0
    for said in _records(view, partition_version(level)):
        if said is None or isinstance(said, bytes):
            yield said
        else:
            yield encode(said, _level_to_say(said, level))


def _level_to_say(record: kafka_records.Record, level: int) -> int:
    """Return the level in force, or the lowest one that can carry the record if that is higher.

    A committed record is never refused, so a snapshot must not lose it either.
    """
    match record:
        case kafka_records.Partition(elr=(), last_known_elr=(), directories=()):
            return level
        case kafka_records.Partition(elr=(), last_known_elr=()):
            return max(level, LEVEL_DIRECTORIES)
        case kafka_records.Partition():
            return max(level, LEVEL_ELR)
        case kafka_records.RegisterBroker():
            if record.cordoned_log_dirs is not None:
                return max(level, LEVEL_CORDONED_DIRECTORIES)
            return max(level, LEVEL_DIRECTORIES if record.log_dirs else LEVEL_STOPPING_BROKERS)
        case _:
            return level


_Records: TypeAlias = Iterator[kafka_records.Record | bytes | None]
"""Records or their encoded values; None is a pause."""


def _records(view: ReadView, version: int) -> _Records:
    """Yield the image as records. `version` is that of a Partition at the level in force."""
    level = view.tables["features"].get(METADATA_VERSION)
    if level is not None:
        yield kafka_records.FeatureLevel(name=METADATA_VERSION, level=level)
    yield from _listed(view, "features", _other_feature)
    yield from _listed(view, "brokers", _as_it_is)
    yield from _listed(view, "controllers", _as_it_is)
    yield from _listed(view, "topics", partial(_topic, view, version))
    yield from _listed(view, "configs", _configs)
    yield from _listed(view, "quotas", _quotas)
    yield from _singles(view)
    yield from _listed(view, "acls", _as_it_is)
    yield from _listed(view, "scram_credentials", _as_it_is)
    yield from _listed(view, "delegation_tokens", _as_it_is)
    yield from _listed(view, "moves", lambda _, move: move_records(move))
    yield from _listed(view, "keys", _as_it_is)
    yield from _listed(view, "owned", owned_records)


def _listed(
    view: ReadView,
    table: str,
    records_of: Callable[[Any, Any], Iterable[kafka_records.Record | bytes]],
) -> _Records:
    """Yield the records of each entry of a table, in order."""
    for entry in view.tables[table].items():
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


def _singles(view: ReadView) -> Iterator[kafka_records.Record]:
    singles = view.tables["singles"]
    producer_id = singles.get("next_producer_id")
    if producer_id is not None:
        yield kafka_records.ProducerIds(
            broker_id=NOBODY, broker_epoch=NOBODY, next_producer_id=producer_id
        )
    migration = singles.get("zk_migration")
    if migration is not None:
        yield migration
    paused = singles.get("all_paused")
    if paused is not None:
        yield paused
    next_id = singles.get("next_move_id")
    if next_id is not None:
        # It forgets no move: the running ones follow, and no lower id is used again.
        yield own_records.MovesForgotten(through=next_id - 1)


def _topic(
    view: ReadView, version: int, topic_id: UUID, topic: Topic
) -> Iterator[kafka_records.Record | bytes]:
    yield kafka_records.Topic(name=topic.name, topic_id=topic_id)
    table, raw_id = topic.partitions, topic_id.bytes
    for number, kept in view.partitions.of(topic):
        if isinstance(kept, PartitionRegistration):
            yield _partition(topic_id, number, kept)
            continue
        value = table.encoded(number, raw_id, version, kept)
        if value is not None:
            yield value
            continue
        partition = table.peek(number) if kept is None else table.decode_row(kept)
        if partition is not None:
            yield _partition(topic_id, number, partition)


def _partition(
    topic_id: UUID, number: int, partition: PartitionRegistration
) -> kafka_records.Partition:
    fields = asdict(partition)
    stage = asdict(fields.pop("stage"))
    return kafka_records.Partition(partition_id=number, topic_id=topic_id, **fields, **stage)
