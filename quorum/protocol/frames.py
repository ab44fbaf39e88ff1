"""Split a byte stream into length-prefixed frames, whose content is opaque here.

Each frame is sliced once from the received bytes. A frame that arrives in pieces is joined once,
after its last byte; only pieces of a few bytes are joined earlier, since each takes memory of its
own.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final

from quorum.core.limits import FRAME_BYTES_MAX
from quorum.protocol.apis import api_name
from quorum.protocol.errors import BadFrame
from quorum.protocol.request_limits import LIMIT_BYTES_MIN

_LENGTH: Final = Struct(">i")
_API_KEY: Final = Struct(">h")

LENGTH_BYTES: Final = _LENGTH.size

_PIECE_BYTES: Final = 64
"""The memory of a piece beside its content, rounded up: a bytes object, a place in a list."""


class FrameSplitter:
    """Takes received bytes and returns complete frames, without their length prefix.

    It holds the bytes not taken yet. An incomplete frame has at most `frame_bytes_max` bytes, and
    takes at most twice the memory of its received part, however small the pieces are.
    `bytes_max_of` returns the limit of the API whose key opens a frame; a longer frame is not
    collected.
    """

    __slots__ = (
        "_at",
        "_bytes_max_of",
        "_data",
        "_frame_bytes_max",
        "_parts",
        "_whole",
        "missing_bytes",
        "unfinished_bytes",
    )

    def __init__(
        self,
        frame_bytes_max: int = FRAME_BYTES_MAX,
        bytes_max_of: Callable[[int], int] | None = None,
    ) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._bytes_max_of = bytes_max_of
        self.unfinished_bytes = 0
        """The announced length of a frame that has begun to come and is not whole."""
        self._data = b""
        self._at = 0
        # A frame in several pieces: those so far, their missing bytes, the joined frame.
        self._parts: list[bytes] = []
        self.missing_bytes = 0
        """The bytes of that frame that have not come."""
        self._whole: bytes | None = None

    @property
    def is_in_a_frame(self) -> bool:
        """True if the next frame is incomplete, but not empty."""
        if self.missing_bytes or self._whole is not None:
            return self._whole is None
        come = len(self._data) - self._at
        if come < LENGTH_BYTES:
            return come > 0
        (length,) = _LENGTH.unpack_from(self._data, self._at)
        return come < LENGTH_BYTES + int(length)

    def limit(self, frame_bytes_max: int) -> None:
        """Let frames that begin from now on have so many bytes."""
        self._frame_bytes_max = frame_bytes_max

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        if self.missing_bytes:
            self._fill(data)
        elif self._at < len(self._data):
            self._data = self._data[self._at :] + data
            self._at = 0
        else:
            self._data = data
            self._at = 0

    def take(self) -> bytes | None:
        """Return the next complete frame, or None until more bytes come; raises `BadFrame`.

        After `BadFrame` the start of the next frame is unknown: each further call raises it again.
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
        if length > LIMIT_BYTES_MIN and self._bytes_max_of is not None:
            if start + _API_KEY.size > len(data):
                return None
            (api_key,) = _API_KEY.unpack_from(data, start)
            bytes_max = self._bytes_max_of(api_key)
            if length > bytes_max:
                raise BadFrame(f"{api_name(api_key)}: {_unacceptable(length, bytes_max)}")
        if end <= len(data):
            self._at = end
            return data[start:end]
        self.unfinished_bytes = length
        self._parts = [data[start:]]
        self.missing_bytes = end - len(data)
        self._data = b""
        self._at = 0
        return None

    def _fill(self, data: bytes) -> None:
        piece = data[: self.missing_bytes]
        self._parts.append(piece)
        self.missing_bytes -= len(piece)
        if self.missing_bytes:
            come = self.unfinished_bytes - self.missing_bytes
            if come < len(self._parts) * _PIECE_BYTES:
                # At most once in `come / _PIECE_BYTES` pieces: each piece costs a bounded copy.
                self._parts = [b"".join(self._parts)]
            return
        self._whole = b"".join(self._parts)
        self.unfinished_bytes = 0
        self._parts = []
        if len(piece) < len(data):
            self._data = data
            self._at = len(piece)


_OF_HTTP: Final = (b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI")
_OF_TLS: Final = b"\x16\x03"


def _unacceptable(length: int, frame_bytes_max: int) -> str:
    if length < 0:
        return f"frame with the negative length {length}"
    # Other protocols come by mistake, or as a probe.
    first = _LENGTH.pack(length)
    if first in _OF_HTTP:
        return "an HTTP request in place of the Kafka protocol"
    if first.startswith(_OF_TLS):
        return "a TLS handshake in place of the Kafka protocol"
    return f"frame of {length} bytes, at most {frame_bytes_max} are allowed"
