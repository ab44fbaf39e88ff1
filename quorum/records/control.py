"""Control records: what the keepers of a log write for each other, between the data.

The key of such a record is two 16-bit numbers, a version and a type. Here are the names of the
types, and the one that opens every epoch, LeaderChange (KIP-595), byte for byte as Kafka has it.
Types that carry voters or snapshots belong to those who write them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final

from quorum.core.vocabulary import ReplicaId
from quorum.records.encode import encode
from quorum.records.varint import read_uvarint, uvarint

_KEY: Final = Struct(">hh")
_KEY_VERSION: Final = 0
_OPENING: Final = Struct(">hi")
_VOTER: Final = Struct(">i")
_DIRECTORY_ID_BYTES: Final = 16
_VERSION_MAX: Final = 1
_VOTERS_MAX: Final = 10_000


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
    """The key or value of a control record is not what its type asks for."""


class UnknownVersion(BadControlRecord):
    """It may be what its type asks for, in a version that is not known here."""


def control_key(type_: ControlType) -> bytes:
    """The key of a control record of this type."""
    return _KEY.pack(_KEY_VERSION, type_)


def control_type(key: bytes | None) -> int:
    """The type that a control record's key gives: a `ControlType`, or a number unknown here.

    Raises `BadControlRecord` when it is no such key. A later version may have grown: what
    follows the type is not looked at.
    """
    if key is None or len(key) < _KEY.size:
        length = "no key" if key is None else f"a key of {len(key)} bytes"
        raise BadControlRecord(f"a control record with {length}, at least {_KEY.size} are needed")
    _, number = _KEY.unpack_from(key)
    return ControlType(number) if number in set(ControlType) else int(number)


def control_name(key: bytes | None) -> str:
    """Return the name of a control record with this key; errors as `control_type`."""
    known = control_type(key)
    return str(known) if isinstance(known, ControlType) else f"control type {known}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange:
    """The first record of an epoch: who leads, of which voters, and who of them voted for it."""

    leader: ReplicaId
    voters: tuple[ReplicaId, ...]
    granting: tuple[ReplicaId, ...]

    def __str__(self) -> str:
        voters, granting = (", ".join(map(str, ids)) for ids in (self.voters, self.granting))
        return f"leader change: {self.leader} leads [{voters}] by the votes of [{granting}]"

    def encode(self) -> bytes:
        """The value of the record: Kafka's LeaderChangeMessage, version 0."""
        return b"".join(
            (
                _OPENING.pack(0, self.leader),
                _pack_voters(self.voters),
                _pack_voters(self.granting),
                uvarint(0),  # No tagged fields.
            )
        )

    @classmethod
    def decode(cls, value: bytes | None) -> "LeaderChange":
        """From the value of a record, versions 0 and 1; tagged fields are skipped.

        Version 1 adds directory ids, which Kafka leaves at zero. Raises `BadControlRecord`.
        """
        try:
            return cls._decode(value or b"")
        except (IndexError, ValueError) as error:
            raise BadControlRecord(f"not a leader change record: {error}") from error

    @classmethod
    def _decode(cls, value: bytes) -> "LeaderChange":
        if len(value) < _OPENING.size:
            raise ValueError(f"{len(value)} bytes are too few")
        version, leader = _OPENING.unpack_from(value)
        if not 0 <= version <= _VERSION_MAX:
            raise ValueError(f"version {version}, known are 0 to {_VERSION_MAX}")
        extra_bytes = _DIRECTORY_ID_BYTES if version else 0
        voters, at = _read_voters(value, _OPENING.size, extra_bytes)
        granting, at = _read_voters(value, at, extra_bytes)
        at = skip_tags(value, at)
        if at != len(value):
            raise ValueError(f"{len(value) - at} bytes behind its end")
        return cls(leader=ReplicaId(leader), voters=voters, granting=granting)


def encode_leader_change(change: LeaderChange, *, timestamp_ms: int) -> bytearray:
    """The batch that opens an epoch, one LeaderChange record, ready to be stamped."""
    return encode(
        [change.encode()],
        timestamp_ms=timestamp_ms,
        control=True,
        keys=[control_key(ControlType.LEADER_CHANGE)],
    )


def _pack_voters(voters: Sequence[ReplicaId]) -> bytes:
    return uvarint(len(voters) + 1) + b"".join(_VOTER.pack(voter) + uvarint(0) for voter in voters)


def _read_voters(value: bytes, at: int, extra_bytes: int) -> tuple[tuple[ReplicaId, ...], int]:
    count, at = read_uvarint(value, at)
    count -= 1  # A compact array counts from one; zero is null.
    if not 0 <= count <= _VOTERS_MAX:
        raise ValueError(f"{count} voters, allowed are 0 to {_VOTERS_MAX}")
    voters: list[ReplicaId] = []
    for _ in range(count):
        if at + _VOTER.size + extra_bytes > len(value):
            raise ValueError("it ends within a voter")
        (voter,) = _VOTER.unpack_from(value, at)
        voters.append(ReplicaId(voter))
        at = skip_tags(value, at + _VOTER.size + extra_bytes)
    return tuple(voters), at


def skip_tags(value: bytes, at: int) -> int:
    """The position behind the section of tagged fields at `at` (KIP-482)."""
    count, at = read_uvarint(value, at)
    for _ in range(count):
        _, at = read_uvarint(value, at)
        size, at = read_uvarint(value, at)
        at += size
        if at > len(value):
            raise ValueError("it ends within a tagged field")
    return at


def read_tags(value: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    """The tagged fields of the section at `at`, through which `skip_tags` has passed (KIP-482)."""
    count, at = read_uvarint(value, at)
    for _ in range(count):
        tag, at = read_uvarint(value, at)
        size, at = read_uvarint(value, at)
        yield tag, value[at : at + size]
        at += size
