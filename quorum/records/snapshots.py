"""The control records that open and close a snapshot (KIP-630): SnapshotHeader, SnapshotFooter.

Byte for byte they are Kafka's, version 0; tagged fields are skipped when read. A snapshot whose
footer is missing was never finished.
"""

from struct import Struct
from struct import error as StructError
from typing import Final

from quorum.records.control import BadControlRecord, skip_tags
from quorum.records.varint import uvarint

_HEADER: Final = Struct(">hq")
_FOOTER: Final = Struct(">h")
_VERSION: Final = 0


def encode_snapshot_header(last_timestamp_ms: int) -> bytes:
    """The value of a SnapshotHeader; the time is that of the last record which it contains."""
    return _HEADER.pack(_VERSION, last_timestamp_ms) + uvarint(0)


def encode_snapshot_footer() -> bytes:
    """The value of a SnapshotFooter."""
    return _FOOTER.pack(_VERSION) + uvarint(0)


def decode_snapshot_header(value: bytes | None) -> int:
    """The time of the last record that the snapshot contains; raises `BadControlRecord`."""
    version, last_timestamp_ms = _unpacked(_HEADER, value, "snapshot header")
    _check_version(version, "snapshot header")
    return last_timestamp_ms


def decode_snapshot_footer(value: bytes | None) -> None:
    """Raise `BadControlRecord` unless this is a SnapshotFooter."""
    (version,) = _unpacked(_FOOTER, value, "snapshot footer")
    _check_version(version, "snapshot footer")


def _unpacked(form: Struct, value: bytes | None, what: str) -> tuple[int, ...]:
    data = value or b""
    try:
        found = form.unpack_from(data)
        end = skip_tags(data, form.size)
    except (IndexError, ValueError, StructError) as error:
        raise BadControlRecord(f"not a {what} record: {error}") from error
    if end != len(data):
        raise BadControlRecord(f"not a {what} record: {len(data) - end} bytes behind its end")
    return found


def _check_version(version: int, what: str) -> None:
    if version != _VERSION:
        raise BadControlRecord(f"a {what} record of version {version}, known is {_VERSION}")
