"""Buffers: slice frames and write them to a socket with few copies.

Small buffers are copied and joined, which is cheaper than separate writes; large ones never are.
Channels and listeners share the module.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from quorum.protocol.shape import Data

_SMALL_BYTES_MAX: Final = 64 * 1024


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
