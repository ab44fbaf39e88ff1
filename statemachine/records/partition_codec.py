"""Partition (3) and PartitionChange (5) as bytes, by hand: they come by the million.

Fields and tags are those of Kafka's `PartitionRecord.json` and `PartitionChangeRecord.json`; what
is said of targets and moves is ours, in tags that Kafka skips (its message reader keeps unknown
tags unread). Lists of up to 31 ids, which is all that occurs in practice, are packed and unpacked
in one call.
"""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any, Final

from statemachine.limits import UUIDS_REMEMBERED_MAX
from statemachine.records import kafka_records
from statemachine.records.primitives import MalformedRecord, Reader, put_uvarint, uuid_of
from statemachine.vocabulary import RECOVERED, Directories, Replicas

PARTITION_TYPE_ID: Final = 3
PARTITION_CHANGE_TYPE_ID: Final = 5
NEWEST_VERSION: Final = 2

TARGET_TAG: Final = 10_000
ORIGINAL_TAG: Final = 10_001
BASE_TAG: Final = 10_002
MOVE_TAG: Final = 10_003
STEP_TAG: Final = 10_004
SINCE_TAG: Final = 10_005

LEADER_UNCHANGED: Final = -2
RECOVERY_UNCHANGED: Final = -1

_SHORT: Final = 32
"""Lists shorter than this fit, as a tagged field, into a size of one byte."""

_UVARINTS_REMEMBERED_MAX: Final = 256

_HEAD: Final = Struct(">i16s")
_TAGGED_LEADER: Final = Struct(">BBi")
_TAGGED_RECOVERY: Final = Struct(">BBb")
_IDS: Final = tuple(Struct(f">B{count}i") for count in range(_SHORT))
_TAGGED_IDS: Final = tuple(Struct(f">BBB{count}i") for count in range(_SHORT))
_ID: Final = Struct(">i")
_LONG: Final = Struct(">q")
_STEP: Final = Struct(">h")
_LEADERSHIP: Final = Struct(">iii")
_STATE: Final = Struct(">b")


def version_at(level: int) -> int:
    """The version of both records at a level of metadata.version: 1 has directories, 2 the ELR."""
    return 2 if level >= 23 else 1 if level >= 17 else 0


def encode_change(change: kafka_records.PartitionChange, version: int) -> bytes:
    """The body of a PartitionChange. A field that `version` lacks must not be set."""
    tags: list[bytes] = []
    if change.isr is not None:
        tags.append(_tagged_ids(0, change.isr))
    if change.leader is not None:
        tags.append(_TAGGED_LEADER.pack(1, 4, change.leader))
    _append_assignment(tags, change)
    if change.recovery is not None:
        tags.append(_TAGGED_RECOVERY.pack(5, 1, change.recovery))
    _append_newer(tags, change, version)
    _append_ours(tags, change)
    head = _HEAD.pack(change.partition_id, change.topic_id.bytes)
    return b"".join((head, bytes((len(tags),)), *tags))


def _append_assignment(tags: list[bytes], change: kafka_records.PartitionChange) -> None:
    if change.replicas is not None:
        tags.append(_tagged_ids(2, change.replicas))
    if change.removing is not None:
        tags.append(_tagged_ids(3, change.removing))
    if change.adding is not None:
        tags.append(_tagged_ids(4, change.adding))


def _append_newer(tags: list[bytes], change: kafka_records.PartitionChange, version: int) -> None:
    if change.elr is not None:
        assert version >= 2, f"version {version} of PartitionChange cannot carry an ELR"
        tags.append(_tagged_ids(6, change.elr))
    if change.last_known_elr is not None:
        assert version >= 2, f"version {version} of PartitionChange cannot carry a last known ELR"
        tags.append(_tagged_ids(7, change.last_known_elr))
    if change.directories is not None:
        assert version >= 1, f"version {version} of PartitionChange cannot carry directories"
        tags.append(_tagged(8, _directories(change.directories)))


def _append_ours(tags: list[bytes], change: kafka_records.PartitionChange) -> None:
    if change.target is not None:
        tags.append(_tagged_ids(TARGET_TAG, change.target))
    if change.original is not None:
        tags.append(_tagged_ids(ORIGINAL_TAG, change.original))
    if change.base is not None:
        tags.append(_tagged_ids(BASE_TAG, change.base))
    if change.move is not None:
        tags.append(_tagged(MOVE_TAG, _LONG.pack(change.move)))
    if change.step is not None:
        tags.append(_tagged(STEP_TAG, _STEP.pack(change.step)))
    if change.since_ms is not None:
        tags.append(_tagged(SINCE_TAG, _LONG.pack(change.since_ms)))


