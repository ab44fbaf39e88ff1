"""Control records: the records of the quorum itself, between those of the state machine.

LeaderChange opens an epoch (KIP-595). KRaftVersion and Voters record the voters (KIP-853): a log
that records them begins with both, after the first LeaderChange. SnapshotHeader and SnapshotFooter
open and close a snapshot (KIP-630). Each has one schema here, for reading and writing, byte for
byte as in Kafka.

Tagged fields (KIP-482), which Kafka's readers skip, carry what Kafka's records lack: the target
voters and cluster id of KIP-595's VoterAssignment, and a snapshot's checksum, which exposes a
snapshot assembled from parts of two leaders.
"""

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from struct import Struct
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from uuid import UUID

from crc32c import crc32c

from quorum.core.vocabulary import Epoch, Offset, ReplicaId, ReplicaKey, uuid_to_text
from quorum.core.voter_set import Endpoint, Voter, VoterAssignment, VoterSet
from quorum.records.batch import Buffer
from quorum.records.decode import decode
from quorum.records.encode import encode
from quorum.records.varint import read_tags, read_uvarint, uvarint

KRAFT_VERSION: Final = 1
"""The level of kraft.version at which the log records its voters."""

TARGET_VOTERS_TAG: Final = 10_000
CLUSTER_ID_TAG: Final = 10_001
CHECKSUM_TAG: Final = 10_000
"""Our tags begin at 10000, out of the way of tags that Kafka may add."""

_KEY: Final = Struct(">hh")
_KEY_VERSION: Final = 0
_CHECKSUM: Final = Struct(">I")

RECORDED_VOTERS_MAX: Final = 10_000
"""Voters that a record is read with; `quorum.core.limits.VOTERS_MAX` limits a request."""
ENDPOINTS_MAX: Final = 100

_UUID_BYTES: Final = 16
_NO_TAGS: Final = uvarint(0)


