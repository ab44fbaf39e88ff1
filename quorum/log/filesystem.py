"""The file system port, its implementation, and file operations, for all of `quorum.log`.

The port is thin because the disk thread spends its time in `pwrite` and `fdatasync`. The chaos
simulation replaces it by a disk that knows what a power failure would leave.
"""

import errno
import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

from quorum.log.errors import FolderInUse, FolderUnusable
from quorum.ports import DiskFull, LogFailure


class FileSystem(Protocol):
    """Files as POSIX has them; each implementation passes tests/contracts/test_filesystem_contract.

    Every call raises `OSError` with Linux's error number. A change survives a power failure only
    once it is synced: data and length with the file, names with their folder.
    """

    def open(self, path: Path, flags: int, /) -> int:
        """Return a descriptor; `flags` are those of `os.open`. Only the owner may write to a new
        file, only who may read its folder may read it, and no child process inherits the
        descriptor."""
        ...

    def close(self, fd: int, /) -> None:
        """Close a descriptor, and release the lock that it holds."""
        ...

    def pread(self, fd: int, size_bytes: int, position: int, /) -> bytes:
        """Read at most `size_bytes` at `position`; empty at or after the end of the file."""
        ...

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int, /) -> int:
        """Write at `position`; return the number of bytes written. Zeros fill a gap."""
        ...

    def ftruncate(self, fd: int, size_bytes: int, /) -> None:
        """Set the length of the file; zeros fill the new part."""
        ...

    def fsync(self, fd: int, /) -> None:
        """Return once the file, or the names in the folder, survive a power failure."""
        ...

    def fdatasync(self, fd: int, /) -> None:
        """Sync a file as `fsync` does, except for its times."""
        ...

    def lock(self, fd: int, /) -> None:
        """Lock this file until the descriptor is closed.

        Raises `BlockingIOError` if another descriptor holds the lock.
        """
        ...

    def size(self, file: int | Path, /) -> int:
        """Return the length of a file in bytes."""
        ...

    def exists(self, path: Path, /) -> bool:
        """Return True if there is a file or a folder of this name."""
        ...

    def is_folder(self, path: Path, /) -> bool:
        """Return True if there is a folder of this name."""
        ...

    def names(self, folder: Path, /) -> list[str]:
        """Return the names in a folder, in no order."""
        ...

    def make_folder(self, path: Path, /) -> None:
        """Create a folder in an existing one, for its owner only."""
        ...

    def rename(self, path: Path, new: Path, /) -> None:
        """Rename the file to `new`, in the same folder; replaces a file of that name."""
        ...

    def remove(self, path: Path, /) -> None:
        """Remove the name of a file; open descriptors of it stay valid."""
        ...


_OWNERS: Final = 0o600
_READABLE: Final = 0o044


class _OperatingSystem:
    """The real file system; frequent methods are the system calls themselves."""

    close = staticmethod(os.close)
    pread = staticmethod(os.pread)
    pwrite = staticmethod(os.pwrite)
    ftruncate = staticmethod(os.ftruncate)
    fsync = staticmethod(os.fsync)
    fdatasync = staticmethod(os.fdatasync)

    def open(self, path: Path, flags: int, /) -> int:
        mode = _OWNERS
        if flags & os.O_CREAT:
            # The log has credentials in it. Whoever is let into its folder is meant to read it.
            mode |= os.stat(path.parent).st_mode & _READABLE
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def lock(self, fd: int, /) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def size(self, file: int | Path, /) -> int:
        return os.stat(file).st_size

    def exists(self, path: Path, /) -> bool:
        return os.path.exists(path)

    def is_folder(self, path: Path, /) -> bool:
        return os.path.isdir(path)

    def names(self, folder: Path, /) -> list[str]:
        return os.listdir(folder)

    def make_folder(self, path: Path, /) -> None:
        os.mkdir(path, 0o700)

    def rename(self, path: Path, new: Path, /) -> None:
        os.rename(path, new)

    def remove(self, path: Path, /) -> None:
        os.unlink(path)


OS: Final[FileSystem] = _OperatingSystem()

FREED_BYTES: Final = 64 * 1024 * 1024
"""Bytes freed by one step of the removal of a large file: a commit may wait behind it."""

LOCK_NAME: Final = ".lock"
TEMPORARY_SUFFIX: Final = ".tmp"
REMOVED_SUFFIX: Final = ".deleted"
"""Kafka's suffix for files that are being removed; the next start removes the rest."""
_FOLDER_WANTED: Final = "A node needs a folder that it can make, read and write"


@contextmanager
def opened(path: Path, flags: int, fs: FileSystem = OS) -> Iterator[int]:
    """Open a file for the duration of the block."""
    fd = fs.open(path, flags)
    try:
        yield fd
    finally:
        fs.close(fd)


@contextmanager
def usable(path: Path) -> Iterator[None]:
    """Turn an `OSError` of the block into `FolderUnusable`, while a node starts."""
    try:
        yield
    except OSError as error:
        where = Path(os.fsdecode(error.filename)) if error.filename is not None else path
        why = error.strerror or str(error)
        raise FolderUnusable(where, f"{why}. {_FOLDER_WANTED}") from error


@contextmanager
def writable(path: Path) -> Iterator[None]:
    """Turn an `OSError` of the block into `DiskFull` or `LogFailure`, while a node runs."""
    try:
        yield
    except OSError as error:
        kind = DiskFull if is_full(error) else LogFailure
        raise kind(f"{path} cannot be written: {error.strerror or error}") from error


