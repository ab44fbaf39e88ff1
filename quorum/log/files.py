"""The few things that are done with files: read a stretch, replace a file, lock a folder.

No format is known here. Errors of the operating system pass through as they are, but for the
lock; whoever calls knows whether a node is starting or running, and says it in its own error.
"""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from quorum.log.errors import FolderInUse, FolderUnusable

LOCK_NAME: Final = ".lock"
TEMPORARY_SUFFIX: Final = ".tmp"


@contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """A file descriptor for as long as the block lasts."""
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def usable(path: Path) -> Iterator[None]:
    """While a node starts: turn an `OSError` of the block into `FolderUnusable`."""
    try:
        yield
    except OSError as error:
        where = Path(os.fsdecode(error.filename)) if error.filename is not None else path
        raise FolderUnusable(where, error.strerror or str(error)) from error


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable: a new file is lost with its name."""
    with opened(folder, os.O_RDONLY | os.O_DIRECTORY) as fd:
        os.fsync(fd)


def read_up_to(fd: int, size: int, position: int) -> bytes:
    """`size` bytes at `position`, or fewer where the file ends first."""
    data = os.pread(fd, size, position)
    while len(data) < size:
        more = os.pread(fd, size - len(data), position + len(data))
        if not more:
            break
        data += more
    return data


def write_all(fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
    """All of `data` at `position`; the operating system may take it in several parts."""
    written = os.pwrite(fd, data, position)
    while written < len(data):
        with memoryview(data) as view:
            written += os.pwrite(fd, view[written:], position + written)


def replace_file(path: Path, data: bytes) -> None:
    """Let `path` hold `data`, whole or not at all, and survive a loss of power from here on."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    with opened_new(temporary) as fd:
        write_all(fd, data, 0)
        os.fsync(fd)
    temporary.rename(path)
    sync_folder(path.parent)


@contextmanager
def opened_new(path: Path) -> Iterator[int]:
    """A descriptor of an empty file; what was there is gone."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        yield fd
    finally:
        os.close(fd)


def cut_files(path: Path, size_bytes: int, later: Sequence[Path]) -> None:
    """Shorten `path` and remove the files `later` that follow it, the last one first, durably.

    Whenever this is interrupted, what is left is the front of what there was: each name is
    durably gone before the next file is touched.
    """
    for each in reversed(later):
        each.unlink(missing_ok=True)
        sync_folder(each.parent)
    with opened(path, os.O_WRONLY) as fd:
        os.ftruncate(fd, size_bytes)
        os.fsync(fd)


def make_folder(folder: Path) -> None:
    """Create `folder` if it is not there, durably. Its parent must exist."""
    if folder.is_dir():
        return
    folder.mkdir()
    sync_folder(folder.parent)


class FolderLock:
    """One process per folder: holds an flock on the file `.lock` in it, as Kafka does.

    The lock ends with the process, however that ends; the file stays and means nothing.
    """

    def __init__(self, folder: Path) -> None:
        """Take the lock, or raise `FolderInUse`; `FolderUnusable` if there can be no such file."""
        path = folder / LOCK_NAME
        with usable(path):
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(fd)
            raise FolderInUse(path) from error
        except OSError as error:
            os.close(fd)
            raise FolderUnusable(path, error.strerror or str(error)) from error
        self._fd: int | None = fd

    def release(self) -> None:
        """Let others have the folder; a second call changes nothing."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
