"""Records as lines of text: out of a stream as bytes arrive, and back into one.

A line is one record; its newline is not part of it. With a separator, what stands before the
first one is the key. Nothing here waits or opens a file.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

LINE_BYTES_MAX: Final = 1024 * 1024


class LineTooLong(ValueError):
    """A line has more bytes than a record may have."""


class KeyValue(NamedTuple):
    """A record as it stands in a line. A key of None is none; it is not an empty one."""

    key: bytes | None
    value: bytes


class LineSplitter:
    """Takes bytes as they come and gives whole lines."""

    def __init__(self) -> None:
        self._rest = b""
        self._number = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that `data` completes; raises `LineTooLong`."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            yield self._checked(line)
        if len(self._rest) > LINE_BYTES_MAX:
            self._checked(self._rest)

    def end(self) -> Iterator[bytes]:
        """The last line, when the stream has ended without a newline."""
        if self._rest:
            yield self._checked(self._rest)
            self._rest = b""

    def _checked(self, line: bytes) -> bytes:
        self._number += 1
        if len(line) > LINE_BYTES_MAX:
            raise LineTooLong(
                f"line {self._number} has more than {LINE_BYTES_MAX} bytes; a record has not"
            )
        return line.removesuffix(b"\r")


def parse(line: bytes, key_separator: bytes | None) -> KeyValue:
    """The record in `line`; `ValueError` for one without the separator that was asked for."""
    if key_separator is None:
        return KeyValue(None, line)
    key, separator, value = line.partition(key_separator)
    if not separator:
        shown = line[:40].decode(errors="replace")
        raise ValueError(f"the line {shown!r} has no {key_separator.decode()!r} after its key")
    return KeyValue(key, value)


def render(key: bytes | None, value: bytes | None, key_separator: bytes | None) -> bytes:
    """A record as a line with its newline; a missing key or value is an empty one."""
    opening = b"" if key_separator is None else (key or b"") + key_separator
    return opening + (value or b"") + b"\n"
