"""The identity of a folder: Kafka's file `meta.properties`, version 1 (KIP-631, KIP-858).

It names the node, the cluster and the directory. A node refuses a folder of another node: two nodes
with one log would vote twice. Our own file beside it, `boot-timestamp`, rises with each boot, even
if the clock was put back: other nodes compare it to find the latest advertisement of a node
(KIP-595, DiscoverBrokers).
"""

import random
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from uuid import UUID

from quorum.core.vocabulary import NO_DIRECTORY, ReplicaId, uuid_from_text, uuid_to_text
from quorum.log.errors import NEW_DIRECTORY, FileDamaged, FolderForeign, FormatUnknown
from quorum.log.filesystem import (
    OS,
    FileSystem,
    make_folder,
    read_file,
    replace_file,
    sync_folder,
    usable,
    writable,
)

FILE_NAME: Final = "meta.properties"
BOOT_FILE_NAME: Final = "boot-timestamp"

_VERSION: Final = "1"
_REMEDY: Final = f"Correct it by hand, or {NEW_DIRECTORY}"
_NO_DIRECTORY_REMEDY: Final = "A controller of Kafka 3.7 or newer writes one when it starts"

_BOOT_VERSION: Final = 1
_BOOT_VERSION_LINE: Final = re.compile(rb"version=(\d{1,4})\n")
_BOOT_LINES: Final = re.compile(rb"version=\d{1,4}\nboot\.timestamp=(\d{1,19})\n")
_BOOT_REMEDY: Final = "Remove the file: the other nodes tell this one if its clock is behind"
_INT64_MAX: Final = 2**63 - 1

