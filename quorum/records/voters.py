"""The control records that say who votes: KRaftVersion and Voters (KIP-853).

A log that names its voters begins with both, behind the first LeaderChange. Byte for byte they are
Kafka's, version 0; tagged fields are skipped when read. What the voters mean is not known here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError
from typing import Final
from uuid import UUID

from quorum.core.vocabulary import ReplicaId
from quorum.records.control import (
    BadControlRecord,
    ControlType,
    LeaderChange,
    control_key,
    skip_tags,
)
from quorum.records.encode import encode
from quorum.records.varint import read_uvarint, uvarint

KRAFT_VERSION: Final = 1
"""The level of kraft.version at which the log says who votes."""

ENDPOINTS_MAX: Final = 100
VOTERS_MAX: Final = 10_000

_NO_TAGS: Final = uvarint(0)
_NUMBER: Final = Struct(">h")
_TWO_NUMBERS: Final = Struct(">hh")
_VOTER_ID: Final = Struct(">i")
_PORT: Final = Struct(">H")
_UUID_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterEndpoint:
    """Where a voter listens, by the name of the listener."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """One voter; a directory id of zero is not known yet."""

    id: ReplicaId
    directory_id: UUID
    endpoints: tuple[VoterEndpoint, ...]
    kraft_version_min: int = 0
    kraft_version_max: int = KRAFT_VERSION


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
        raise BadControlRecord(f"a kraft version record of version {version}, known is 0")
    return int(level)


def encode_voters(voters: Sequence[Voter]) -> bytes:
    """The value of a Voters record."""
    parts = [_NUMBER.pack(0), uvarint(len(voters) + 1)]
    for voter in voters:
        parts += [_VOTER_ID.pack(voter.id), voter.directory_id.bytes]
        parts.append(uvarint(len(voter.endpoints) + 1))
        for endpoint in voter.endpoints:
            parts += [_string(endpoint.name), _string(endpoint.host)]
            parts += [_PORT.pack(endpoint.port), _NO_TAGS]
        parts.append(_TWO_NUMBERS.pack(voter.kraft_version_min, voter.kraft_version_max))
        parts += [_NO_TAGS, _NO_TAGS]
    parts.append(_NO_TAGS)
    return b"".join(parts)


def decode_voters(value: bytes | None) -> tuple[Voter, ...]:
    """The voters that a Voters record names; raises `BadControlRecord`."""
    try:
        return _decode_voters(value or b"")
    except (IndexError, ValueError, StructError) as error:
        raise BadControlRecord(f"not a voters record: {error}") from error


def encode_founding(
    change: LeaderChange, voters: Sequence[Voter], *, timestamp_ms: int
) -> bytearray:
    """The first batch of a log that names its voters, ready to be stamped: three records."""
    return encode(
        [change.encode(), encode_kraft_version(KRAFT_VERSION), encode_voters(voters)],
        timestamp_ms=timestamp_ms,
        control=True,
        keys=[
            control_key(ControlType.LEADER_CHANGE),
            control_key(ControlType.KRAFT_VERSION),
            control_key(ControlType.KRAFT_VOTERS),
        ],
    )


def _decode_voters(value: bytes) -> tuple[Voter, ...]:
    (version,) = _NUMBER.unpack_from(value)
    if version != 0:
        raise ValueError(f"version {version}, known is 0")
    count, at = _count(value, _NUMBER.size, VOTERS_MAX, "voters")
    voters = []
    for _ in range(count):
        voter, at = _decode_voter(value, at)
        voters.append(voter)
    at = skip_tags(value, at)
    if at != len(value):
        raise ValueError(f"{len(value) - at} bytes behind its end")
    return tuple(voters)


def _decode_voter(value: bytes, at: int) -> tuple[Voter, int]:
    (id_,) = _VOTER_ID.unpack_from(value, at)
    at += _VOTER_ID.size
    directory_id = UUID(bytes=value[at : at + _UUID_BYTES])
    count, at = _count(value, at + _UUID_BYTES, ENDPOINTS_MAX, "endpoints")
    endpoints = []
    for _ in range(count):
        name, at = _read_string(value, at)
        host, at = _read_string(value, at)
        (port,) = _PORT.unpack_from(value, at)
        at = skip_tags(value, at + _PORT.size)
        endpoints.append(VoterEndpoint(name=name, host=host, port=port))
    lowest, highest = _TWO_NUMBERS.unpack_from(value, at)
    at = skip_tags(value, skip_tags(value, at + _TWO_NUMBERS.size))
    voter = Voter(
        id=ReplicaId(id_),
        directory_id=directory_id,
        endpoints=tuple(endpoints),
        kraft_version_min=lowest,
        kraft_version_max=highest,
    )
    return voter, at


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
