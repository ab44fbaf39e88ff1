"""The folders that are left, as they are read for a recovery: copied first, and then the copies.

A file of state that is missing or damaged does not make a folder useless here, as it does for a
node at its start: no vote counts any more once every voter that is left begins a new epoch. Nor
does a damaged log: it is taken up to the damage.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import Final

from admin.backup.log_summary import LogSummary
from admin.tools.founding import COPIED_BYTES, FolderBusy, copy_log, failures_of_disk, locked_folder
from quorum.core.limits import FETCH_BYTES_MAX
from quorum.core.vocabulary import ElectionState, Epoch, Offset, OffsetAndEpoch, ReplicaId
from quorum.log import meta_properties, quorum_state
from quorum.log.checkpoint import Checkpoint, CheckpointFacts, checkpoints, read_checkpoint
from quorum.log.errors import FileDamaged, LogDamaged, StorageError
from quorum.log.filesystem import LOCK_NAME, make_folder, opened, sync_folder
from quorum.log.meta_properties import MetaProperties
from quorum.log.quorum_state import QuorumStateFile
from quorum.log.recovery import Cut
from quorum.log.segment import Segment, segment_base
from quorum.log.segment_reader import ScannedFile, next_sound_batch
from quorum.log.segmented_log import SegmentedLog
from quorum.persistent_state import LOG_FOLDER, Basis, basis
from quorum.records.batch import HEADER_BYTES, header_at
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
    cluster_id: str | None
    """The cluster id, which its files agree on; None if none has it."""
    election: ElectionState | None
    """None if it is missing or damaged."""
    log_start: Offset
    log_end: OffsetAndEpoch
    """With the epoch of the checkpoint if the log holds no batch."""
    checkpoint: Checkpoint | None
    """The checkpoint that the log continues; None if it begins at 0."""
    summary: LogSummary
    problems: tuple[str, ...]
    """What is wrong with the identity and the election state."""
    damage: tuple[str, ...]
    """The damage of the log, and what it costs."""
    cut: str | None
    """The end of the log that was not whole, and is left out; None if it was."""
    log_copy: Path
    """Our copy of the log."""

    @property
    def is_sound(self) -> bool:
        """True if a node could start in the folder."""
        return not self.problems and not self.damage

    @property
    def missing(self) -> tuple[str, ...]:
        """The parts of the log that are not in the copy, a sentence each."""
        return self.damage if self.cut is None else (*self.damage, self.cut)

    @property
    def epoch(self) -> Epoch:
        """The highest epoch in the folder."""
        elected = Epoch(0) if self.election is None else self.election.epoch
        return max(elected, self.log_end.epoch)


def read(folder: Path, node_id: ReplicaId | None, copy: Path, *, needs_id: bool = True) -> Survivor:
    """Copy the log of a folder to `copy`, whose parent exists, and read the copy.

    `node_id` is that of a folder whose meta.properties is lost; unless the caller `needs_id`, it
    is 0 then. Raises `RecoverError`, `StorageError` or `OSError`.
    """
    problems: list[str] = []
    damage: list[str] = []
    if not (folder / LOG_FOLDER).is_dir():
        raise _no_log(folder)
    meta = _meta_of(folder, problems)
    if meta is None and node_id is None and needs_id:
        raise RecoverError(
            f"{problems[-1]}: write the id of the node before the folder, as 1={folder}"
        )
    if meta is not None and node_id not in (None, meta.node_id):
        raise RecoverError(f"{folder} is the folder of node {meta.node_id}, not of node {node_id}")
    election, elected_in = _election_of(folder / LOG_FOLDER, problems)
    make_folder(copy)
    copy_log(folder / LOG_FOLDER, copy)
    try:
        with failures_of_disk(copy), _opened_log(folder, copy, damage) as (log, cut):
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
        cluster_id=_cluster_id(
            folder,
            {
                meta_properties.FILE_NAME: None if meta is None else meta.cluster_id,
                quorum_state.FILE_NAME: elected_in,
                "the log": summary.cluster_id,
            },
        ),
        election=election,
        log_start=log_start,
        log_end=log_end,
        checkpoint=found.checkpoint if log_start > 0 else None,
        summary=summary,
        problems=tuple(problems),
        damage=tuple(damage),
        cut=None if cut is None else _cut_off(folder, cut),
        log_copy=copy,
    )


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a folder for a recovery, so that no controller and no other recovery uses it meanwhile.

    The log that an interrupted recovery has moved away is put back first: the lock of a controller
    is in it. Raises `FolderBusy` or `RecoverError`.
    """
    if not folder.is_dir():
        raise _no_log(folder)
    with opened(folder, os.O_RDONLY | os.O_DIRECTORY) as fd:
        try:
            flock(fd, LOCK_EX | LOCK_NB)
        except OSError as error:
            raise FolderBusy(
                f"another recovery uses {folder}: let it end first, and name each folder once"
            ) from error
        _undo_interrupted(folder)
        with locked_folder(folder, is_changed=True):
            try:
                yield
            finally:
                remove_copy(folder)


def _no_log(folder: Path) -> RecoverError:
    return RecoverError(
        f"{folder} has no {LOG_FOLDER}: name the folder that log.dir of a node names"
    )


def read_to_recover(folder: Path, node_id: ReplicaId | None) -> Survivor:
    """Read a folder, which is `held`, as `read` does, with the copy in a work folder in it."""
    make_folder(folder / WORK)
    return read(folder, node_id, folder / WORK / LOG_FOLDER)


