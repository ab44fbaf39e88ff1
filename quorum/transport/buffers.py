"""Buffers: read from sockets, slice frames and write them to a socket with few copies.

Small buffers are copied and joined, which is cheaper than separate writes; large ones never are.
Channels and listeners share the module.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from quorum.protocol.shape import Data
from quorum.transport.limits import READ_BYTES, READ_BYTES_MAX

_SMALL_BYTES_MAX: Final = 64 * 1024


class ReadBuffer:
    """The memory that sockets are read into, of one connection of a listener at a time."""

    def __init__(self) -> None:
        self._all = memoryview(bytearray(READ_BYTES_MAX))
        self._little = self._all[:READ_BYTES]

    def space(self, wanted_bytes: int) -> memoryview:
        """Return the space for one read: for so many bytes, but not less than `READ_BYTES`."""
        return self._little if wanted_bytes <= READ_BYTES else self._all[:wanted_bytes]

    def taken(self, size_bytes: int) -> bytes:
        """Return what the read has put there."""
        return self._all[:size_bytes].tobytes()


def body_of(frame: bytes, start: int) -> Data:
    """Return the body behind the header of a frame."""
    if len(frame) <= _SMALL_BYTES_MAX:
        return frame[start:]
    return memoryview(frame)[start:]


def parts_of(body: Data | Sequence[Data]) -> Sequence[Data]:
    """Return the parts of a body."""
    return (body,) if isinstance(body, bytes | memoryview) else body


def write_out(transport: asyncio.Transport, parts: Sequence[Data], size_bytes: int) -> None:
    """Send `parts`, which are `size_bytes` long in all, in one write."""
    if size_bytes <= _SMALL_BYTES_MAX:
        transport.write(b"".join(parts))
    else:
        transport.writelines(parts)
