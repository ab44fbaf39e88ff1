"""What a producer may send for one partition: exactly one sound batch, within the topic's limits.

Pure, apart from the checksum that it computes. Nothing here knows offsets of a log or who leads.
"""

from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

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

_MAGIC_AT: Final = 16
_CRC: Final = Struct(">I")
_CRC_AT: Final = 17
_ATTRIBUTES: Final = Struct(">h")
_MAX_TIMESTAMP: Final = Struct(">q")
_MAX_TIMESTAMP_AT: Final = 35
_LOG_APPEND_TIME_BIT: Final = 0x08
_CODECS: Final = frozenset(map(int, Codec))

CORRUPT_MESSAGE: Final = 2
MESSAGE_TOO_LARGE: Final = 10
UNSUPPORTED_FOR_MESSAGE_FORMAT: Final = 43
INVALID_TXN_STATE: Final = 48
INVALID_RECORD: Final = 87


class InvalidBatch(NamedTuple):
    """Why a batch is not appended: Kafka's error code, and what is wrong in one sentence."""

    code: int
    message: str


def validate_batch(records: bytes | None, *, message_bytes_max: int) -> Header | InvalidBatch:
    """The header of the batch that `records` is, or why it is not appended.

    Order of the checks: there is one, it is of a format we keep, it is one whole batch, it is not
    too large, it is what its checksum says, it is something that a producer may send.
    """
    if not records:
        return InvalidBatch(INVALID_RECORD, "there is no batch for the partition")
    if len(records) > _MAGIC_AT and records[_MAGIC_AT] != MAGIC:
        return InvalidBatch(
            UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"the batch has magic {records[_MAGIC_AT]}, only {MAGIC} is kept",
        )
    try:
        header = header_at(records)
        fault = _shape_fault(header, records, message_bytes_max)
        if fault is not None:
            return fault
        check_header(header, 0, expected_base=None, epoch_min=None)
        check_crc(header, 0, memoryview(records))
    except CorruptBatch as corrupt:
        return InvalidBatch(CORRUPT_MESSAGE, str(corrupt))
    return _content_fault(header) or header


def _shape_fault(header: Header, records: bytes, message_bytes_max: int) -> InvalidBatch | None:
    size = header.size_bytes
    if size < HEADER_BYTES or size > len(records):
        return InvalidBatch(
            CORRUPT_MESSAGE,
            f"the batch says that it has {header.length} bytes after its length, "
            f"{len(records) - LENGTH_END} came",
        )
    if size < len(records):
        return InvalidBatch(INVALID_RECORD, "more than one batch for one partition")
    if size > message_bytes_max:
        return InvalidBatch(
            MESSAGE_TOO_LARGE,
            f"the batch has {size} bytes, max.message.bytes is {message_bytes_max}",
        )
    return None


def _content_fault(header: Header) -> InvalidBatch | None:
    if header.is_control:
        return InvalidBatch(INVALID_RECORD, "a producer may not send control batches")
    if header.is_transactional:
        return InvalidBatch(INVALID_TXN_STATE, "transactions are not offered by this broker")
    if header.codec not in _CODECS:
        return InvalidBatch(INVALID_RECORD, f"compression codec {header.codec} is not known")
    idempotent = header.producer_id >= 0
    if idempotent and (header.producer_epoch < 0 or header.base_sequence < 0):
        return InvalidBatch(
            INVALID_RECORD,
            f"producer {header.producer_id} sent epoch {header.producer_epoch} and sequence "
            f"{header.base_sequence}, both must be 0 or above",
        )
    return None


def stamp_append_time(batch: bytearray, now_ms: int) -> None:
    """Let the broker's clock be the time of all records (`message.timestamp.type`), in place."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, CRC_START)
    _ATTRIBUTES.pack_into(batch, CRC_START, attributes | _LOG_APPEND_TIME_BIT)
    _MAX_TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, now_ms)
    with memoryview(batch) as view:
        crc = crc32c(view[CRC_START:])
    _CRC.pack_into(batch, _CRC_AT, crc)
