import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial.writers import write_unsigned_varint

from quorum.records.varint import read_uvarint, uvarint


@given(st.integers(0, 2**32 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_numbers_are_written_as_kio_writes_them_and_read_back(
    value: int, before: bytes, after: bytes
) -> None:
    buffer = io.BytesIO()
    write_unsigned_varint(buffer, value)  # type: ignore[arg-type]
    assert uvarint(value) == buffer.getvalue()
    encoded = before + uvarint(value) + after
    assert read_uvarint(encoded, len(before)) == (value, len(encoded) - len(after))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff\xff\xff"])
def test_a_number_that_is_cut_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="the bytes end inside a number"):
        read_uvarint(data, 0)


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x01"])
def test_a_number_of_more_than_32_bits_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="more than 32 bits"):
        read_uvarint(data, 0)
