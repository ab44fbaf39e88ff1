"""Read the metadata log of a running quorum that Kafka leads, and replay it.

While one of our controllers leads, the log need not be read: the leader describes what is in it.
"""

import tempfile
from pathlib import Path
from typing import Final

from admin.client.metadata_source import Elsewhere, SnapshotGone, Source
from admin.faults import AdminError, Unreachable
from admin.tools.adopt.source import AdoptError, History, add_record, begin_history
from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch
from quorum.log.checkpoint import checkpoint_name, read_checkpoint
from quorum.log.errors import StorageError
from quorum.protocol.shape import Data
from quorum.records.batch import CorruptBatch, check_length, header_at
from quorum.records.decode import UnsupportedCodec, decode

_FAILING: Final = "the metadata log cannot be read"
SNAPSHOT_TRIES: Final = 5
"""Attempts to read a snapshot while the leader changes, or replaces it."""


class LogReader:
    """Reads the log up to the high watermark, the newest snapshot first if the log was cut."""

    def __init__(self, source: Source) -> None:
        self.history = History()
        """The contents of the log so far."""
        self.bytes_read = 0
        self._source = source
        self._last_epoch = Epoch(0)

    async def catch_up(self) -> History:
        """Read up to the high watermark.

        Raises `Unreachable` during an election, `AdminError`, and `AdoptError` for records that
        cannot be read.
        """
        tries_left = SNAPSHOT_TRIES
        while True:
            end = self.history.image.end_offset
            found = await self._source.fetch(OffsetAndEpoch(self._last_epoch, Offset(end)))
            if isinstance(found, Elsewhere):
                if found.snapshot is None:
                    raise AdminError(f"{_FAILING}: it was cut while it was read; ask again")
                try:
                    await self._take_snapshot(found.snapshot)
                except SnapshotGone:
                    tries_left -= 1
                    if tries_left == 0:
                        changed = "the leader changed, or replaced its snapshot,"
                        raise AdminError(
                            f"{_FAILING}: {changed} {SNAPSHOT_TRIES} times while it was read; ask "
                            "again"
                        ) from None
                continue
            if found.high_watermark is None:
                why = "its leader does not know yet what is committed"
                raise Unreachable(f"{_FAILING}: {why}", may_be_done=False)
            self._take(found.data, found.high_watermark)
            if self.history.image.end_offset >= found.high_watermark:
                return self.history
            if self.history.image.end_offset == end:
                raise AdminError(f"{_FAILING}: the leader sends nothing from offset {end} on")

    def _take(self, records: Data, high_watermark: int) -> None:
        """Add the committed records of whole batches."""
        try:
            whole = bytes(records[: _whole_bytes(records)])
            self.bytes_read += len(whole)
            for record in decode(whole):
                if self.history.image.end_offset <= record.offset < high_watermark:
                    add_record(self.history, record)
            position = 0
            while position < len(whole):
                header = header_at(whole, position)
                if header.base_offset < high_watermark:
                    self._last_epoch = Epoch(header.epoch)
                position += header.size_bytes
        except (CorruptBatch, UnsupportedCodec) as error:
            raise AdminError(f"{_FAILING}: {error}") from error

    async def _take_snapshot(self, id_: OffsetAndEpoch) -> None:
        """Begin the history with this snapshot; raises `SnapshotGone`, and then it is as before."""
        with tempfile.TemporaryDirectory(prefix="metaquorum-migrate-") as name:
            path = Path(name) / checkpoint_name(id_)
            with path.open("wb") as file:
                position, size = 0, 1
                while position < size:
                    part = await self._source.fetch_snapshot(id_, position)
                    file.write(part.data)
                    position, size = position + len(part.data), part.size_bytes
            self.bytes_read += position
            try:
                self.history = History()
                begin_history(self.history, read_checkpoint(path))
            except (StorageError, AdoptError) as error:
                raise AdminError(f"{_FAILING}: snapshot {id_}: {error}") from error
        self._last_epoch = id_.epoch


def _whole_bytes(records: Data) -> int:
    """The length of the whole batches at the beginning: the last one may be cut off."""
    position = 0
    while position < len(records):
        try:
            header = header_at(records, position)
            check_length(header, position, len(records))
        except CorruptBatch:
            break
        position += header.size_bytes
    return position
