"""Arrays of numbers of 32 bits: taken apart into halves, joined, and counted up by halves.

What all numbers of an array have in common is often one half, and is set for all of them at once.
"""

from array import array
from functools import lru_cache
from typing import Final

HALF_BITS: Final = 16
LOWER: Final = 0 if array("H", (1,)).tobytes()[0] else 1
UPPER: Final = 1 - LOWER
"""Where the halves of a number are in memory."""

_RISINGS_REMEMBERED_MAX: Final = 4
"""A quarter of a megabyte each: those of the last keys and of the lowest numbers are in use."""


def halves(numbers: "array[int]") -> "array[int]":
    """Each number as two."""
    found = array("H")
    found.frombytes(numbers.tobytes())
    return found


def joined(numbers: "array[int]") -> "array[int]":
    """The numbers that these are the halves of."""
    found = array("I")
    found.frombytes(numbers.tobytes())
    return found


def rising(first: int, count: int) -> "array[int]":
    """So many numbers from `first` on, each one more than that before it."""
    upper, lower = divmod(first, 1 << HALF_BITS)
    if lower + count > 1 << HALF_BITS:
        return array("I", range(first, first + count))
    return _all_with(upper)[lower : lower + count]


@lru_cache(maxsize=_RISINGS_REMEMBERED_MAX)
def _all_with(upper: int) -> "array[int]":
    """All numbers with this upper half."""
    count = 1 << HALF_BITS
    if not upper:
        return array("I", range(count))
    found = halves(_all_with(0))
    found[UPPER::2] = array("H", (upper,)) * count
    return joined(found)
