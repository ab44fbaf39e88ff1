import gzip
import random
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.core.vocabulary import Epoch, Offset
from quorum.records import decode as decoding
from quorum.records.batch import (
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    Codec,
    CorruptBatch,
    header_at,
)
from quorum.records.decode import Record, UnsupportedCodec, decode, plain_values
from quorum.records.encode import ClientRecord, encode, encode_client
from quorum.records.varint import varint
from tests.quorum.records.kio_batches import read_by_kio, written_by_kio

RECORDS = [
    ClientRecord(1_000, b"key", b"value", [("name", b"content"), ("ü", None)]),
    ClientRecord(5_000, None, b"", []),
    ClientRecord(2_000, b"gone", None, []),
]


def compressed(data: bytes | bytearray, codec: int, body: bytes) -> bytes:
    """One batch with its records replaced by `body`, and its header made to fit."""
    header = header_at(data)
    header = header._replace(
        attributes=header.attributes | codec, length=HEADER_BYTES - 12 + len(body)
    )
    return HEADER.pack(*header) + body


def in_kios_words(record: Record) -> tuple[object, ...]:
    """As kio shows it, which keeps only whole seconds."""
    headers = tuple((name.encode(), value) for name, value in record.headers)
    return record.offset, record.timestamp_ms // 1000, record.key, record.value, headers


def decoded_by_kio(data: bytes | bytearray) -> Sequence[tuple[object, ...]]:
    return [
        (
            record.offset,
            int(record.timestamp.timestamp()),
            record.key,
            record.value,
            tuple((header.key, header.value) for header in record.headers),
        )
        for record in read_by_kio(data).records
    ]


@pytest.mark.parametrize(
    "data",
    [
        encode([b"", b"x" * 63, b"y" * 64, b"z" * 9_000], timestamp_ms=1_999),
        encode([b"a"] * 9_000, timestamp_ms=1_000, base_offset=Offset(5), epoch=Epoch(2)),
        encode([b"v"], timestamp_ms=7_000, control_keys=[b"\0\0\0\2"]),
        encode_client(RECORDS),
        written_by_kio(RECORDS, base_offset=2**40),
    ],
)
def test_records_are_what_kio_reads(data: bytes | bytearray) -> None:
    assert [in_kios_words(record) for record in decode(data)] == decoded_by_kio(data)


def test_every_batch_of_a_buffer_is_decoded_whatever_kind_of_buffer_it_is() -> None:
    first = encode([b"a"], timestamp_ms=1, base_offset=Offset(7), epoch=Epoch(1))
    second = encode([b"b"], timestamp_ms=2, control_keys=[b"k"], base_offset=Offset(8))
    expected = [
        Record(7, 1, None, b"a", (), False),
        Record(8, 2, b"k", b"b", (), True),
    ]
    for buffer in (first + second, bytes(first + second), memoryview(first + second)):
        assert list(decode(buffer)) == expected


def test_log_append_time_overrides_the_time_of_each_record() -> None:
    header = header_at(encode_client(RECORDS))
    data = encode_client(RECORDS)
    HEADER.pack_into(data, 0, *header._replace(attributes=0x08, max_timestamp_ms=9_000))
    assert [record.timestamp_ms for record in decode(data)] == [9_000] * 3


def test_gzip_batches_of_foreign_producers_are_decoded() -> None:
    plain = encode_client(RECORDS)
    body = bytes(plain[HEADER_BYTES:])
    members = gzip.compress(body[:10]) + gzip.compress(body[10:])
    for squeezed in (gzip.compress(body), members):
        data = compressed(plain, Codec.GZIP, squeezed)
        assert list(decode(data)) == list(decode(plain))


@pytest.mark.parametrize(
    ("codec", "name"), [(2, "snappy"), (3, "lz4"), (4, "zstd"), (7, "codec 7")]
)
def test_other_codecs_are_refused_by_name(codec: int, name: str) -> None:
    data = compressed(encode_client(RECORDS), codec, b"whatever")
    with pytest.raises(UnsupportedCodec, match=f"compressed with {name}; only uncompressed"):
        list(decode(data))


