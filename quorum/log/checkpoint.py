"""Checkpoints: what a log said before it was cut at its start, in Kafka's file (KIP-630).

The file is called after the offset at which it ends, exclusive, and the epoch of the record before
that. It opens with a SnapshotHeader and closes with a SnapshotFooter; the data between them has
offsets of its own, from 0, which are unrelated to those of the log. A file without its footer was
never finished, and is never used. Nothing here writes one: `snapshot_folder` does.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final

from crc32c import crc32c

from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch
from quorum.core.voter_set import VoterAssignment
from quorum.log.errors import FileDamaged, FormatUnknown
from quorum.log.filesystem import OS, FileSystem, usable
from quorum.log.segment_reader import StoredBatch, batches_of
from quorum.records.batch import CorruptBatch
from quorum.records.control import (
    BadControlRecord,
    ControlType,
    UnknownVersion,
    control_name,
    control_type,
    decode_kraft_version,
    decode_snapshot_footer,
    decode_snapshot_header,
    decode_voters,
)
from quorum.records.decode import Record, UnsupportedCodec, decode, plain_values

_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")

_BEHIND: Final = "it follows the footer"
_REMEDY: Final = "Put a whole copy of it back, from a backup or another controller of the cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint file that has been read once and found whole."""

    path: Path
    id: OffsetAndEpoch
    """The end offset of what it contains, and the epoch of the last record before it."""
    last_timestamp_ms: int
    kraft_version: int
    voters: VoterAssignment | None
    """The voters at `id`; None if the log does not name any."""
    record_count: int
    """Data records; the control records are not counted."""
    has_checksum: bool
    """True if its footer vouches for all of it, as ours do and Kafka's do not."""
    fs: FileSystem = field(default=OS, repr=False, compare=False)

    def records(self) -> Iterator[bytes]:
        """The values of the data records, in order, read from the file anew."""
        return chain.from_iterable(self._values())

    def check_records(self) -> None:
        """Read all of them; raises `CorruptBatch` or `UnsupportedCodec` for what is none."""
        for _ in self._values():
            pass

    def _values(self) -> Iterator[list[bytes]]:
        with usable(self.path):
            for batch in batches_of(self.path, base=0, fs=self.fs):
                if not batch.header.is_control:
                    yield _values_of(batch)


def checkpoint_id(name: str) -> OffsetAndEpoch | None:
    """The id in the name of a checkpoint file; None if it is another kind of file."""
    match = _NAME.fullmatch(name)
    return None if match is None else OffsetAndEpoch(Epoch(int(match[2])), Offset(int(match[1])))


def formatted_for(folder: Path, fs: FileSystem = OS) -> Checkpoint | None:
    """The checkpoint at offset 0 that Kafka's `kafka-storage format` writes, with the first voters.

    None where it has named nobody. Raises as `read_checkpoint` does.
    """
    path = folder / checkpoint_name(OffsetAndEpoch(Epoch(0), Offset(0)))
    with usable(folder):
        if path.name not in fs.names(folder):
            return None
    return read_checkpoint(path, fs)


def checkpoints(folder: Path, fs: FileSystem = OS) -> list[tuple[OffsetAndEpoch, Path]]:
    """The checkpoint files in `folder`, the newest first; the files themselves are not read.

    The one at offset 0, with which Kafka formats a folder, precedes every record, and is left out:
    `formatted_for` reads it.
    """
    with usable(folder):
        names = fs.names(folder)
    found = [(id_, folder / name) for name in names if (id_ := checkpoint_id(name)) is not None]
    return sorted((each for each in found if each[0].offset > 0), reverse=True)


def checkpoint_name(id_: OffsetAndEpoch) -> str:
    """The file name of this checkpoint."""
    return f"{id_.offset:020}-{id_.epoch:010}.checkpoint"


