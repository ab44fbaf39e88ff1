"""From a time to an offset, for clients that want to begin at a time (KIP-79, ListOffsets)."""

from typing import Final

from quorum.core.vocabulary import Offset
from quorum.ports import Log
from quorum.records.batch import Header, headers
from quorum.records.decode import UnsupportedCodec, decode

_READ_BYTES: Final = 64 * 1024


def first_record_from(
    log: Log, start: Offset, end: Offset, timestamp_ms: int
) -> tuple[Offset, int] | None:
    """The first record in [start, end) that is not older than `timestamp_ms`: its offset and time.

    Headers say which batches to look into. Where the records of one cannot be decompressed, its
    first record stands for it: whoever begins there misses nothing.
    """
    while start < end:
        data = log.read(start, end, _READ_BYTES)
        assert data, f"[{start}, {end}) does not end at the end of a batch"
        for position, header in headers(data):
            start = Offset(header.end_offset)
            if header.max_timestamp_ms >= timestamp_ms:
                batch = data[position : position + header.size_bytes]
                found = _first_in_batch(batch, header, timestamp_ms)
                if found is not None:
                    return found
    return None


def _first_in_batch(batch: bytes, header: Header, timestamp_ms: int) -> tuple[Offset, int] | None:
    try:
        for record in decode(batch):
            if record.timestamp_ms >= timestamp_ms:
                return Offset(record.offset), record.timestamp_ms
    except UnsupportedCodec:
        return Offset(header.base_offset), header.base_timestamp_ms
    return None
