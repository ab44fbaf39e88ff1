"""The boot timestamp of a folder: the file `boot-timestamp`, raised at each boot.

Each boot has a larger timestamp than all before it, whatever the clock on the wall does meanwhile:
by it the others know what a node has said last of its whereabouts (KIP-595, DiscoverBrokers).
"""

import re
from pathlib import Path
from typing import Final

from quorum.log.errors import FileDamaged
from quorum.log.filesystem import OS, FileSystem, is_full, read_file, replace_file, usable
from quorum.ports import DiskFull, LogFailure

FILE_NAME: Final = "boot-timestamp"

_VERSION: Final = 1
_LINES: Final = re.compile(rb"version=(\d{1,4})\nboot\.timestamp=(\d{1,19})\n")
_INT64_MAX: Final = 2**63 - 1
_REMEDY: Final = "Remove the file: from the other nodes this one hears if its clock is behind"


def next_boot(folder: Path, wall_ms: int, *, fs: FileSystem = OS) -> int:
    """The timestamp of the boot that begins now, kept durably before it is returned.

    The time, unless an earlier boot had as much: then one more than that. `folder` exists. Raises
    `FileDamaged`, `FolderUnusable`.
    """
    path = folder / FILE_NAME
    with usable(path):
        boot = max(0, wall_ms, _last_boot(path, fs) + 1)
        replace_file(path, _written(boot), fs)
    return boot


def raise_boot(folder: Path, boot: int, *, fs: FileSystem = OS) -> None:
    """Let `boot`, which is above that of this boot, be its timestamp.

    Raises `LogFailure`, `DiskFull` for want of room.
    """
    path = folder / FILE_NAME
    try:
        replace_file(path, _written(boot), fs)
    except OSError as error:
        why = error.strerror or str(error)
        kind = DiskFull if is_full(error) else LogFailure
        raise kind(f"{path} cannot be written: {why}") from error


def _last_boot(path: Path, fs: FileSystem) -> int:
    """-1 if there was none; raises `OSError`, `FileDamaged`."""
    content = read_file(path, fs)
    if content is None:
        return -1
    match = _LINES.fullmatch(content)
    if match is None:
        raise FileDamaged(path, "it does not hold a version and a boot.timestamp", _REMEDY)
    version, boot = int(match[1]), int(match[2])
    if version != _VERSION:
        raise FileDamaged(path, f"version {version}, only version {_VERSION} is known", _REMEDY)
    if boot >= _INT64_MAX:
        raise FileDamaged(path, f"boot.timestamp {boot} leaves no room for a later boot", _REMEDY)
    return boot


def _written(boot: int) -> bytes:
    return b"version=%d\nboot.timestamp=%d\n" % (_VERSION, boot)
