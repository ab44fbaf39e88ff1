"""The headers of many batches at once, as columns: what a header-only scan is made of.

The same fields as `quorum.records.batch.Header`, in numbers of this machine's byte order.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from lag.source.ranges import Sound
from quorum.records.batch import CONTROL_BIT, HEADER_BYTES, LENGTH_END, Codec

_HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp_ms", ">i8"),
        ("max_timestamp_ms", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
_CODEC_BITS: Final = 0x07
CODEC_NAMES: Final = tuple(
    str(Codec(number)) if number in set(Codec) else f"codec {number}" for number in range(8)
)

assert _HEADER.itemsize == HEADER_BYTES


class Headers(NamedTuple):
    """Columns of one row a batch, each a `numpy.ndarray`."""

    position: Any
    base_offset: Any
    last_offset: Any
    epoch: Any
    max_timestamp_ms: Any
    size: Any
    record_count: Any
    is_control: Any
    codec: Any

    def only(self, wanted: Any) -> "Headers":
        """The rows for which `wanted` is true, or those of a slice."""
        return Headers(*(column[wanted] for column in self))


def headers_of(sound: Sound) -> Headers:
    """The headers of these batches."""
    raw = np.frombuffer(sound.data, np.uint8)
    at = sound.starts - sound.origin
    heads = np.lib.stride_tricks.sliding_window_view(raw, HEADER_BYTES)[at]
    return _columns(heads.reshape(-1).view(_HEADER), sound.starts)


def header_alone(head: bytes, position: int) -> Headers:
    """The one header in these 61 bytes."""
    return _columns(np.frombuffer(head, _HEADER, count=1), np.array([position], np.int64))


def _columns(heads: Any, position: Any) -> Headers:
    base = heads["base_offset"].astype(np.int64)
    attributes = heads["attributes"].astype(np.int16)
    return Headers(
        position=position,
        base_offset=base,
        last_offset=base + heads["last_offset_delta"],
        epoch=heads["epoch"].astype(np.int32),
        max_timestamp_ms=heads["max_timestamp_ms"].astype(np.int64),
        size=heads["length"].astype(np.int32) + np.int32(LENGTH_END),
        record_count=heads["record_count"].astype(np.int32),
        is_control=attributes & CONTROL_BIT != 0,
        codec=(attributes & _CODEC_BITS).astype(np.int8),
    )
