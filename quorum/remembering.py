"""What the folder of a replica remembers: who it is, its election, its log, its snapshots.

Reading repairs what a crash left (`quorum.log.recovery`), and refuses a folder that is another
node's or whose parts do not belong to the same past. Nothing here runs.
"""

import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from quorum.core.assignments import Assignments
from quorum.core.limits import SEGMENT_BYTES_MAX, Bounds, Timeouts
from quorum.core.log_view import LogView
from quorum.core.vocabulary import Election, Offset, ReplicaId, ReplicaKey, Snapshot
from quorum.core.voters import VoterAssignment, VoterSet
from quorum.log.basis import basis, contains
from quorum.log.checkpoint import Checkpoint, formatted_for
from quorum.log.election_file import ElectionFile
from quorum.log.errors import NEW_DIRECTORY, FileDamaged
from quorum.log.file_reader import StoredBatch
from quorum.log.filesystem import OS, FileSystem
from quorum.log.meta_properties import load_or_create
from quorum.log.segments import SegmentedLog
from quorum.log.snapshot_folder import SnapshotFolder
from quorum.log.wholeness import begin_log, check_whole
from quorum.ports import Clock, StateMachine
from quorum.protocol.raft_messages import METADATA_PARTITION, METADATA_TOPIC, HostPort
from quorum.records.batch import CorruptBatch
from quorum.records.control import BadControlRecord
from quorum.records.decode import UnsupportedCodec
from quorum.records.voters import assignment_in
from quorum.snapshotting import SnapshotLimits

logger = logging.getLogger("quorum")

LOG_FOLDER: Final = f"{METADATA_TOPIC}-{METADATA_PARTITION}"

LISTENER_NAME: Final = "CONTROLLER"

_LOST_VOTE_REMEDY: Final = f"A vote may be lost with it. The way back: {NEW_DIRECTORY}"

_STRANGE_RECORD_REMEDY: Final = "Start the version of the program that wrote it"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumConfig:
    """What a replica must be told; the rest is in its folder."""

    node_id: ReplicaId
    cluster_id: str | None = None
    """None takes the one that the folder names, or the others, or makes one as the first leader."""
    folder: Path
    voters: Mapping[ReplicaId, HostPort | None]
    """Who votes in a log that does not say so, and where each listens, where that is known before.
    A node that is not among them observes."""
    advertised: HostPort | None = None
    """Where this node is to be found; None is where `voters` says, or nowhere."""
    bootstrap: Sequence[HostPort] = ()
    """Servers to ask first who is where (`bootstrap.servers`); they need not be voters."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    bounds: Bounds = field(default_factory=Bounds)
    segment_bytes: int = SEGMENT_BYTES_MAX
    listener_name: str = LISTENER_NAME
    """How the listener is called that the voters' addresses are of."""
    snapshots: SnapshotLimits = field(default_factory=SnapshotLimits)
    kraft_version: int = 1
    """From 1 on, a log that begins here says who votes (KIP-853), and that can be changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What the folder of a replica remembers; whoever has it closes the log."""

    key: ReplicaKey
    cluster_id: str | None = None
    log: SegmentedLog
    view: LogView
    elections: ElectionFile
    election: Election
    checkpoint: Checkpoint | None
    """Where the state begins that the log goes on from; None where there is none."""
    store: SnapshotFolder
    founding: Checkpoint | None = None
    """What an empty log begins with, where Kafka's tool has formatted the folder."""

    @property
    def founders(self) -> VoterSet | None:
        """Who that says are the voters; None where it names nobody."""
        named = None if self.founding is None else self.founding.voters
        return None if named is None else named.current

    def tell(self, state_machine: StateMachine) -> None:
        """Give the checkpoint, if there is one, to the state machine. Raises `StorageError`."""
        if self.checkpoint is None:
            return
        try:
            _load(self.checkpoint, state_machine)
        except BaseException:
            self.log.close()
            raise


