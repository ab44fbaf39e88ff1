"""The decoder of record batches: the records of uncompressed and gzip batches.

It trusts nothing: any decoding error is a `CorruptBatch`. `quorum.records.batch.check` verifies the
checksums, where the bytes enter the process.
"""

import zlib
from collections.abc import Iterator
from functools import cache, lru_cache, partial
from itertools import count, repeat
from typing import Final, NamedTuple

from quorum.core.limits import BATCH_RECORDS_MAX
from quorum.records.batch import (
    HEADER_BYTES,
    NOT_PLAIN_BITS,
    Buffer,
    Codec,
    CorruptBatch,
    Header,
    headers,
)
from quorum.records.varint import read_uvarint, read_varint, varint

DECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024
"""The limit on the uncompressed records of one batch."""

_RECORD_BYTES_MIN: Final = 7
"""Length, attributes, two deltas, no key, no value, no headers: a byte each."""
RECORDS_UNSEEN_MAX: Final = DECOMPRESSED_BYTES_MAX // _RECORD_BYTES_MIN
"""Records that a batch may claim that cannot be decompressed here."""

_HEADERS_MAX: Final = 10_000
"""Headers of one record; the length of a record bounds what they hold."""
_PLACES_SHORT: Final = 64
"""Offset deltas below this take one byte, those above it two."""
_PLACES_ALIKE: Final = 8_192
"""Records from this offset delta on are decoded one by one."""
_TWO_BYTES_MAX: Final = 0x3FFF
"""Lengths up to this, signs included, take one byte or two; records with longer ones are few."""
_ALIKE_MIN: Final = 8
"""The fewest records of one size that are decoded together."""
_HEADS_REMEMBERED_MAX: Final = 16
"""Cached forms of record heads: half a megabyte each."""
_GZIP: Final = 16 + zlib.MAX_WBITS


class UnsupportedCodec(ValueError):
    """The batch at `position` has an unsupported compression."""

    def __init__(self, position: int, codec: int) -> None:
        name = str(Codec(codec)) if codec in set(Codec) else f"codec {codec}"
        super().__init__(
            f"the batch at byte {position} is compressed with {name}; "
            "only uncompressed and gzip batches are decoded"
        )


