"""The checkers' own parser of files on a disk, on files with faults."""

import pytest

from chaos.invariants.disk_format import batches


@pytest.mark.parametrize("length", [-1, 0, 4, 48, 90])
def test_a_batch_whose_length_is_damaged_is_none(length: int) -> None:
    """Shorter than its own header, or longer than what there is."""
    opening = bytes(8) + length.to_bytes(4, "big", signed=True)
    assert batches(opening + bytes(88), checked=True) == []