@pytest.mark.interpreted
def test_a_batch_that_expands_without_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "DECOMPRESSED_BYTES_MAX", 1_000)
    plain = encode([bytes(995)], timestamp_ms=1)
    data = compressed(plain, Codec.GZIP, gzip.compress(bytes(plain[HEADER_BYTES:])))
    with pytest.raises(CorruptBatch, match="more than 1000 bytes"):
        list(decode(data))


@pytest.mark.parametrize("body", [b"not gzip", gzip.compress(b"0123456789", mtime=0)[:-9]])
def test_broken_gzip_is_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptBatch, match=r"gzip|too early"):
        list(decode(compressed(encode_client(RECORDS), Codec.GZIP, body)))


@given(st.sampled_from([encode_client(RECORDS), encode([b"abc"] * 3, timestamp_ms=1)]), st.data())
def test_damaged_records_are_corrupt_or_other_records_but_never_another_error(
    data: bytearray, draw: st.DataObject
) -> None:
    rng = draw.draw(st.randoms(use_true_random=False))
    assert isinstance(rng, random.Random)
    broken = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        broken[rng.randrange(HEADER_BYTES, len(broken))] = rng.randrange(256)
    with suppress(CorruptBatch):
        assert len(list(decode(broken))) == header_at(data).record_count


@pytest.mark.parametrize("count", [2, 4])
def test_a_count_that_does_not_fit_the_records_is_corrupt(count: int) -> None:
    data = encode([b"abc"] * 3, timestamp_ms=1)
    HEADER.pack_into(data, 0, *header_at(data)._replace(record_count=count))
    with pytest.raises(CorruptBatch, match=r"behind its last record|record 3 of 4"):
        list(decode(data))


def one_by_one(batch: bytearray) -> list[Record]:
    """The records of a batch, none of which is read together with others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "_plain_values", lambda data, count: None)
        return list(decode(batch))


ALIKE = st.builds(
    lambda value, count: [value] * count,
    st.one_of(st.binary(max_size=90), st.sampled_from([b"x" * 5_000, b"x" * 9_000])),
    st.one_of(st.integers(1, 30), st.integers(60, 150)),
)


@given(st.lists(ALIKE, min_size=1, max_size=6).map(lambda runs: list(chain(*runs))), st.data())
def test_plain_values_are_those_of_the_records_however_they_are_damaged(
    values: list[bytes], data: st.DataObject
) -> None:
    batch = encode(values, timestamp_ms=1_000, base_offset=Offset(7))
    assert plain_values(batch, header_at(batch)) == values
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(HEADER_BYTES, len(batch) - 1))
        batch[at] = data.draw(st.integers(0, 255))
    found = plain_values(batch, header_at(batch))
    if found is not None:
        records = one_by_one(batch)
        assert [record.value for record in records] == found
        assert [record.offset for record in records] == list(range(7, 7 + len(values)))
        assert not any(record.key or record.headers for record in records)


def test_records_with_longer_places_and_no_shorter_values_are_corrupt() -> None:
    """From place 64 on a place takes two bytes: a record of the same size as before lacks one."""
    batch = encode([*[b"others"] * 63, b"value"], timestamp_ms=1)
    for place in range(64, 80):
        batch += b"\x16\0\0" + varint(place) + b"\1\x0avalu\0"
    header = header_at(batch)._replace(length=len(batch) - LENGTH_END, record_count=80)
    HEADER.pack_into(batch, 0, *header)
    assert plain_values(batch, header) is None
    with pytest.raises(CorruptBatch, match="record 64 of 80"):
        list(decode(batch))


def test_unusual_records_are_left_to_the_general_decoder() -> None:
    plain = encode([b"a", b"b"], timestamp_ms=1)
    assert plain_values(plain, header_at(plain)) == [b"a", b"b"]
    appended = bytearray(plain)
    HEADER.pack_into(appended, 0, *header_at(plain)._replace(attributes=0x08))
    squeezed = compressed(plain, Codec.GZIP, gzip.compress(bytes(plain[HEADER_BYTES:])))
    longer = plain + b"\0"
    HEADER.pack_into(longer, 0, *header_at(plain)._replace(length=header_at(plain).length + 1))
    others = (
        encode_client(RECORDS),
        encode([b"v"], timestamp_ms=7, control_keys=[b"k"]),
        appended,
        squeezed,
        plain[:-1],
        longer,
    )
    for batch in others:
        assert plain_values(batch, header_at(batch)) is None
