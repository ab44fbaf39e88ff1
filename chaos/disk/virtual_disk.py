"""An in-memory disk with faults, behind `quorum.log.filesystem.FileSystem`.

`chaos.disk.disk_state` holds the contents and the outcome of a power loss. This module implements
the calls with the semantics of Linux, and the faults. Nothing is random here.
"""

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, assert_never

from chaos.disk.disk_state import Chance, File, Folder, Node, Written

ROOT: Final = Path("/")


class Kind(Enum):
    """The operations of a disk that can fail."""

    OPEN = "open"
    READ = "read"
    WRITE = "write"
    SYNC = "sync"
    TRUNCATE = "truncate"
    RENAME = "rename"
    REMOVE = "remove"
    MAKE_FOLDER = "make folder"


class Operation(NamedTuple):
    """One call, before it takes effect."""

    kind: Kind
    path: Path
    position: int = 0
    """The size of a read or a write; the new length of a truncation."""
    size_bytes: int = 0

    @property
    def changes(self) -> bool:
        """True if the operation can change the outcome of a power loss."""
        return self.kind is not Kind.OPEN and self.kind is not Kind.READ

    def __str__(self) -> str:
        where = f" {self.size_bytes} bytes at {self.position}" if self.size_bytes else ""
        return f"{self.kind.value} {self.path}{where}"


@dataclass(frozen=True, slots=True)
class Fail:
    """The call raises an error of this number and does nothing; a failed sync loses the unsynced
    data for good, although reads still show it."""

    errno: int


@dataclass(frozen=True, slots=True)
class Short:
    """A fault: a read or a write transfers only this many bytes."""

    size_bytes: int


@dataclass(frozen=True, slots=True)
class Misdirect:
    """A fault: a write lands elsewhere in its file. Reads show it in place until a power loss."""

    position: int


Fault: TypeAlias = Fail | Short | Misdirect
Watch: TypeAlias = Callable[[Operation], Fault | None]
"""Called before each operation. The process gets what it raises, such as a power loss."""


@dataclass(slots=True, eq=False)
class _Open:
    """An open file."""

    path: Path
    node: Node
    reads: bool
    writes: bool
    locks: bool = False


