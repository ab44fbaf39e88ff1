"""The persistent state of a replica: identity, election, log and snapshots of its folder.

Loading repairs what a crash left (`quorum.log.recovery`). It refuses a folder of another node, and
one whose parts do not belong together.
"""

import logging
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from quorum.core.limits import SEGMENT_BYTES_MAX, Bounds, Timeouts
from quorum.core.raft_log import LeaderEpochCache, RaftLog
from quorum.core.vocabulary import (
    ElectionState,
    HostPort,
    Offset,
    OffsetAndEpoch,
    ReplicaId,
    ReplicaKey,
)
from quorum.core.voter_set import VoterAssignment, VoterSetHistory
from quorum.log import meta_properties, quorum_state
from quorum.log.checkpoint import (
    Checkpoint,
    checkpoint_id,
    checkpoints,
    formatted_for,
    read_checkpoint,
)
from quorum.log.errors import NEW_DIRECTORY, FileDamaged
from quorum.log.filesystem import OS, FileSystem, opened, sync_file, sync_folder, usable
from quorum.log.meta_properties import load_or_create
from quorum.log.quorum_state import QuorumStateFile
from quorum.log.segment import Segment
from quorum.log.segment_reader import StoredBatch
from quorum.log.segmented_log import SegmentedLog
from quorum.log.snapshot_store import FileSnapshotStore
from quorum.log_events import LogEvent
from quorum.ports import Clock, StateMachine
from quorum.protocol.raft_types import METADATA_PARTITION, METADATA_TOPIC
from quorum.records.batch import CorruptBatch
from quorum.records.control import BadControlRecord, assignment_in
from quorum.records.decode import UnsupportedCodec
from quorum.snapshotting import SnapshotLimits
from quorum.transport.security.protocols import PLAIN_CLIENT, ClientSecurity

logger = logging.getLogger("quorum")

LOG_FOLDER: Final = f"{METADATA_TOPIC}-{METADATA_PARTITION}"

LISTENER_NAME: Final = "CONTROLLER"

_LOST_VOTE_REMEDY: Final = f"A vote may be lost with it. The way back: {NEW_DIRECTORY}"

