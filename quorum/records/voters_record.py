"""The control records that say who votes: KRaftVersion and Voters (KIP-853).

A log that names its voters begins with both, behind the first LeaderChange. Byte for byte they are
Kafka's, version 0. What KIP-595's VoterAssignment has in addition, the target and the cluster id,
travels in tagged fields, which Kafka's readers skip; tags that are not known are skipped here too.
What the voters mean is decided elsewhere.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from struct import error as StructError
from typing import Final
from uuid import UUID

from quorum.core.vocabulary import ReplicaId, ReplicaKey
from quorum.core.voter_set import Endpoint, Voter, VoterAssignment, VoterSet
from quorum.records.batch import Buffer
from quorum.records.control import (
    BadControlRecord,
    ControlType,
    LeaderChange,
    UnknownVersion,
    control_key,
    control_type,
    read_tags,
    skip_tags,
)
from quorum.records.decode import decode
from quorum.records.encode import encode
from quorum.records.varint import read_uvarint, uvarint

KRAFT_VERSION: Final = 1
"""The level of kraft.version at which the log says who votes."""

ENDPOINTS_MAX: Final = 100
VOTERS_MAX: Final = 10_000

TARGET_VOTERS_TAG: Final = 10_000
CLUSTER_ID_TAG: Final = 10_001
"""Our own tags are from 10000 up, out of the way of those that Kafka may add."""

_NO_TAGS: Final = uvarint(0)
_NUMBER: Final = Struct(">h")
_TWO_NUMBERS: Final = Struct(">hh")
_VOTER_ID: Final = Struct(">i")
_PORT: Final = Struct(">H")
_UUID_BYTES: Final = 16


def encode_kraft_version(level: int) -> bytes:
    """The value of a KRaftVersion record."""
    return _TWO_NUMBERS.pack(0, level) + _NO_TAGS


def decode_kraft_version(value: bytes | None) -> int:
    """The level that a KRaftVersion record puts in force; raises `BadControlRecord`."""
    try:
        version, level = _TWO_NUMBERS.unpack_from(value or b"")
    except StructError as error:
        raise BadControlRecord(f"not a kraft version record: {error}") from error
    if version != 0:
        raise UnknownVersion(f"a kraft version record of version {version}, known is 0")
    return int(level)


def encode_voters(assignment: VoterAssignment, cluster_id: str | None) -> bytes:
    """The value of a Voters record."""
    voters = assignment.current.voters
    parts = [_NUMBER.pack(0), uvarint(len(voters) + 1)]
    for voter in voters:
        parts += [_VOTER_ID.pack(voter.id), voter.key.directory_id.bytes]
        parts.append(uvarint(len(voter.endpoints) + 1))
        for endpoint in voter.endpoints:
            parts += [_string(endpoint.name), _string(endpoint.host)]
            parts += [_PORT.pack(endpoint.port), _NO_TAGS]
        parts.append(_TWO_NUMBERS.pack(voter.kraft_version_min, voter.kraft_version_max))
        parts += [_NO_TAGS, _NO_TAGS]
    tagged = []
    if assignment.target is not None:
        tagged.append((TARGET_VOTERS_TAG, _keys(assignment.target)))
    if cluster_id is not None:
        tagged.append((CLUSTER_ID_TAG, _string(cluster_id)))
    parts.append(uvarint(len(tagged)))
    for tag, value in tagged:
        parts += [uvarint(tag), uvarint(len(value)), value]
    return b"".join(parts)


def decode_voters(value: bytes | None) -> VoterAssignment:
    """Decode the current and target voters of a Voters record; raises `BadControlRecord`."""
    return _decoded(value)[0]


def decode_cluster_id(value: bytes | None) -> str | None:
    """The cluster id that a Voters record of ours names; raises `BadControlRecord`."""
    return _decoded(value)[1]


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
    """The cluster id that one batch names beside the voters; None if it names none.

    Raises `BadControlRecord`, `CorruptBatch`, `UnsupportedCodec`.
    """
    for record in decode(batch):
        if record.control and control_type(record.key) == ControlType.KRAFT_VOTERS:
            return decode_cluster_id(record.value)
    return None


def encode_founding(
    change: LeaderChange, voters: VoterAssignment, cluster_id: str | None, *, timestamp_ms: int
) -> bytearray:
    """The first batch of a log that names its voters, ready to be stamped: three records."""
    return _encode_control(
        [
            (ControlType.LEADER_CHANGE, change.encode()),
            (ControlType.KRAFT_VERSION, encode_kraft_version(KRAFT_VERSION)),
            (ControlType.KRAFT_VOTERS, encode_voters(voters, cluster_id)),
        ],
        timestamp_ms,
    )


def encode_assignment(
    assignment: VoterAssignment, cluster_id: str | None, *, timestamp_ms: int
) -> bytearray:
    """A batch of one Voters record, ready to be stamped."""
    value = encode_voters(assignment, cluster_id)
    return _encode_control([(ControlType.KRAFT_VOTERS, value)], timestamp_ms)


def _encode_control(records: Sequence[tuple[ControlType, bytes]], timestamp_ms: int) -> bytearray:
    return encode(
        [value for _, value in records],
        timestamp_ms=timestamp_ms,
        control=True,
        keys=[control_key(type_) for type_, _ in records],
    )


def _decoded(value: bytes | None) -> tuple[VoterAssignment, str | None]:
    try:
        return _decode_voters(value or b"")
    except (IndexError, ValueError, StructError) as error:
        raise BadControlRecord(f"not a voters record: {error}") from error


def _decode_voters(value: bytes) -> tuple[VoterAssignment, str | None]:
    (version,) = _NUMBER.unpack_from(value)
    if version != 0:
        raise ValueError(f"version {version}, known is 0")
    count, at = _count(value, _NUMBER.size, VOTERS_MAX, "voters")
    voters = []
    for _ in range(count):
        voter, at = _decode_voter(value, at)
        voters.append(voter)
    _no_two(voter.id for voter in voters)
    target, cluster_id = None, None
    tagged, at = _read_tags(value, at)
    for tag, field in tagged:
        if tag == TARGET_VOTERS_TAG:
            target = _read_keys(field)
        elif tag == CLUSTER_ID_TAG:
            cluster_id, _ = _read_string(field, 0)
    if at != len(value):
        raise ValueError(f"{len(value) - at} bytes behind its end")
    return VoterAssignment(VoterSet(tuple(voters)), target), cluster_id


def _decode_voter(value: bytes, at: int) -> tuple[Voter, int]:
    key, at = _read_key(value, at)
    count, at = _count(value, at, ENDPOINTS_MAX, "endpoints")
    endpoints = []
    for _ in range(count):
        name, at = _read_string(value, at)
        host, at = _read_string(value, at)
        (port,) = _PORT.unpack_from(value, at)
        at = skip_tags(value, at + _PORT.size)
        endpoints.append(Endpoint(name=name, host=host, port=port))
    lowest, highest = _TWO_NUMBERS.unpack_from(value, at)
    at = skip_tags(value, skip_tags(value, at + _TWO_NUMBERS.size))
    voter = Voter(
        key=key,
        endpoints=tuple(endpoints),
        kraft_version_min=lowest,
        kraft_version_max=highest,
    )
    return voter, at


def _keys(keys: Sequence[ReplicaKey]) -> bytes:
    parts = [_VOTER_ID.pack(key.id) + key.directory_id.bytes for key in keys]
    return uvarint(len(keys) + 1) + b"".join(parts)


def _read_keys(value: bytes) -> tuple[ReplicaKey, ...]:
    count, at = _count(value, 0, VOTERS_MAX, "target voters")
    keys = []
    for _ in range(count):
        key, at = _read_key(value, at)
        keys.append(key)
    _no_two(key.id for key in keys)
    if not keys:
        raise ValueError("target voters are named, but there is none")
    return tuple(keys)


def _read_key(value: bytes, at: int) -> tuple[ReplicaKey, int]:
    (id_,) = _VOTER_ID.unpack_from(value, at)
    at += _VOTER_ID.size
    directory_id = UUID(bytes=value[at : at + _UUID_BYTES])
    return ReplicaKey(ReplicaId(id_), directory_id), at + _UUID_BYTES


def _no_two(ids: Iterable[ReplicaId]) -> None:
    seen: set[ReplicaId] = set()
    for id_ in ids:
        if id_ in seen:
            raise ValueError(f"voter {id_} is named twice")
        seen.add(id_)


def _read_tags(value: bytes, at: int) -> tuple[list[tuple[int, bytes]], int]:
    """The tagged fields of the section at `at`, and the position behind it (KIP-482)."""
    end = skip_tags(value, at)
    return list(read_tags(value, at)), end


def _count(value: bytes, at: int, most: int, what: str) -> tuple[int, int]:
    count, at = read_uvarint(value, at)
    if not 0 <= count - 1 <= most:
        raise ValueError(f"{count - 1} {what}, allowed are 0 to {most}")
    return count - 1, at


def _string(text: str) -> bytes:
    data = text.encode()
    return uvarint(len(data) + 1) + data


def _read_string(value: bytes, at: int) -> tuple[str, int]:
    length, at = read_uvarint(value, at)
    end = at + length - 1
    if not at <= end <= len(value):
        raise ValueError("it ends within a string")
    return value[at:end].decode(), end
