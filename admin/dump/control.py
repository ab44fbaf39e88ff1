"""Control records under Kafka's names, field by field, as Kafka's dump tool prints them.

The schemas are Kafka's `LeaderChangeMessage`, `KRaftVersionRecord`, `VotersRecord`,
`SnapshotHeaderRecord` and `SnapshotFooterRecord`. The quorum has readers of its own for what it
acts upon; this one shows everything that is there and acts upon nothing.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from quorum.records.control import ControlType
from statemachine.records.primitives import (
    I16,
    I32,
    I64,
    STRING,
    U16,
    UUID_KIND,
    Field,
    Kind,
    MalformedRecord,
    Reader,
    array,
    read_fields,
)


def _structure(*fields: Field) -> Kind:
    def write(_out: bytearray, _value: Any) -> None:
        raise AssertionError("control records are only read here")

    return Kind(write, lambda reader: read_fields(reader, fields, version=0))


_VOTER_ID: Final = Field("voterId", I32)
_DIRECTORY_ID: Final = Field("voterDirectoryId", UUID_KIND)
_ENDPOINT: Final = _structure(Field("name", STRING), Field("host", STRING), Field("port", U16))
_KRAFT_VERSIONS: Final = _structure(
    Field("minSupportedVersion", I16), Field("maxSupportedVersion", I16)
)
_VOTER: Final = _structure(
    _VOTER_ID,
    _DIRECTORY_ID,
    Field("endpoints", array(_ENDPOINT)),
    Field("kRaftVersionFeature", _KRAFT_VERSIONS),
)


def _leader_change(voter: Kind) -> tuple[Field, ...]:
    return (
        Field("leaderId", I32),
        Field("voters", array(voter)),
        Field("grantingVoters", array(voter)),
    )


class _Control(NamedTuple):
    """Kafka's name of a control record, and its fields behind `version` in each version."""

    name: str
    versions: tuple[tuple[Field, ...], ...]


_CONTROLS: Final[Mapping[int, _Control]] = MappingProxyType(
    {
        ControlType.LEADER_CHANGE: _Control(
            "LeaderChange",
            (
                _leader_change(_structure(_VOTER_ID)),
                _leader_change(_structure(_VOTER_ID, _DIRECTORY_ID)),
            ),
        ),
        ControlType.SNAPSHOT_HEADER: _Control(
            "SnapshotHeader", ((Field("lastContainedLogTimestamp", I64),),)
        ),
        ControlType.SNAPSHOT_FOOTER: _Control("SnapshotFooter", ((),)),
        ControlType.KRAFT_VERSION: _Control("KRaftVersion", ((Field("kRaftVersion", I16),),)),
        ControlType.KRAFT_VOTERS: _Control("KRaftVoters", ((Field("voters", array(_VOTER)),),)),
    }
)


def control_name(type_id: int) -> str | None:
    """Kafka's name of a control record; None for a type that has no place in a metadata log."""
    known = _CONTROLS.get(type_id)
    return None if known is None else known.name


def control_fields(type_id: int, value: bytes) -> dict[str, Any]:
    """The fields of a control record of a known type, `version` first; raises `MalformedRecord`."""
    reader = Reader(value)
    version = I16.read(reader)
    versions = _CONTROLS[type_id].versions
    if not 0 <= version < len(versions):
        raise MalformedRecord(f"version {version} is not known, only 0 to {len(versions) - 1}")
    found = {"version": version, **read_fields(reader, versions[version], version)}
    if reader.at != len(value):
        raise MalformedRecord(f"the record is over at byte {reader.at} of {len(value)}")
    return found
