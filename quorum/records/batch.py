"""The header of a record batch, and the checks of a batch from disk or network.

Kafka documentation, "Record Batch". Of its 61 bytes the base offset, the length and the epoch lie
outside the checksum, so an appended batch is stamped in place without a new checksum.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from crc32c import crc32c

from quorum.core.messages import Batch
from quorum.core.vocabulary import Epoch, Offset
from quorum.core.voter_set import VoterAssignment

Buffer: TypeAlias = bytes | bytearray | memoryview

MAGIC: Final = 2
HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
LENGTH_END: Final = 12
"""The length in the header counts the bytes after it, that is, after these first ones."""
CRC_START: Final = 21
"""The checksum covers everything from the attributes on."""

_PREFIX: Final = Struct(">qi")

_CODEC_BITS: Final = 0x07
_LOG_APPEND_TIME_BIT: Final = 0x08
_TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
NOT_PLAIN_BITS: Final = _CODEC_BITS | _LOG_APPEND_TIME_BIT
"""Attributes that change how the records of a batch are read."""

assert HEADER_BYTES == 61


class Codec(IntEnum):
    """The compression of a batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    def __str__(self) -> str:
        return self.name.lower()


class CorruptBatch(ValueError):
    """The bytes at `position` are not a complete and valid batch for this place."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"the batch at byte {position} is corrupt: {reason}")
        self.position = position
        self.reason = reason


class Header(NamedTuple):
    """The header of one batch, field by field; -1 stands for "none" as it does in Kafka."""

    base_offset: int
    length: int
    epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The size of the batch, header included."""
        return self.length + LENGTH_END

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def is_control(self) -> bool:
        """True if the records are control records, not data."""
        return self.attributes & CONTROL_BIT != 0

    @property
    def is_transactional(self) -> bool:
        """True if the batch is part of a producer's transaction (KIP-98)."""
        return self.attributes & _TRANSACTIONAL_BIT != 0

    @property
    def is_log_append_time(self) -> bool:
        """True if the broker's clock, in `max_timestamp_ms`, overrides that of the producer."""
        return self.attributes & _LOG_APPEND_TIME_BIT != 0

    @property
    def codec(self) -> int:
        """A `Codec`, or an unknown number."""
        return self.attributes & _CODEC_BITS

    @property
    def outline(self) -> Batch:
        """The outline of this batch for the core."""
        base = self.base_offset
        return Batch(Offset(base), Offset(base + self.last_offset_delta + 1), Epoch(self.epoch))


def header_at(buffer: Buffer, position: int = 0) -> Header:
    """Decode the header at `position` without checking its fields.

    Raises `CorruptBatch` if there are fewer than 61 bytes.
    """
    if position < 0 or len(buffer) - position < HEADER_BYTES:
        present = max(0, len(buffer) - position)
        raise CorruptBatch(position, f"only {present} of the {HEADER_BYTES} bytes of its header")
    # As `Header(*...)`, in half the time: called for every batch that is appended or read.
    return tuple.__new__(Header, HEADER.unpack_from(buffer, position))


def headers(buffer: Buffer) -> Iterator[tuple[int, Header]]:
    """Yield position and header of each batch of `buffer`, which holds only whole batches.

    Only the lengths are checked: raises `CorruptBatch` if one is impossible or exceeds the buffer.
    """
    position, end = 0, len(buffer)
    while position < end:
        header = header_at(buffer, position)
        check_length(header, position, end)
        yield position, header
        position += header.length + LENGTH_END


def outlines(buffer: Buffer) -> list[Batch]:
    """Return the outlines of the batches in `buffer`; checks and errors are those of `headers`."""
    return [header.outline for _, header in headers(buffer)]


def check_length(header: Header, position: int, end: int) -> None:
    """Raise `CorruptBatch` unless the batch can have this length, and ends at or before `end`."""
    if header.magic != MAGIC:
        raise CorruptBatch(position, f"magic {header.magic}, only {MAGIC} is known")
    if header.length < HEADER_BYTES - LENGTH_END:
        raise CorruptBatch(position, f"length {header.length}, shorter than any header")
    if position + header.length + LENGTH_END > end:
        raise CorruptBatch(
            position, f"{header.size_bytes} bytes long, but only {end - position} are there"
        )


def check_header(
    header: Header, position: int, *, expected_base: int | None, epoch_min: int | None
) -> None:
    """Raise `CorruptBatch` unless the batch continues the one before it.

    Its base offset is `expected_base`, its epoch not below `epoch_min`, and it has one record for
    each offset: none of the logs read here is compacted.
    """
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        raise CorruptBatch(
            position,
            f"{header.record_count} records, but its last offset delta is "
            f"{header.last_offset_delta}",
        )
    if expected_base is not None and header.base_offset != expected_base:
        raise CorruptBatch(
            position, f"its base offset is {header.base_offset}, expected {expected_base}"
        )
    if epoch_min is not None and header.epoch < epoch_min:
        raise CorruptBatch(position, f"its epoch is {header.epoch}, after epoch {epoch_min}")


def check_crc(header: Header, position: int, batch: memoryview) -> None:
    """Raise `CorruptBatch` unless the checksum of `batch`, one whole batch, is right (KIP-98)."""
    assert len(batch) == header.size_bytes
    crc = crc32c(batch[CRC_START:])
    if crc != header.crc:
        raise CorruptBatch(position, f"its checksum is {header.crc:08x}, computed {crc:08x}")


def check(
    buffer: Buffer,
    expected_base: Offset | None = None,
    *,
    assignment_in: Callable[[Buffer], VoterAssignment | None] | None = None,
) -> list[Batch]:
    """Verify the batches in `buffer` and return their outlines.

    Checked are magic, length, checksum and record count; every batch begins where the one before it
    ends, the first at `expected_base`, if given; epochs do not fall. `assignment_in` reads the
    voter assignment in a control batch. Raises `CorruptBatch`, also for a partial batch at the end:
    cut that off with `whole_bytes` first.
    """
    found: list[Batch] = []
    next_base: int | None = expected_base
    epoch_min: int | None = None
    view = memoryview(buffer)
    for position, header in headers(buffer):
        check_header(header, position, expected_base=next_base, epoch_min=epoch_min)
        batch = view[position : position + header.size_bytes]
        check_crc(header, position, batch)
        outline = header.outline
        if assignment_in is not None and header.attributes & CONTROL_BIT:
            outline = replace(outline, assignment=assignment_in(batch))
        found.append(outline)
        next_base, epoch_min = header.end_offset, header.epoch
    return found


def whole_bytes(buffer: Buffer) -> int:
    """Return the number of bytes of the whole batches in `buffer`, without verifying them.

    A broker cuts a Fetch response at the requested size, so the last batch may be partial; the
    first is always whole (KIP-74), so 0 of a non-empty buffer is an error of the sender. Raises
    `CorruptBatch` for an impossible length.
    """
    position = 0
    while position + LENGTH_END <= len(buffer):
        _, length = _PREFIX.unpack_from(buffer, position)
        if length < HEADER_BYTES - LENGTH_END:
            raise CorruptBatch(position, f"length {length}, shorter than any header")
        if position + LENGTH_END + length > len(buffer):
            break
        position += LENGTH_END + length
    return position
