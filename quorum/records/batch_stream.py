"""Split a stream of bytes into whole, checked batches.

A snapshot comes over the network, and a file out of an object store, in pieces that end anywhere.
At most one incomplete batch is held back.
"""

from collections.abc import Iterator
from typing import NamedTuple

from quorum.core.limits import FRAME_BYTES_MAX
from quorum.records.batch import (
    HEADER_BYTES,
    Buffer,
    CorruptBatch,
    Header,
    check_crc,
    check_header,
    check_length,
    header_at,
)


class StreamedBatch(NamedTuple):
    """A whole batch with a right checksum, and its position in the stream."""

    position: int
    header: Header
    data: bytes


class BatchStream:
    """The batches of a stream that begins at offset `base`, in an epoch from `epoch_min` on."""

    def __init__(self, *, base: int, epoch_min: int) -> None:
        self._base = base
        self._epoch_min = epoch_min
        self._rest = b""
        self._position = 0
        """The position of `_rest` in the stream."""

    def feed(self, data: Buffer) -> Iterator[StreamedBatch]:
        """Yield the batches that are whole with these bytes; take all before the next call.

        Raises `CorruptBatch` at the first that is damaged, or does not continue the one before it.
        """
        buffer = memoryview(self._rest + bytes(data) if self._rest else bytes(data))
        start = 0
        while len(buffer) - start >= HEADER_BYTES:
            header, position = header_at(buffer, start), self._position + start
            check_length(header, position, position + FRAME_BYTES_MAX)
            size_bytes = header.size_bytes
            if len(buffer) - start < size_bytes:
                break
            check_header(header, position, expected_base=self._base, epoch_min=self._epoch_min)
            batch = buffer[start : start + size_bytes]
            check_crc(header, position, batch)
            self._base, self._epoch_min = header.end_offset, header.epoch
            start += size_bytes
            yield StreamedBatch(position, header, bytes(batch))
        self._rest = bytes(buffer[start:])
        self._position += start

    def close(self) -> None:
        """Raise `CorruptBatch` if the stream has ended within a batch."""
        if self._rest:
            raise CorruptBatch(self._position, f"{len(self._rest)} bytes of it, and no more")