class ControlType(IntEnum):
    """The types of control records, by the number in the key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")


class BadControlRecord(ValueError):
    """The key or value of a control record does not have the form of its type."""


class UnknownVersion(BadControlRecord):
    """A record has an unknown version, perhaps from a newer program."""


class _Form(NamedTuple):
    """The form of a value in bytes."""

    read: Callable[[bytes, int], tuple[Any, int]]
    """Reads a value at a position; returns it and the position after it."""
    write: Callable[[Any], bytes]


def _number(code: str) -> _Form:
    packer = Struct(f">{code}")

    def read(data: bytes, at: int) -> tuple[int, int]:
        raw, at = _read_bytes(data, at, packer.size)
        return packer.unpack(raw)[0], at

    return _Form(read, packer.pack)


def _read_bytes(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if size < 0:
        raise ValueError(f"null before byte {at}, where the schema has no null")
    if size > len(data) - at:
        raise ValueError(f"{size} bytes are announced at byte {at}, {len(data) - at} are left")
    return data[at : at + size], at + size


def _read_uuid(data: bytes, at: int) -> tuple[UUID, int]:
    raw, at = _read_bytes(data, at, _UUID_BYTES)
    return UUID(bytes=raw), at


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    size, at = read_uvarint(data, at)
    raw, at = _read_bytes(data, at, size - 1)
    return raw.decode(), at


def _write_string(text: str) -> bytes:
    data = text.encode()
    return uvarint(len(data) + 1) + data


def _array(item: _Form, most: int) -> _Form:
    def read(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
        count, at = read_uvarint(data, at)
        # Every item has at least one byte.
        if not 0 <= count - 1 <= min(most, len(data) - at):
            raise ValueError(f"{count - 1} items before byte {at}, allowed are 0 to {most}")
        items = []
        for _ in range(count - 1):
            value, at = item.read(data, at)
            items.append(value)
        return tuple(items), at

    def write(items: Any) -> bytes:
        return uvarint(len(items) + 1) + b"".join(map(item.write, items))

    return _Form(read, write)


def _structure(has_tags: bool = True, /, **fields: _Form) -> _Form:
    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        found = {}
        for name, form in fields.items():
            found[name], at = form.read(data, at)
        return found, read_tags(data, at)[1] if has_tags else at

    def write(values: Mapping[str, Any]) -> bytes:
        parts = [form.write(values[name]) for name, form in fields.items()]
        return b"".join((*parts, _NO_TAGS if has_tags else b""))

    return _Form(read, write)


_I16: Final = _number("h")
_I32: Final = _number("i")
_UUID: Final = _Form(_read_uuid, lambda uuid: uuid.bytes)
_STRING: Final = _Form(_read_string, _write_string)

# A record's own tagged fields are read apart from it, and the keys of target voters have none.
_untagged: Final = partial(_structure, False)

_VOTER_KEY: Final = {"voterId": _I32, "voterDirectoryId": _UUID}
_VOTER: Final = _structure(
    **_VOTER_KEY,
    endpoints=_array(_structure(name=_STRING, host=_STRING, port=_number("H")), ENDPOINTS_MAX),
    kRaftVersionFeature=_structure(minSupportedVersion=_I16, maxSupportedVersion=_I16),
)
_TARGET_VOTERS: Final = _array(_untagged(**_VOTER_KEY), RECORDED_VOTERS_MAX)


def _leader_change(**voter: _Form) -> _Form:
    voters = _array(_structure(**voter), RECORDED_VOTERS_MAX)
    return _untagged(leaderId=_I32, voters=voters, grantingVoters=voters)


_SCHEMAS: Final[Mapping[int, tuple[_Form, ...]]] = MappingProxyType(
    {
        ControlType.LEADER_CHANGE: (_leader_change(voterId=_I32), _leader_change(**_VOTER_KEY)),
        ControlType.SNAPSHOT_HEADER: (_untagged(lastContainedLogTimestamp=_number("q")),),
        ControlType.SNAPSHOT_FOOTER: (_untagged(),),
        ControlType.KRAFT_VERSION: (_untagged(kRaftVersion=_I16),),
        ControlType.KRAFT_VOTERS: (_untagged(voters=_array(_VOTER, RECORDED_VOTERS_MAX)),),
    }
)
"""The versions of each control record, without the version field."""


def control_record_name(type_id: int) -> str | None:
    """Return Kafka's name of a control record; None for a type that no metadata log has."""
    if type_id not in _SCHEMAS:
        return None
    return ControlType(type_id).name.title().replace("_", "").replace("Kraft", "KRaft")


def control_fields(type_: int, value: bytes | None) -> dict[str, Any]:
    """Decode a control record of a known type; the fields have the names of Kafka's dump tool,
    `version` first. Raises `BadControlRecord`."""
    return _read_value(type_, value)[0]


def _read_value(type_: int, value: bytes | None) -> tuple[dict[str, Any], dict[int, bytes]]:
    """Return the fields, and the tagged fields by tag; raises `BadControlRecord`."""
    name, data = str(ControlType(type_)), value or b""
    versions = _SCHEMAS[type_]
    try:
        version, at = _I16.read(data, 0)
        if not 0 <= version < len(versions):
            known = f"known are 0 to {len(versions) - 1}" if len(versions) > 1 else "known is 0"
            raise UnknownVersion(f"a {name} record of version {version}, {known}")
        fields, at = versions[version].read(data, at)
        tags, at = read_tags(data, at)
        if at != len(data):
            raise ValueError(f"{len(data) - at} bytes behind its end")
    except BadControlRecord:
        raise
    except ValueError as error:
        raise BadControlRecord(f"not a {name} record: {error}") from error
    return {"version": version, **fields}, {tag: data[start:end] for tag, start, end in tags}


