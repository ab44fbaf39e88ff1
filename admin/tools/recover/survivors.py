"""The folders that are left, as they are read for a recovery: copied first, and then the copies.

A file of state that is missing or damaged does not make a folder useless here, as it does for a
node at its start: no vote counts any more once every voter that is left begins a new epoch. Nor
does a damaged log: it is taken up to the damage.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from admin.backup.log_summary import LogSummary
from admin.tools.founding import copy_log
from quorum.core.limits import FETCH_BYTES_MAX
from quorum.core.vocabulary import ElectionState, Epoch, Offset, OffsetAndEpoch, ReplicaId
from quorum.log import meta_properties
from quorum.log.checkpoint import Checkpoint, CheckpointFacts
from quorum.log.errors import FileDamaged, LogDamaged, StorageError
from quorum.log.filesystem import LOCK_NAME, make_folder
from quorum.log.meta_properties import MetaProperties
from quorum.log.quorum_state import QuorumStateFile
from quorum.log.segmented_log import SegmentedLog
from quorum.persistent_state import LOG_FOLDER, Basis, basis
from quorum.records.batch_stream import BatchStream

WORK: Final = ".recovering"
ASIDE: Final = ".before-recovery-"
"""Between the name of what a recovery has replaced and its time."""


class RecoverError(Exception):
    """One sentence: what is wrong, and what would be right. Nothing has been changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivor:
    """The contents of one folder."""

    folder: Path
    node_id: ReplicaId
    meta: MetaProperties | None
    """None if it is missing or damaged."""
    election: ElectionState | None
    """None if it is missing or damaged."""
    log_start: Offset
    log_end: OffsetAndEpoch
    """With the epoch of the checkpoint if the log holds no batch."""
    checkpoint: Checkpoint | None
    """The checkpoint that the log continues; None if it begins at 0."""
    summary: LogSummary
    problems: tuple[str, ...]
    """The reasons why a node would refuse to start in the folder."""
    log_copy: Path
    """Our copy of the log."""

    @property
    def epoch(self) -> Epoch:
        """The highest epoch in the folder."""
        elected = Epoch(0) if self.election is None else self.election.epoch
        return max(elected, self.log_end.epoch)


def read(folder: Path, node_id: ReplicaId | None, copy: Path) -> Survivor:
    """Copy the log of a folder to `copy`, whose parent exists, and read the copy.

    `node_id` is that of a folder whose meta.properties is lost. Raises `RecoverError` or `OSError`.
    """
    problems: list[str] = []
    if not (folder / LOG_FOLDER).is_dir():
        raise RecoverError(
            f"{folder} has no {LOG_FOLDER}: name the folder that log.dir of a node names"
        )
    meta = _meta_of(folder, problems)
    if meta is None and node_id is None:
        raise RecoverError(
            f"{problems[-1]}: write the id of the node before the folder, as 1={folder}"
        )
    if meta is not None and node_id not in (None, meta.node_id):
        raise RecoverError(f"{folder} is the folder of node {meta.node_id}, not of node {node_id}")
    election = _election_of(folder / LOG_FOLDER, problems)
    make_folder(copy)
    copy_log(folder / LOG_FOLDER, copy)
    try:
        with _opened_log(folder, copy, problems) as log:
            found = _basis(folder, copy, log)
            summary = _summary_of(log, found.checkpoint)
            log_start, log_end = log.start, log.end
    except StorageError as error:
        raise RecoverError(
            f"{str(error).replace(str(copy), str(folder / LOG_FOLDER))}. Leave this folder out, "
            "if there is another one"
        ) from error
    except ValueError as error:
        raise RecoverError(f"{folder / LOG_FOLDER}: a record cannot be read: {error}") from error
    if log_end.offset == log_start and found.checkpoint is not None:
        log_end = OffsetAndEpoch(found.checkpoint.id.epoch, log_end.offset)
    if election is not None and election.epoch < log_end.epoch:
        problems.append(f"quorum-state is of epoch {election.epoch}, older than its log")
    return Survivor(
        folder=folder,
        node_id=meta.node_id if meta is not None else node_id or ReplicaId(0),
        meta=meta,
        election=election,
        log_start=log_start,
        log_end=log_end,
        checkpoint=found.checkpoint if log_start > 0 else None,
        summary=summary,
        problems=tuple(problems),
        log_copy=copy,
    )


