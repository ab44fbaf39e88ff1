"""Batches with a good checksum whose contents are not what they claim: refused as by Kafka's
`LogValidator`, before anything is appended."""

import gzip
from struct import Struct

import pytest
from crc32c import crc32c

from broker.storage.batch_validation import InvalidBatch, TimestampBounds, validate_batch
from quorum.protocol.errors import ErrorCode
from quorum.records.batch import CRC_START, HEADER, HEADER_BYTES, LENGTH_END, Header, header_at
from tests.broker.client_requests import batch

NOW_MS = 1_795_236_537_164
HOUR_MS = 3_600_000
TIMES = TimestampBounds(0, NOW_MS + HOUR_MS)
INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1


def sealed(good: bytes, *, body: bytes | None = None, **fields: int) -> bytes:
    """`good` with another body or other fields of its header, and the right length and checksum."""
    body = good[HEADER_BYTES:] if body is None else body
    header = header_at(good)._replace(length=HEADER_BYTES - LENGTH_END + len(body), **fields)
    changed = bytearray(HEADER.pack(*header) + body)
    Struct(">I").pack_into(changed, 17, crc32c(bytes(changed[CRC_START:])))
    return bytes(changed)


def checked(records: bytes, times: TimestampBounds | None = TIMES) -> Header | InvalidBatch:
    return validate_batch(records, message_bytes_max=1 << 20, times=times)


def refusal(records: bytes, times: TimestampBounds | None = TIMES) -> ErrorCode:
    found = checked(records, times)
    assert isinstance(found, InvalidBatch)
    return found.code


GOOD = batch(b"a", b"bc", b"def", time_ms=NOW_MS)


def test_a_good_batch_is_taken() -> None:
    packed = sealed(GOOD, body=gzip.compress(GOOD[HEADER_BYTES:]), attributes=1)
    for each in (GOOD, packed, batch(b"x" * 1_000, time_ms=-1)):
        assert isinstance(checked(each), Header)


@pytest.mark.parametrize("at", range(len(GOOD) - HEADER_BYTES))
def test_a_byte_of_garbage_is_found_unless_it_is_in_a_value(at: int) -> None:
    body = bytearray(GOOD[HEADER_BYTES:])
    body[at] ^= 0xFF
    found = checked(sealed(GOOD, body=bytes(body)))
    is_free = bytes(body)[at : at + 1].hex() in {f"{each ^ 0xFF:02x}" for each in b"abcdef\0"}
    assert isinstance(found, InvalidBatch) or is_free


@pytest.mark.parametrize("codec", [0, 1])
def test_garbage_in_a_good_batch_is_refused(codec: int) -> None:
    for garbage in (b"garbage", b"\xff" * 100, b"", bytes(100)):
        assert refusal(sealed(GOOD, body=garbage, attributes=codec)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_of_61_bytes_has_no_2_147_483_647_records(codec: int) -> None:
    hollow = sealed(
        GOOD, body=b"", attributes=codec, record_count=INT32_MAX, last_offset_delta=INT32_MAX - 1
    )
    assert len(hollow) == HEADER_BYTES
    assert refusal(hollow) == ErrorCode.INVALID_RECORD


def test_records_are_in_order() -> None:
    one, two = (batch(each, time_ms=NOW_MS)[HEADER_BYTES:] for each in (b"a", b"b"))
    twice = sealed(GOOD, body=one + two, record_count=2, last_offset_delta=1)
    assert refusal(twice) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("time_ms", [NOW_MS + HOUR_MS + 1, INT64_MAX, -2, -(2**63)])
def test_a_timestamp_must_be_near_the_clock(time_ms: int) -> None:
    """The producer's timestamp does not matter where the broker stamps the batch itself."""
    of_records = batch(b"a", time_ms=time_ms)
    of_header = sealed(GOOD, max_timestamp_ms=time_ms)
    for each in (of_records, of_header):
        assert refusal(each) == ErrorCode.INVALID_TIMESTAMP
        assert isinstance(checked(each, None), Header)
