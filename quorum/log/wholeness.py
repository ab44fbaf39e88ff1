"""Whether the folder of a replica is whole: identity, log and votes are kept, or lost, together.

What is checked is what no crash can leave, because each is durable before the next is made:
`meta.properties`, the folder of the log, `boot-timestamp`. A folder that has lost one of the first
two was taken apart by hand. With its identity and without its log it would be a voter that has
forgotten its votes and what it acknowledged. Nothing is written here.
"""

from pathlib import Path
from typing import Final

from quorum.log import boot_timestamp, election_file, meta_properties
from quorum.log.errors import NEW_DIRECTORY, FileDamaged
from quorum.log.files import usable
from quorum.log.filesystem import OS, FileSystem

_SEGMENT_SUFFIX: Final = ".log"


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
            f"Votes and records are lost with it. Put it back; if it is lost: {NEW_DIRECTORY}",
        )
    if not is_named and any(map(_is_of_a_log, kept)):
        raise FileDamaged(
            identity,
            f"it is missing, although a log lies in {log_folder}: nobody can know whose it is",
            f"Put it back; if it is lost: {NEW_DIRECTORY}",
        )


def _is_of_a_log(name: str) -> bool:
    return name == election_file.FILE_NAME or name.endswith(_SEGMENT_SUFFIX)
