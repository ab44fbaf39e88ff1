"""The allocator of the C library, told to give freed memory back to the system.

By default glibc takes ever longer blocks from its heap once one of them was freed, and has a heap
for each thread. One long request then leaves pages that stay with the process: after 200,000
hostile frames some 70 MiB, which nothing in the process uses. With a fixed limit, long blocks are
mapped by themselves and given back as they are freed; the same frames leave 4 MiB.
"""

import ctypes
import os
from typing import Final

MAPPED_BYTES_MIN: Final = 1024 * 1024
"""Blocks of this size or more are mapped by themselves."""
FREE_AT_TOP_BYTES_MAX: Final = 4 * 1024 * 1024
"""The free memory at the end of a heap that is kept."""
HEAPS_MAX: Final = 2

_VARIABLES: Final = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_ARENA_MAX")
"""The variables of the environment that set these limits, beside `GLIBC_TUNABLES`."""

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8


def give_back_freed_memory() -> None:
    """Set the limits; called once at the start of a process.

    Nothing changes if the environment sets one of them, or if the C library has no `mallopt`.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    is_set = any(each in os.environ for each in _VARIABLES)
    if mallopt is None or is_set or "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", ""):
        return
    mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES_MIN)
    mallopt(_M_TRIM_THRESHOLD, FREE_AT_TOP_BYTES_MAX)
    mallopt(_M_ARENA_MAX, HEAPS_MAX)
