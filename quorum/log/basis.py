"""What a log in a folder goes on from when a replica starts: the newest checkpoint that is sound.

A crash can leave a checkpoint that was received from the leader beside a log that it was about to
replace; then the replacement is done again. Everything else that does not fit is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorum.core.vocabulary import Epoch, LogEnd, Offset
from quorum.log.checkpoint import Checkpoint, checkpoints, read_checkpoint
from quorum.log.errors import NEW_DIRECTORY, FileDamaged
from quorum.log.filesystem import OS, FileSystem
from quorum.log.segments import SegmentedLog

_REMEDY: Final = f"The way back: {NEW_DIRECTORY}"


@dataclass(frozen=True, slots=True)
class Basis:
    """The checkpoint to begin with, and what was wrong with newer ones."""

    checkpoint: Checkpoint | None
    damaged: tuple[tuple[LogEnd, FileDamaged], ...] = ()
    is_apart: bool = False
    """Whether the log beside it does not contain its end: it was being replaced."""


def basis(folder: Path, log: SegmentedLog, fs: FileSystem = OS) -> Basis:
    """What the log begins with. Raises `FileDamaged` where something is missing."""
    damaged: list[tuple[LogEnd, FileDamaged]] = []
    for id_, path in checkpoints(folder, fs):
        if id_.offset < log.start:
            break
        is_apart = not contains(log, id_)
        try:
            return Basis(read_checkpoint(path, fs), tuple(damaged), is_apart)
        except FileDamaged as error:
            if is_apart:
                # The log that it was to replace may be gone in part, and nobody can tell.
                raise
            damaged.append((id_, error))
    if log.start == 0:
        return Basis(None, tuple(damaged))
    reason = f"the log begins at offset {log.start}, and no checkpoint says what came before"
    raise FileDamaged(folder, "; ".join([reason, *(str(error) for _, error in damaged)]), _REMEDY)


def contains(log: SegmentedLog, id_: LogEnd) -> bool:
    """Whether the log holds the last record below the id's offset, and it is of the id's epoch.

    What precedes the log's start is not known here, and nothing is held against it.
    """
    if id_.offset > log.end.offset:
        return False
    if id_.offset <= log.start:
        return True
    return epoch_at(log.epochs, Offset(id_.offset - 1)) == id_.epoch


def epoch_at(epochs: Sequence[tuple[Epoch, Offset]], offset: Offset) -> Epoch:
    """The epoch of the record at `offset`, which is held."""
    return max(epoch for epoch, first in epochs if first <= offset)
