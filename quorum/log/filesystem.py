"""What storage asks of an operating system, and the real one: nothing else here touches a file.

As thin as it can be, for the disk thread spends its life in `pwrite` and `fdatasync`. The chaos
simulation puts a disk of its own in its place, which knows what a loss of power would leave.
"""

import fcntl
import os
from pathlib import Path
from typing import Final, Protocol


class FileSystem(Protocol):
    """Files as POSIX has them; each implementation passes tests/contracts/test_filesystem_contract.

    Every call raises `OSError` with the number that Linux gives. Nothing written, cut or renamed
    survives a loss of power before it is synced: data and length with the file, names with the
    folder they are in.
    """

    def open(self, path: Path, flags: int, /) -> int:
        """A descriptor, by the flags of `os.open`; a file that it creates is only its owner's to
        write, and no child process gets the descriptor."""
        ...

    def close(self, fd: int, /) -> None:
        """Give back a descriptor, and a lock that it holds."""
        ...

    def pread(self, fd: int, size_bytes: int, position: int, /) -> bytes:
        """At most this much from here; nothing at or behind the end."""
        ...

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int, /) -> int:
        """Write here and return how much was taken, which may be less: zeros fill a gap."""
        ...

    def ftruncate(self, fd: int, size_bytes: int, /) -> None:
        """Let the file have this length; zeros fill what is new."""
        ...

    def fsync(self, fd: int, /) -> None:
        """Return once the file, or the names in the folder, survive a loss of power."""
        ...

    def fdatasync(self, fd: int, /) -> None:
        """The same, but for the times of the file, which nobody here asks for."""
        ...

    def lock(self, fd: int, /) -> None:
        """Keep others from locking this file until the descriptor is closed.

        Raises `BlockingIOError` where another descriptor has done so.
        """
        ...

    def size(self, file: int | Path, /) -> int:
        """The length of a file in bytes."""
        ...

    def exists(self, path: Path, /) -> bool:
        """Whether there is a file or a folder of this name."""
        ...

    def is_folder(self, path: Path, /) -> bool:
        """Whether there is a folder of this name."""
        ...

    def names(self, folder: Path, /) -> list[str]:
        """What is in a folder, in no order."""
        ...

    def make_folder(self, path: Path, /) -> None:
        """A new folder in one that exists."""
        ...

    def rename(self, path: Path, new: Path, /) -> None:
        """Let the file be called `new`, in the same folder, in place of any file of that name."""
        ...

    def remove(self, path: Path, /) -> None:
        """Take the name of a file away; who has it open keeps it."""
        ...


class _OperatingSystem:
    """The real one. Where it is called often it is the system call itself."""

    close = staticmethod(os.close)
    pread = staticmethod(os.pread)
    pwrite = staticmethod(os.pwrite)
    ftruncate = staticmethod(os.ftruncate)
    fsync = staticmethod(os.fsync)
    fdatasync = staticmethod(os.fdatasync)

    def open(self, path: Path, flags: int, /) -> int:
        return os.open(path, flags | os.O_CLOEXEC, 0o644)

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
        os.mkdir(path)

    def rename(self, path: Path, new: Path, /) -> None:
        os.rename(path, new)

    def remove(self, path: Path, /) -> None:
        os.unlink(path)


OS: Final[FileSystem] = _OperatingSystem()