def _write_value(
    type_: ControlType, fields: Mapping[str, Any], tags: Mapping[int, bytes] = MappingProxyType({})
) -> bytes:
    """Encode the value of a control record in version 0."""
    parts = [_I16.write(0), _SCHEMAS[type_][0].write(fields), uvarint(len(tags))]
    for tag, value in tags.items():
        parts += (uvarint(tag), uvarint(len(value)), value)
    return b"".join(parts)


def control_key(type_: ControlType) -> bytes:
    """Encode the key of a control record of this type."""
    return _KEY.pack(_KEY_VERSION, type_)


def control_type(key: bytes | None) -> int:
    """Return the type in a control record's key: a `ControlType`, or an unknown number.

    Raises `BadControlRecord` for another kind of key. Bytes after the type, as in a later version,
    are ignored.
    """
    if key is None or len(key) < _KEY.size:
        length = "no key" if key is None else f"a key of {len(key)} bytes"
        raise BadControlRecord(f"a control record with {length}, at least {_KEY.size} are needed")
    _, number = _KEY.unpack_from(key)
    return ControlType(number) if number in set(ControlType) else int(number)


def control_name(key: bytes | None) -> str:
    """Return the name of a control record with this key; raises as `control_type` does."""
    known = control_type(key)
    return str(known) if isinstance(known, ControlType) else f"control type {known}"


def compact_json(value: Any) -> str:
    """Encode JSON without spaces; ids have Kafka's 22 characters, bytes are in base64."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=_as_text)


def _as_text(value: object) -> str:
    match value:
        case UUID():
            return uuid_to_text(value)
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            raise AssertionError(f"{value!r} is in no record")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange:
    """The first record of an epoch: the leader, the voters, and those that voted for it."""

    leader: ReplicaId
    voters: tuple[ReplicaId, ...]
    granting: tuple[ReplicaId, ...]

    def __str__(self) -> str:
        voters, granting = (", ".join(map(str, ids)) for ids in (self.voters, self.granting))
        return f"leader change: {self.leader} leads [{voters}] by the votes of [{granting}]"

    def encode(self) -> bytes:
        """Encode the value of the record: Kafka's LeaderChangeMessage, version 0."""
        fields = {
            "leaderId": self.leader,
            "voters": [{"voterId": each} for each in self.voters],
            "grantingVoters": [{"voterId": each} for each in self.granting],
        }
        return _write_value(ControlType.LEADER_CHANGE, fields)

    @classmethod
    def decode(cls, value: bytes | None) -> "LeaderChange":
        """Decode the value of a record, versions 0 and 1; raises `BadControlRecord`.

        Version 1 adds directory ids, which Kafka leaves at zero.
        """
        fields = control_fields(ControlType.LEADER_CHANGE, value)
        voters, granting = (
            tuple(ReplicaId(each["voterId"]) for each in fields[name])
            for name in ("voters", "grantingVoters")
        )
        return cls(leader=ReplicaId(fields["leaderId"]), voters=voters, granting=granting)


def decode_kraft_version(value: bytes | None) -> int:
    """Decode the level in a KRaftVersion record; raises `BadControlRecord`."""
    return int(control_fields(ControlType.KRAFT_VERSION, value)["kRaftVersion"])


def encode_voters(assignment: VoterAssignment, cluster_id: str | None) -> bytes:
    """Encode the value of a Voters record."""
    tags = {}
    if assignment.target is not None:
        tags[TARGET_VOTERS_TAG] = _TARGET_VOTERS.write([_key_fields(k) for k in assignment.target])
    if cluster_id is not None:
        tags[CLUSTER_ID_TAG] = _STRING.write(cluster_id)
    voters = [_voter_fields(each) for each in assignment.current.voters]
    return _write_value(ControlType.KRAFT_VOTERS, {"voters": voters}, tags)


def decode_voters(value: bytes | None) -> VoterAssignment:
    """Decode the current and target voters of a Voters record; raises `BadControlRecord`."""
    return _decode_voters(value)[0]