def remember(
    config: QuorumConfig,
    *,
    rng: random.Random,
    wall_clock: Clock | None = None,
    fs: FileSystem = OS,
) -> Past:
    """Who this replica is, its log and its election, which must belong to the same past.

    A new folder gets an identity from `rng`. With `wall_clock` the log keeps the time of every
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
    if log.recovery.cut is not None:
        logger.warning("%s", log.recovery)
    elections = ElectionFile(folder, cluster_id=meta.cluster_id, fs=fs)
    try:
        begin_log(folder, fs=fs)
        election = elections.read()
        store = SnapshotFolder(folder, fs)
        checkpoint = _begin(log, store, folder, fs)
        snapshots = tuple(Snapshot(id_, store.size_bytes(id_) or 0) for id_ in store.ids)
        view = LogView(
            log.start,
            log.end.offset,
            log.epochs,
            epoch_before=snapshots[0].id.epoch if log.start > 0 else None,
            assignments=assigned.since(checkpoint, log.end.offset),
            snapshots=snapshots,
        )
        if election.epoch < view.end.epoch:
            raise FileDamaged(elections.path, _behind(election, view), _LOST_VOTE_REMEDY)
        founding = formatted_for(folder, fs) if view.end.offset == 0 else None
        if founding is not None and founding.voters is not None:
            logger.info(
                "%s: a log begins with voters %s", founding.path, founding.voters.current.text
            )
    except BaseException:
        log.close()
        raise
    return Past(
        key=ReplicaKey(config.node_id, meta.directory_id),
        cluster_id=elections.cluster_id,
        log=log,
        view=view,
        elections=elections,
        election=election,
        checkpoint=checkpoint,
        store=store,
        founding=founding,
    )


def _begin(
    log: SegmentedLog, store: SnapshotFolder, folder: Path, fs: FileSystem
) -> Checkpoint | None:
    """The checkpoint that the state begins with; the log then begins where the oldest one ends."""
    if store.partial is not None and contains(log, store.partial[0]):
        # Another leader had the records themselves.
        store.forget_partial()
    found = basis(folder, log, fs)
    for id_, problem in found.damaged:
        aside = store.set_aside(id_)
        logger.warning(
            "%s: %s. Nothing is lost: an older one and the log take its place. It is kept as %s; "
            "look at the disk",
            problem.path,
            problem.reason,
            aside.name,
        )
    checkpoint = found.checkpoint
    if checkpoint is None:
        return None
    if found.is_apart:
        # A crash came between the two steps of an installation.
        logger.warning("the log goes on from %s, which had just been received", checkpoint.path)
        log.begin_anew(checkpoint.id.offset)
        while log.remove_obsolete():
            pass
    for id_ in store.ids:
        if id_.offset < log.start or not contains(log, id_):
            store.forget(id_)
            while store.remove(id_):
                pass
    if log.start > 0:
        log.advance_start(store.ids[0].offset)
    return checkpoint


class _Assigned:
    """Collects what the log says of the voters, while it is recovered."""

    def __init__(self) -> None:
        self._found: list[tuple[Offset, VoterAssignment]] = []

    def take(self, path: Path, batch: StoredBatch) -> None:
        """Look into one control batch of the segment at `path`; raises `FileDamaged`."""
        try:
            assignment = assignment_in(batch.data)
        except (BadControlRecord, CorruptBatch, UnsupportedCodec) as error:
            where = f"the control batch at byte {batch.position}, offset {batch.header.base_offset}"
            raise FileDamaged(path, f"{where}: {error}", _STRANGE_RECORD_REMEDY) from error
        if assignment is not None:
            self._found.append((Offset(batch.header.end_offset), assignment))

    def since(self, checkpoint: Checkpoint | None, log_end: Offset) -> Assignments:
        """Those of a log that ends there, on top of what the checkpoint says before it."""
        if checkpoint is None:
            return Assignments(self._found)
        later = ((end, each) for end, each in self._found if checkpoint.id.offset < end <= log_end)
        return Assignments(later, base=checkpoint.voters)


def _load(checkpoint: Checkpoint, state_machine: StateMachine) -> None:
    try:
        id_ = checkpoint.id
        state_machine.load_snapshot(checkpoint.records(), id_.offset, id_.epoch)
    except ValueError as error:
        reason = f"a record of it cannot be read: {error}"
        raise FileDamaged(checkpoint.path, reason, _STRANGE_RECORD_REMEDY) from error


def _behind(election: Election, log: LogView) -> str:
    return (
        f"it is of epoch {election.epoch}, although the log beside it has records of epoch "
        f"{log.end.epoch}: it is missing, or an older one was put back"
    )