def remove_copy(folder: Path) -> None:
    """Remove the work folder of a recovery, if there is one."""
    shutil.rmtree(folder / WORK, ignore_errors=True)


def _undo_interrupted(folder: Path) -> None:
    """Put the log back that a recovery moved away before it was interrupted.

    Its work folder is there then: what an earlier recovery has left beside a log is too old.
    """
    log = folder / LOG_FOLDER
    if (folder / WORK / LOG_FOLDER).is_dir() and not log.exists():
        aside = sorted(folder.glob(f"{LOG_FOLDER}{ASIDE}*"))
        if aside:
            aside[-1].rename(log)
            sync_folder(folder)
    remove_copy(folder)


def _meta_of(folder: Path, problems: list[str]) -> MetaProperties | None:
    try:
        meta = meta_properties.look(folder)
    except FileDamaged as error:
        problems.append(f"{error.path}: {error.reason}")
        return None
    if meta is None:
        problems.append(f"{folder / meta_properties.FILE_NAME} is missing")
    return meta


def _cluster_id(folder: Path, found: Mapping[str, str | None]) -> str | None:
    """The cluster id of a folder, from those in its files; raises `RecoverError` if they differ."""
    known = {name: id_ for name, id_ in found.items() if id_ is not None}
    if len({*known.values()}) > 1:
        raise RecoverError(
            f"the files in {folder} are of different clusters: "
            + ", ".join(f"{name} of {id_}" for name, id_ in known.items())
            + ". Put its own files back, or leave this folder out"
        )
    return next(iter(known.values()), None)


def _election_of(log_folder: Path, problems: list[str]) -> tuple[ElectionState | None, str | None]:
    """The election state, and the cluster id in its file."""
    file = QuorumStateFile(log_folder)
    if not file.path.exists():
        problems.append("quorum-state is missing")
        return None, None
    try:
        return file.read(), file.cluster_id
    except FileDamaged as error:
        problems.append(f"quorum-state: {error.reason}")
        return None, None


@contextmanager
def _opened_log(
    folder: Path, copy: Path, damage: list[str]
) -> Iterator[tuple[SegmentedLog, Cut | None]]:
    """Open the copy of a log; yield it with the cut of an end that was not whole.

    One that is damaged begins behind the damage if a checkpoint has what was there, and ends at it
    otherwise.
    """
    whole = _opened_whole(folder, copy, damage)
    log = SegmentedLog(copy, check_all=True, synced=False) if whole is None else whole
    try:
        yield log, None if whole is None else whole.cut
    finally:
        log.close()
        (copy / LOCK_NAME).unlink(missing_ok=True)


def _opened_whole(folder: Path, copy: Path, damage: list[str]) -> SegmentedLog | None:
    """Open the copy of a log, without damage that a checkpoint makes up for; None for other."""
    while True:
        try:
            return SegmentedLog(copy, check_all=True)
        except LogDamaged as error:
            checkpoint = _checkpoint_behind(copy, error.offset)
            cost = f"what follows on offset {error.offset} is lost with it"
            if checkpoint is not None:
                cost = f"the checkpoint of offset {checkpoint.offset} has what was there"
                if not _begin_behind(copy, error, checkpoint):
                    cost += ", and what follows on that is lost"
            damage.append(
                f"{folder / LOG_FOLDER / error.file.name} is damaged at byte {error.position}: "
                f"{error.reason}; {cost}"
            )
            if checkpoint is None:
                return None


def _checkpoint_behind(copy: Path, offset: Offset) -> OffsetAndEpoch | None:
    """The newest sound checkpoint that reaches beyond the offset, or None."""
    for id_, path in checkpoints(copy):
        if id_.offset <= offset:
            break
        with suppress(FileDamaged):
            return read_checkpoint(path).id
    return None


def _begin_behind(copy: Path, damaged: LogDamaged, checkpoint: OffsetAndEpoch) -> bool:
    """Let the log begin at the checkpoint, or before it but behind the damage.

    Return False if the batch that follows on the checkpoint is not found.
    """
    bases = sorted(base for each in copy.iterdir() if (base := segment_base(each.name)) is not None)
    within = max(base for base in bases if base <= checkpoint.offset)
    if bases[0] < within:
        for base in bases:
            if base < within:
                Segment(copy, base).path.unlink()
        return True
    with (
        damaged.file.open("rb") as source,
        Segment(copy, checkpoint.offset).path.open("xb") as target,
    ):
        file = ScannedFile(source.fileno())
        position = next_sound_batch(
            file, damaged.position, base_min=checkpoint.offset, epoch_min=checkpoint.epoch
        )
        if position is not None:
            header = header_at(file.at(position, HEADER_BYTES))
            position = position if header.base_offset == checkpoint.offset else None
        if position is not None:
            source.seek(position)
            shutil.copyfileobj(source, target, COPIED_BYTES)
        # The log is opened next, which syncs its last segment alone.
        target.flush()
        os.fsync(target.fileno())
    damaged.file.unlink()
    sync_folder(copy)
    return position is not None


def _cut_off(folder: Path, cut: Cut) -> str:
    return (
        f"the end of {folder / LOG_FOLDER / cut.file.name} is not whole, as after a crash: "
        f"{cut.bytes_cut} bytes from offset {cut.offset} on are left out ({cut.reason})"
    )


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