def encode_partition(partition: kafka_records.Partition, version: int) -> bytes:
    """The body of a Partition. A field that `version` lacks must not be set."""
    parts = [
        _HEAD.pack(partition.partition_id, partition.topic_id.bytes),
        packed_ids(partition.replicas),
        packed_ids(partition.isr),
        packed_ids(partition.removing),
        packed_ids(partition.adding),
        _LEADERSHIP.pack(partition.leader, partition.leader_epoch, partition.partition_epoch),
    ]
    if version >= 1:
        parts.append(_directories(partition.directories))
    else:
        assert not partition.directories, "version 0 of Partition cannot carry directories"
    assert version >= 2 or not (partition.elr or partition.last_known_elr), (
        f"version {version} of Partition cannot carry an ELR"
    )
    tags: list[bytes] = []
    if partition.recovery != RECOVERED:
        tags.append(_TAGGED_RECOVERY.pack(0, 1, partition.recovery))
    for tag, ids in (
        (1, partition.elr),
        (2, partition.last_known_elr),
        (TARGET_TAG, partition.target),
        (ORIGINAL_TAG, partition.original),
        (BASE_TAG, partition.base),
    ):
        if ids:
            tags.append(_tagged_ids(tag, ids))
    for tag, form, number in (
        (MOVE_TAG, _LONG, partition.move),
        (STEP_TAG, _STEP, partition.step),
        (SINCE_TAG, _LONG, partition.since_ms),
    ):
        if number:
            tags.append(_tagged(tag, form.pack(number)))
    return b"".join((*parts, bytes((len(tags),)), *tags))


def packed_ids(ids: Replicas) -> bytes:
    """A compact array of these ids."""
    count = len(ids)
    if count < _SHORT:
        return _IDS[count].pack(count + 1, *ids)
    return _uvarint(count + 1) + Struct(f">{count}i").pack(*ids)


def _tagged_ids(tag: int, ids: Replicas) -> bytes:
    count = len(ids)
    if count < _SHORT and tag < 0x80:
        return _TAGGED_IDS[count].pack(tag, 4 * count + 1, count + 1, *ids)
    return _tagged(tag, packed_ids(ids))


def _tagged(tag: int, content: bytes) -> bytes:
    return _uvarint(tag) + _uvarint(len(content)) + content


def _directories(directories: Directories) -> bytes:
    return _uvarint(len(directories) + 1) + b"".join([d.bytes for d in directories])


@lru_cache(maxsize=_UVARINTS_REMEMBERED_MAX)
def _uvarint(value: int) -> bytes:
    out = bytearray()
    put_uvarint(out, value)
    return bytes(out)


def _read_ids(data: bytes, at: int) -> tuple[Replicas | None, int]:
    """The ids from `at` on, None for null, and where they end."""
    first = data[at]
    if 0 < first <= _SHORT:
        form = _IDS[first - 1]
        return form.unpack_from(data, at)[1:], at + form.size
    reader = Reader(data, at)
    count = reader.uvarint() - 1
    if count < 0:
        return None, reader.at
    return Struct(f">{count}i").unpack(reader.take(4 * count)), reader.at


def _read_directories(data: bytes, at: int) -> tuple[Directories | None, int]:
    first = data[at]
    if 0 < first <= _SHORT:
        end = at + 1 + 16 * (first - 1)
        raw = data[at + 1 : end]
        if len(raw) != end - at - 1:
            raise MalformedRecord(f"{first - 1} directories do not fit after byte {at}")
        return _directories_of(raw), end
    reader = Reader(data, at)
    count = reader.uvarint() - 1
    if count < 0:
        return None, reader.at
    return _directories_of(reader.take(16 * count)), reader.at


@lru_cache(maxsize=UUIDS_REMEMBERED_MAX)
def _directories_of(raw: bytes) -> Directories:
    return tuple([uuid_of(raw[at : at + 16]) for at in range(0, len(raw), 16)])


def _read_leader(data: bytes, at: int) -> tuple[int | None, int]:
    leader = _ID.unpack_from(data, at)[0]
    return None if leader == LEADER_UNCHANGED else leader, at + 4


def _read_recovery(data: bytes, at: int) -> tuple[int, int]:
    return _STATE.unpack_from(data, at)[0], at + 1


