"""Numbers that follow each other, as arrays: copied out of what has been counted once."""

from array import array
from functools import lru_cache
from typing import Final

_BLOCK_BITS: Final = 16
_BLOCKS_REMEMBERED_MAX: Final = 4
"""A quarter of a megabyte each: those of the last keys and of the lowest numbers are in use."""


def rising(first: int, count: int) -> "array[int]":
    """So many numbers from `first` on."""
    block, begin = divmod(first, 1 << _BLOCK_BITS)
    if begin + count > 1 << _BLOCK_BITS:
        return array("I", range(first, first + count))
    return _block(block)[begin : begin + count]


@lru_cache(maxsize=_BLOCKS_REMEMBERED_MAX)
def _block(block: int) -> "array[int]":
    return array("I", range(block << _BLOCK_BITS, block + 1 << _BLOCK_BITS))
