"""Freed memory goes back to the system, whatever is allocated between long blocks."""

import os
import subprocess
import sys
from typing import Final

import pytest

from tests.support.tree import ROOT

MIB: Final = 1024 * 1024
BLOCKS: Final = 32
BLOCK_MIB: Final = 4

LEFT_OVER: Final = f"""
from pathlib import Path
from quorum.allocator import give_back_freed_memory

def resident_pages():
    return int(Path("/proc/self/statm").read_text().split()[1])

give_back_freed_memory()
# Without the limits, blocks of up to this size come from the heap from now on.
longest = b"x" * {2 * BLOCK_MIB * MIB}
del longest
before = resident_pages()
blocks, between = [], []
for _ in range({BLOCKS}):
    blocks.append(b"x" * {BLOCK_MIB * MIB})
    between.append(b"x" * 50_000)
blocks.clear()
print(resident_pages() - before)
"""


def left_over_mib(**variables: str) -> float:
    """The memory that a process keeps of what it has freed."""
    limits = ("MALLOC_", "GLIBC_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(limits)}
    done = subprocess.run(
        [sys.executable, "-c", LEFT_OVER],
        cwd=ROOT,
        env=kept | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout) * os.sysconf("SC_PAGE_SIZE") / MIB


pytestmark = pytest.mark.skipif(
    "glibc" not in str(os.confstr("CS_GNU_LIBC_VERSION")), reason="glibc alone has these limits"
)


def test_freed_blocks_are_given_back() -> None:
    assert left_over_mib() < BLOCK_MIB


def test_limits_of_the_environment_hold() -> None:
    # As high as the C library allows: no block is mapped by itself.
    for limit in (
        {"MALLOC_MMAP_THRESHOLD_": str(32 * MIB)},
        {"GLIBC_TUNABLES": f"glibc.malloc.mmap_threshold={32 * MIB}"},
    ):
        assert left_over_mib(**limit) > BLOCKS * BLOCK_MIB / 2


def test_another_variable_of_malloc_is_no_limit() -> None:
    assert left_over_mib(MALLOC_PERTURB_="7") < BLOCK_MIB
