"""The place that backups are kept in: a folder, or an object store (`object_storage`).

Files are written once, under another name until they are whole, and never changed: a crash leaves
the earlier backups as they were. All operations block; a backup is a process of its own.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

from admin.backup.faults import BackupError
from admin.backup.manifest import (
    MANIFEST_BYTES_MAX,
    Manifest,
    decode_manifest,
    manifest_id,
    manifest_name,
)
from quorum.log.errors import StorageError
from quorum.log.filesystem import FolderLock, sync_folder

PART_BYTES: Final = 1024 * 1024
"""Bytes that are read or written at once."""

_UNFINISHED: Final = ".part"
_UNFINISHED_FILE: Final = re.compile(
    r"([0-9]{20}[0-9-]{0,40}\.(checkpoint|log)|backup-[0-9TZ.]{1,30}\.json)\.part"
)


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
        """Keep other backups out, where the place can do that."""
        ...


class FolderStorage:
    """A folder, which is made when first written to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __str__(self) -> str:
        return str(self._folder)

    def sizes(self) -> Mapping[str, int]:
        with self._said():
            if not self._folder.exists():
                return {}
            return {
                each.name: each.stat().st_size
                for each in self._folder.iterdir()
                if not each.name.endswith(_UNFINISHED)
            }

    def read(self, name: str) -> Iterator[bytes]:
        with self._said(), (self._folder / name).open("rb", buffering=0) as file:
            while data := file.read(PART_BYTES):
                yield data

    @contextmanager
    def create(self, name: str) -> Iterator[Writer]:
        final = self._folder / name
        part = final.with_name(final.name + _UNFINISHED)
        with self._said():
            fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            with open(fd, "wb", buffering=0) as file:
                yield Writer(lambda data: self._append(file.fileno(), data))
                with self._said():
                    os.fsync(file.fileno())
            with self._said():
                part.rename(final)
                sync_folder(self._folder)
        except BaseException:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise

    def _append(self, fd: int, data: bytes) -> None:
        with self._said():
            left = memoryview(data)
            while left:
                left = left[os.write(fd, left) :]

    def remove(self, name: str) -> None:
        with self._said():
            (self._folder / name).unlink(missing_ok=True)

    def unfinished(self) -> Sequence[str]:
        with self._said():
            found = [each.name for each in self._folder.iterdir()]
        return [name for name in found if _UNFINISHED_FILE.fullmatch(name)]

    @contextmanager
    def locked(self) -> Iterator[None]:
        with self._said():
            if not self._folder.exists():
                self._folder.mkdir(mode=0o700, parents=True)
                sync_folder(self._folder.parent)
        try:
            lock = FolderLock(self._folder)
        except StorageError as error:
            raise BackupError(f"{error}") from error
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def _said(self) -> Iterator[None]:
        """Turn an `OSError` of the block into `BackupError`."""
        try:
            yield
        except OSError as error:
            where = os.fsdecode(error.filename) if error.filename is not None else self._folder
            raise BackupError(f"{where}: {error.strerror or error}") from error


def storage_of(place: str) -> Storage:
    """The storage that `place` names: a folder, or a URI such as s3://bucket/folder.

    Raises `BackupError` for a URI that cannot be used.
    """
    if "://" not in place:
        return FolderStorage(Path(place))
    from admin.backup.object_storage import object_storage

    return object_storage(place)


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
