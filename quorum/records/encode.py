"""The encoder of record batches: many plain records of the quorum, or those of a producing client.

Batches are not compressed or split: the caller limits their size.
"""

from collections.abc import Sequence
from functools import cache
from itertools import chain
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from quorum.core.limits import BATCH_RECORDS_MAX
from quorum.core.vocabulary import Epoch, Offset
from quorum.records.batch import (
    CONTROL_BIT,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
)
from quorum.records.varint import uvarint, varint, zigzag

_BASE_OFFSET: Final = Struct(">q")
_EPOCH: Final = Struct(">i")
_EPOCH_POSITION: Final = 12
_CRC: Final = Struct(">I")
_CRC_POSITION: Final = 17

# A plain record is: length, attributes 0, timestamp delta 0, offset delta, no key, value, no
# headers. Everything in it but the value depends on two small numbers, its place and its size,
# so the bytes are looked up and the whole batch is one join.
_SIZES_REMEMBERED: Final = 1_024
"""Sizes of values with cached pieces, from 0 on; larger ones are rare and computed."""
_ONE_BYTE_PLACES: Final = 64
_TWO_BYTE_PLACES: Final = 8_192

assert zigzag(_ONE_BYTE_PLACES - 1) < 1 << 7 <= zigzag(_ONE_BYTE_PLACES)
assert zigzag(_TWO_BYTE_PLACES - 1) < 1 << 14 <= zigzag(_TWO_BYTE_PLACES)
assert zigzag(BATCH_RECORDS_MAX - 1) < 1 << 21


def _record_length(value_bytes: int, place_bytes: int) -> int:
    attributes = timestamp_delta = no_key = no_headers = 1
    sizes = attributes + timestamp_delta + place_bytes + no_key + no_headers
    return sizes + len(varint(value_bytes)) + value_bytes


class _Openings(dict[int, bytes]):
    """The first bytes of records by the sizes of their values, for one length of offset delta.

    The first byte is the count of headers of the record before: it saves a piece per record.
    """

    def __init__(self, place_bytes: int) -> None:
        self._place_bytes = place_bytes
        super().__init__((size, self[size]) for size in range(_SIZES_REMEMBERED))

    def __missing__(self, size: int) -> bytes:
        return b"\x00" + varint(_record_length(size, self._place_bytes)) + b"\x00\x00"


class _Sizes(dict[int, bytes]):
    """Encoded sizes of values."""

    def __missing__(self, size: int) -> bytes:
        return varint(size)


_OPENINGS: Final = [_Openings(place_bytes) for place_bytes in (1, 2, 3)]
_NO_KEY: Final = varint(-1)
_SIZES: Final = _Sizes((size, varint(size)) for size in range(_SIZES_REMEMBERED))


@cache
def _places() -> list[bytes]:
    """The offset deltas of all records of a batch, each with no key.

    Made at the first use: commands import this module and write no batch.
    """
    return [varint(place) + _NO_KEY for place in range(BATCH_RECORDS_MAX)]


class ClientRecord(NamedTuple):
    """One record of a client; a value of None is a tombstone."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


def encode(
    values: Sequence[bytes],
    *,
    timestamp_ms: int,
    base_offset: Offset = Offset(0),
    epoch: Epoch = Epoch(0),
    control_keys: Sequence[bytes] | None = None,
) -> bytearray:
    """Encode one batch as Kafka's controller does: one time for all records, no keys or headers.

    With `control_keys`, one for each value, they are control records. `values` is not empty.
    """
    assert values
    if control_keys is None and len(values) <= BATCH_RECORDS_MAX:
        batch = _plain(values)
    else:
        batch = bytearray(HEADER_BYTES)
        keys: Sequence[bytes | None] = control_keys or [None] * len(values)
        for place, (key, value) in enumerate(zip(keys, values, strict=True)):
            batch += _record(place, 0, key, value, ())
    _seal(
        batch,
        record_count=len(values),
        base_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
        base_offset=base_offset,
        epoch=epoch,
        attributes=0 if control_keys is None else CONTROL_BIT,
    )
    return batch


def encode_client(
    records: Sequence[ClientRecord],
    *,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytearray:
    """Encode one batch for Produce: offsets from 0, the epoch left to the leader.

    An idempotent producer gives its id, epoch and the sequence number of the first record (KIP-98).
    `records` is not empty.
    """
    assert records
    base_ms = records[0].timestamp_ms
    batch = bytearray(HEADER_BYTES)
    for place, record in enumerate(records):
        delta_ms = record.timestamp_ms - base_ms
        batch += _record(place, delta_ms, record.key, record.value, record.headers)
    _seal(
        batch,
        record_count=len(records),
        base_timestamp_ms=base_ms,
        max_timestamp_ms=max(record.timestamp_ms for record in records),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )
    return batch


def stamp(batch: bytearray, base_offset: Offset, epoch: Epoch) -> None:
    """Set base offset and epoch of a batch, in place; its checksum stays valid."""
    assert len(batch) >= HEADER_BYTES
    _BASE_OFFSET.pack_into(batch, 0, base_offset)
    _EPOCH.pack_into(batch, _EPOCH_POSITION, epoch)


def _seal(
    batch: bytearray,
    *,
    record_count: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    base_offset: int = 0,
    epoch: int = -1,
    attributes: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> None:
    """Write the header into the first 61 bytes of `batch`, which has its records already."""
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LENGTH_END,
        epoch,
        MAGIC,
        0,
        attributes,
        record_count - 1,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    with memoryview(batch) as view:
        crc = crc32c(view[CRC_START:])
    _CRC.pack_into(batch, _CRC_POSITION, crc)


def _plain(values: Sequence[bytes]) -> bytearray:
    """Join cached pieces to a batch of `values` with an empty header."""
    sizes = list(map(len, values))
    openings = chain(
        map(_OPENINGS[0].__getitem__, sizes[:_ONE_BYTE_PLACES]),
        map(_OPENINGS[1].__getitem__, sizes[_ONE_BYTE_PLACES:_TWO_BYTE_PLACES]),
        map(_OPENINGS[2].__getitem__, sizes[_TWO_BYTE_PLACES:]),
    )
    pieces = zip(openings, _places(), map(_SIZES.__getitem__, sizes), values, strict=False)
    # The first opening starts with the last byte of the header, which is packed over it, and the
    # last record gets its count of headers here.
    return bytearray().join(
        chain((bytes(HEADER_BYTES - 1),), chain.from_iterable(pieces), (b"\x00",))
    )


def _record(
    place: int,
    delta_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
) -> bytes:
    parts = [b"\x00", varint(delta_ms), varint(place), _sized(key), _sized(value)]
    parts.append(varint(len(headers)))
    for name, content in headers:
        parts += (_sized(name.encode()), _sized(content))
    body = b"".join(parts)
    return uvarint(zigzag(len(body))) + body


def _sized(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content
