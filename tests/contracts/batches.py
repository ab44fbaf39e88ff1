"""Batches to fill logs with: small, distinct, and easy to recognize."""

from typing import Final

from quorum.core.messages import Batch
from quorum.core.vocabulary import Epoch, Offset
from quorum.records.encode import encode

FIRST_MS: Final = 1_795_236_537_164


def batch(
    base: int, count: int = 1, *, epoch: int = 1, size: int = 20, timestamp_ms: int = FIRST_MS
) -> bytes:
    """A batch of `count` records with values of `size` bytes that say where they belong."""
    values = [
        f"{offset}@{epoch} ".encode().ljust(size, b".") for offset in range(base, base + count)
    ]
    return bytes(
        encode(values, timestamp_ms=timestamp_ms, base_offset=Offset(base), epoch=Epoch(epoch))
    )


def run(base: int, *counts: int, epoch: int = 1, size: int = 20) -> list[bytes]:
    """Batches that follow each other from `base` on, with so many records each."""
    batches = []
    for count in counts:
        batches.append(batch(base, count, epoch=epoch, size=size))
        base += count
    return batches


def outline(base: int, end: int, epoch: int) -> Batch:
    """The outline of a batch, as the quorum knows it."""
    return Batch(Offset(base), Offset(end), Epoch(epoch))
