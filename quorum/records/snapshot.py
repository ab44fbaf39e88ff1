"""The control records that open and close a snapshot (KIP-630): SnapshotHeader, SnapshotFooter.

Byte for byte they are Kafka's, version 0. A footer of ours says in a tagged field what all bytes
before its batch come to, so that a snapshot that was put together from what two leaders sent is not
taken for one of theirs; other tagged fields are skipped. A snapshot whose footer is missing was
never finished.
"""

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError
from typing import Final

from crc32c import crc32c

from quorum.core.vocabulary import Epoch, Offset
from quorum.core.voter_set import VoterAssignment
from quorum.records.control import (
    BadControlRecord,
    ControlType,
    UnknownVersion,
    control_key,
    read_tags,
    skip_tags,
)
from quorum.records.encode import encode
from quorum.records.varint import uvarint
from quorum.records.voters_record import KRAFT_VERSION, encode_kraft_version, encode_voters

_HEADER: Final = Struct(">hq")
_FOOTER: Final = Struct(">h")
_CHECKSUM: Final = Struct(">I")
_VERSION: Final = 0

CHECKSUM_TAG: Final = 10_000


def encode_snapshot_header(last_timestamp_ms: int) -> bytes:
    """The value of a SnapshotHeader; the time is that of the last record which it contains."""
    return _HEADER.pack(_VERSION, last_timestamp_ms) + uvarint(0)


def encode_snapshot_footer(checksum: int) -> bytes:
    """The value of a SnapshotFooter; `checksum` is the CRC-32C of everything before its batch."""
    content = _CHECKSUM.pack(checksum)
    tagged = uvarint(1) + uvarint(CHECKSUM_TAG) + uvarint(len(content)) + content
    return _FOOTER.pack(_VERSION) + tagged


def decode_snapshot_header(value: bytes | None) -> int:
    """The time of the last record that the snapshot contains; raises `BadControlRecord`."""
    version, last_timestamp_ms = _unpacked(_HEADER, value, "snapshot header")
    _check_version(version, "snapshot header")
    return last_timestamp_ms


def decode_snapshot_footer(value: bytes | None) -> int | None:
    """The checksum that a SnapshotFooter names, None for Kafka's; raises `BadControlRecord`."""
    (version,) = _unpacked(_FOOTER, value, "snapshot footer")
    _check_version(version, "snapshot footer")
    for tag, content in read_tags(value or b"", _FOOTER.size):
        if tag == CHECKSUM_TAG and len(content) == _CHECKSUM.size:
            (checksum,) = _CHECKSUM.unpack(content)
            return int(checksum)
    return None


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
        raise UnknownVersion(f"a {what} record of version {version}, known is {_VERSION}")


class SnapshotBatches:
    """Makes the batches of one snapshot: `opening`, any number of times `data`, `closing`."""

    def __init__(self, epoch: Epoch, last_timestamp_ms: int) -> None:
        """`epoch` is that of the last record that is contained, the time is that record's."""
        self._epoch = epoch
        self._timestamp_ms = last_timestamp_ms
        self._next = Offset(0)
        self._checksum = 0

    def opening(self, voters: VoterAssignment | None, cluster_id: str | None) -> bytearray:
        """The header, and who votes where the log says so."""
        records = [(ControlType.SNAPSHOT_HEADER, encode_snapshot_header(self._timestamp_ms))]
        if voters is not None:
            records += [
                (ControlType.KRAFT_VERSION, encode_kraft_version(KRAFT_VERSION)),
                (ControlType.KRAFT_VOTERS, encode_voters(voters, cluster_id)),
            ]
        return self._control(records)

    def data(self, values: Sequence[bytes]) -> bytearray:
        """These records, of which there is at least one."""
        return self._batch(values, None)

    def closing(self) -> bytearray:
        """The footer: without it a snapshot was never finished."""
        footer = encode_snapshot_footer(self._checksum)
        return self._control([(ControlType.SNAPSHOT_FOOTER, footer)])

    def _control(self, records: Sequence[tuple[ControlType, bytes]]) -> bytearray:
        return self._batch(
            [value for _, value in records], [control_key(type_) for type_, _ in records]
        )

    def _batch(self, values: Sequence[bytes], keys: Sequence[bytes] | None) -> bytearray:
        batch = encode(
            values,
            timestamp_ms=self._timestamp_ms,
            base_offset=self._next,
            epoch=self._epoch,
            control=keys is not None,
            keys=keys,
        )
        self._next = Offset(self._next + len(values))
        self._checksum = crc32c(batch, self._checksum)
        return batch
