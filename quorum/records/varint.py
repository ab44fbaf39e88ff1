"""Kafka's variable-length integers: base 128, lowest seven bits first, signs by zigzag.

An incomplete or too long number raises `ValueError`. Lengths, counts and tags (KIP-482) are
unsigned and have at most 32 bits, signed numbers at most 64.
"""

from typing import Final

_VALUE_MAX: Final = 2**32 - 1
_BYTES_MAX: Final = 5
_SIGNED_BYTES_MAX: Final = 10


def zigzag(number: int) -> int:
    """Map small signed numbers to small unsigned ones: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return number << 1 if number >= 0 else ~(number << 1)


def uvarint(number: int) -> bytes:
    """Encode a number that is not negative, in as few bytes as possible."""
    assert number >= 0
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def varint(number: int) -> bytes:
    """Encode a signed number in as few bytes as possible."""
    return uvarint(zigzag(number))


def read_uvarint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Return the number at `position` and the position after it; raises `ValueError`."""
    try:
        value = data[position]
        if value < 0x80:  # Nearly all are this short.
            return value, position + 1
        value, position = _read_long(data, position, _BYTES_MAX)
    except IndexError:
        raise ValueError("the bytes end inside a number") from None
    if value > _VALUE_MAX:
        raise ValueError("a number has more than 32 bits")
    return value, position


def read_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Return the signed number at `position` and the position after it; raises `ValueError`."""
    try:
        value = data[position]
        if value < 0x80:  # As above; most of the others take two bytes.
            return value >> 1 ^ -(value & 1), position + 1
        high = data[position + 1]
        if high < 0x80:
            value = value & 0x7F | high << 7
            return value >> 1 ^ -(value & 1), position + 2
        value, position = _read_long(data, position, _SIGNED_BYTES_MAX)
    except IndexError:
        raise ValueError("the bytes end inside a number") from None
    return value >> 1 ^ -(value & 1), position


def _read_long(data: bytes | memoryview, position: int, bytes_max: int) -> tuple[int, int]:
    value = 0
    for index in range(bytes_max):
        byte = data[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    raise ValueError(f"a number has more than {32 if bytes_max == _BYTES_MAX else 64} bits")


def read_tags(data: bytes | memoryview, position: int) -> tuple[list[tuple[int, int, int]], int]:
    """Read the section of tagged fields at `position`: tag, start and end of each, and the end of
    the section. Raises `ValueError` if it exceeds the data."""
    tags = []
    count, position = read_uvarint(data, position)
    for _ in range(count):
        tag, position = read_uvarint(data, position)
        size, start = read_uvarint(data, position)
        position = start + size
        if position > len(data):
            raise ValueError(f"{size} bytes of tagged field {tag}, {len(data) - start} are left")
        tags.append((tag, start, position))
    return tags, position
