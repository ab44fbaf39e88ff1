"""Decompress the batches of foreign logs.

A metadata log is never compressed, but another writer may have done it. The formats are those of
Kafka's clients (`CompressionType`): gzip, Snappy with or without the frames of its Java library,
LZ4 in Kafka's frames, Zstandard.
"""

import struct
from typing import Final

import pyarrow as pa

from quorum.records.batch import HEADER, HEADER_BYTES, LENGTH_END, Codec, CorruptBatch, Header
from quorum.records.decode import DECOMPRESSED_BYTES_MAX

_CODEC_BITS: Final = 0x07
_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEAD_BYTES: Final = 16
_SIZE: Final = struct.Struct(">i")
_STREAMED: Final = {Codec.GZIP: "gzip", Codec.LZ4: "lz4", Codec.ZSTD: "zstd"}


def plain_batch(batch: bytes, header: Header) -> tuple[bytes, Header]:
    """The batch without compression; its checksum no longer matches.

    Raises `CorruptBatch`.
    """
    if header.codec == Codec.NONE:
        return batch, header
    try:
        body = _expanded(batch[HEADER_BYTES:], header.codec)
    except (OSError, ValueError, struct.error, pa.ArrowException) as error:
        name = str(Codec(header.codec)) if header.codec in set(Codec) else f"codec {header.codec}"
        raise CorruptBatch(0, f"its records cannot be expanded as {name}: {error}") from error
    plain = header._replace(
        length=HEADER_BYTES - LENGTH_END + len(body), attributes=header.attributes & ~_CODEC_BITS
    )
    return HEADER.pack(*plain) + body, plain


def _expanded(body: bytes, codec: int) -> bytes:
    if codec == Codec.SNAPPY:
        return _snappy(body)
    name = _STREAMED.get(Codec(codec))
    if name is None:
        raise ValueError("there is no such codec")
    with pa.CompressedInputStream(pa.BufferReader(body), name) as stream:
        out: bytes = stream.read(DECOMPRESSED_BYTES_MAX + 1)
    if len(out) > DECOMPRESSED_BYTES_MAX:
        raise ValueError(f"they are more than {DECOMPRESSED_BYTES_MAX} bytes")
    return out


def _snappy(body: bytes) -> bytes:
    if not body.startswith(_XERIAL):
        return _snappy_block(body, DECOMPRESSED_BYTES_MAX)
    parts, at, left = [], _XERIAL_HEAD_BYTES, DECOMPRESSED_BYTES_MAX
    while at < len(body):
        (size,) = _SIZE.unpack_from(body, at)
        at += _SIZE.size
        if not 0 <= size <= len(body) - at:
            raise ValueError(f"a block of {size} bytes where {len(body) - at} are left")
        parts.append(_snappy_block(body[at : at + size], left))
        left -= len(parts[-1])
        at += size
    return b"".join(parts)


def _snappy_block(block: bytes, most: int) -> bytes:
    """Decompress one block; it starts with its decompressed size."""
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > most:
        raise ValueError(f"they are more than {DECOMPRESSED_BYTES_MAX} bytes")
    out: bytes = pa.Codec("snappy").decompress(block, decompressed_size=size, asbytes=True)
    return out
