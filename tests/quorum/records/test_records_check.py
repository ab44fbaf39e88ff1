import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.core.messages import Batch
from quorum.core.vocabulary import Epoch, Offset
from quorum.records.batch import (
    HEADER,
    HEADER_BYTES,
    Codec,
    CorruptBatch,
    Header,
    check,
    header_at,
    headers,
    outlines,
    whole_bytes,
)
from quorum.records.encode import ClientRecord, encode, encode_client


def batch(count: int, base: int, epoch: int, value: bytes = b"some value") -> bytes:
    contents = [value] * count
    return bytes(encode(contents, timestamp_ms=1_000, base_offset=Offset(base), epoch=Epoch(epoch)))


THREE = batch(2, 10, 1) + batch(1, 12, 1) + batch(3, 13, 4)
OUTLINES = [
    Batch(Offset(10), Offset(12), Epoch(1)),
    Batch(Offset(12), Offset(13), Epoch(1)),
    Batch(Offset(13), Offset(16), Epoch(4)),
]


def rewritten(data: bytes, **fields: int) -> bytes:
    """`data` with these fields of its first header changed, and nothing else."""
    return HEADER.pack(*header_at(data)._replace(**fields)) + data[HEADER_BYTES:]


def test_sound_batches_are_outlined() -> None:
    assert check(THREE, Offset(10)) == OUTLINES
    assert check(memoryview(THREE)) == OUTLINES
    assert outlines(bytearray(THREE)) == OUTLINES
    assert check(b"", Offset(3)) == []


def test_a_header_gives_every_field_of_the_batch() -> None:
    records = [ClientRecord(1_000, b"k", b"v"), ClientRecord(3_000, None, None)]
    data = encode_client(records, producer_id=7, producer_epoch=3, base_sequence=40)
    header = header_at(data)
    assert header == Header(
        base_offset=0,
        length=len(data) - 12,
        epoch=-1,
        magic=2,
        crc=header.crc,
        attributes=0,
        last_offset_delta=1,
        base_timestamp_ms=1_000,
        max_timestamp_ms=3_000,
        producer_id=7,
        producer_epoch=3,
        base_sequence=40,
        record_count=2,
    )
    assert (header.size_bytes, header.end_offset, header.codec) == (len(data), 2, Codec.NONE)
    assert not header.is_control
    assert not header.is_transactional
    assert header_at(rewritten(bytes(data), attributes=0x1C)).is_transactional


@given(st.integers(0, len(THREE) * 8 - 1))
def test_no_flipped_bit_goes_unnoticed(bit: int) -> None:
    """But in the epoch of a batch, which no checksum covers: it shows only where epochs fall."""
    flipped = bytearray(THREE)
    flipped[bit // 8] ^= 1 << bit % 8
    starts = [position for position, _ in headers(THREE)]
    in_an_epoch = any(start + 12 <= bit // 8 < start + 16 for start in starts)
    if not in_an_epoch:
        with pytest.raises(CorruptBatch):
            check(flipped, Offset(10))


def test_epochs_may_not_fall() -> None:
    with pytest.raises(CorruptBatch, match="epoch is 1, after epoch 2"):
        check(batch(1, 0, 2) + batch(1, 1, 1))


@pytest.mark.parametrize("second_base", [11, 13])
def test_batches_must_follow_each_other(second_base: int) -> None:
    with pytest.raises(CorruptBatch, match="base offset") as caught:
        check(batch(2, 10, 1) + batch(1, second_base, 1))
    assert caught.value.position == len(batch(2, 10, 1))


def test_the_first_batch_must_be_the_one_that_is_expected() -> None:
    with pytest.raises(CorruptBatch, match="base offset is 10, expected 9"):
        check(THREE, Offset(9))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"magic": 1}, "magic 1"),
        ({"length": 48}, "length 48"),
        ({"length": -1}, "length -1"),
        ({"length": 1_000_000}, "1000012 bytes long"),
        ({"record_count": 3}, "3 records, but its last offset delta is 1"),
        ({"record_count": 0, "last_offset_delta": -1}, "0 records"),
        ({"crc": 1}, "checksum is 00000001"),
    ],
)
def test_each_fault_of_a_header_is_named(fields: dict[str, int], reason: str) -> None:
    with pytest.raises(CorruptBatch, match=reason) as caught:
        check(rewritten(batch(2, 10, 1), **fields))
    assert caught.value.position == 0


@given(st.integers(0, len(THREE)))
def test_a_cut_buffer_is_corrupt_unless_it_is_first_cut_at_its_whole_bytes(length: int) -> None:
    cut = THREE[:length]
    whole = whole_bytes(cut)
    ends = [position + header.size_bytes for position, header in headers(THREE)]
    assert whole == max([0, *(end for end in ends if end <= length)])
    assert check(cut[:whole], Offset(10)) == OUTLINES[: ends.index(whole) + 1 if whole else 0]
    if whole < length:
        with pytest.raises(CorruptBatch) as caught:
            check(cut)
        assert caught.value.position == whole


def test_whole_bytes_refuses_a_length_that_no_batch_has() -> None:
    with pytest.raises(CorruptBatch, match="length 5"):
        whole_bytes(rewritten(batch(1, 0, 1), length=5))


@given(st.binary(max_size=200))
def test_noise_is_corrupt_and_never_anything_else(noise: bytes) -> None:
    if noise:
        with pytest.raises(CorruptBatch):
            check(noise)
