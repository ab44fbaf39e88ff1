"""Kafka's variable-length integers: base 128, lowest seven bits first, signs by zigzag.

Pure functions over bytes. A number that does not end, or is too long, is a `ValueError`.
"""

from typing import Final

VARINT_BYTES_MAX: Final = 10
"""A 64-bit number needs ten groups of seven bits."""


def zigzag(number: int) -> int:
    """Small numbers of either sign as small numbers without one: 0, -1, 1, -2 are 0, 1, 2, 3."""
    return number << 1 if number >= 0 else ~(number << 1)


def uvarint(number: int) -> bytes:
    """`number`, which is not negative, in as few bytes as it needs."""
    assert number >= 0
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def varint(number: int) -> bytes:
    """`number`, of either sign, in as few bytes as it needs."""
    return uvarint(zigzag(number))


def read_uvarint(data: bytes, position: int) -> tuple[int, int]:
    """The number at `position`, and the position behind it.

    Raises `ValueError` when it is longer than ten bytes, `IndexError` when the data ends first.
    """
    value = data[position]
    if value < 0x80:  # Nearly all are this short.
        return value, position + 1
    value &= 0x7F
    shift = 7
    for index in range(position + 1, position + VARINT_BYTES_MAX):
        byte = data[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, index + 1
        shift += 7
    raise ValueError(f"a variable-length integer of more than {VARINT_BYTES_MAX} bytes")


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The signed number at `position`, and the position behind it; errors as `read_uvarint`."""
    value = data[position]
    if value < 0x80:  # As above, and two bytes are all that most of the others take.
        return value >> 1 ^ -(value & 1), position + 1
    high = data[position + 1]
    if high < 0x80:
        value = value & 0x7F | high << 7
        return value >> 1 ^ -(value & 1), position + 2
    value, position = read_uvarint(data, position)
    return value >> 1 ^ -(value & 1), position