# A key, then "=", ":" or white space; a backslash takes the meaning from what follows it.
_LINE: Final = re.compile(r"((?:\\.|[^\\=:\s])+)\s*[=:\s]\s*(.*)")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_TO_ESCAPE: Final = re.compile(r"[\\=:#!]|[^\x20-\x7e]")
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The identity of a folder; the cluster id is None until the node has learned it."""

    node_id: ReplicaId
    directory_id: UUID
    cluster_id: str | None
    others: tuple[tuple[str, str], ...] = ()
    """Properties of other programs, which are preserved."""


def load_or_create(
    folder: Path,
    cluster_id: str | None,
    node_id: ReplicaId,
    *,
    rng: random.Random,
    fs: FileSystem = OS,
) -> MetaProperties:
    """Return the identity in `folder`; write it first if there is none.

    A folder without the file becomes this node's, with a new directory id from `rng`; a file
    that lacks the directory id, or the cluster id that is now known, gets it. Raises
    `FolderForeign` if the folder is another node's or cluster's, `FileDamaged`, `FolderUnusable`.
    """
    path = folder / FILE_NAME
    with usable(folder):
        make_folder(folder, fs)
        found = _read(path, fs)
        # A crash between rename and sync leaves a name that a power failure would undo.
        sync_folder(folder, fs)
        if found is None:
            # The same holds for the folder, if this process has just made it.
            with suppress(PermissionError):  # Without access it has not made the folder.
                sync_folder(folder.parent, fs)
    fresh = MetaProperties(node_id=node_id, directory_id=NO_DIRECTORY, cluster_id=cluster_id)
    meta = fresh if found is None else _parsed(path, found)
    if meta.node_id != node_id:
        raise FolderForeign(path, owner=f"node {meta.node_id}", here=f"this is node {node_id}")
    if None not in (meta.cluster_id, cluster_id) and meta.cluster_id != cluster_id:
        owner, here = f"cluster {meta.cluster_id}", f"this node is of cluster {cluster_id}"
        raise FolderForeign(path, owner=owner, here=here)
    complete = replace(meta, cluster_id=meta.cluster_id or cluster_id)
    if meta.directory_id == NO_DIRECTORY:
        complete = replace(complete, directory_id=new_directory_id(rng))
    if complete != meta:
        with usable(path):
            replace_file(path, _encoded(complete), fs)
    return complete


def look(
    folder: Path, *, needs_directory: bool = True, fs: FileSystem = OS
) -> MetaProperties | None:
    """Return the identity in `folder`, or None without a file; writes nothing.

    Raises `FileDamaged` and `FolderUnusable`. A file without a directory id, from Kafka before 3.7,
    counts as damaged, or unless `needs_directory` as `NO_DIRECTORY`.
    """
    path = folder / FILE_NAME
    with usable(path):
        found = _read(path, fs)
    if found is None:
        return None
    meta = _parsed(path, found)
    if needs_directory and meta.directory_id == NO_DIRECTORY:
        raise FileDamaged(path, "it has no directory.id", _NO_DIRECTORY_REMEDY)
    return meta


def _parsed(path: Path, found: Mapping[str, str]) -> MetaProperties:
    """Return the identity in these properties; without a directory id it is `NO_DIRECTORY`."""
    others = dict(found)
    version = others.pop("version", None)
    if version != _VERSION:
        if version is None:
            raise FileDamaged(path, f"no version, only version {_VERSION} is known", _REMEDY)
        raise FormatUnknown(path, f"version {version}, only version {_VERSION} is known")
    node = others.pop("node.id", None)
    if node is None or not re.fullmatch(r"\d{1,10}", node):
        shown = "no node.id" if node is None else f"node.id is {node!r}"
        raise FileDamaged(path, f"{shown}, expected a number from 0 up", _REMEDY)
    directory = others.pop("directory.id", None)
    return MetaProperties(
        node_id=ReplicaId(int(node)),
        directory_id=_directory_id(path, directory) if directory else NO_DIRECTORY,
        cluster_id=others.pop("cluster.id", None) or None,
        others=tuple(others.items()),
    )


def _directory_id(path: Path, text: str) -> UUID:
    try:
        directory_id = uuid_from_text(text)
    except ValueError as error:
        raise FileDamaged(path, f"directory.id: {error}", _REMEDY) from error
    if is_reserved(directory_id):
        raise FileDamaged(path, f"directory.id {text} is a reserved one", _REMEDY)
    return directory_id


def _read(path: Path, fs: FileSystem) -> Mapping[str, str] | None:
    """Read the properties; None if there is no file. Raises `OSError`, `FileDamaged`."""
    content = read_file(path, fs)
    if content is None:
        return None
    found: dict[str, str] = {}
    lines = content.decode("latin-1").splitlines()  # As in Java's Properties.
    for number, line in enumerate(lines, start=1):
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise FileDamaged(path, f"line {number} is not of the form key=value", _REMEDY)
        found[_unescaped(match[1])] = _unescaped(match[2])
    return found


def _encoded(meta: MetaProperties) -> bytes:
    properties = {
        "version": _VERSION,
        **({} if meta.cluster_id is None else {"cluster.id": meta.cluster_id}),
        "node.id": str(meta.node_id),
        "directory.id": uuid_to_text(meta.directory_id),
        **dict(meta.others),
    }
    lines = (f"{_escaped(key)}={_escaped(value)}\n" for key, value in properties.items())
    return "".join(lines).encode("ascii")


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        code = match[1]
        if len(code) > 1:
            return chr(int(code[1:], 16))
        return _CONTROL.get(code, code)

    return _ESCAPE.sub(plain, text)


def _escaped(text: str) -> str:
    def coded(match: re.Match[str]) -> str:
        char = match[0]
        if " " <= char <= "~":
            return "\\" + char
        units = char.encode("utf-16-be").hex()
        return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))

    return _TO_ESCAPE.sub(coded, text)


_HALF_BITS: Final = 64
_RESERVED_BELOW: Final = 100


def is_reserved(uuid: UUID) -> bool:
    """Return True if no directory may have this id; Kafka compares the lower half with a sign."""
    upper, lower = divmod(uuid.int, 1 << _HALF_BITS)
    signed = lower - (1 << _HALF_BITS) if lower >> (_HALF_BITS - 1) else lower
    return upper == 0 and signed < _RESERVED_BELOW


def new_directory_id(rng: random.Random) -> UUID:
    """Return a new directory id: a random uuid, version 4."""
    while True:
        uuid = UUID(int=rng.getrandbits(128), version=4)
        # Command-line tools would take a leading dash for an option.
        if not is_reserved(uuid) and not uuid_to_text(uuid).startswith("-"):
            return uuid


def next_boot(
    folder: Path, wall_ms: int, *, ahead_ms_max: int = _INT64_MAX, fs: FileSystem = OS
) -> int:
    """Return the timestamp of this boot, after storing it durably.

    It is the time, or one more than the last timestamp if that is not earlier; but the time if that
    is more than `ahead_ms_max` later, for no other node would accept it. `folder` exists.
    Raises `FileDamaged`, `FolderUnusable`.
    """
    path = folder / BOOT_FILE_NAME
    with usable(path):
        boot = max(0, wall_ms, _last_boot(path, fs) + 1)
        if boot > wall_ms + ahead_ms_max:
            boot = max(0, wall_ms)
        replace_file(path, _written_boot(boot), fs)
    return boot


def raise_boot(folder: Path, boot: int, *, fs: FileSystem = OS) -> None:
    """Raise the timestamp of this boot to `boot`. Raises `LogFailure` or `DiskFull`."""
    path = folder / BOOT_FILE_NAME
    with writable(path):
        replace_file(path, _written_boot(boot), fs)


def _last_boot(path: Path, fs: FileSystem) -> int:
    """Return the timestamp of the last boot, or -1; raises `OSError`, `FileDamaged`."""
    content = read_file(path, fs)
    if content is None:
        return -1
    # A newer version may have other lines after its own.
    said = _BOOT_VERSION_LINE.match(content)
    if said is not None and int(said[1]) != _BOOT_VERSION:
        reason = f"version {int(said[1])}, only version {_BOOT_VERSION} is known"
        raise FileDamaged(path, reason, _BOOT_REMEDY)
    match = _BOOT_LINES.fullmatch(content)
    if match is None:
        raise FileDamaged(path, "it does not hold a version and a boot.timestamp", _BOOT_REMEDY)
    boot = int(match[1])
    if boot >= _INT64_MAX:
        reason = f"boot.timestamp {boot} leaves no room for a later boot"
        raise FileDamaged(path, reason, _BOOT_REMEDY)
    return boot


def _written_boot(boot: int) -> bytes:
    return b"version=%d\nboot.timestamp=%d\n" % (_BOOT_VERSION, boot)