def _decode_voters(value: bytes | None) -> tuple[VoterAssignment, str | None]:
    fields, tags = _read_value(ControlType.KRAFT_VOTERS, value)
    voters = tuple(map(_voter, fields["voters"]))
    target, cluster_id = None, None
    try:
        if TARGET_VOTERS_TAG in tags:
            keys, _ = _TARGET_VOTERS.read(tags[TARGET_VOTERS_TAG], 0)
            target = tuple(map(_key, keys))
            if not target:
                raise ValueError("target voters are named, but there is none")
        if CLUSTER_ID_TAG in tags:
            cluster_id, _ = _STRING.read(tags[CLUSTER_ID_TAG], 0)
        _no_two(voter.id for voter in voters)
        _no_two(key.id for key in target or ())
    except ValueError as error:
        raise BadControlRecord(f"not a {ControlType.KRAFT_VOTERS} record: {error}") from error
    return VoterAssignment(VoterSet(voters), target), cluster_id


def _no_two(ids: Iterable[ReplicaId]) -> None:
    seen: set[ReplicaId] = set()
    for id_ in ids:
        if id_ in seen:
            raise ValueError(f"voter {id_} is named twice")
        seen.add(id_)


def _key_fields(key: ReplicaKey) -> dict[str, Any]:
    return {"voterId": key.id, "voterDirectoryId": key.directory_id}


def _key(fields: Mapping[str, Any]) -> ReplicaKey:
    return ReplicaKey(ReplicaId(fields["voterId"]), fields["voterDirectoryId"])


def _voter_fields(voter: Voter) -> dict[str, Any]:
    return {
        **_key_fields(voter.key),
        "endpoints": [
            {"name": each.name, "host": each.host, "port": each.port} for each in voter.endpoints
        ],
        "kRaftVersionFeature": {
            "minSupportedVersion": voter.kraft_version_min,
            "maxSupportedVersion": voter.kraft_version_max,
        },
    }


def _voter(fields: Mapping[str, Any]) -> Voter:
    levels = fields["kRaftVersionFeature"]
    return Voter(
        key=_key(fields),
        endpoints=tuple(Endpoint(**each) for each in fields["endpoints"]),
        kraft_version_min=levels["minSupportedVersion"],
        kraft_version_max=levels["maxSupportedVersion"],
    )


def assignment_in(batch: Buffer) -> VoterAssignment | None:
    """Return the voter assignment in a control batch, or None.

    Raises `BadControlRecord`, `CorruptBatch`, `UnsupportedCodec`.
    """
    found = None
    for record in decode(batch):
        if record.control and control_type(record.key) == ControlType.KRAFT_VOTERS:
            found = decode_voters(record.value)
    return found


def cluster_id_in(batch: Buffer) -> str | None:
    """Return the cluster id beside the voters in a batch; raises as `assignment_in` does."""
    for record in decode(batch):
        if record.control and control_type(record.key) == ControlType.KRAFT_VOTERS:
            return _decode_voters(record.value)[1]
    return None


def encode_snapshot_header(last_timestamp_ms: int) -> bytes:
    """Encode a SnapshotHeader with the time of the last record in the snapshot."""
    fields = {"lastContainedLogTimestamp": last_timestamp_ms}
    return _write_value(ControlType.SNAPSHOT_HEADER, fields)


def decode_snapshot_header(value: bytes | None) -> int:
    """Decode the time of the last record in the snapshot; raises `BadControlRecord`."""
    fields = control_fields(ControlType.SNAPSHOT_HEADER, value)
    return int(fields["lastContainedLogTimestamp"])


def encode_snapshot_footer(checksum: int) -> bytes:
    """Encode a SnapshotFooter; `checksum` is the CRC-32C of everything before its batch."""
    tags = {CHECKSUM_TAG: _CHECKSUM.pack(checksum)}
    return _write_value(ControlType.SNAPSHOT_FOOTER, {}, tags)


