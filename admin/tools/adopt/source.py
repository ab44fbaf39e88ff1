"""One folder of a stopped controller: copied, and the copy read; the folder is never changed.

A source holds `meta.properties` and the folder of the metadata log, as Kafka lays them out. Only
the files that our controllers need are copied. Recovery, which may cut an incomplete last
batch, works on the copy. The history of a log is its state at the end: unknown records and
unsupported facts are never dropped silently, but refused by name.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from admin.tools.founding import FolderBusy, copy_file, is_log, locked_folder
from quorum.core.limits import FETCH_BYTES_MAX
from quorum.core.vocabulary import ElectionState, Offset, OffsetAndEpoch
from quorum.core.voter_set import VoterAssignment
from quorum.log import meta_properties, quorum_state
from quorum.log.checkpoint import Checkpoint, checkpoints
from quorum.log.errors import FileDamaged, LogDamaged, StorageError
from quorum.log.filesystem import LOCK_NAME, sync_folder
from quorum.log.meta_properties import MetaProperties
from quorum.log.quorum_state import QuorumStateFile
from quorum.log.recovery import Cut
from quorum.log.segmented_log import SegmentedLog
from quorum.persistent_state import LOG_FOLDER, basis
from quorum.records.control import (
    BadControlRecord,
    ControlType,
    control_name,
    control_type,
    decode_kraft_version,
    decode_voters,
)
from quorum.records.decode import Record, decode
from statemachine.features.features import (
    KRAFT_VERSION,
    RECORDS_CHANGED_AT,
    unsupported_level,
)
from statemachine.image.image import Image
from statemachine.image.snapshot import load
from statemachine.limits import METADATA_VERSION_MIN
from statemachine.records import codec
from statemachine.records.codec import frame_of
from statemachine.records.field_names import TYPE_NAMES
from statemachine.records.primitives import MalformedRecord
from statemachine.replay import replay
from statemachine.vocabulary import METADATA_VERSION

_OTHERS: Final = frozenset({"partition.metadata", quorum_state.FILE_NAME})


class AdoptError(Exception):
    """One sentence, or one for each thing that is wrong: what, and what would be right."""


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
    """With the epoch of the checkpoint if the log holds no batch."""
    checkpoint: Checkpoint | None
    """The checkpoint that the log continues; None if it begins at 0."""
    checkpoint_ids: tuple[OffsetAndEpoch, ...]
    """Of every checkpoint beside the log, the newest first."""
    cut: Cut | None
    """The half-written end of the log, which the copy lacks."""
    passed_over: tuple[str, ...]
    """The errors of checkpoints newer than the one used."""

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
    """Hold the locks of a controller on the folder, so that none starts while it is copied.

    Raises `AdoptError` if another process holds one, or changes the folder meanwhile.
    """
    before = _state_of(folder)
    try:
        with locked_folder(folder):
            yield
    except FolderBusy as error:
        raise AdoptError(str(error)) from error
    if _state_of(folder) != before:
        raise AdoptError(f"{folder} has changed while it was copied; stop the controller first")


def _state_of(folder: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of every file that is copied."""
    found = [(path, path.stat()) for path in _files(folder)]
    return [(str(path), stat.st_size, stat.st_mtime_ns) for path, stat in found]


def _files(folder: Path) -> list[Path]:
    log = folder / LOG_FOLDER
    found = [each for each in sorted(log.iterdir()) if is_log(each.name) or each.name in _OTHERS]
    return [folder / meta_properties.FILE_NAME, *found]


def _copy_folder(folder: Path, copy: Path) -> None:
    (copy / LOG_FOLDER).mkdir(mode=0o700, parents=True)
    for path in _files(folder):
        copy_file(path, copy / path.relative_to(folder))
    for each in (copy / LOG_FOLDER, copy, copy.parent):
        sync_folder(each)


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
        beside = checkpoints(log_folder)
        _check_beside(log, beside)
        found = basis(log_folder, log)
    finally:
        log.close()
    (log_folder / LOCK_NAME).unlink()
    log_end = log.end
    checkpoint = found.checkpoint if log.start > 0 else None
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
        checkpoint_ids=tuple(id_ for id_, _ in beside),
        cut=log.cut,
        passed_over=tuple(
            str(problem).replace(str(copy), str(folder)) for _, problem in found.damaged
        ),
    )


def _check_beside(log: SegmentedLog, beside: Sequence[tuple[OffsetAndEpoch, Path]]) -> None:
    """Raise `FileDamaged` if the newest checkpoint reaches beyond the log."""
    end = log.end.offset
    if beside and beside[0][0].offset > end:
        id_, path = beside[0]
        reason = f"it ends at offset {id_.offset}, but the log beside it ends at {end} already"
        raise FileDamaged(path, reason, "Start its controller once, which repairs the log")


_ZK_MIGRATION_UNDER_WAY: Final = frozenset({1, 2})