def read_to_recover(folder: Path, node_id: ReplicaId | None) -> Survivor:
    """Read a folder as `read` does, with the copy in a work folder in it."""
    _undo_interrupted(folder)
    if folder.is_dir():
        make_folder(folder / WORK)
    return read(folder, node_id, folder / WORK / LOG_FOLDER)


def remove_copy(folder: Path) -> None:
    """Remove the work folder of a recovery, if there is one."""
    shutil.rmtree(folder / WORK, ignore_errors=True)


def _undo_interrupted(folder: Path) -> None:
    """Put the log back that a recovery moved away before it was interrupted."""
    remove_copy(folder)
    if (folder / LOG_FOLDER).exists() or not folder.is_dir():
        return
    aside = sorted(folder.glob(f"{LOG_FOLDER}{ASIDE}*"))
    if aside:
        aside[-1].rename(folder / LOG_FOLDER)


def _meta_of(folder: Path, problems: list[str]) -> MetaProperties | None:
    try:
        meta = meta_properties.look(folder)
    except FileDamaged as error:
        problems.append(f"{error.path}: {error.reason}")
        return None
    if meta is None:
        problems.append(f"{folder / meta_properties.FILE_NAME} is missing")
    return meta


def _election_of(log_folder: Path, problems: list[str]) -> ElectionState | None:
    file = QuorumStateFile(log_folder)
    if not file.path.exists():
        problems.append("quorum-state is missing")
        return None
    try:
        return file.read()
    except FileDamaged as error:
        problems.append(f"quorum-state: {error.reason}")
        return None


@contextmanager
def _opened_log(folder: Path, copy: Path, problems: list[str]) -> Iterator[SegmentedLog]:
    """Open the copy of a log; one that is damaged ends where the damage begins."""
    try:
        log = SegmentedLog(copy, check_all=True)
    except LogDamaged as error:
        problems.append(
            f"{folder / LOG_FOLDER / error.file.name} is damaged at byte {error.position}: "
            f"{error.reason}; what follows on offset {error.offset} is lost with it"
        )
        log = SegmentedLog(copy, check_all=True, synced=False)
    try:
        yield log
    finally:
        log.close()
        (copy / LOCK_NAME).unlink(missing_ok=True)


def _basis(folder: Path, copy: Path, log: SegmentedLog) -> Basis:
    found = basis(copy, log)
    if found.is_apart and found.checkpoint is not None:
        # A snapshot had been received, and was about to replace the log.
        log.begin_anew(found.checkpoint.id.offset)
        while log.remove_obsolete():
            pass
    for id_, _ in found.damaged:
        # The log covers it; a copy of it would be set aside at the next start.
        next(copy.glob(f"{id_.offset:020}-{id_.epoch:010}.checkpoint")).unlink()
    return found


def _summary_of(log: SegmentedLog, checkpoint: Checkpoint | None) -> LogSummary:
    """Read the facts of a whole log; raises `ValueError` for a record that cannot be read."""
    summary = LogSummary()
    if checkpoint is not None:
        summary.take_data(checkpoint.records())
        facts = CheckpointFacts(
            checkpoint.last_timestamp_ms,
            checkpoint.kraft_version,
            checkpoint.voters,
            checkpoint.has_checksum,
        )
        summary.take_checkpoint(checkpoint.id, facts)
    while summary.end.offset < log.end.offset:
        stream = BatchStream(base=summary.end.offset, epoch_min=0)
        for batch in stream.feed(log.read(summary.end.offset, log.end.offset, FETCH_BYTES_MAX)):
            summary.take(batch)
    return summary