class VirtualDisk:
    """A disk; threads may share it if they never use one file at the same time."""

    def __init__(self, *, capacity_bytes: int | None = None, root: Folder | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        """None is unlimited; writes beyond it fail with ENOSPC, and new names on a full disk."""
        self.watch: Watch | None = None
        self.rewritten: list[File] = []
        """The files of which a sync has replaced or removed durable data; readers that follow
        them clear this."""
        self.named = 0
        """A count of possible changes of durable names."""
        self._root = Folder() if root is None else root
        self._open: dict[int, _Open] = {}
        self._next_fd = 1_000_000
        """Far above the descriptors of the real system, where such a number is invalid."""

    # For the owner of the disk.

    @property
    def used_bytes(self) -> int:
        """The total size of all files, open files without a name included."""
        files = {id(each): each for each in self._root.files()}
        files |= {id(o.node): o.node for o in self._open.values() if isinstance(o.node, File)}
        return sum(len(each.shown) for each in files.values())

    @property
    def open_count(self) -> int:
        """The number of open descriptors."""
        return len(self._open)

    def hold(self, capacity_bytes: int | None) -> None:
        """Set the capacity; see `capacity_bytes`."""
        self.capacity_bytes = capacity_bytes

    def copy(self) -> "VirtualDisk":
        """An independent copy of the disk as it is now."""
        return VirtualDisk(capacity_bytes=self.capacity_bytes, root=self._root.copy())

    def after_power_loss(self, chance: Chance) -> "VirtualDisk":
        """A disk as the next process may find it after a power loss now; this one is unchanged."""
        left = self._root.after_power_loss(chance)
        return VirtualDisk(capacity_bytes=self.capacity_bytes, root=left)

    def lose_power(self, chance: Chance) -> None:
        """Lose power: keep what is left, close all descriptors."""
        self._root = self._root.after_power_loss(chance)
        self.named += 1
        self.rewritten.clear()
        self.kill()

    def kill(self) -> None:
        """End the process with its descriptors and locks; its writes stay visible."""
        self._open.clear()

    def forget(self, path: Path) -> None:
        """Lose the unsynced data of a file or names of a folder, but still show them, like Linux
        after a failed writeback that it has reported once."""
        node = self._find(path)
        assert node is not None, f"there is no {path}"
        node.fail_to_sync()

    def rot(self, path: Path, position: int, bits: int = 1) -> None:
        """Flip bits of one byte of a file."""
        self._file(path).rot(position, bits)

    def overwrite(self, path: Path, position: int, data: bytes) -> bytes:
        """Overwrite a durable range of a file unnoticed; return its old bytes."""
        return self._file(path).overwrite(position, data)

    def scribble(self, path: Path, position: int, data: bytes) -> None:
        """Write into a file from outside; it is an ordinary unsynced write."""
        self._file(path).write(Written(position, data))

    def content(self, path: Path) -> bytes:
        """The contents of a file, for the harness."""
        return bytes(self._file(path).shown)

    def everything(self) -> list[tuple[str, bytes]]:
        """The contents of every file, by path."""
        return sorted(_contents("", self._root))

    def kept(self, path: Path) -> Node | None:
        """The node with this name after any power loss; its `durable` part survives."""
        node: Node | None = self._root
        for part in path.parts[1:]:
            node = node.durable.get(part) if isinstance(node, Folder) else None
        return node

    def put(self, path: Path, data: bytes) -> None:
        """Create a durable file, as an operator would; its folder exists."""
        file = File(bytearray(data), bytearray(data))
        folder = self._folder_of(path)
        folder.name((path.name, file))
        folder.sync()
        self.named += 1

    # `FileSystem`

    def open(self, path: Path, flags: int, /) -> int:
        self._ask(Kind.OPEN, path)
        node = self._find(path)
        writes = flags & os.O_ACCMODE != os.O_RDONLY
        if node is None:
            if not flags & os.O_CREAT:
                raise _error(errno.ENOENT, path)
            node = File()
            self._need_room(path)
            self._folder_of(path).name((path.name, node))
        elif flags & os.O_CREAT and flags & os.O_EXCL:
            raise _error(errno.EEXIST, path)
        elif isinstance(node, Folder) and writes:
            raise _error(errno.EISDIR, path)
        elif isinstance(node, File) and flags & os.O_DIRECTORY:
            raise _error(errno.ENOTDIR, path)
        elif isinstance(node, File) and flags & os.O_TRUNC and node.shown:
            node.cut(0)
        self._next_fd += 1
        reads = flags & os.O_ACCMODE != os.O_WRONLY
        self._open[self._next_fd] = _Open(path, node, reads, writes)
        return self._next_fd

    def close(self, fd: int, /) -> None:
        self._at(fd)
        del self._open[fd]

    def pread(self, fd: int, size_bytes: int, position: int, /) -> bytes:
        open_ = self._at(fd)
        if isinstance(open_.node, Folder):
            raise _error(errno.EISDIR, open_.path)
        if not open_.reads:
            raise _error(errno.EBADF, open_.path)
        match self._ask(Kind.READ, open_.path, position, size_bytes):
            case None:
                pass
            case Short(short_bytes):
                size_bytes = min(size_bytes, short_bytes)
            case Misdirect():
                raise AssertionError("a read cannot be misdirected")
        return bytes(open_.node.shown[position : position + size_bytes])

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int, /) -> int:
        open_ = self._at(fd)
        if isinstance(open_.node, Folder) or not open_.writes:
            raise _error(errno.EBADF, open_.path)
        taken = bytes(data)
        landing = None
        match self._ask(Kind.WRITE, open_.path, position, len(taken)):
            case None:
                pass
            case Short(short_bytes):
                taken = taken[:short_bytes]
            case Misdirect(elsewhere):
                landing = Written(elsewhere, taken)
        if self.capacity_bytes is not None:
            taken = taken[: self._fitting(open_, position, len(taken))]
        open_.node.write(Written(position, taken), landing=landing)
        return len(taken)

    def ftruncate(self, fd: int, size_bytes: int, /) -> None:
        open_ = self._at(fd)
        if isinstance(open_.node, Folder) or not open_.writes:
            raise _error(errno.EINVAL, open_.path)
        self._ask(Kind.TRUNCATE, open_.path, size_bytes)
        open_.node.cut(size_bytes)

    def fsync(self, fd: int, /) -> None:
        open_ = self._at(fd)
        try:
            self._ask(Kind.SYNC, open_.path)
        except OSError:
            open_.node.fail_to_sync()
            raise
        open_.node.sync()
        if isinstance(open_.node, Folder):
            self.named += 1
        elif open_.node.rewritten_from is not None:
            self.rewritten.append(open_.node)

    def fdatasync(self, fd: int, /) -> None:
        self.fsync(fd)

    def lock(self, fd: int, /) -> None:
        open_ = self._at(fd)
        others = (each for each in self._open.values() if each is not open_)
        if any(each.locks and each.node is open_.node for each in others):
            raise _error(errno.EAGAIN, open_.path)
        open_.locks = True

    def size(self, file: int | Path, /) -> int:
        if isinstance(file, int):
            node = self._at(file).node
            return 0 if isinstance(node, Folder) else len(node.shown)
        return len(self._file(file).shown)

    def exists(self, path: Path, /) -> bool:
        return self._find(path) is not None

    def is_folder(self, path: Path, /) -> bool:
        return isinstance(self._find(path), Folder)

    def names(self, folder: Path, /) -> list[str]:
        node = self._find(folder)
        if node is None:
            raise _error(errno.ENOENT, folder)
        if isinstance(node, File):
            raise _error(errno.ENOTDIR, folder)
        return list(node.shown)

    def make_folder(self, path: Path, /) -> None:
        self._ask(Kind.MAKE_FOLDER, path)
        if self._find(path) is not None:
            raise _error(errno.EEXIST, path)
        self._need_room(path)
        self._folder_of(path).name((path.name, Folder()))

    def rename(self, path: Path, new: Path, /) -> None:
        self._ask(Kind.RENAME, path)
        node = self._find(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        if path.parent != new.parent:
            raise _error(errno.EXDEV, path)
        if isinstance(self._find(new), Folder):
            raise _error(errno.EISDIR, new)
        self._folder_of(path).name((path.name, None), (new.name, node))

    def remove(self, path: Path, /) -> None:
        self._ask(Kind.REMOVE, path)
        node = self._find(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        if isinstance(node, Folder):
            raise _error(errno.EISDIR, path)
        self._folder_of(path).name((path.name, None))

    # Internals.

    def _ask(
        self, kind: Kind, path: Path, position: int = 0, size_bytes: int = 0
    ) -> Short | Misdirect | None:
        """Let the owner inject a fault; raise a `Fail`, return any other."""
        if self.watch is None:
            return None
        match self.watch(Operation(kind, path, position, size_bytes)):
            case None:
                return None
            case Fail(number):
                raise _error(number, path)
            case Short() | Misdirect() as fault:
                return fault
            case other:
                assert_never(other)

    def _fitting(self, open_: _Open, position: int, size_bytes: int) -> int:
        """The number of bytes of a write that fit; raises ENOSPC if none do."""
        if self.capacity_bytes is None or isinstance(open_.node, Folder):
            return size_bytes
        end = max(len(open_.node.shown), position)
        room = end - position + self.capacity_bytes - self.used_bytes
        if room <= 0 < size_bytes:
            raise _error(errno.ENOSPC, open_.path)
        return min(size_bytes, room)

    def _need_room(self, path: Path) -> None:
        if self.capacity_bytes is not None and self.used_bytes >= self.capacity_bytes:
            raise _error(errno.ENOSPC, path)

    def _at(self, fd: int) -> _Open:
        if fd not in self._open:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._open[fd]

    def _find(self, path: Path) -> Node | None:
        node: Node | None = self._root
        for part in path.parts[1:]:
            node = node.shown.get(part) if isinstance(node, Folder) else None
        return node

    def _file(self, path: Path) -> File:
        node = self._find(path)
        if not isinstance(node, File):
            raise _error(errno.ENOENT if node is None else errno.EISDIR, path)
        return node

    def _folder_of(self, path: Path) -> Folder:
        node: Node | None = self._root
        for part in path.parts[1:-1]:
            node = node.shown.get(part) if isinstance(node, Folder) else None
        if not isinstance(node, Folder):
            raise _error(errno.ENOENT if node is None else errno.ENOTDIR, path)
        return node


def _contents(path: str, folder: Folder) -> Iterator[tuple[str, bytes]]:
    for name, node in folder.shown.items():
        if isinstance(node, Folder):
            yield from _contents(f"{path}/{name}", node)
        else:
            yield f"{path}/{name}", bytes(node.shown)


def _error(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))
