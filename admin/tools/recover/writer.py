"""Write a plan into the folders that are left.

Everything is made in the work folders first. Then each folder gets its new log by two renames; what
was there stays beside it, under a name with the time, and nothing of it is changed.
"""

import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from admin.tools.adopt.source import read_history
from admin.tools.founding import NewEpoch, copy_log, give, is_log, open_epoch, write_election
from admin.tools.recover.plan import SNAPSHOT_EPOCH, Plan
from admin.tools.recover.survivors import ASIDE, WORK, RecoverError, Survivor, remove_copy
from quorum.core.vocabulary import NO_DIRECTORY, Offset, OffsetAndEpoch, ReplicaId, ReplicaKey
from quorum.core.voter_set import Voter, VoterAssignment, VoterSet
from quorum.log import meta_properties
from quorum.log.checkpoint import checkpoint_name
from quorum.log.filesystem import sync_folder
from quorum.log.meta_properties import load_or_create
from quorum.log.segment import Segment
from quorum.persistent_state import LOG_FOLDER
from quorum.records.control import SnapshotBatches
from statemachine.image.snapshot import begin

_SYSTEM_RANDOM: Final = random.SystemRandom()


def prepare(plan: Plan, *, now_ms: int) -> None:
    """Make the new logs in the work folders; raises `RecoverError`, `StorageError`, `OSError`.

    `now_ms` is the timestamp of the records that open the epoch.
    """
    keys = {each.node_id: _identity(plan, each) for each in plan.survivors}
    voters = VoterSet(
        tuple(Voter(keys[id_], endpoints) for id_, endpoints in plan.endpoints.items())
    )
    best = plan.best.log_copy
    records_voters = plan.best.summary.voters is not None
    if plan.begins_epochs_again:
        _begin_epochs_again(plan, best, VoterAssignment(voters))
        records_voters = True
    opening = NewEpoch(epoch=plan.epoch, leader=keys[plan.best.node_id], voters=voters)
    open_epoch(
        best,
        opening,
        cluster_id=plan.cluster_id,
        granting=list(keys),
        records_voters=records_voters,
        now_ms=now_ms,
    )
    for each in plan.survivors:
        if each is not plan.best:
            _remove_log(each.log_copy)
            copy_log(best, each.log_copy)
        write_election(each.log_copy, opening.election, plan.cluster_id)
        sync_folder(each.log_copy)
        give(each.folder / WORK, each.folder.stat())


def put_in_place(plan: Plan, suffix: str) -> Mapping[ReplicaId, Path]:
    """Give each folder its new log; return where the earlier ones are now, with `suffix`."""
    aside: dict[ReplicaId, Path] = {}
    for each in plan.survivors:
        work, log = each.folder / WORK, each.folder / LOG_FOLDER
        made = work / meta_properties.FILE_NAME
        if made.exists():
            final = each.folder / meta_properties.FILE_NAME
            if final.exists():
                final.rename(final.with_name(f"{final.name}{ASIDE}{suffix}"))
            made.rename(final)
        aside[each.node_id] = log.with_name(f"{log.name}{ASIDE}{suffix}")
        log.rename(aside[each.node_id])
        try:
            each.log_copy.rename(log)
        except OSError:
            aside[each.node_id].rename(log)
            raise
        sync_folder(each.folder)
        remove_copy(each.folder)
    return aside


def _identity(plan: Plan, survivor: Survivor) -> ReplicaKey:
    """The key of a new voter; a lost identity is made anew, with another directory id."""
    meta = survivor.meta
    if meta is None or meta.directory_id == NO_DIRECTORY:
        meta = load_or_create(
            survivor.folder / WORK, plan.cluster_id, survivor.node_id, rng=_SYSTEM_RANDOM
        )
    return ReplicaKey(survivor.node_id, meta.directory_id)


def _begin_epochs_again(plan: Plan, log: Path, voters: VoterAssignment) -> None:
    """Replace the log in this folder by a snapshot of its state, of a low epoch."""
    history = read_history(log, plan.best.checkpoint)
    if history.unknown:
        raise RecoverError(
            f"the log has records of types {sorted(history.unknown)}, which are not known here: "
            "with them the epochs cannot begin again. Use the version of the program that wrote it"
        )
    image = history.image
    if image.transaction is not None:
        image.abort_transaction()
    end = Offset(image.end_offset)
    _remove_log(log)
    batches = SnapshotBatches(SNAPSHOT_EPOCH, plan.best.summary.time_ms)
    taken = begin(image, end)
    assert taken is not None, "an image without a transaction and an undo log can be written"
    path = log / checkpoint_name(OffsetAndEpoch(SNAPSHOT_EPOCH, end))
    with path.open("xb") as file:
        file.write(batches.opening(voters, plan.cluster_id))
        for group in taken:
            if group:
                file.write(batches.data(group))
        file.write(batches.closing())
        file.flush()
        os.fsync(file.fileno())
    Segment(log, end).path.touch()


def _remove_log(folder: Path) -> None:
    for path in folder.iterdir():
        if is_log(path.name):
            path.unlink()
