"""Unsigned variable-length integers (KIP-482): seven bits a byte, the lowest first.

Here they are lengths, counts and tags: at most 32 bits, hence at most five bytes.
"""

from typing import Final

_BYTES_MAX: Final = 5
_VALUE_MAX: Final = 2**32 - 1


def read_uvarint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """The number at `at` and the position after it; raises `ValueError` if there is none."""
    try:
        byte = data[at]
        if byte < 0x80:
            return byte, at + 1
        value = byte & 0x7F
        for index in range(1, _BYTES_MAX):
            byte = data[at + index]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                break
    except IndexError:
        raise ValueError("the bytes end inside a number") from None
    if byte >= 0x80 or value > _VALUE_MAX:
        raise ValueError("a number has more than 32 bits")
    return value, at + index + 1


def uvarint(value: int) -> bytes:
    """`value` as it is written; it is not negative and has at most 32 bits."""
    assert 0 <= value <= _VALUE_MAX, value
    if value < 0x80:
        return bytes((value,))
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
