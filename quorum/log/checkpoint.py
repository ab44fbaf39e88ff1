"""Read checkpoints: snapshots of the records before the log start, in Kafka's file (KIP-630).

The file is named by its end offset, exclusive, and the epoch of the record before that. It opens
with a SnapshotHeader and closes with a SnapshotFooter; the data between them has its own offsets,
from 0. A file without a footer was never finished, and is never used. `snapshot_store` writes them.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from crc32c import crc32c

from quorum.core.vocabulary import Epoch, Offset, OffsetAndEpoch
from quorum.core.voter_set import VoterAssignment
from quorum.log.errors import FileDamaged, FormatUnknown
from quorum.log.filesystem import OS, FileSystem, usable
from quorum.log.segment_reader import batches_of
from quorum.records.batch import CorruptBatch, Header
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
from quorum.records.decode import UnsupportedCodec, decode, plain_values

_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")

_BEHIND: Final = "it follows the footer"
_REMEDY: Final = "Put a whole copy of it back, from a backup or another controller of the cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A complete and valid checkpoint file."""

    path: Path
    id: OffsetAndEpoch
    """The end offset, and the epoch of the last record before it."""
    last_timestamp_ms: int
    kraft_version: int
    voters: VoterAssignment | None
    """The voters at `id`; None if the log does not record any."""
    has_checksum: bool
    """True if its footer has a checksum of the file, as ours do and Kafka's do not."""
    fs: FileSystem = field(default=OS, repr=False, compare=False)

    def records(self) -> Iterator[bytes]:
        """Read the values of the data records from the file, in order."""
        return chain.from_iterable(self._values())

    def _values(self) -> Iterator[list[bytes]]:
        with usable(self.path):
            for batch in batches_of(self.path, base=0, fs=self.fs):
                if not batch.header.is_control:
                    yield values_of(batch)


def checkpoint_id(name: str) -> OffsetAndEpoch | None:
    """Return the id in the name of a checkpoint file; None for another kind of file."""
    match = _NAME.fullmatch(name)
    return None if match is None else OffsetAndEpoch(Epoch(int(match[2])), Offset(int(match[1])))


def formatted_for(folder: Path, fs: FileSystem = OS) -> Checkpoint | None:
    """Return the checkpoint at offset 0 with the first voters, from Kafka's `kafka-storage format`.

    None if there is none. Raises the errors of `read_checkpoint`.
    """
    path = folder / checkpoint_name(OffsetAndEpoch(Epoch(0), Offset(0)))
    with usable(folder):
        if path.name not in fs.names(folder):
            return None
    return read_checkpoint(path, fs)


def checkpoints(folder: Path, fs: FileSystem = OS) -> list[tuple[OffsetAndEpoch, Path]]:
    """List the checkpoint files in `folder`, the newest first, without reading them.

    The one at offset 0, with which Kafka formats a folder, is left out: `formatted_for` reads it.
    """
    with usable(folder):
        names = fs.names(folder)
    found = [(id_, folder / name) for name in names if (id_ := checkpoint_id(name)) is not None]
    return sorted((each for each in found if each[0].offset > 0), reverse=True)


def checkpoint_name(id_: OffsetAndEpoch) -> str:
    """Return the file name of a checkpoint."""
    return f"{id_.offset:020}-{id_.epoch:010}.checkpoint"


def read_checkpoint(
    path: Path, fs: FileSystem = OS, *, id_: OffsetAndEpoch | None = None
) -> Checkpoint:
    """Read and check a checkpoint. Raises `FileDamaged`, `FormatUnknown` for a newer format, and
    `FolderUnusable`.

    `id_` is given for a file that does not have its final name yet.
    """
    id_ = id_ or checkpoint_id(path.name)
    assert id_ is not None, f"{path} does not have the name of a checkpoint"
    try:
        with usable(path):
            checkpoint = _read(path, id_, fs)
        if not checkpoint.has_checksum:
            # The checksum of our files covers every record; others are decoded once to check them.
            deque(checkpoint.records(), maxlen=0)
    except CorruptBatch as error:
        raise FileDamaged(
            path, f"damaged at byte {error.position}: {error.reason}", _REMEDY
        ) from error
    except UnknownVersion as error:
        raise FormatUnknown(path, str(error)) from error
    except (BadControlRecord, UnsupportedCodec) as error:
        raise FileDamaged(path, str(error), _REMEDY) from error
    return checkpoint


