"""The facts about a stopped node, for the rules of health: its data folder, its settings.

A folder is read as a node reads it that starts, from a copy of its metadata: nothing in the folder
itself is changed.
"""

import logging
import os
import random
import shlex
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fcntl import LOCK_NB, LOCK_SH, flock, lockf
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from admin.backup.object_storage import storage_of
from admin.backup.storage import read_manifests
from admin.config import Config, load
from admin.faults import AdminError
from admin.monitoring.health_rules import (
    START,
    BackupFacts,
    FolderFacts,
    SettingsFacts,
    local_restart,
)
from admin.settings import InvalidSetting
from admin.tools.local_plan import CLUSTER_FILE, local_folder, takes_commands
from quorum.clocks import wall_ms
from quorum.log import meta_properties
from quorum.log.errors import FolderInUse, StorageError
from quorum.log.filesystem import LOCK_NAME, opened
from quorum.persistent_state import LOG_FOLDER, QuorumConfig, load_persistent_state
from quorum.transport.exposure import exposures
from quorum.transport.security.tls import TlsUnusable
from quorum.transport.security.validity import WARNINGS

_META: Final = f"*/{meta_properties.FILE_NAME}"
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def folder_facts(folder: Path) -> FolderFacts:
    """Examine the data folder of a stopped controller or broker."""
    if (problem := _not_a_data_folder(folder)) is not None:
        return FolderFacts(
            folder=str(folder),
            problem=problem,
            start=_start(folder),
            meant=_data_folders_in(folder),
        )
    cut = None
    try:
        with tempfile.TemporaryDirectory(prefix="metaquorum-doctor-") as name:
            copy = Path(name) / "copy"
            try:
                problem, cut = _examined(folder, copy)
            except StorageError as error:
                problem = str(error).replace(str(copy), str(folder))
    except OSError as error:
        problem = f"{error.filename or folder}: {error.strerror or error}"
    is_open = folder.is_dir() and bool(folder.stat().st_mode & _OTHERS)
    return FolderFacts(
        folder=str(folder),
        problem=problem,
        cut=cut,
        is_open_to_others=is_open,
        start=_start(folder),
    )


def _start(data: Path) -> str:
    """Return the command that starts the node with this data folder."""
    local = local_folder(data)
    if local is None:
        return START
    if takes_commands(local):
        return local_restart(str(local), data.absolute().parent.name)
    is_up = (local / CLUSTER_FILE).exists()
    return START if is_up else f"metaquorum local --dir {shlex.quote(str(local))}"


def _examined(folder: Path, copy: Path) -> tuple[str | None, str | None]:
    """Return what keeps a node from starting, and what recovery would cut off."""
    meta = meta_properties.look(folder)
    assert meta is not None, f"{folder} is a data folder"
    _check_unlocked(folder)
    _copy_files(folder, copy)
    _copy_files(folder / LOG_FOLDER, copy / LOG_FOLDER)
    # The rest of the configuration does not decide whether the folder can be used.
    config = QuorumConfig(node_id=meta.node_id, folder=copy, voters={})
    with _quiet():
        state = load_persistent_state(config, rng=random.Random(0))
    cut = None if state.log.cut is None else str(state.log.cut).replace(str(copy), str(folder))
    state.log.close()
    return None, None if cut is None else f"at the next start: {cut}"


@contextmanager
def _quiet() -> Iterator[None]:
    """A block that writes nothing to the log: it would name the copy, which is gone soon."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _not_a_data_folder(folder: Path) -> str | None:
    """Return why no node has its data in this folder; None if one has, as far as can be seen."""
    try:
        if not folder.exists():
            return f"{folder} does not exist; name the log.dir of a node"
        for name in (meta_properties.FILE_NAME, LOG_FOLDER):
            if not (folder / name).exists():
                return f"{folder} has no {name}: no node has started on it; name the log.dir of one"
    except OSError as error:
        return f"{folder}: {error.strerror}"
    return None


def _data_folders_in(folder: Path) -> tuple[str, ...]:
    """The data folders of nodes one or two levels below."""
    try:
        found = [*folder.glob(_META), *folder.glob(f"*/{_META}")]
    except OSError:
        return ()
    return tuple(sorted(str(each.parent) for each in found))


def _check_unlocked(folder: Path) -> None:
    # Java locks files by lockf, and our nodes the folder of the log by flock.
    for path, lock in ((folder / LOCK_NAME, lockf), (folder / LOG_FOLDER / LOCK_NAME, flock)):
        if path.exists():
            with opened(path, os.O_RDONLY) as fd:
                try:
                    lock(fd, LOCK_SH | LOCK_NB)
                except OSError as error:
                    raise FolderInUse(path) from error


def _copy_files(folder: Path, copy: Path) -> None:
    copy.mkdir(mode=0o700)
    for each in sorted(folder.iterdir()):
        if each.is_file() and each.name != LOCK_NAME:
            shutil.copyfile(each, copy / each.name)


def settings_facts(
    file: Path | None, environ: Mapping[str, str], overrides: Sequence[str] = ()
) -> SettingsFacts:
    """Examine the settings of a node as `metaquorum start` would take them."""
    try:
        config = load(file, environ, overrides)
        for listener in config.listeners:
            if listener.security.tls is not None:
                listener.security.tls.check()
    except (InvalidSetting, TlsUnusable) as error:
        return SettingsFacts(problem=str(error))
    return SettingsFacts(
        voters=len(config.quorum.voters) or None if isinstance(config, Config) else None,
        open_listeners=tuple(exposures(config.listeners)),
        certificates_end_s=WARNINGS.first_end_s,
        now_s=wall_ms() / 1_000,
    )


def backup_facts(place: str, age_max_ms: int) -> BackupFacts:
    """Examine the backups of a place: a folder, or the URI of one in an object store."""
    facts = BackupFacts(place=place, age_max_ms=age_max_ms, now_ms=wall_ms())
    try:
        manifests, damaged = read_manifests(storage_of(place))
    except AdminError as error:
        return replace(facts, problem=str(error))
    newest_ms = manifests[-1].taken_ms if manifests else None
    return replace(facts, newest_ms=newest_ms, damaged=damaged)