class Record(NamedTuple):
    """One record with its offset; a value of None is a tombstone."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    control: bool


def decode(buffer: Buffer) -> Iterator[Record]:
    """Yield the records of the whole batches in `buffer`, in order.

    Raises `CorruptBatch` for invalid records, `UnsupportedCodec` for a compression other than gzip.
    """
    view = memoryview(buffer)
    for position, header in headers(buffer):
        body = view[position + HEADER_BYTES : position + header.size_bytes]
        yield from _records(_expanded(body, header, position), header, position)


def check_records(batch: Buffer, header: Header) -> tuple[int, int]:
    """Check that `batch`, one whole batch, holds the records that its header claims.

    Return the earliest and the latest timestamp of a producer. Raises `CorruptBatch`, and
    `UnsupportedCodec` as `decode` does.
    """
    body = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    data = _expanded(body, header, 0)
    if header.record_count * _RECORD_BYTES_MIN > len(data):
        raise CorruptBatch(0, f"{header.record_count} records in {len(data)} bytes")
    base_ms = header.base_timestamp_ms
    if _plain_values(data, header.record_count) is not None:
        return base_ms, base_ms
    at = index = 0
    earliest_ms = latest_ms = base_ms
    try:
        for index in range(header.record_count):
            delta_ms, place, _, _, _, at = _fields(data, at)
            if place != index:
                raise ValueError(f"its offset delta is {place}")
            earliest_ms = min(earliest_ms, base_ms + delta_ms)
            latest_ms = max(latest_ms, base_ms + delta_ms)
    except (IndexError, ValueError) as error:
        raise CorruptBatch(0, f"record {index} of {header.record_count}: {error}") from error
    if at != len(data):
        raise CorruptBatch(0, f"{len(data) - at} bytes behind its last record")
    return earliest_ms, latest_ms


def plain_values(buffer: Buffer, header: Header, position: int = 0) -> list[bytes] | None:
    """Return the values of a batch whose records are all plain, as a controller writes them.

    Plain records have no key, no time of their own and no headers, and are not compressed. None for
    other or invalid records. `decode` gives the same values, several times slower. The batch at
    `position` is whole.
    """
    if header.attributes & NOT_PLAIN_BITS:
        return None
    data = bytes(buffer[position + HEADER_BYTES : position + header.size_bytes])
    return _plain_values(data, header.record_count)


@cache
def _plain_openings() -> list[bytes]:
    """The beginning of each plain record behind its length: no attributes, no timestamp delta, its
    place in the batch, no key.

    Made at the first use: commands import this module and read no batch.
    """
    no_key = varint(-1)
    return [b"\x00\x00" + varint(place) + no_key for place in range(BATCH_RECORDS_MAX)]


def _plain_values(data: bytes, count: int) -> list[bytes] | None:
    if count > BATCH_RECORDS_MAX:
        return None
    try:
        return _values_in_place(data, count)
    except (IndexError, ValueError):
        return None


def _values_in_place(data: bytes, count: int) -> list[bytes] | None:
    values: list[bytes] = []
    openings = _plain_openings()
    at = 0
    while (place := len(values)) < count:
        begin = at
        opening = openings[place]
        length = data[at]
        at += 1
        if length > 0x7F:
            if data[at] > 0x7F:
                length, at = read_uvarint(data, at - 1)
            else:  # The same inline, because most lengths take two bytes.
                length = length & 0x7F | data[at] << 7
                at += 1
        if not data.startswith(opening, at):
            return None
        end = at + (length >> 1)
        at += len(opening)
        size = data[at]
        at += 1
        if size > 0x7F:
            if data[at] > 0x7F:
                size, at = read_uvarint(data, at - 1)
            else:
                size = size & 0x7F | data[at] << 7
                at += 1
        # An odd number is negative; the last byte is the count of headers, 0.
        if (length | size) & 1 or at + (size >> 1) + 1 != end or data[end - 1]:
            return None
        values.append(data[at : end - 1])
        # Most records have the size of the one before.
        record_bytes = end - begin
        ahead = end + (_ALIKE_MIN - 1) * record_bytes
        is_short = length <= _TWO_BYTES_MAX
        if is_short and ahead < len(data) and data[ahead] == data[end] == data[begin]:
            head = data[begin:at]
            alike = _alike(data, end, head, record_bytes, range(place + 1, count))
            starts = range(end + len(head), end + alike * record_bytes, record_bytes)
            value_bytes = size >> 1
            values += [data[start : start + value_bytes] for start in starts]
            end += alike * record_bytes
        at = end
    return values if at == len(data) else None


def _alike(data: bytes, first: int, head: bytes, record_bytes: int, places: range) -> int:
    """Count the plain records from `first` on that have the size of the one before, with `head`.

    `places` are their offset deltas; deltas that take more bytes than the first are left out.
    """
    is_short = places.start < _PLACES_SHORT
    stop = min(places.stop, _PLACES_SHORT if is_short else _PLACES_ALIKE)
    most = min(stop - places.start, (len(data) - first) // record_bytes)
    if most <= 0:
        return 0
    begin = places.start - (0 if is_short else _PLACES_SHORT)
    length, size = head[: 1 if head[0] < 0x80 else 2], head[-1 if head[-2] < 0x80 else -2 :]
    columns = _columns(length, size, is_short=is_short)
    # If the offset deltas now take a byte more, a record of the same size has another head.
    alike = most if len(columns) == len(head) else 0
    for at, column in enumerate(columns, first):
        found = data[at : first + alike * record_bytes : record_bytes]
        expected = column[begin : begin + alike]
        if found != expected:
            alike = _same(found, expected)
    # The last byte of each is its count of headers, 0.
    ends = data[first + record_bytes - 1 : first + alike * record_bytes : record_bytes]
    return alike - len(ends.lstrip(b"\0"))


def _same(some: bytes, others: bytes) -> int:
    """Return the length of the common prefix of two runs of bytes that differ."""
    differing = int.from_bytes(some, "little") ^ int.from_bytes(others, "little")
    return ((differing & -differing).bit_length() - 1) // 8


@lru_cache(maxsize=_HEADS_REMEMBERED_MAX)
def _columns(length: bytes, size: bytes, *, is_short: bool) -> list[bytes]:
    """Return the first bytes of plain records of this length and value size, for offset deltas of
    one byte, or two, by columns: the first byte of all, then the second, and so on."""
    places = slice(_PLACES_SHORT) if is_short else slice(_PLACES_SHORT, _PLACES_ALIKE)
    heads = [length + opening + size for opening in _plain_openings()[places]]
    joined, width = b"".join(heads), len(heads[0])
    return [joined[at::width] for at in range(width)]


def _expanded(body: memoryview, header: Header, position: int) -> bytes:
    match header.codec:
        case Codec.NONE:
            return bytes(body)
        case Codec.GZIP:
            return _gunzipped(body, position)
        case codec:
            raise UnsupportedCodec(position, codec)


def _gunzipped(body: memoryview, position: int) -> bytes:
    out = bytearray()
    rest = bytes(body)
    while rest:  # A gzip file may have several members (RFC 1952).
        inflate = zlib.decompressobj(_GZIP)
        try:
            out += inflate.decompress(rest, DECOMPRESSED_BYTES_MAX + 1 - len(out))
        except zlib.error as error:
            raise CorruptBatch(position, f"its records are not gzip: {error}") from error
        if len(out) > DECOMPRESSED_BYTES_MAX:
            raise CorruptBatch(
                position, f"its records expand to more than {DECOMPRESSED_BYTES_MAX} bytes"
            )
        if not inflate.eof:
            raise CorruptBatch(position, "its compressed records end too early")
        rest = inflate.unused_data
    return bytes(out)


def _records(data: bytes, header: Header, position: int) -> Iterator[Record]:
    """Yield the records of one batch from `data`, the uncompressed bytes after its header."""
    control = header.is_control
    append_time_ms = header.max_timestamp_ms if header.is_log_append_time else None
    plain = None if append_time_ms is not None else _plain_values(data, header.record_count)
    if plain is not None:
        yield from _plain_records(plain, header)
        return
    at = index = 0
    try:
        while index < header.record_count:
            delta_ms, place, key, value, fields, at = _fields(data, at)
            timestamp_ms = append_time_ms
            if timestamp_ms is None:
                timestamp_ms = header.base_timestamp_ms + delta_ms
            yield Record(header.base_offset + place, timestamp_ms, key, value, fields, control)
            index += 1
    except (IndexError, ValueError) as error:
        raise CorruptBatch(position, f"record {index} of {header.record_count}: {error}") from error
    if at != len(data):
        raise CorruptBatch(position, f"{len(data) - at} bytes behind its last record")


def _plain_records(values: list[bytes], header: Header) -> Iterator[Record]:
    """Return the records of a batch of plain values."""
    fields = zip(
        count(header.base_offset),
        repeat(header.base_timestamp_ms),
        repeat(None),
        values,
        repeat(()),
        repeat(header.is_control),
    )
    # As `Record._make` does, which calls itself in Python for each.
    return map(partial(tuple.__new__, Record), fields)


def _fields(
    data: bytes, at: int
) -> tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]:
    """Decode the record at `at`: time and offset deltas, key, value, headers, and the position
    after it. Raises `ValueError` or `IndexError`."""
    length, at = read_varint(data, at)
    end = at + length
    if length < 0 or end > len(data):
        raise ValueError(f"{length} bytes long, but only {len(data) - at} are there")
    delta_ms, at = read_varint(data, at + 1)  # The record's own attributes have no meaning yet.
    place, at = read_varint(data, at)
    key, at = _sized(data, at, end)
    value, at = _sized(data, at, end)
    named, at = _headers(data, at, end)
    if at != end:
        raise ValueError(f"its fields end at byte {at}, the record at byte {end}")
    return delta_ms, place, key, value, named, end


def _sized(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    size, at = read_varint(data, at)
    if size < 0:
        if size != -1:
            raise ValueError(f"a field of {size} bytes")
        return None, at
    if at + size > end:
        raise ValueError(f"a field of {size} bytes where {end - at} are left")
    return data[at : at + size], at + size


def _headers(data: bytes, at: int, end: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, at = read_varint(data, at)
    if count == 0:
        return (), at
    if not 0 < count <= _HEADERS_MAX:
        raise ValueError(f"{count} headers, allowed are 0 to {_HEADERS_MAX}")
    found: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _sized(data, at, end)
        if name is None:
            raise ValueError("a header without a name")
        content, at = _sized(data, at, end)
        found.append((name.decode(), content))  # UnicodeDecodeError is a ValueError.
    return tuple(found), at
