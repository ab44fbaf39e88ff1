"""Write a plan into a folder: the data and the settings of each controller.

Everything is made in a work folder and moved into place at the end, so that nobody can start what
an interrupted run has left.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from admin.setting_kinds import Role
from admin.tools.adopt.plan import NewController, Plan
from admin.tools.adopt.source import AdoptError
from admin.tools.founding import NewEpoch, copy_log, is_log, open_epoch, write_election
from admin.tools.local_plan import SETTINGS_FILE, NodePlan, as_properties, node_settings
from admin.tools.work_folder import work_folder
from quorum.log.errors import StorageError
from quorum.log.filesystem import LOCK_NAME, replace_file, sync_folder
from quorum.log.quorum_state import QuorumStateFile
from quorum.persistent_state import LOG_FOLDER

WORK: Final = ".adopting"
DATA: Final = "data"


def node_folder(folder: Path, new: NewController) -> Path:
    """The folder of a new controller: its settings file and its data."""
    return folder / f"controller-{new.node_id}"


def settings_file(folder: Path, new: NewController) -> Path:
    """The settings file for `metaquorum start --config`."""
    return node_folder(folder, new) / SETTINGS_FILE


@contextmanager
def work_in(folder: Path, sources: tuple[Path, ...]) -> Iterator[Path]:
    """Make a work folder in `folder`, which must be new or empty but for one that was left there.

    Raises `AdoptError` for a folder that is not empty, or lies in one of `sources`.
    """
    target = folder.resolve()
    for source in sources:
        if target.is_relative_to(source.resolve()):
            raise AdoptError(f"--dir {folder} lies in {source}, which is not to be changed")
    with ExitStack() as stack:
        try:
            if folder.exists() and any(each.name != WORK for each in folder.iterdir()):
                raise AdoptError(f"--dir {folder} is not empty: name a new folder")
            work = stack.enter_context(work_folder(folder, WORK))
        except StorageError as error:
            raise AdoptError(f"--dir {folder} cannot be used: {error}") from error
        except OSError as error:
            raise AdoptError(f"--dir {folder} cannot be used: {error.strerror or error}") from error
        yield work


def write(plan: Plan, folder: Path, work: Path, *, now_ms: int) -> None:
    """Make the folders of the controllers; raises `AdoptError` if the disk fails.

    `now_ms` is the timestamp of the records that open a new epoch.
    """
    try:
        if plan.new_epoch is not None:
            _open_epoch(plan, plan.new_epoch, now_ms)
        # The others copy its log before its folder is moved.
        for new in sorted(plan.new_controllers, key=lambda new: new.source is plan.best):
            _make(plan, new, work / f"controller-{new.node_id}", node_folder(folder, new))
        for new in plan.new_controllers:
            (work / f"controller-{new.node_id}").rename(node_folder(folder, new))
        sync_folder(folder)
    except OSError as error:
        raise AdoptError(f"{folder} cannot be written: {error.strerror or error}") from error


def _make(plan: Plan, new: NewController, made: Path, final: Path) -> None:
    data = made / DATA
    made.mkdir()
    new.source.copy.rename(data)
    # Left by the reader of the copy.
    (data / LOG_FOLDER / LOCK_NAME).unlink(missing_ok=True)
    if new.source is not plan.best:
        _replace_log(plan, data / LOG_FOLDER)
    elections = QuorumStateFile(data / LOG_FOLDER, cluster_id=plan.cluster_id)
    if elections.read() != new.election:
        write_election(data / LOG_FOLDER, new.election, plan.cluster_id)
    replace_file(made / SETTINGS_FILE, _settings(plan, new, final / DATA).encode())
    for each in (data / LOG_FOLDER, data, made):
        sync_folder(each)


def _open_epoch(plan: Plan, new_epoch: NewEpoch, now_ms: int) -> None:
    """Append the records that open the new epoch to the log that is taken over."""
    open_epoch(
        plan.best.log_folder,
        new_epoch,
        cluster_id=plan.cluster_id,
        granting=[new.source.meta.node_id for new in plan.new_controllers],
        records_voters=True,
        now_ms=now_ms,
    )


def _replace_log(plan: Plan, target: Path) -> None:
    """Replace the log and the checkpoints of a controller by those that are taken over."""
    for path in target.iterdir():
        if is_log(path.name):
            path.unlink()
    copy_log(plan.best.log_folder, target)


def _settings(plan: Plan, new: NewController, data: Path) -> str:
    voters = ",".join(f"{id_}@{address}" for id_, address in sorted(plan.voters.items()))
    node = NodePlan(role=Role.CONTROLLER, id=new.node_id, kafka=new.address)
    return as_properties(node_settings(node, plan.cluster_id, voters, data.absolute()), "adopt")
