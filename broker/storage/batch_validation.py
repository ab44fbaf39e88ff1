"""Validate the batch of a producer: exactly one valid batch within the topic's limits. Pure.

The records are checked as Kafka's `LogValidator` does, as far as they can be decompressed here: not
those compressed with snappy, lz4 or zstd, of which only their number is bounded.
"""

from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from quorum.protocol.errors import ErrorCode
from quorum.records.batch import (
    CRC_START,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    Codec,
    CorruptBatch,
    Header,
    check_crc,
    check_header,
    header_at,
)
from quorum.records.decode import RECORDS_UNSEEN_MAX, UnsupportedCodec, check_records

_MAGIC_AT: Final = 16
_CRC: Final = Struct(">I")
_CRC_AT: Final = 17
_ATTRIBUTES: Final = Struct(">h")
_MAX_TIMESTAMP: Final = Struct(">q")
_MAX_TIMESTAMP_AT: Final = 35
_LOG_APPEND_TIME_BIT: Final = 0x08
_CODECS: Final = frozenset(map(int, Codec))
NO_TIMESTAMP: Final = -1


class InvalidBatch(NamedTuple):
    """The reason to reject a batch: Kafka's error code and a message."""

    code: ErrorCode
    message: str


class TimestampBounds(NamedTuple):
    """The timestamps that a producer may give, both ends included."""

    earliest_ms: int
    latest_ms: int


def validate_batch(
    records: bytes | None, *, message_bytes_max: int, times: TimestampBounds | None = None
) -> Header | InvalidBatch:
    """Return the header of a valid batch, or the reason to reject it.

    Checks in order: present, known magic, one whole batch, within the size limit, checksum, allowed
    for a producer, sound records, and their timestamps unless `times` is None.
    """
    if not records:
        return InvalidBatch(ErrorCode.INVALID_RECORD, "the partition has no record batch")
    if len(records) > _MAGIC_AT and records[_MAGIC_AT] != MAGIC:
        return InvalidBatch(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"the batch has magic {records[_MAGIC_AT]}, only {MAGIC} is supported",
        )
    try:
        header = header_at(records)
        fault = _shape_fault(header, records, message_bytes_max)
        if fault is not None:
            return fault
        check_header(header, 0, expected_base=None, epoch_min=None)
        check_crc(header, 0, memoryview(records))
    except CorruptBatch as corrupt:
        return InvalidBatch(ErrorCode.CORRUPT_MESSAGE, str(corrupt))
    return _content_fault(header) or _records_fault(header, records, times) or header


def _shape_fault(header: Header, records: bytes, message_bytes_max: int) -> InvalidBatch | None:
    size = header.size_bytes
    if size < HEADER_BYTES or size > len(records):
        return InvalidBatch(
            ErrorCode.CORRUPT_MESSAGE,
            f"the batch declares {header.length} bytes after its length field, "
            f"{len(records) - LENGTH_END} were received",
        )
    if size < len(records):
        return InvalidBatch(
            ErrorCode.INVALID_RECORD, "the partition has more than one record batch"
        )
    if size > message_bytes_max:
        return InvalidBatch(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {size} bytes, max.message.bytes is {message_bytes_max}",
        )
    return None


def _content_fault(header: Header) -> InvalidBatch | None:
    if header.is_control:
        return InvalidBatch(ErrorCode.INVALID_RECORD, "a producer may not send control batches")
    if header.is_transactional:
        return InvalidBatch(
            ErrorCode.INVALID_TXN_STATE, "this broker does not support transactions"
        )
    if header.codec not in _CODECS:
        return InvalidBatch(
            ErrorCode.INVALID_RECORD, f"compression codec {header.codec} is unknown"
        )
    idempotent = header.producer_id >= 0
    if idempotent and (header.producer_epoch < 0 or header.base_sequence < 0):
        return InvalidBatch(
            ErrorCode.INVALID_RECORD,
            f"producer {header.producer_id} sent epoch {header.producer_epoch} and sequence "
            f"{header.base_sequence}, both must be 0 or above",
        )
    return None


def _records_fault(
    header: Header, records: bytes, times: TimestampBounds | None
) -> InvalidBatch | None:
    try:
        earliest_ms, latest_ms = check_records(records, header)
    except UnsupportedCodec:
        if header.size_bytes == HEADER_BYTES or header.record_count > RECORDS_UNSEEN_MAX:
            reason = f"{header.record_count} records in {header.size_bytes - HEADER_BYTES} bytes"
            return InvalidBatch(ErrorCode.INVALID_RECORD, reason)
        earliest_ms = latest_ms = header.max_timestamp_ms
    except CorruptBatch as corrupt:
        return InvalidBatch(ErrorCode.INVALID_RECORD, corrupt.reason)
    if times is None:
        return None
    for time_ms in (earliest_ms, latest_ms, header.max_timestamp_ms):
        if time_ms != NO_TIMESTAMP and not times.earliest_ms <= time_ms <= times.latest_ms:
            return InvalidBatch(
                ErrorCode.INVALID_TIMESTAMP,
                f"timestamp {time_ms} is not between {times.earliest_ms} and {times.latest_ms}",
            )
    return None


def stamp_append_time(batch: bytearray, now_ms: int) -> None:
    """Stamp the batch with the broker's clock in place (`message.timestamp.type`)."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, CRC_START)
    _ATTRIBUTES.pack_into(batch, CRC_START, attributes | _LOG_APPEND_TIME_BIT)
    _MAX_TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, now_ms)
    with memoryview(batch) as view:
        crc = crc32c(view[CRC_START:])
    _CRC.pack_into(batch, _CRC_AT, crc)