_STRANGE_RECORD_REMEDY: Final = "Start the version of the program that wrote it"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumConfig:
    """The configuration of a replica; the rest is in its folder."""

    node_id: ReplicaId
    cluster_id: str | None = None
    """None takes the id of the folder or of other nodes; else the first leader makes one."""
    folder: Path
    voters: Mapping[ReplicaId, HostPort | None]
    """The voters for a log that does not record any, with their addresses if known. A node that is
    not among them is an observer."""
    advertised: HostPort | None = None
    """The advertised address of this node; None for that in `voters`, if any."""
    bootstrap: Sequence[HostPort] = ()
    """The servers to ask first for the addresses (`bootstrap.servers`); voters or not."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    bounds: Bounds = field(default_factory=Bounds)
    segment_bytes: int = SEGMENT_BYTES_MAX
    listener_name: str = LISTENER_NAME
    """The name of the listener of the voters' addresses."""
    snapshots: SnapshotLimits = field(default_factory=SnapshotLimits)
    kraft_version: int = 1
    """From 1 on, a log that begins here records its voters, so they can be changed (KIP-853)."""
    security: ClientSecurity = PLAIN_CLIENT
    """The security of connections to the other nodes of the quorum."""

    @property
    def place(self) -> HostPort | None:
        """The address of this node; None if it has none."""
        return self.advertised or self.voters.get(self.node_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentState:
    """The persistent state of a replica; its owner closes the log."""

    key: ReplicaKey
    log: SegmentedLog
    view: RaftLog
    elections: QuorumStateFile
    election: ElectionState
    checkpoint: Checkpoint | None
    """The snapshot that the log continues; None without one."""
    store: FileSnapshotStore
    founding: Checkpoint | None = None
    """The first records of an empty log, if Kafka's tool has formatted the folder."""

    @property
    def has_log(self) -> bool:
        """True if the log has records."""
        return self.view.end.offset > 0

    def tell(self, state_machine: StateMachine) -> None:
        """Load the checkpoint, if there is one, into the state machine. Raises `StorageError`."""
        if self.checkpoint is None:
            return
        id_ = self.checkpoint.id
        try:
            state_machine.load_snapshot(self.checkpoint.records(), id_.offset, id_.epoch)
        except ValueError as error:
            reason = f"a record in it cannot be read: {error}"
            raise FileDamaged(self.checkpoint.path, reason, _STRANGE_RECORD_REMEDY) from error


def load_persistent_state(
    config: QuorumConfig,
    *,
    rng: random.Random,
    wall_clock: Clock | None = None,
    fs: FileSystem = OS,
) -> PersistentState:
    """Load the identity, log and election of this replica, and check that they belong together.

    A new folder gets an identity from `rng`. With `wall_clock` the log stores the time of every
    append. Raises `StorageError`.
    """
    folder = config.folder / LOG_FOLDER
    check_whole(config.folder, folder, fs=fs)
    meta = load_or_create(config.folder, config.cluster_id, config.node_id, rng=rng, fs=fs)
    assigned = _Assigned()
    log = SegmentedLog(
        folder,
        segment_bytes_max=config.segment_bytes,
        check_all=True,
        on_control=assigned.take,
        wall_clock=wall_clock,
        fs=fs,
    )
    if log.cut is not None:
        logger.warning("%s; %s", log, log.cut, extra=LogEvent.LOG_CUT.extra)
    elections = QuorumStateFile(folder, cluster_id=meta.cluster_id, fs=fs)
    try:
        begin_log(folder, fs=fs)
        election = elections.read()
        store = FileSnapshotStore(folder, fs)
        checkpoint = _begin(log, store, folder, fs)
        snapshots = store.snapshots
        view = RaftLog(
            log.start,
            log.end.offset,
            log.epochs,
            epoch_before=snapshots[0].id.epoch if log.start > 0 else None,
            assignments=assigned.since(checkpoint, log.end.offset),
            snapshots=snapshots,
        )
        if election.epoch < view.end.epoch:
            reason = (
                f"its epoch is {election.epoch}, but the log beside it has records of epoch "
                f"{view.end.epoch}: the file is missing, or an older copy was put back"
            )
            raise FileDamaged(elections.path, reason, _LOST_VOTE_REMEDY)
        founding = formatted_for(folder, fs) if view.end.offset == 0 else None
        if founding is not None and founding.voters is not None:
            logger.info(
                "%s: a new log with voters %s",
                founding.path,
                founding.voters.current.text,
                extra=LogEvent.CLUSTER_FOUNDED.extra,
            )
    except BaseException:
        log.close()
        raise
    return PersistentState(
        key=ReplicaKey(config.node_id, meta.directory_id),
        log=log,
        view=view,
        elections=elections,
        election=election,
        checkpoint=checkpoint,
        store=store,
        founding=founding,
    )


def _begin(
    log: SegmentedLog, store: FileSnapshotStore, folder: Path, fs: FileSystem
) -> Checkpoint | None:
    """Return the checkpoint to start from, and let the log begin at the end of the oldest one."""
    if store.partial is not None and contains(log, store.partial[0]):
        # The log got the records themselves from another leader.
        store.forget_partial()
    found = basis(folder, log, fs)
    for id_, problem in found.damaged:
        aside = store.set_aside(id_)
        logger.warning(
            "%s: %s. Nothing is lost: an older checkpoint and the log replace it. It is kept as "
            "%s; check the disk",
            problem.path,
            problem.reason,
            aside.name,
            extra=LogEvent.SNAPSHOT_DAMAGED.extra,
        )
    checkpoint = found.checkpoint
    if checkpoint is None:
        return None
    if found.is_apart:
        # A crash interrupted the installation between its two steps.
        logger.warning(
            "The log continues %s, a snapshot just received",
            checkpoint.path,
            extra=LogEvent.SNAPSHOT_INSTALLED.extra,
        )
        log.begin_anew(checkpoint.id.offset)
        while log.remove_obsolete():
            pass
    for id_ in [each.id for each in store.snapshots]:
        if id_.offset < log.start or not contains(log, id_):
            store.forget(id_)
            while store.remove(id_):
                pass
    if log.start > 0:
        log.advance_start(store.snapshots[0].id.offset)
    return checkpoint


class _Assigned:
    """Collects the voter assignments in the log during recovery."""

    def __init__(self) -> None:
        self._found: list[tuple[Offset, VoterAssignment]] = []

    def take(self, path: Path, batch: StoredBatch) -> None:
        """Read one control batch of the segment at `path`; raises `FileDamaged`."""
        try:
            assignment = assignment_in(batch.data)
        except (BadControlRecord, CorruptBatch, UnsupportedCodec) as error:
            where = f"the control batch at byte {batch.position}, offset {batch.header.base_offset}"
            raise FileDamaged(path, f"{where}: {error}", _STRANGE_RECORD_REMEDY) from error
        if assignment is not None:
            self._found.append((Offset(batch.header.end_offset), assignment))

    def since(self, checkpoint: Checkpoint | None, log_end: Offset) -> VoterSetHistory:
        """Return the assignments of the log up to `log_end`, after those of the checkpoint."""
        if checkpoint is None:
            return VoterSetHistory(self._found)
        later = ((end, each) for end, each in self._found if checkpoint.id.offset < end <= log_end)
        return VoterSetHistory(later, base=checkpoint.voters)


_SEGMENT_SUFFIX: Final = ".log"
_LOST: Final = f"Votes and records are lost with it. Put it back; if it is lost: {NEW_DIRECTORY}"


def check_whole(folder: Path, log_folder: Path, *, fs: FileSystem = OS) -> None:
    """Refuse a folder that has a log but no identity, or that was used but has no log.

    Raises `FileDamaged`, `FolderUnusable`.
    """
    identity = folder / meta_properties.FILE_NAME
    with usable(folder):
        has_log_folder = fs.is_folder(log_folder)
        kept = fs.names(log_folder) if has_log_folder else []
        is_named = fs.exists(identity)
        is_used = fs.exists(folder / meta_properties.BOOT_FILE_NAME)
    if is_used and not has_log_folder:
        raise FileDamaged(
            log_folder,
            "it is missing, but a node has run in the folder above it",
            _LOST,
        )
    if (is_used or quorum_state.FILE_NAME in kept) and not any(map(_is_a_beginning, kept)):
        raise FileDamaged(
            log_folder / f"*{_SEGMENT_SUFFIX}",
            "there is no such file, but a node has run here",
            _LOST,
        )
    if not is_named and any(
        name == quorum_state.FILE_NAME or name.endswith(_SEGMENT_SUFFIX) for name in kept
    ):
        raise FileDamaged(
            identity,
            f"it is missing, but there is a log in {log_folder}, whose owner is then unknown",
            f"Put it back; if it is lost: {NEW_DIRECTORY}",
        )


def begin_log(log_folder: Path, *, fs: FileSystem = OS) -> None:
    """Create the first segment of an empty log, durably, before this node promises anything.

    So a log without segments is a lost one. Raises `FolderUnusable`.
    """
    with usable(log_folder):
        if any(map(_is_a_beginning, fs.names(log_folder))):
            return
        with opened(Segment(log_folder, Offset(0)).path, os.O_WRONLY | os.O_CREAT, fs) as fd:
            sync_file(fd, fs)
        sync_folder(log_folder, fs)


def _is_a_beginning(name: str) -> bool:
    """Return True for a segment or a checkpoint: during the installation of a snapshot there may be
    no segment. The checkpoint at offset 0, which formats a folder, holds no log."""
    id_ = checkpoint_id(name)
    return name.endswith(_SEGMENT_SUFFIX) or (id_ is not None and id_.offset > 0)


_REMEDY: Final = f"The way back: {NEW_DIRECTORY}"


@dataclass(frozen=True, slots=True)
class Basis:
    """The checkpoint to start from, and the errors of damaged newer ones."""

    checkpoint: Checkpoint | None
    damaged: tuple[tuple[OffsetAndEpoch, FileDamaged], ...] = ()
    is_apart: bool = False
    """True if the log does not contain its end: the log was being replaced."""


def basis(folder: Path, log: SegmentedLog, fs: FileSystem = OS) -> Basis:
    """Return the checkpoint that the log begins with. Raises `FileDamaged` if one is missing."""
    damaged: list[tuple[OffsetAndEpoch, FileDamaged]] = []
    for id_, path in checkpoints(folder, fs):
        if id_.offset < log.start:
            break
        is_apart = not contains(log, id_)
        try:
            return Basis(read_checkpoint(path, fs), tuple(damaged), is_apart)
        except FileDamaged as error:
            if is_apart:
                # The log that it was to replace may be partly removed; that cannot be told.
                raise
            damaged.append((id_, error))
    if log.start == 0:
        return Basis(None, tuple(damaged))
    reason = f"the log begins at offset {log.start}, and no checkpoint has the records before it"
    raise FileDamaged(folder, "; ".join([reason, *(str(error) for _, error in damaged)]), _REMEDY)


def contains(log: SegmentedLog, id_: OffsetAndEpoch) -> bool:
    """Return True if the last record below the id's offset is in the log and has the id's epoch.

    Records before the log start are gone; an offset there counts as contained.
    """
    if id_.offset > log.end.offset:
        return False
    if id_.offset <= log.start:
        return True
    return LeaderEpochCache(log.epochs).epoch_at(Offset(id_.offset - 1)) == id_.epoch
