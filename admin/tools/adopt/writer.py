"""A plan put into a folder: for each controller its data and its settings.

Everything is made in a folder of work and moved into place at the end, so that what a broken-off
run leaves cannot be started by mistake.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from admin.tools.adopt.plan import Heir, Plan
from admin.tools.adopt.source import AdoptError, Source, copy_file
from quorum.core.voter_set import VoterAssignment
from quorum.log.checkpoint import checkpoint_id
from quorum.log.filesystem import LOCK_NAME, make_folder, replace_file, sync_folder
from quorum.log.quorum_state import QuorumStateFile
from quorum.log.segment import segment_base
from quorum.log.segmented_log import SegmentedLog
from quorum.persistent_state import LOG_FOLDER
from quorum.records.control import ControlType, LeaderChange, encode_control, encode_voters
from quorum.records.encode import stamp

WORK: Final = ".adopting"
DATA: Final = "data"
SETTINGS_FILE: Final = "node.properties"


def node_folder(folder: Path, heir: Heir) -> Path:
    """The folder of a new controller: its settings file and its data."""
    return folder / f"controller-{heir.node_id}"


def settings_file(folder: Path, heir: Heir) -> Path:
    """The settings file for `metaquorum start --config`."""
    return node_folder(folder, heir) / SETTINGS_FILE


@contextmanager
def work_folder(folder: Path, sources: tuple[Path, ...]) -> Iterator[Path]:
    """A new folder in `folder`, which has to be new or empty; gone at the end.

    Raises `AdoptError` for a folder that holds something, or that lies in one of `sources`.
    """
    target = folder.resolve()
    for source in sources:
        if target.is_relative_to(source.resolve()):
            raise AdoptError(f"--dir {folder} lies in {source}, which is not to be changed")
    try:
        was_there = folder.exists()
        if was_there and (not folder.is_dir() or any(folder.iterdir())):
            raise AdoptError(f"--dir {folder} is not empty: name a new folder")
        folder.mkdir(parents=True, exist_ok=True)
        work = folder / WORK
        make_folder(work)
    except OSError as error:
        raise AdoptError(f"--dir {folder} cannot be used: {error.strerror or error}") from error
    try:
        yield work
    finally:
        shutil.rmtree(work)
        if not was_there and not any(folder.iterdir()):
            folder.rmdir()


def write(plan: Plan, folder: Path, work: Path, *, now_ms: int) -> None:
    """Make the folders of the controllers; raises `AdoptError` where the disk does not let us.

    `now_ms` is the time of day, for what is written into the log.
    """
    try:
        for heir in plan.heirs:
            _make(plan, heir, work / f"controller-{heir.node_id}", node_folder(folder, heir))
        # Only now: until here, all copy from one of them.
        for heir in plan.heirs:
            _open_epoch(plan, work / f"controller-{heir.node_id}" / DATA / LOG_FOLDER, now_ms)
        for heir in plan.heirs:
            (work / f"controller-{heir.node_id}").rename(node_folder(folder, heir))
        sync_folder(folder)
    except OSError as error:
        raise AdoptError(f"{folder} cannot be written: {error.strerror or error}") from error


def _make(plan: Plan, heir: Heir, made: Path, final: Path) -> None:
    data = made / DATA
    made.mkdir()
    heir.source.copy.rename(data)
    if heir.source is not plan.best:
        _replace_log(plan, data / LOG_FOLDER)
    elections = QuorumStateFile(data / LOG_FOLDER, cluster_id=plan.cluster_id)
    if elections.read() != heir.election:
        elections.write(heir.election)
    replace_file(made / SETTINGS_FILE, _settings(plan, heir, final / DATA).encode())
    for each in (data / LOG_FOLDER, data, made):
        sync_folder(each)


def _open_epoch(plan: Plan, folder: Path, now_ms: int) -> None:
    """Let the log go on with the epoch that says where the voters listen, if there is to be one."""
    if plan.move is not None:
        log = SegmentedLog(folder)
        try:
            ids = tuple(sorted(plan.voters))
            granting = tuple(sorted(heir.source.meta.node_id for heir in plan.heirs))
            change = LeaderChange(leader=plan.move.leader.id, voters=ids, granting=granting)
            voters = encode_voters(VoterAssignment(plan.move.voters), plan.cluster_id)
            batch = encode_control(
                [
                    (ControlType.LEADER_CHANGE, change.encode()),
                    (ControlType.KRAFT_VOTERS, voters),
                ],
                timestamp_ms=now_ms,
            )
            stamp(batch, log.end.offset, plan.move.epoch)
            log.append(batch)
        finally:
            log.close()
    (folder / LOCK_NAME).unlink(missing_ok=True)
    sync_folder(folder)


def _replace_log(plan: Plan, target: Path) -> None:
    """Put the log that is taken over, and its checkpoints, in place of the controller's own."""
    for path in target.iterdir():
        if _is_log(path.name):
            path.unlink()
    for path in _log_of(plan).iterdir():
        if _is_log(path.name):
            copy_file(path, target / path.name)


def _log_of(plan: Plan) -> Path:
    """The present path of the log that is taken over; its folder may have been moved."""
    best: Source = plan.best
    if best.copy.exists():
        return best.log_folder
    return best.copy.parent / f"controller-{best.node_id}" / DATA / LOG_FOLDER


def _is_log(name: str) -> bool:
    return segment_base(name) is not None or checkpoint_id(name) is not None


def _settings(plan: Plan, heir: Heir, data: Path) -> str:
    voters = ",".join(f"{id_}@{address}" for id_, address in sorted(plan.voters.items()))
    lines = [
        "# Written once by `metaquorum adopt`; it may be edited.",
        "process.roles=controller",
        f"node.id={heir.node_id}",
        f"cluster.id={plan.cluster_id}",
        f"listeners={heir.address}",
        f"log.dir={data.absolute()}",
        f"quorum.voters={voters}",
    ]
    return "\n".join([*lines, ""])
