"""The place that backups are kept in: `folder_storage`, or `object_storage`.

Files are written once, under another name until they are whole, and never changed: a crash leaves
the earlier backups as they were. All operations block; a backup is a process of its own.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Final, Protocol

from admin.backup.manifest import (
    MANIFEST_BYTES_MAX,
    BackupDamaged,
    BackupError,
    Manifest,
    decode_manifest,
    manifest_id,
    manifest_name,
)

PART_BYTES: Final = 1024 * 1024
"""Bytes that are read or written at once."""


class Writer:
    """A file that is being written; counts and hashes what it is given."""

    def __init__(self, write: "Write") -> None:
        self._write = write
        self._hash = hashlib.sha256()
        self.size_bytes = 0

    def write(self, data: bytes) -> None:
        """Append these bytes; raises `BackupError`."""
        self._write(data)
        self._hash.update(data)
        self.size_bytes += len(data)

    @property
    def sha256(self) -> str:
        """The checksum of everything that was written."""
        return self._hash.hexdigest()


class Write(Protocol):
    """Appends bytes to a file."""

    def __call__(self, data: bytes, /) -> object: ...


class Storage(Protocol):
    """The files of one place; errors are `BackupError`s that name it."""

    is_exclusive: bool
    """True if `locked` keeps other backups out."""

    def __str__(self) -> str: ...

    def sizes(self) -> Mapping[str, int]:
        """All finished files with their sizes in bytes; none if the place does not exist yet."""
        ...

    def read(self, name: str) -> Iterator[bytes]:
        """Yield the content of a file in pieces; raises `BackupError` also if there is none."""
        ...

    def create(self, name: str) -> AbstractContextManager[Writer]:
        """Write a file. It is there, durably, once the block has ended without an exception."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        ...

    def unfinished(self) -> Sequence[str]:
        """The names under which interrupted runs have left files; `remove` takes them."""
        ...

    def locked(self) -> AbstractContextManager[None]:
        """Keep other backups out, if the place `is_exclusive`."""
        ...


def read_small(storage: Storage, name: str) -> bytes:
    """Read a manifest; raises `BackupError`."""
    content = b""
    for data in storage.read(name):
        content += data
        if len(content) > MANIFEST_BYTES_MAX:
            raise BackupError(f"{storage}: {name} is larger than any manifest")
    return content


def backup_ids(storage: Storage) -> list[str]:
    """The ids of all backups, the oldest first."""
    found = (manifest_id(name) for name in storage.sizes())
    return sorted(each for each in found if each is not None)


def read_manifest(storage: Storage, id_: str) -> Manifest:
    """Read the manifest of a backup; raises `BackupError` or `BackupDamaged`."""
    name = manifest_name(id_)
    return decode_manifest(read_small(storage, name), f"{storage}: {name}")


def find_manifest(storage: Storage, id_: str | None) -> Manifest:
    """Read the manifest of this backup, or of the newest one; raises `BackupError`."""
    ids = backup_ids(storage)
    if not ids:
        raise BackupError(
            f"{storage} holds no backup: name the place that `metaquorum backup --to` was given"
        )
    if id_ is not None and id_ not in ids:
        raise BackupError(
            f"{storage} holds no backup {id_}; the newest is {ids[-1]}, `metaquorum backup list "
            f"{storage}` shows all"
        )
    return read_manifest(storage, id_ or ids[-1])


def read_manifests(storage: Storage) -> tuple[list[Manifest], list[str]]:
    """Read all manifests, the oldest first, and the names of those that are damaged.

    Raises `BackupError` if one cannot be read at all.
    """
    sound: list[Manifest] = []
    damaged: list[str] = []
    for id_ in backup_ids(storage):
        try:
            sound.append(read_manifest(storage, id_))
        except BackupDamaged:
            damaged.append(manifest_name(id_))
    return sound, damaged


def newest_manifest(storage: Storage) -> Manifest | None:
    """Read the manifest of the newest backup that has a sound one; raises `BackupError`."""
    for id_ in reversed(backup_ids(storage)):
        with suppress(BackupDamaged):
            return read_manifest(storage, id_)
    return None