def _read(path: Path, id_: OffsetAndEpoch, fs: FileSystem) -> Checkpoint:
    """Read a checkpoint without decoding its data records.

    Raises `FileDamaged`, `CorruptBatch` or `BadControlRecord` if a part is missing or misplaced.
    """
    check = CheckpointCheck(id_)
    for batch in batches_of(path, base=0, fs=fs):
        check.take(batch)
    try:
        said = check.close()
    except ValueError as error:
        raise FileDamaged(path, str(error), _REMEDY) from error
    return Checkpoint(
        path=path,
        id=id_,
        last_timestamp_ms=said.last_timestamp_ms,
        kraft_version=said.kraft_version,
        voters=said.voters,
        has_checksum=said.has_checksum,
        fs=fs,
    )


class CheckedBatch(Protocol):
    """A whole batch with a right checksum, and where it was found."""

    @property
    def position(self) -> int: ...
    @property
    def header(self) -> Header: ...
    @property
    def data(self) -> bytes: ...


class CheckpointFacts(NamedTuple):
    """The facts in the control records of a whole checkpoint; see `Checkpoint`."""

    last_timestamp_ms: int
    kraft_version: int
    voters: VoterAssignment | None
    has_checksum: bool


class CheckpointCheck:
    """Checks that batches, one after the other, are those of the checkpoint `id_`."""

    def __init__(self, id_: OffsetAndEpoch) -> None:
        self._id = id_
        self._said: dict[int, Any] = {}
        self._checksum = 0

    def take(self, batch: CheckedBatch) -> None:
        """Take the next batch; raises `CorruptBatch` or `BadControlRecord` if it is misplaced."""
        if batch.header.epoch != self._id.epoch:
            reason = f"its epoch is {batch.header.epoch}, that of the checkpoint {self._id.epoch}"
            raise CorruptBatch(batch.position, reason)
        if batch.header.is_control:
            _take_control(batch, self._said, self._checksum)
        elif ControlType.SNAPSHOT_FOOTER in self._said:
            raise CorruptBatch(batch.position, _BEHIND)
        elif not self._said:
            raise CorruptBatch(batch.position, "its records precede the header")
        self._checksum = crc32c(batch.data, self._checksum)

    def close(self) -> CheckpointFacts:
        """Return its facts after the last batch; raises `ValueError` if it is not whole."""
        said = self._said
        if not said:
            raise ValueError("it is empty")
        if ControlType.SNAPSHOT_FOOTER not in said:
            raise ValueError("it has no footer, so it was never finished")
        return CheckpointFacts(
            last_timestamp_ms=said[ControlType.SNAPSHOT_HEADER],
            kraft_version=said.get(ControlType.KRAFT_VERSION, 0),
            voters=said.get(ControlType.KRAFT_VOTERS),
            has_checksum=said[ControlType.SNAPSHOT_FOOTER] is not None,
        )


_DECODERS: Final[Mapping[int, Callable[[bytes | None], Any]]] = MappingProxyType(
    {
        ControlType.SNAPSHOT_HEADER: decode_snapshot_header,
        ControlType.KRAFT_VERSION: decode_kraft_version,
        ControlType.KRAFT_VOTERS: decode_voters,
        ControlType.SNAPSHOT_FOOTER: decode_snapshot_footer,
    }
)


def _take_control(batch: CheckedBatch, said: dict[int, Any], checksum: int) -> None:
    """Add the values of control records to `said`; `checksum` covers all bytes before the batch."""
    for record in decode(batch.data):
        if ControlType.SNAPSHOT_FOOTER in said:
            raise CorruptBatch(batch.position, _BEHIND)
        kind = control_type(record.key)
        if (kind == ControlType.SNAPSHOT_HEADER) != (not said):
            raise CorruptBatch(batch.position, "a snapshot header comes first, and only there")
        if kind not in _DECODERS:
            name = control_name(record.key)
            raise CorruptBatch(batch.position, f"a {name} record does not belong here")
        said[kind] = value = _DECODERS[kind](record.value)
        if kind == ControlType.SNAPSHOT_FOOTER and value not in (None, checksum):
            reason = f"what precedes it has the checksum {checksum:08x}, not {value:08x}"
            raise CorruptBatch(batch.position, reason)


def values_of(batch: CheckedBatch) -> list[bytes]:
    """Return the values of a data batch; raises `CorruptBatch` or `UnsupportedCodec`."""
    plain = plain_values(batch.data, batch.header)
    if plain is not None:
        return plain
    values: list[bytes] = []
    for record in decode(batch.data):
        if record.value is None:
            raise CorruptBatch(batch.position, f"the record at offset {record.offset} has no value")
        values.append(record.value)
    return values
