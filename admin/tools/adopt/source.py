"""One folder of a stopped controller: copied, and the copy read; the folder itself is left alone.

A source holds `meta.properties` and the folder of the metadata log, as Kafka lays them out. Only
what a controller of ours needs is copied. Recovery, which may cut what a crash left half-written,
works on the copy.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorum.core.vocabulary import ElectionState, Offset, OffsetAndEpoch
from quorum.log import meta_properties, quorum_state
from quorum.log.checkpoint import Checkpoint, checkpoint_id, checkpoints, foundation
from quorum.log.errors import LogDamaged, StorageError
from quorum.log.filesystem import LOCK_NAME, opened, sync_folder
from quorum.log.meta_properties import MetaProperties
from quorum.log.quorum_state import QuorumStateFile
from quorum.log.recovery import Cut
from quorum.log.segment import segment_base
from quorum.log.segmented_log import SegmentedLog
from quorum.persistent_state import LOG_FOLDER

_COPIED_BYTES: Final = 1024 * 1024
_FOLDER_FILES: Final = frozenset({"partition.metadata", quorum_state.FILE_NAME})


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The contents of one folder."""

    folder: Path
    copy: Path
    """Our copy of it, of the same layout."""
    meta: MetaProperties
    election: ElectionState
    log_start: Offset
    log_end: OffsetAndEpoch
    """With the epoch of the checkpoint, where the log holds no batch."""
    checkpoint: Checkpoint | None
    """What the log goes on from; None if it begins at 0."""
    checkpoint_ids: tuple[OffsetAndEpoch, ...]
    """Of every checkpoint beside the log, the newest first."""
    cut: Cut | None
    """What was left half-written at the end of the log; the copy is without it."""
    passed_over: tuple[str, ...]
    """What is wrong with checkpoints that are newer than the one used."""

    @property
    def node_id(self) -> int:
        """The id of the controller that used the folder."""
        return self.meta.node_id

    @property
    def log_folder(self) -> Path:
        """Our copy of the log."""
        return self.copy / LOG_FOLDER


def take(folder: Path, copy: Path) -> Source:
    """Copy the folder of a stopped controller to `copy` and read it; raises `AdoptError`."""
    try:
        meta = _meta_of(folder)
        with _at_rest(folder):
            _copy_folder(folder, copy)
        return _read(folder, copy, meta)
    except LogDamaged as error:
        where = folder / LOG_FOLDER / error.file.name
        raise AdoptError(
            f"{where} is damaged at byte {error.position}, offset {error.offset}: "
            f"{error.reason}; leave the folder out, if the others are a majority of the voters"
        ) from error
    except StorageError as error:
        raise AdoptError(str(error).replace(str(copy), str(folder))) from error
    except OSError as error:
        raise AdoptError(f"{folder} cannot be copied: {error.strerror or error}") from error


def _meta_of(folder: Path) -> MetaProperties:
    meta = meta_properties.look(folder)
    if meta is None:
        raise AdoptError(
            f"{folder} has no {meta_properties.FILE_NAME}: name the folder that the setting "
            "metadata.log.dir or log.dirs of the controller names"
        )
    if meta.cluster_id is None:
        raise AdoptError(f"{folder / meta_properties.FILE_NAME} has no cluster.id")
    if not (folder / LOG_FOLDER).is_dir():
        raise AdoptError(f"{folder} has no {LOG_FOLDER}: it is not the folder of a controller")
    return meta


@contextmanager
def _at_rest(folder: Path) -> Iterator[None]:
    """Raise `AdoptError` where another process has the folder, or changes it meanwhile."""
    path = folder / LOCK_NAME
    before = _state_of(folder)
    if path.exists():
        with opened(path, os.O_RDONLY) as fd:
            # Java's lock of a file, in the kind that a reader may ask for.
            try:
                fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError as error:
                raise AdoptError(
                    f"{path} is locked: a process uses {folder}; stop the controller first"
                ) from error
    yield
    if _state_of(folder) != before:
        raise AdoptError(f"{folder} has changed while it was copied; stop the controller first")


def _state_of(folder: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of every file that is copied."""
    return [(str(path), *_size_and_time(path)) for path in _files(folder)]


def _size_and_time(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _files(folder: Path) -> list[Path]:
    log = folder / LOG_FOLDER
    found = [path for path in sorted(log.iterdir()) if _is_copied(path.name)]
    return [folder / meta_properties.FILE_NAME, *found]


def _is_copied(name: str) -> bool:
    is_log = segment_base(name) is not None or checkpoint_id(name) is not None
    return is_log or name in _FOLDER_FILES


def _copy_folder(folder: Path, copy: Path) -> None:
    (copy / LOG_FOLDER).mkdir(parents=True)
    for path in _files(folder):
        copy_file(path, copy / path.relative_to(folder))
    for each in (copy / LOG_FOLDER, copy, copy.parent):
        sync_folder(each)


def copy_file(source: Path, target: Path) -> None:
    """Copy what a file holds, and nothing else of it; durable but for its name."""
    with source.open("rb") as reading, target.open("xb") as writing:
        shutil.copyfileobj(reading, writing, _COPIED_BYTES)
        writing.flush()
        os.fsync(writing.fileno())


def _read(folder: Path, copy: Path, meta: MetaProperties) -> Source:
    log_folder = copy / LOG_FOLDER
    if not (log_folder / quorum_state.FILE_NAME).exists():
        raise AdoptError(
            f"{folder / LOG_FOLDER} has no {quorum_state.FILE_NAME}: how this controller voted is "
            "not known; leave the folder out, if the others are a majority of the voters"
        )
    election = QuorumStateFile(log_folder, cluster_id=meta.cluster_id).read()
    log = SegmentedLog(log_folder, check_all=True)
    try:
        checkpoint, passed_over = foundation(log_folder, start=log.start, end=log.end.offset)
    finally:
        log.close()
    (log_folder / LOCK_NAME).unlink()
    log_end = log.end
    if log_end.offset == log.start and checkpoint is not None:
        log_end = OffsetAndEpoch(checkpoint.id.epoch, log_end.offset)
    if election.epoch < log_end.epoch:
        raise AdoptError(
            f"{folder / LOG_FOLDER / quorum_state.FILE_NAME} is of epoch {election.epoch}, the "
            f"log beside it has records of epoch {log_end.epoch}: an older one was put back, and "
            "how this controller voted is not known; leave the folder out"
        )
    return Source(
        folder=folder,
        copy=copy,
        meta=meta,
        election=election,
        log_start=log.start,
        log_end=log_end,
        checkpoint=checkpoint,
        checkpoint_ids=tuple(id_ for id_, _ in checkpoints(log_folder)),
        cut=log.recovery.cut,
        passed_over=tuple(each.replace(str(copy), str(folder)) for each in passed_over),
    )


class AdoptError(Exception):
    """One sentence, or one for each thing that is wrong: what, and what would be right."""