def read_checkpoint(
    path: Path, fs: FileSystem = OS, *, id_: OffsetAndEpoch | None = None
) -> Checkpoint:
    """The checkpoint in this file. Raises `FileDamaged` unless it is whole, `FormatUnknown` where
    it is newer than this program, `FolderUnusable`.

    `id_` is given for a file that does not have its name yet.
    """
    id_ = id_ or checkpoint_id(path.name)
    assert id_ is not None, f"{path} does not have the name of a checkpoint"
    reading = _Reading(path, id_, fs)
    try:
        with usable(path):
            for batch in batches_of(path, base=0, fs=fs):
                reading.take(batch)
        checkpoint = reading.end()
        if not checkpoint.has_checksum:
            # Whoever wrote ours vouches for every record, and wrote them as we read them.
            checkpoint.check_records()
    except CorruptBatch as error:
        raise FileDamaged(
            path, f"damaged at byte {error.position}: {error.reason}", _REMEDY
        ) from error
    except UnknownVersion as error:
        raise FormatUnknown(path, str(error)) from error
    except (BadControlRecord, UnsupportedCodec) as error:
        raise FileDamaged(path, str(error), _REMEDY) from error
    return checkpoint


class _Reading:
    """One pass over a checkpoint: what it must begin with, may hold, and must end with.

    What its data records say is not looked at: they are only counted.
    """

    def __init__(self, path: Path, id_: OffsetAndEpoch, fs: FileSystem) -> None:
        self._fs = fs
        self._path = path
        self._id = id_
        self._last_timestamp_ms: int | None = None
        self._kraft_version = 0
        self._voters: VoterAssignment | None = None
        self._record_count = 0
        self._checksum = 0
        self._has_checksum = False
        self._closed = False

    def take(self, batch: StoredBatch) -> None:
        """Take in the next batch; `CorruptBatch` or `BadControlRecord` where it cannot be so."""
        if batch.header.epoch != self._id.epoch:
            raise CorruptBatch(
                batch.position,
                f"its epoch is {batch.header.epoch}, that of the checkpoint {self._id.epoch}",
            )
        if batch.header.is_control:
            self._take_control(batch)
        elif self._closed:
            raise CorruptBatch(batch.position, _BEHIND)
        elif self._last_timestamp_ms is None:
            raise CorruptBatch(batch.position, "its records precede the header")
        else:
            self._record_count += batch.header.record_count
        self._checksum = crc32c(batch.data, self._checksum)

    def _take_control(self, batch: StoredBatch) -> None:
        for record in decode(batch.data):
            if self._closed:
                raise CorruptBatch(batch.position, _BEHIND)
            self._control(record, batch.position)

    def _control(self, record: Record, position: int) -> None:
        kind = control_type(record.key)
        if (kind == ControlType.SNAPSHOT_HEADER) != (self._last_timestamp_ms is None):
            raise CorruptBatch(position, "a snapshot header comes first, and only there")
        match kind:
            case ControlType.SNAPSHOT_HEADER:
                self._last_timestamp_ms = decode_snapshot_header(record.value)
            case ControlType.KRAFT_VERSION:
                self._kraft_version = decode_kraft_version(record.value)
            case ControlType.KRAFT_VOTERS:
                self._voters = decode_voters(record.value)
            case ControlType.SNAPSHOT_FOOTER:
                self._close(decode_snapshot_footer(record.value), position)
            case _:
                name = control_name(record.key)
                raise CorruptBatch(position, f"a {name} record does not belong here")

    def _close(self, checksum: int | None, position: int) -> None:
        if checksum is not None and checksum != self._checksum:
            raise CorruptBatch(
                position,
                f"what precedes it has the checksum {self._checksum:08x}, not {checksum:08x}",
            )
        self._has_checksum = checksum is not None
        self._closed = True

    def end(self) -> Checkpoint:
        """Return the values read, if they are complete."""
        if self._last_timestamp_ms is None:
            raise FileDamaged(self._path, "it is empty", _REMEDY)
        if not self._closed:
            reason = "it has no footer, so it was never finished"
            raise FileDamaged(self._path, reason, _REMEDY)
        return Checkpoint(
            path=self._path,
            id=self._id,
            last_timestamp_ms=self._last_timestamp_ms,
            kraft_version=self._kraft_version,
            voters=self._voters,
            record_count=self._record_count,
            has_checksum=self._has_checksum,
            fs=self._fs,
        )


def _values_of(batch: StoredBatch) -> list[bytes]:
    plain = plain_values(batch.data, batch.header)
    if plain is not None:
        return plain
    values: list[bytes] = []
    for record in decode(batch.data):
        if record.value is None:
            raise CorruptBatch(batch.position, f"the record at offset {record.offset} has no value")
        values.append(record.value)
    return values
