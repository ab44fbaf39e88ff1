"""A connection that sends Puts to etcd in sequence, at the least cost for the client.

It implements gRPC by hand: the frames of a request (HTTP/2, RFC 9113) are encoded once, and from
one request to the next only the stream number is patched. Only the proof of success is decoded: a
failed call has only trailers, so a response counts if it has data with a higher revision of the
store than the last one. A client library would use the processor time that the servers need.
"""

import asyncio
from collections.abc import Callable
from struct import Struct
from time import perf_counter
from typing import Final

from bench.one_connection import OneConnection

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PATH_PUT: Final = b"/etcdserverpb.KV/Put"

_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_END_STREAM: Final = 1
_ACK: Final = 1
_END_HEADERS: Final = 4
_HEAD: Final = Struct(">HBBBI")
"""Length in two parts (16 and 8 bits), kind, flags, stream."""
_STREAM: Final = Struct(">I")
_STREAM_AT: Final = 5
_WINDOW_MAX: Final = 2**31 - 1
_WINDOW_DEFAULT: Final = 65_535
_INITIAL_WINDOW_SIZE: Final = b"\x00\x04" + _STREAM.pack(_WINDOW_MAX)

_REVISION_KEY: Final = 0x18
"""Field 3 of ResponseHeader, a varint."""


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Encode an HTTP/2 frame."""
    size = len(payload)
    return _HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream) + payload


def put(key: bytes, value: bytes) -> bytes:
    """Encode a PutRequest: field 1 is the key, field 2 the value, both shorter than 128 bytes."""
    assert len(key) < 128, key
    assert len(value) < 128, value
    return b"".join((b"\x0a", bytes((len(key),)), key, b"\x12", bytes((len(value),)), value))


def opening() -> bytes:
    """The first bytes of a client: all windows have their maximum, so no update is necessary."""
    return b"".join(
        (
            PREFACE,
            frame(_SETTINGS, 0, 0, _INITIAL_WINDOW_SIZE),
            frame(_WINDOW_UPDATE, 0, 0, _STREAM.pack(_WINDOW_MAX - _WINDOW_DEFAULT)),
        )
    )


def request(path: bytes, message: bytes) -> bytearray:
    """Encode the two frames of a unary call, for stream 0; `number` sets the stream."""
    headers = b"".join(
        (
            b"\x83\x86",  # POST, http
            b"\x04" + bytes((len(path),)) + path,
            b"\x01\x04etcd",  # the authority
            b"\x0f\x10\x10application/grpc",
            b"\x00\x02te\x08trailers",
        )
    )
    body = b"\x00" + _STREAM.pack(len(message)) + message
    return bytearray(frame(_HEADERS, _END_HEADERS, 0, headers) + frame(_DATA, _END_STREAM, 0, body))


def number(request: bytearray, stream: int) -> None:
    """Set the stream of the request; it is odd and greater than every earlier one."""
    _STREAM.pack_into(request, _STREAM_AT, stream)
    second = (request[0] << 16 | request[1] << 8 | request[2]) + _HEAD.size
    _STREAM.pack_into(request, second + _STREAM_AT, stream)


def revision_of(body: bytes) -> int | None:
    """The revision in the header of a response; None if the bytes are not a response."""
    # A gRPC prefix of five bytes, then field 1: ResponseHeader, shorter than 128 bytes.
    if len(body) < 7 or body[0] != 0 or body[5] != 0x0A:
        return None
    at, end = 7, 7 + body[6]
    while at < end:
        key = body[at]
        value, at = _varint(body, at + 1)
        if key == _REVISION_KEY:
            return value
    return None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


class EtcdConnection(OneConnection):
    """Sends Puts from `go` to `halt`, one at a time."""

    def __init__(self, number: int, fail: Callable[[str], None]) -> None:
        super().__init__(f"put-{number}", fail)
        self._request = request(PATH_PUT, put(self._name.encode(), b"x" * 64))
        self._stream = -1
        self._buffer = b""
        self._revision = 0
        self._proved = False
        self.answered = 0
        """The number of answered Puts, including those of the warm-up."""

    def go(self) -> None:
        """Send the first Put; each response triggers the next one."""
        self._ask()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self._transport is not None
        self._transport.write(opening())

    def data_received(self, data: bytes) -> None:
        if self._buffer:
            data = self._buffer + data
        at, end = 0, len(data)
        while end - at >= _HEAD.size:
            high, low, kind, flags, _ = _HEAD.unpack_from(data, at)
            body_at = at + _HEAD.size
            after = body_at + (high << 8 | low)
            if after > end:
                break
            self._take(kind, flags, data, body_at, after)
            at = after
        self._buffer = data[at:]

    def _take(self, kind: int, flags: int, data: bytes, start: int, end: int) -> None:
        if kind == _HEADERS and flags & _END_STREAM:
            self._answered()
        elif kind == _DATA:
            revision = revision_of(data[start:end])
            self._proved = revision is not None and revision > self._revision
            self._revision = revision or 0
        elif kind in (_SETTINGS, _PING) and not flags & _ACK:
            assert self._transport is not None
            payload = data[start:end] if kind == _PING else b""
            self._transport.write(frame(kind, _ACK, 0, payload))
        elif kind in (_RST_STREAM, _GOAWAY):
            self._fail(f"{self._name}: the server ended the call: {data[start:end]!r}")

    def _answered(self) -> None:
        if not self._proved:
            self._fail(f"{self._name}, put {self.answered + 1}: the response has no newer revision")
            return
        self._proved = False
        self.answered += 1
        if self.latencies is not None:
            self.latencies.append(perf_counter() - self._asked_at)
        if self._halted is None:
            self._ask()
        else:
            self._halted.set_result(None)

    def _ask(self) -> None:
        assert self._transport is not None
        self._stream += 2
        number(self._request, self._stream)
        self._asked_at = perf_counter()
        self._transport.write(bytes(self._request))