@dataclass(slots=True)
class History:
    """The contents of one log."""

    image: Image = field(default_factory=Image)
    kraft_version: int = 0
    voters: VoterAssignment | None = None
    """The voters at the end; None if the log does not name them."""
    unknown: dict[int, list[int]] = field(default_factory=dict)
    """Offsets of records of each type that is not known."""


def read_history(folder: Path, checkpoint: Checkpoint | None) -> History:
    """Read the log in `folder`, which must be a copy; raises `AdoptError`."""
    history = History()
    if checkpoint is not None:
        begin_history(history, checkpoint)
    log = SegmentedLog(folder)
    try:
        for record in _records(log, Offset(history.image.end_offset)):
            add_record(history, record)
    finally:
        log.close()
    return history


def begin_history(history: History, checkpoint: Checkpoint) -> None:
    """Begin the history with the contents of a checkpoint; raises `AdoptError`."""
    try:
        end = checkpoint.id.offset
        known = (each for each in checkpoint.records() if _is_known(history, each, end - 1))
        history.image = load(known, end)
    except MalformedRecord as error:
        raise AdoptError(f"{checkpoint.path.name}: a record cannot be read: {error}") from error
    history.kraft_version = checkpoint.kraft_version
    history.voters = checkpoint.voters


def _records(log: SegmentedLog, start: Offset) -> Iterator[Record]:
    at = start
    while at < log.end.offset:
        for record in decode(log.read(at, log.end.offset, FETCH_BYTES_MAX)):
            if record.offset >= at:
                yield record
                at = Offset(record.offset + 1)


def add_record(history: History, record: Record) -> None:
    """Add the next record of the log; raises `AdoptError`."""
    if record.control:
        _take_control(history, record)
        history.image.advance(record.offset + 1)
        return
    if record.value is None:
        raise AdoptError(f"the record at offset {record.offset} has no value: it is no metadata")
    try:
        if _is_known(history, record.value, record.offset):
            replay(history.image, codec.decode(record.value), record.offset)
        else:
            history.image.advance(record.offset + 1)
    except MalformedRecord as error:
        raise AdoptError(
            f"the record at offset {record.offset} cannot be read: {error}; a newer version of "
            "this program may know it"
        ) from error


def _take_control(history: History, record: Record) -> None:
    try:
        match control_type(record.key):
            case ControlType.LEADER_CHANGE:
                pass  # Former leaders do not matter.
            case ControlType.KRAFT_VERSION:
                history.kraft_version = decode_kraft_version(record.value)
            case ControlType.KRAFT_VOTERS:
                history.voters = decode_voters(record.value)
            case _:
                name = control_name(record.key)
                raise AdoptError(
                    f"the {name} record at offset {record.offset} has no place in a metadata log"
                )
    except BadControlRecord as error:
        raise AdoptError(f"the control record at offset {record.offset}: {error}") from error


def _is_known(history: History, value: bytes, offset: int) -> bool:
    """Return True for a record of a known type; any other is noted, and reported by `refusals`."""
    type_id = frame_of(value).type_id
    if type_id in TYPE_NAMES:
        return True
    history.unknown.setdefault(type_id, []).append(offset)
    return False


def refusals(history: History) -> list[str]:
    """The unsupported contents of the log, one sentence each."""
    return [
        *_unknown_types(history),
        *unsupported_levels({**history.image.features, KRAFT_VERSION: history.kraft_version}),
        *_zk_migration(history.image),
    ]


def _unknown_types(history: History) -> Iterator[str]:
    for type_id, offsets in sorted(history.unknown.items()):
        yield (
            f"{len(offsets)} records of type {type_id}, which is not known (the first at offset "
            f"{offsets[0]}): what they say would be lost"
        )


def unsupported_levels(levels: Mapping[str, int]) -> Iterator[str]:
    """Yield a sentence for each feature in force that is not known at its level."""
    for name, level in sorted(levels.items()):
        reason = unsupported_level(name, level)
        if reason is not None:
            yield f"{reason}: {_next_step(name, level)}"


def _next_step(name: str, level: int) -> str:
    """The step that makes a cluster at this level fit to be adopted."""
    if name != METADATA_VERSION:
        return (
            "take a release that knows it, or lower the level with kafka-features.sh while Kafka's "
            "controllers run"
        )
    if level < METADATA_VERSION_MIN:
        return (
            "upgrade it with kafka-features.sh while Kafka's controllers run, to "
            f"{METADATA_VERSION_MIN} or above"
        )
    changed = max(RECORDS_CHANGED_AT)
    return (
        f"take a release that supports {level}. Kafka lowers no level below one that changed "
        f"records ({changed} did, so it stays at {changed} or above)"
    )


def _zk_migration(image: Image) -> Iterator[str]:
    state = image.zk_migration_state
    if state in _ZK_MIGRATION_UNDER_WAY:
        yield f"migration from ZooKeeper: state {state}: finish it with Kafka first"
