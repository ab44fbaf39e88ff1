"""Backups in a folder."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from admin.backup.manifest import BackupError
from admin.backup.storage import PART_BYTES, Writer
from admin.tools.founding import make_folders
from quorum.log.errors import StorageError
from quorum.log.filesystem import FolderLock, sync_folder

_UNFINISHED: Final = ".part"
_UNFINISHED_FILE: Final = re.compile(
    r"([0-9]{20}[0-9-]{0,40}\.(checkpoint|log)|backup-[0-9TZ.]{1,30}\.json)\.part"
)


class FolderStorage:
    """A folder, which is made when first written to."""

    is_exclusive = True

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
            # The manifest of a backup is gone before its files are.
            sync_folder(self._folder)

    def unfinished(self) -> Sequence[str]:
        with self._said():
            found = [each.name for each in self._folder.iterdir()]
        return [name for name in found if _UNFINISHED_FILE.fullmatch(name)]

    @contextmanager
    def locked(self) -> Iterator[None]:
        with self._said():
            make_folders(self._folder)
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
