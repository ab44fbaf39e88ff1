"""Found a cluster from a backup: the folders of its controllers, ready to be started.

Every controller gets the snapshot and the log of the backup, and the records that open a new epoch,
in which the new controllers are the voters (`admin.tools.founding`). Everything is made in a work
folder, checked on the way, and moved into place at the end.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from admin.backup.log_summary import LogSummary
from admin.backup.manifest import BackupError, LogFile, Manifest, StoredFile
from admin.backup.storage import Storage
from admin.backup.verification import (
    check_epochs,
    check_facts,
    check_restorable,
    checked_content,
    naming,
)
from admin.config import WILDCARDS, Given, from_file
from admin.setting_kinds import Role
from admin.settings import InvalidSetting
from admin.tools.founding import (
    LOST_EPOCHS_MAX,
    NewEpoch,
    copy_log,
    log_folder_of,
    new_identity,
    open_epoch,
    write_election,
)
from admin.tools.local_plan import SETTINGS_FILE, NodePlan, as_properties, node_settings
from admin.tools.work_folder import work_folder
from quorum.core.limits import EPOCH_MAX, STRANGER_EPOCH_LEAP_MAX
from quorum.core.vocabulary import Epoch, ReplicaId, ReplicaKey, uuid_to_text
from quorum.core.voter_set import Endpoint, Voter, VoterSet
from quorum.log import meta_properties
from quorum.log.checkpoint import CheckpointCheck, checkpoint_name
from quorum.log.filesystem import make_folder, replace_file, sync_folder
from quorum.log.segment import Segment
from quorum.persistent_state import LISTENER_NAME
from quorum.records.batch_stream import BatchStream
from quorum.transport.address import Address

AGE_MINUTES_MAX: Final = 1 << 19
"""Epochs that are left out because of the age of a backup: one a minute, for a year at most."""
# No node follows a leader whose epoch lies further ahead.
assert LOST_EPOCHS_MAX + AGE_MINUTES_MAX < STRANGER_EPOCH_LEAP_MAX
WORK: Final = ".restoring"
DATA: Final = "data"


@dataclass(frozen=True, slots=True)
class NewController:
    """A controller of the restored cluster, in its place."""

    id: ReplicaId
    address: Address
    folder: Path

    @property
    def data(self) -> Path:
        """Its `log.dir`."""
        return self.folder / DATA

    @property
    def settings(self) -> Path:
        """Its settings file, for `metaquorum start --config`."""
        return self.folder / SETTINGS_FILE


@dataclass(frozen=True, slots=True)
class Plan:
    """The cluster that is founded from a backup."""

    manifest: Manifest
    cluster_id: str
    epoch: Epoch
    """The epoch that it begins with: no broker of before is in a later one."""
    controllers: Sequence[NewController]


def make_plan(
    manifest: Manifest,
    newest: Manifest,
    folder: Path,
    given: Mapping[ReplicaId, Address] | None,
    *,
    is_new_cluster: bool,
    now_ms: int,
) -> Plan:
    """Plan the controllers in `folder`: those of `given`, or else the voters of the backup.

    `newest` is the newest backup of the place. Raises `BackupError` unless the data folders of the
    controllers are new or empty, and settings that are there are those of the plan.
    """
    addresses = _voters_of(manifest) if given is None else given
    check_restorable(manifest)
    controllers = [
        NewController(id_, address, folder / f"controller-{id_}")
        for id_, address in sorted(addresses.items())
    ]
    plan = Plan(
        manifest,
        _new_cluster_id() if is_new_cluster else manifest.cluster_id,
        _first_epoch(manifest, newest, now_ms),
        controllers,
    )
    for each in controllers:
        _check_empty(each)
        _check_settings(each, plan)
    return plan


def _first_epoch(manifest: Manifest, newest: Manifest, now_ms: int) -> Epoch:
    """The epoch to begin with: above those of before, and of clusters restored before this one.

    An earlier restore may have begun with the same backup or an older one, and brokers may have
    its log. As the epoch rises by one a minute, the same is not begun twice.
    """
    last = newest if newest.cluster_id == manifest.cluster_id else manifest
    check_epochs(last)
    # A clock that was ahead says nothing about the age.
    taken_ms = last.taken_ms if last.taken_ms <= now_ms else last.last_record_ms
    minutes = max(0, now_ms - taken_ms) // 60_000
    first = max(manifest.epoch, last.epoch) + LOST_EPOCHS_MAX
    return Epoch(min(first + min(minutes, AGE_MINUTES_MAX), EPOCH_MAX - 1))


def _voters_of(manifest: Manifest) -> Mapping[ReplicaId, Address]:
    found = {
        ReplicaId(each.id): Address(host, port)
        for each in manifest.voters
        for _, host, port in each.endpoints[:1]
    }
    if not found or len(found) < len(manifest.voters):
        raise BackupError(
            "the backup does not have the addresses of all voters: give --controllers, as "
            "1@host:port,2@host:port"
        )
    return found


def _check_empty(controller: NewController) -> None:
    """Raise `BackupError` if the folder of a controller has data in it."""
    data = controller.data
    try:
        if not data.exists():
            return
        if not data.is_dir():
            raise BackupError(f"{data} is no folder: choose another --dir, or move it away")
        if not any(data.iterdir()):
            return
    except OSError as error:
        raise BackupError(f"{data} cannot be used: {error.strerror or error}") from error
    owner = ""
    if (data / meta_properties.FILE_NAME).exists():
        owner = ", the folder of a controller that may still run"
    raise BackupError(
        f"{data} is not empty{owner}: choose another --dir; or, if this controller is stopped for "
        "good, move the folder away"
    )


def _check_settings(controller: NewController, plan: Plan) -> None:
    """Raise `BackupError` if the settings that a controller keeps are of another node."""
    if not controller.settings.exists():
        return
    try:
        kept = {each.setting.name: each for each in from_file(controller.settings)}
        differing = [*_contradictions(kept, controller, plan)]
    except InvalidSetting as error:
        raise BackupError(f"{error}. Mend it; or move the file away, for new settings") from error
    if differing:
        raise BackupError(
            f"{controller.settings} would be kept, but its node is not that of the plan: "
            f"{'; '.join(differing)}. Mend it; or move the file away, for new settings"
        )


def _contradictions(
    kept: Mapping[str, Given], controller: NewController, plan: Plan
) -> Iterator[str]:
    """Yield the settings that make a node another one than this controller of the plan."""
    voters = {each.id: each.address for each in plan.controllers}
    fits: Mapping[str, tuple[object, Callable[[Any], bool]]] = {
        "process.roles": (Role.CONTROLLER, lambda role: role is Role.CONTROLLER),
        "node.id": (controller.id, lambda id_: id_ == controller.id),
        "cluster.id": (plan.cluster_id, lambda id_: id_ == plan.cluster_id),
        "log.dir": (controller.data, lambda path: path.resolve() == controller.data.resolve()),
        "quorum.voters": (
            _as_voters(plan),
            lambda found: {id_: at or voters.get(id_) for id_, at in found.items()} == voters,
        ),
        "advertised.listeners" if "advertised.listeners" in kept else "listeners": (
            controller.address,
            lambda found: any(_leads_to(each.address, controller.address) for each in found),
        ),
    }
    for name, (wanted, is_it) in fits.items():
        if name in kept and not is_it(kept[name].value()):
            yield f"{name} is {kept[name].text}, not {wanted}"


def _leads_to(listener: Address, address: Address) -> bool:
    return listener == address or (listener.host in WILDCARDS and listener.port == address.port)


def _as_voters(plan: Plan) -> str:
    """The voters as `quorum.voters` has them."""
    return ",".join(f"{each.id}@{each.address}" for each in plan.controllers)


def _new_cluster_id() -> str:
    rng = random.SystemRandom()
    while True:
        text = uuid_to_text(UUID(int=rng.getrandbits(128), version=4))
        # A command line would take an id that begins with a dash for an option.
        if not text.startswith("-"):
            return text


def restore(plan: Plan, storage: Storage, folder: Path, *, now_ms: int) -> Sequence[NewController]:
    """Make the folders of the controllers; return those whose settings were not there.

    `now_ms` is the timestamp of the records that open the epoch. Raises `BackupError`, and then
    none of the controllers has data.
    """
    try:
        with work_folder(folder, WORK) as work:
            log = work / "log"
            make_folder(log)
            summary = _copy_out(storage, plan.manifest, log)
            data = {each.id: work / str(each.id) for each in plan.controllers}
            keys = {each.id: _identity(plan, each, data[each.id]) for each in plan.controllers}
            opening = _opening(plan, keys)
            open_epoch(
                log,
                opening,
                cluster_id=plan.cluster_id,
                granting=list(keys),
                records_voters=summary.voters is not None,
                now_ms=now_ms,
            )
            for each in plan.controllers:
                log_folder = log_folder_of(data[each.id])
                make_folder(log_folder)
                copy_log(log, log_folder)
                write_election(log_folder, opening.election, plan.cluster_id)
            fresh = [each for each in plan.controllers if _make_home(plan, each)]
            # Last, and nothing but renames: whatever fails has failed before.
            for each in plan.controllers:
                _put_in_place(each, data[each.id])
            return fresh
    except OSError as error:
        where = error.filename2 or error.filename or folder
        raise BackupError(f"{where} cannot be written: {error.strerror or error}") from error


def _copy_out(storage: Storage, manifest: Manifest, log: Path) -> LogSummary:
    """Write the files of a backup as those of a log, and check them on the way."""
    summary = LogSummary()
    if manifest.snapshot is not None:
        with naming(storage, manifest.snapshot):
            _copy_snapshot(storage, manifest.snapshot, log, summary)
    for piece in manifest.log:
        with naming(storage, piece):
            _copy_piece(storage, piece, log, summary)
    check_facts(storage, manifest, summary)
    return summary


def _copy_snapshot(storage: Storage, file: StoredFile, log: Path, summary: LogSummary) -> None:
    check, stream = CheckpointCheck(file.end), BatchStream(base=0, epoch_min=0)
    with (log / checkpoint_name(file.end)).open("xb") as target:
        for data in checked_content(storage, file):
            target.write(data)
            for batch in stream.feed(data):
                check.take(batch)
                if not batch.header.is_control:
                    summary.take_values(batch)
        stream.close()
    summary.take_checkpoint(file.end, check.close())
    # A log that begins behind a snapshot has a segment that says so.
    Segment(log, file.end.offset).path.touch()


def _copy_piece(storage: Storage, piece: LogFile, log: Path, summary: LogSummary) -> None:
    stream = BatchStream(base=piece.base_offset, epoch_min=0)
    start = summary.end.offset
    segment = Segment(log, start)
    with segment.path.open("wb") as target:
        for data in checked_content(storage, piece):
            for batch in stream.feed(data):
                # The first piece may begin before the end of the snapshot.
                if batch.header.end_offset <= start:
                    continue
                if batch.header.base_offset != summary.end.offset:
                    raise ValueError(f"no batch of it begins at offset {summary.end.offset}")
                if batch.header.epoch < summary.end.epoch:
                    raise ValueError(f"its epochs fall at offset {summary.end.offset}")
                summary.take(batch)
                target.write(batch.data)
        stream.close()


def _identity(plan: Plan, controller: NewController, data: Path) -> ReplicaKey:
    make_folder(data)
    return new_identity(data, controller.id, plan.cluster_id)


def _opening(plan: Plan, keys: Mapping[ReplicaId, ReplicaKey]) -> NewEpoch:
    voters = tuple(
        Voter(keys[each.id], (Endpoint(LISTENER_NAME, each.address.host, each.address.port),))
        for each in plan.controllers
    )
    first = plan.controllers[0].id
    return NewEpoch(epoch=plan.epoch, leader=keys[first], voters=VoterSet(voters))


def _make_home(plan: Plan, controller: NewController) -> bool:
    """Make the folder of a controller, and its settings; return False if it has settings."""
    make_folder(controller.folder)
    if controller.settings.exists():
        return False
    node = NodePlan(role=Role.CONTROLLER, id=controller.id, kafka=controller.address)
    settings = node_settings(node, plan.cluster_id, _as_voters(plan), controller.data.absolute())
    replace_file(controller.settings, as_properties(settings, "restore").encode())
    return True


def _put_in_place(controller: NewController, made: Path) -> None:
    """Move the data folder of a controller into its place."""
    sync_folder(made)
    # An empty folder is replaced; one with anything in it is not.
    made.rename(controller.data)
    sync_folder(controller.folder)