def _read_recovery_change(data: bytes, at: int) -> tuple[int | None, int]:
    recovery, end = _read_recovery(data, at)
    return None if recovery == RECOVERY_UNCHANGED else recovery, end


def _read_long(data: bytes, at: int) -> tuple[int, int]:
    return _LONG.unpack_from(data, at)[0], at + _LONG.size


def _read_step(data: bytes, at: int) -> tuple[int, int]:
    return _STEP.unpack_from(data, at)[0], at + _STEP.size


def _read_uvarint(data: bytes, at: int) -> tuple[int, int]:
    low, high = data[at], data[at + 1]
    if low < 0x80:
        return low, at + 1
    if high < 0x80:
        return low & 0x7F | high << 7, at + 2
    reader = Reader(data, at)
    return reader.uvarint(), reader.at


_Reading = tuple[str, Callable[[bytes, int], tuple[Any, int]]]

_OUR_TAGS: Final[dict[int, _Reading]] = {
    TARGET_TAG: ("target", _read_ids),
    ORIGINAL_TAG: ("original", _read_ids),
    BASE_TAG: ("base", _read_ids),
    MOVE_TAG: ("move", _read_long),
    STEP_TAG: ("step", _read_step),
    SINCE_TAG: ("since_ms", _read_long),
}
_CHANGE_TAGS: Final[dict[int, _Reading]] = {
    0: ("isr", _read_ids),
    1: ("leader", _read_leader),
    2: ("replicas", _read_ids),
    3: ("removing", _read_ids),
    4: ("adding", _read_ids),
    5: ("recovery", _read_recovery_change),
    6: ("elr", _read_ids),
    7: ("last_known_elr", _read_ids),
    8: ("directories", _read_directories),
    **_OUR_TAGS,
}
_PARTITION_TAGS: Final[dict[int, _Reading]] = {
    0: ("recovery", _read_recovery),
    1: ("elr", _read_ids),
    2: ("last_known_elr", _read_ids),
    **_OUR_TAGS,
}


def _read_tags(data: bytes, at: int, known: dict[int, _Reading], values: dict[str, Any]) -> int:
    """Put the tagged fields from `at` on into `values`, skip unknown ones; where they end."""
    count = data[at]
    at += 1
    if count >= 0x80:
        raise MalformedRecord(f"at least {count} tagged fields are announced before byte {at}")
    for _ in range(count):
        tag, size = data[at], data[at + 1]
        at += 2
        if tag >= 0x80 or size >= 0x80:
            tag, at = _read_uvarint(data, at - 2)
            size, at = _read_uvarint(data, at)
        end = at + size
        field = known.get(tag)
        if field is not None:
            values[field[0]], at = field[1](data, at)
            if at != end:
                raise MalformedRecord(f"tag {tag} ({field[0]}) is not as long as its value")
        at = end
    return at


def decode_change(data: bytes, at: int) -> tuple[kafka_records.PartitionChange, int]:
    """The PartitionChange whose body begins at `at`, and where it ends."""
    partition_id, topic_id = _HEAD.unpack_from(data, at)
    values: dict[str, Any] = {}
    end = _read_tags(data, at + _HEAD.size, _CHANGE_TAGS, values)
    topic = uuid_of(topic_id)
    return kafka_records.PartitionChange(partition_id=partition_id, topic_id=topic, **values), end


def decode_partition(data: bytes, at: int, version: int) -> tuple[kafka_records.Partition, int]:
    """The Partition whose body begins at `at`, and where it ends."""
    partition_id, topic_id = _HEAD.unpack_from(data, at)
    replicas, at = _read_ids(data, at + _HEAD.size)
    isr, at = _read_ids(data, at)
    removing, at = _read_ids(data, at)
    adding, at = _read_ids(data, at)
    if replicas is None or isr is None or removing is None or adding is None:
        raise MalformedRecord(f"a null list before byte {at}, where the schema has no null")
    leader, leader_epoch, partition_epoch = _LEADERSHIP.unpack_from(data, at)
    values: dict[str, Any] = {}
    at += _LEADERSHIP.size
    if version >= 1:
        values["directories"], at = _read_directories(data, at)
    end = _read_tags(data, at, _PARTITION_TAGS, values)
    partition = kafka_records.Partition(
        partition_id=partition_id,
        topic_id=uuid_of(topic_id),
        replicas=replicas,
        isr=isr,
        removing=removing,
        adding=adding,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        **{name: value for name, value in values.items() if value is not None},
    )
    return partition, end
