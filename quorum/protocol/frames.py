"""Length-prefixed frames out of a byte stream; it never looks inside a frame.

Each frame is cut once from the bytes that came. One that arrives in pieces waits as those pieces
and is joined once, when its last byte is there.
"""

from struct import Struct
from typing import Final

from quorum.core.limits import FRAME_BYTES_MAX
from quorum.protocol.errors import BadFrame

_LENGTH: Final = Struct(">i")

LENGTH_BYTES: Final = _LENGTH.size


class FrameSplitter:
    """Takes bytes as they come and gives whole frames, without their length prefix.

    Holds what was fed and not yet taken; the frame in the making is at most `frame_bytes_max`
    bytes long, and no more than what has come of it is kept.
    """

    __slots__ = ("_at", "_data", "_frame_bytes_max", "_missing_bytes", "_parts", "_whole")

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._data = b""
        self._at = 0
        # One frame that came in several pieces: those so far, the bytes still to come, the result.
        self._parts: list[bytes] = []
        self._missing_bytes = 0
        self._whole: bytes | None = None

    @property
    def is_in_a_frame(self) -> bool:
        """True if the next frame has begun to come, and is not whole."""
        if self._missing_bytes or self._whole is not None:
            return self._whole is None
        come = len(self._data) - self._at
        if come < LENGTH_BYTES:
            return come > 0
        (length,) = _LENGTH.unpack_from(self._data, self._at)
        return come < LENGTH_BYTES + int(length)

    def feed(self, data: bytes) -> None:
        """Add what the stream brought."""
        if self._missing_bytes:
            self._fill(data)
        elif self._at < len(self._data):
            self._data = self._data[self._at :] + data
            self._at = 0
        else:
            self._data = data
            self._at = 0

    def take(self) -> bytes | None:
        """The next whole frame, or None until more bytes come; raises `BadFrame`.

        After `BadFrame` there is no telling where the next frame begins: each further call
        raises it again.
        """
        if self._whole is not None:
            whole, self._whole = self._whole, None
            return whole
        data, at = self._data, self._at
        start = at + LENGTH_BYTES
        if start > len(data):
            return None
        (length,) = _LENGTH.unpack_from(data, at)
        if length < 0 or length > self._frame_bytes_max:
            raise BadFrame(_unacceptable(length, self._frame_bytes_max))
        end = start + length
        if end <= len(data):
            self._at = end
            return data[start:end]
        self._parts = [data[start:]]
        self._missing_bytes = end - len(data)
        self._data = b""
        self._at = 0
        return None

    def _fill(self, data: bytes) -> None:
        piece = data[: self._missing_bytes]
        self._parts.append(piece)
        self._missing_bytes -= len(piece)
        if self._missing_bytes:
            return
        self._whole = b"".join(self._parts)
        self._parts = []
        self._data = data
        self._at = len(piece)


def _unacceptable(length: int, frame_bytes_max: int) -> str:
    if length < 0:
        return f"frame of {length} bytes, a length is never negative"
    return f"frame of {length} bytes, at most {frame_bytes_max} are allowed"