def decode_snapshot_footer(value: bytes | None) -> int | None:
    """Decode the checksum in a SnapshotFooter; None in Kafka's. Raises `BadControlRecord`."""
    _, tags = _read_value(ControlType.SNAPSHOT_FOOTER, value)
    content = tags.get(CHECKSUM_TAG, b"")
    return _CHECKSUM.unpack(content)[0] if len(content) == _CHECKSUM.size else None


def encode_control(
    records: Sequence[tuple[ControlType, bytes]],
    *,
    timestamp_ms: int,
    base_offset: Offset = Offset(0),
    epoch: Epoch = Epoch(0),
) -> bytearray:
    """Encode a batch of control records, each given by its type and value."""
    return encode(
        [value for _, value in records],
        timestamp_ms=timestamp_ms,
        base_offset=base_offset,
        epoch=epoch,
        control_keys=[control_key(type_) for type_, _ in records],
    )


def encode_leader_change(
    change: LeaderChange,
    founders: VoterAssignment | None = None,
    cluster_id: str | None = None,
    *,
    timestamp_ms: int,
) -> bytearray:
    """Encode the batch that opens an epoch: the LeaderChange record and, for a log that begins to
    record its voters, those."""
    records = [(ControlType.LEADER_CHANGE, change.encode()), *_voting(founders, cluster_id)]
    return encode_control(records, timestamp_ms=timestamp_ms)


def encode_assignment(
    assignment: VoterAssignment, cluster_id: str | None, *, timestamp_ms: int
) -> bytearray:
    """Encode a batch of one Voters record."""
    value = encode_voters(assignment, cluster_id)
    return encode_control([(ControlType.KRAFT_VOTERS, value)], timestamp_ms=timestamp_ms)


def _voting(
    voters: VoterAssignment | None, cluster_id: str | None
) -> tuple[tuple[ControlType, bytes], ...]:
    """Return the two records at the start of a log or snapshot that records its voters."""
    if voters is None:
        return ()
    level = _write_value(ControlType.KRAFT_VERSION, {"kRaftVersion": KRAFT_VERSION})
    return (
        (ControlType.KRAFT_VERSION, level),
        (ControlType.KRAFT_VOTERS, encode_voters(voters, cluster_id)),
    )


class SnapshotBatches:
    """Encodes the batches of one snapshot: `opening`, any number of `data`, `closing`."""

    def __init__(self, epoch: Epoch, last_timestamp_ms: int) -> None:
        """`epoch` and `last_timestamp_ms` are those of the last record in the snapshot."""
        self._epoch = epoch
        self._timestamp_ms = last_timestamp_ms
        self._next = Offset(0)
        self._checksum = 0

    def opening(self, voters: VoterAssignment | None, cluster_id: str | None) -> bytearray:
        """Encode the header and the recorded voters."""
        header = encode_snapshot_header(self._timestamp_ms)
        return self._control([(ControlType.SNAPSHOT_HEADER, header), *_voting(voters, cluster_id)])

    def data(self, values: Sequence[bytes]) -> bytearray:
        """Encode these records, at least one."""
        batch = encode(
            values, timestamp_ms=self._timestamp_ms, base_offset=self._next, epoch=self._epoch
        )
        return self._added(batch, len(values))

    def closing(self) -> bytearray:
        """Encode the footer, which completes the snapshot."""
        footer = encode_snapshot_footer(self._checksum)
        return self._control([(ControlType.SNAPSHOT_FOOTER, footer)])

    def _control(self, records: Sequence[tuple[ControlType, bytes]]) -> bytearray:
        batch = encode_control(
            records,
            timestamp_ms=self._timestamp_ms,
            base_offset=self._next,
            epoch=self._epoch,
        )
        return self._added(batch, len(records))

    def _added(self, batch: bytearray, count: int) -> bytearray:
        self._next = Offset(self._next + count)
        self._checksum = crc32c(batch, self._checksum)
        return batch
