"""Control records as Kafka's dump tool prints them: names, fields, JSON.

The schemas are Kafka's `LeaderChangeMessage`, `KRaftVersionRecord`, `VotersRecord`,
`SnapshotHeaderRecord` and `SnapshotFooterRecord`. The quorum acts upon these records through
readers of its own; this one is for display and reads every field.
"""

import base64
import json
import struct
from collections.abc import Callable, Mapping
from struct import Struct
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from uuid import UUID

from quorum.core.vocabulary import uuid_to_text
from quorum.records.control import BadControlRecord, ControlType, skip_tags
from quorum.records.varint import read_uvarint

_Read = Callable[[bytes, int], tuple[Any, int]]
"""Reads a value at a position; returns it and the position behind it."""
_Field = tuple[str, _Read]

_UUID_BYTES: Final = 16


def _number(form: str) -> _Read:
    packer = Struct(form)

    def read(data: bytes, at: int) -> tuple[int, int]:
        (number,) = packer.unpack_from(data, at)
        return number, at + packer.size

    return read


def _read_bytes(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if size < 0:
        raise ValueError(f"null before byte {at}, where the schema has no null")
    if size > len(data) - at:
        raise ValueError(f"{size} bytes are announced at byte {at}, {len(data) - at} are left")
    return data[at : at + size], at + size


def _uuid(data: bytes, at: int) -> tuple[UUID, int]:
    raw, at = _read_bytes(data, at, _UUID_BYTES)
    return UUID(bytes=raw), at


def _string(data: bytes, at: int) -> tuple[str, int]:
    size, at = read_uvarint(data, at)
    raw, at = _read_bytes(data, at, size - 1)
    return raw.decode(), at


def _array(item: _Read) -> _Read:
    def read(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
        count, at = read_uvarint(data, at)
        # Every item has at least one byte.
        if not 0 <= count - 1 <= len(data) - at:
            raise ValueError(f"{count - 1} items are announced before byte {at}")
        items = []
        for _ in range(count - 1):
            value, at = item(data, at)
            items.append(value)
        return tuple(items), at

    return read


def _structure(*fields: _Field) -> _Read:
    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        found = {}
        for name, field in fields:
            found[name], at = field(data, at)
        return found, skip_tags(data, at)

    return read


_I16: Final = _number(">h")
_I32: Final = _number(">i")
_I64: Final = _number(">q")
_U16: Final = _number(">H")

_VOTER_ID: Final = ("voterId", _I32)
_DIRECTORY_ID: Final = ("voterDirectoryId", _uuid)
_ENDPOINT: Final = _structure(("name", _string), ("host", _string), ("port", _U16))
_KRAFT_VERSIONS: Final = _structure(("minSupportedVersion", _I16), ("maxSupportedVersion", _I16))
_VOTER: Final = _structure(
    _VOTER_ID,
    _DIRECTORY_ID,
    ("endpoints", _array(_ENDPOINT)),
    ("kRaftVersionFeature", _KRAFT_VERSIONS),
)


def _leader_change(voter: _Read) -> _Read:
    return _structure(
        ("leaderId", _I32), ("voters", _array(voter)), ("grantingVoters", _array(voter))
    )


class _Schema(NamedTuple):
    """Kafka's name of a control record, and the reader of each version behind the version field."""

    name: str
    versions: tuple[_Read, ...]


_SCHEMAS: Final[Mapping[int, _Schema]] = MappingProxyType(
    {
        ControlType.LEADER_CHANGE: _Schema(
            "LeaderChange",
            (
                _leader_change(_structure(_VOTER_ID)),
                _leader_change(_structure(_VOTER_ID, _DIRECTORY_ID)),
            ),
        ),
        ControlType.SNAPSHOT_HEADER: _Schema(
            "SnapshotHeader", (_structure(("lastContainedLogTimestamp", _I64)),)
        ),
        ControlType.SNAPSHOT_FOOTER: _Schema("SnapshotFooter", (_structure(),)),
        ControlType.KRAFT_VERSION: _Schema("KRaftVersion", (_structure(("kRaftVersion", _I16)),)),
        ControlType.KRAFT_VOTERS: _Schema("KRaftVoters", (_structure(("voters", _array(_VOTER))),)),
    }
)


def control_record_name(type_id: int) -> str | None:
    """Kafka's name of a control record; None for a type that a metadata log does not hold."""
    known = _SCHEMAS.get(type_id)
    return None if known is None else known.name


def control_fields(type_id: int, value: bytes) -> dict[str, Any]:
    """The fields of a control record of a known type, `version` first.

    Raises `BadControlRecord`.
    """
    try:
        version, at = _I16(value, 0)
        versions = _SCHEMAS[type_id].versions
        if not 0 <= version < len(versions):
            raise ValueError(f"version {version} is not known, only 0 to {len(versions) - 1}")
        fields, at = versions[version](value, at)
    except (ValueError, IndexError, struct.error) as error:
        raise BadControlRecord(str(error)) from error
    if at != len(value):
        raise BadControlRecord(f"the record ends at byte {at} of {len(value)}")
    return {"version": version, **fields}


def compact_json(value: Any) -> str:
    """JSON without spaces; ids as Kafka's 22 characters, bytes in base64."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=_as_text)


def _as_text(value: object) -> str:
    match value:
        case UUID():
            return uuid_to_text(value)
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            raise AssertionError(f"{value!r} is in no record")