def sync_folder(folder: Path, fs: FileSystem = OS) -> None:
    """Make the names in `folder` durable: without its name a new file is lost."""
    with opened(folder, os.O_RDONLY | os.O_DIRECTORY, fs) as fd:
        sync_file(fd, fs)


def sync_file(fd: int, fs: FileSystem = OS) -> None:
    """Make a file or the names of a folder durable. Its errors never count as a full disk: data
    that could not be synced is lost, and a retry would not write it."""
    try:
        fs.fsync(fd)
    except OSError as error:
        raise failed_sync(error) from error


class SyncFailed(OSError):
    """The error of a sync; never one that means a full disk."""


def failed_sync(error: OSError) -> SyncFailed:
    """Return the `SyncFailed` for an error of a sync."""
    return SyncFailed(errno.EIO, f"it could not be synced: {error.strerror or error}")


def is_full(error: OSError) -> bool:
    """Return True if an operation failed only because the disk is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def read_up_to(fd: int, size: int, position: int, fs: FileSystem = OS) -> bytes:
    """Read `size` bytes at `position`, or fewer if the file ends first."""
    data = fs.pread(fd, size, position)
    while len(data) < size:
        more = fs.pread(fd, size - len(data), position + len(data))
        if not more:
            break
        data += more
    return data


def read_file(path: Path, fs: FileSystem = OS) -> bytes | None:
    """Read a small file; None if there is no such file."""
    try:
        with opened(path, os.O_RDONLY, fs) as fd:
            return read_up_to(fd, fs.size(fd), 0, fs)
    except FileNotFoundError:
        return None


def write_all(
    fd: int, data: bytes | bytearray | memoryview, position: int, fs: FileSystem = OS
) -> None:
    """Write all of `data` at `position`, in several calls if necessary."""
    written = fs.pwrite(fd, data, position)
    while written < len(data):
        with memoryview(data) as view:
            written += fs.pwrite(fd, view[written:], position + written)


def replace_file(path: Path, data: bytes, fs: FileSystem = OS) -> None:
    """Replace the content of `path` by `data`, atomically and durably."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    with opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, fs) as fd:
        write_all(fd, data, 0, fs)
        sync_file(fd, fs)
    fs.rename(temporary, path)
    sync_folder(path.parent, fs)


def cut_files(path: Path, size_bytes: int, later: Sequence[Path], fs: FileSystem = OS) -> None:
    """Shorten `path` and remove the files `later` that follow it, the last one first, durably.

    An interruption leaves a prefix: each name is durably gone before the next file is touched.
    """
    remove_files(reversed(later), fs)
    with opened(path, os.O_WRONLY, fs) as fd:
        fs.ftruncate(fd, size_bytes)
        sync_file(fd, fs)


def remove_files(paths: Iterable[Path], fs: FileSystem = OS) -> None:
    """Remove these files one by one, each durably before the next."""
    for each in paths:
        with suppress(FileNotFoundError):
            fs.remove(each)
        sync_folder(each.parent, fs)


def renamed_for_removal(path: Path) -> Path:
    """Return the name of a large file while it is being removed."""
    return path.with_name(f"{path.name}{REMOVED_SUFFIX}")


def take_name_away(path: Path, fs: FileSystem = OS) -> bool:
    """Remove the name of a file, durably and at once. Return True if bytes are left for
    `remove_some`, as for a large file if there is room for another name."""
    if fs.exists(path) and fs.size(path) > FREED_BYTES:
        try:
            fs.rename(path, renamed_for_removal(path))
        except OSError as error:
            if not is_full(error):
                raise
        else:
            sync_folder(path.parent, fs)
            return True
    remove_files([path], fs)
    return fs.exists(renamed_for_removal(path))


def remove_some(path: Path, fs: FileSystem = OS) -> bool:
    """Remove a part of a file, so that no call takes long; return True if there is more of it.

    The rest has another name meanwhile: after a power failure it is not taken for the file.
    """
    removed = renamed_for_removal(path)
    if not fs.exists(removed):
        return take_name_away(path, fs)
    if fs.size(removed) > FREED_BYTES:
        with opened(removed, os.O_WRONLY, fs) as fd:
            fs.ftruncate(fd, fs.size(fd) - FREED_BYTES)
        return True
    remove_files([removed], fs)
    return False


def make_folder(folder: Path, fs: FileSystem = OS) -> None:
    """Create `folder` durably, unless it exists. Its parent must exist."""
    if fs.is_folder(folder):
        return
    fs.make_folder(folder)
    sync_folder(folder.parent, fs)


class FolderLock:
    """An flock on the file `.lock` in a folder, for one process per folder, as in Kafka.

    The lock ends with the process; the file stays and has no meaning.
    """

    def __init__(self, folder: Path, fs: FileSystem = OS) -> None:
        """Take the lock; raises `FolderInUse`, or `FolderUnusable` if the file cannot be made."""
        path = folder / LOCK_NAME
        with usable(path):
            fd = fs.open(path, os.O_RDWR | os.O_CREAT)
        try:
            fs.lock(fd)
        except BlockingIOError as error:
            fs.close(fd)
            raise FolderInUse(path) from error
        except OSError as error:
            fs.close(fd)
            raise FolderUnusable(path, error.strerror or str(error)) from error
        self._fs = fs
        self._fd: int | None = fd

    def release(self) -> None:
        """Release the lock; a second call changes nothing."""
        if self._fd is not None:
            self._fs.close(self._fd)
            self._fd = None
