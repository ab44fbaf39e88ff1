"""Whether the folder of a replica is whole: identity, log and votes are kept, or lost, together.

What is checked is what no crash can leave, because each is durable before the next is made:
`meta.properties`, the folder of the log, its first segment, `boot-timestamp` and `quorum-state`. A
folder that has lost one of the first three was taken apart by hand. With its identity and without
its log it would be a voter that has forgotten its votes and what it acknowledged. Nothing is
written here but that first segment, which is empty.
"""

import os
from pathlib import Path
from typing import Final

from quorum.core.vocabulary import Offset
from quorum.log import boot_timestamp, election_file, meta_properties
from quorum.log.checkpoint import checkpoint_id
from quorum.log.errors import NEW_DIRECTORY, FileDamaged
from quorum.log.files import opened, sync_file, sync_folder, usable
from quorum.log.filesystem import OS, FileSystem
from quorum.log.segment import Segment

_SEGMENT_SUFFIX: Final = ".log"
_LOST: Final = f"Votes and records are lost with it. Put it back; if it is lost: {NEW_DIRECTORY}"


def check_whole(folder: Path, log_folder: Path, *, fs: FileSystem = OS) -> None:
    """Refuse a folder that has a log but no name, or has been used but has no log.

    Raises `FileDamaged`, `FolderUnusable`.
    """
    identity = folder / meta_properties.FILE_NAME
    with usable(folder):
        has_log_folder = fs.is_folder(log_folder)
        kept = fs.names(log_folder) if has_log_folder else []
        is_named = fs.exists(identity)
        is_used = fs.exists(folder / boot_timestamp.FILE_NAME)
    if is_used and not has_log_folder:
        raise FileDamaged(
            log_folder,
            "it is missing, although a node has run in the folder above it",
            _LOST,
        )
    if (is_used or election_file.FILE_NAME in kept) and not any(map(_is_a_beginning, kept)):
        raise FileDamaged(
            log_folder / f"*{_SEGMENT_SUFFIX}",
            "there is no such file, although a node has run here",
            _LOST,
        )
    if not is_named and any(map(_is_of_a_log, kept)):
        raise FileDamaged(
            identity,
            f"it is missing, although a log lies in {log_folder}: nobody can know whose it is",
            f"Put it back; if it is lost: {NEW_DIRECTORY}",
        )


def begin_log(log_folder: Path, *, fs: FileSystem = OS) -> None:
    """Let an empty log have its first segment, durably, before anything is promised beside it.

    So a log without any is one that was lost. Raises `FolderUnusable`.
    """
    with usable(log_folder):
        if any(map(_is_a_beginning, fs.names(log_folder))):
            return
        with opened(Segment(log_folder, Offset(0)).path, os.O_WRONLY | os.O_CREAT, fs) as fd:
            sync_file(fd, fs)
        sync_folder(log_folder, fs)


def _is_a_beginning(name: str) -> bool:
    """Whether a log may begin with this file: while a snapshot is installed there may be no
    segment. The checkpoint at offset 0, with which a folder is formatted, holds no log."""
    id_ = checkpoint_id(name)
    return name.endswith(_SEGMENT_SUFFIX) or (id_ is not None and id_.offset > 0)


def _is_of_a_log(name: str) -> bool:
    return name == election_file.FILE_NAME or name.endswith(_SEGMENT_SUFFIX)
