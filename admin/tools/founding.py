"""Let a set of controllers go on with a copied log, in a new epoch and with voters of its own.

The epoch is opened in advance: every controller gets the log with the LeaderChange and Voters
records of the new epoch at its end, and a vote for the one that opened it. So none can vote, or be
elected, in an epoch before it, and none needs the voters of before.
"""

import errno
import os
import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock, lockf
from pathlib import Path
from typing import Final

from quorum.core.vocabulary import ElectionState, Epoch, ReplicaId, ReplicaKey
from quorum.core.voter_set import VoterAssignment, VoterSet
from quorum.log.checkpoint import checkpoint_id
from quorum.log.filesystem import LOCK_NAME, make_folder, opened, sync_file, sync_folder
from quorum.log.meta_properties import load_or_create
from quorum.log.quorum_state import QuorumStateFile
from quorum.log.segment import segment_base
from quorum.log.segmented_log import SegmentedLog
from quorum.persistent_state import LOG_FOLDER
from quorum.ports import DiskFull, LogFailure
from quorum.records.control import (
    ControlType,
    LeaderChange,
    encode_control,
    encode_leader_change,
    encode_voters,
)
from quorum.records.encode import stamp

COPIED_BYTES: Final = 1024 * 1024

LOST_EPOCHS_MAX: Final = 1 << 16
"""Epochs that voters which are gone may have reached beyond those that are left: a new epoch lies
this much higher. Brokers that have seen a higher one would not follow it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEpoch:
    """An epoch that opens with new voters, or new addresses of them."""

    epoch: Epoch
    leader: ReplicaKey
    voters: VoterSet
    """The voters as the log will name them."""

    @property
    def election(self) -> ElectionState:
        """The election state of every voter."""
        return ElectionState(self.epoch, self.leader, self.leader.id)


def open_epoch(
    log_folder: Path,
    new: NewEpoch,
    *,
    cluster_id: str,
    granting: Sequence[ReplicaId],
    records_voters: bool,
    now_ms: int,
) -> None:
    """Append the records that open the epoch to the log in this folder.

    `records_voters` says whether the log records voters already (kraft.version 1). Raises
    `StorageError` or `OSError`.
    """
    change = LeaderChange(
        leader=new.leader.id, voters=new.voters.sorted(), granting=tuple(sorted(granting))
    )
    voters = VoterAssignment(new.voters)
    if records_voters:
        batch = encode_control(
            [
                (ControlType.LEADER_CHANGE, change.encode()),
                (ControlType.KRAFT_VOTERS, encode_voters(voters, cluster_id)),
            ],
            timestamp_ms=now_ms,
        )
    else:
        batch = encode_leader_change(change, voters, cluster_id, timestamp_ms=now_ms)
    with failures_of_disk(log_folder):
        log = SegmentedLog(log_folder)
        try:
            stamp(batch, log.end.offset, new.epoch)
            log.append(batch)
            # `close` would drop the batch on a full disk, and say nothing.
            log.commit()
        finally:
            log.close()
    (log_folder / LOCK_NAME).unlink(missing_ok=True)


@contextmanager
def failures_of_disk(folder: Path) -> Iterator[None]:
    """Turn a failure of the disk below a log into an `OSError`, which the commands report."""
    try:
        yield
    except LogFailure as error:
        code = errno.ENOSPC if isinstance(error, DiskFull) else errno.EIO
        raise OSError(code, os.strerror(code), str(folder)) from error


class FolderBusy(Exception):
    """A process uses a folder; the message names the folder and what to do."""


@contextmanager
def locked_folder(folder: Path, *, is_changed: bool = False) -> Iterator[None]:
    """Hold the locks of a controller on its data folder, so that none starts meanwhile.

    Shared ones, which need no right to write, unless the folder `is_changed`. Raises `FolderBusy`.
    """
    flags, kind = (os.O_RDWR, LOCK_EX) if is_changed else (os.O_RDONLY, LOCK_SH)
    with ExitStack() as held:
        # Java locks files by lockf, and our controllers the folder of the log by flock.
        for path, lock in ((folder / LOCK_NAME, lockf), (folder / LOG_FOLDER / LOCK_NAME, flock)):
            is_made = is_changed and lock is flock and path.parent.is_dir()
            if not path.exists() and not is_made:
                continue
            fd = held.enter_context(opened(path, flags | (os.O_CREAT if is_made else 0)))
            if is_made:
                give(path, folder.stat())
            try:
                lock(fd, kind | LOCK_NB)
            except OSError as error:
                raise FolderBusy(
                    f"{path} is locked: a process uses {folder}; stop the controller first"
                ) from error
        yield


def give(made: Path, owner: os.stat_result) -> None:
    """Give a file, or a folder with all that is in it, to this owner, durably, if root runs this.

    A node runs as a user of its own, who cannot read what root has made in its data folder.
    """
    if os.geteuid() != 0:
        return
    for path in (made, *made.rglob("*")):
        with opened(path, os.O_RDONLY) as fd:
            os.fchown(fd, owner.st_uid, owner.st_gid)
            sync_file(fd)


@contextmanager
def given_to_owner(*paths: Path) -> Iterator[None]:
    """Give what the block makes at these paths to the owner of what was there before, or of the
    nearest folder above that was there; see `give`."""
    if os.geteuid() != 0:
        yield
        return
    made: dict[Path, os.stat_result] = {}
    for path in map(Path.absolute, paths):
        missing = [each for each in (*reversed(path.parents), path) if not each.exists()]
        top, owner = (missing[0], missing[0].parent) if missing else (path, path)
        made[top] = owner.stat()
    yield
    for top, owner_before in made.items():
        give(top, owner_before)


def is_log(name: str) -> bool:
    """Check whether a file is a segment or a checkpoint."""
    return segment_base(name) is not None or checkpoint_id(name) is not None


def copy_file(source: Path, target: Path) -> None:
    """Copy the content of a file and nothing else; its name is not synced yet."""
    with source.open("rb") as reading, target.open("xb") as writing:
        shutil.copyfileobj(reading, writing, COPIED_BYTES)
        writing.flush()
        os.fsync(writing.fileno())


def copy_log(source: Path, target: Path) -> None:
    """Copy segments and checkpoints into the folder `target`, which exists, durably."""
    for path in sorted(source.iterdir()):
        if is_log(path.name):
            copy_file(path, target / path.name)
    sync_folder(target)


def make_folders(folder: Path) -> None:
    """Create a folder and those above it that do not exist, durably."""
    for each in (*reversed(folder.absolute().parents), folder):
        make_folder(each)


def new_identity(data: Path, node_id: ReplicaId, cluster_id: str) -> ReplicaKey:
    """Write the identity of a new controller into its folder, which must exist."""
    meta = load_or_create(data, cluster_id, node_id, rng=random.SystemRandom())
    return ReplicaKey(node_id, meta.directory_id)


def write_election(log_folder: Path, election: ElectionState, cluster_id: str) -> None:
    """Write the election state beside a log, durably; raises `OSError`."""
    with failures_of_disk(log_folder):
        QuorumStateFile(log_folder, cluster_id=cluster_id).write(election)


def log_folder_of(data: Path) -> Path:
    """The folder of the metadata log in the data folder of a node."""
    return data / LOG_FOLDER
