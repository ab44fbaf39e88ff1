"""Read access to folders and files, wherever they are.

A path is a string. `s3://bucket/folder` and `hdfs://host:port/folder` are read through Arrow;
every other path is one of this machine and is read by system calls. Nothing here writes.

Credentials, region and endpoint of an object store come from the environment, as for every client
of the store, and never from the path: a report names its paths. Errors are `OSError`s whose
`strerror` is a sentence that says what would be right.
"""

import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, cast

from lag.extra import without
from quorum.log.filesystem import OS, FileSystem

_REMOTE: Final = re.compile(r"(s3|hdfs)://([^/]*)")
_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_WRITE: Final = "write s3://bucket/folder, hdfs://host:port/folder, or the path of a folder"
_HADOOPS_NAMES: Final = ("s3a", "s3n")

BLOCK_BYTES: Final = 256 * 1024
"""A smaller read of a remote file reads a whole block, because each request takes as long as the
transfer of a block."""
COPY_BYTES: Final = 4 * 1024 * 1024
"""The bytes of a file that a copy has in memory."""
CALLS_AT_ONCE: Final = 16
"""Folders are listed with so many calls at once: a call may take tens of milliseconds."""
CALLS_ALONE: Final = 8
"""So few calls are made one after the other."""

_T = TypeVar("_T")
_R = TypeVar("_R")


class OpenFile(Protocol):
    """A file that is open for reading."""

    def pread(self, size: int, position: int, /) -> bytes:
        """Read at most `size` bytes at `position`; empty at or after the end of the file."""
        ...

    def size(self) -> int:
        """Return the length of the file in bytes, which may grow."""
        ...


class Entry(Protocol):
    """A name in a folder."""

    @property
    def name(self) -> str: ...

    def is_folder(self) -> bool:
        """Return True for a folder, and for a link to one."""
        ...

    def size_bytes(self) -> int:
        """Return the length of the file in bytes."""
        ...


class Files(Protocol):
    """A file system; each implementation passes tests/lag/source/test_files.py.

    Every call raises `OSError`; `FileNotFoundError` if there is nothing of this name.
    """

    def is_folder(self, path: str, /) -> bool:
        """Return True if there is a folder of this name."""
        ...

    def exists(self, path: str, /) -> bool:
        """Return True if there is a file or a folder of this name."""
        ...

    def entries(self, folder: str, /) -> Sequence[Entry]:
        """Return the entries of a folder, by name."""
        ...

    def size(self, path: str, /) -> int:
        """Return the length of a file in bytes."""
        ...

    def open(self, path: str, /) -> OpenFile:
        """Open a file for reading."""
        ...

    def close(self, file: Any, /) -> None:
        """Close a file that `open` returned."""
        ...


def files_of(path: str) -> Files:
    """The file system of a path; raises `OSError` if it cannot be used."""
    remote = _REMOTE.match(path)
    return LOCAL if remote is None else connected(remote[0])


def is_remote(path: str) -> bool:
    """True for a path that is not one of this machine."""
    return _REMOTE.match(path) is not None


@contextmanager
def opened(path: str) -> Iterator[OpenFile]:
    """Open a file for reading while the context lasts."""
    files = files_of(path)
    file = files.open(path)
    try:
        yield file
    finally:
        files.close(file)


def read_up_to(file: OpenFile, size: int, position: int) -> bytes:
    """Read `size` bytes at `position`, or fewer if the file ends first."""
    data = file.pread(size, position)
    while len(data) < size:
        more = file.pread(size - len(data), position + len(data))
        if not more:
            break
        data += more
    return data


def read_file(path: str) -> bytes:
    """Read a small file."""
    with opened(path) as file:
        return read_up_to(file, file.size(), 0)


def copy(path: str, target: str) -> None:
    """Copy a file to a new one of this machine."""
    with opened(path) as file, open(target, "xb") as copied:
        while data := file.pread(COPY_BYTES, copied.tell()):
            copied.write(data)


def join(folder: str, name: str) -> str:
    """The path of a name in a folder."""
    return f"{folder.rstrip('/')}/{name}"


def name_of(path: str) -> str:
    """The last name of a path."""
    return path.rstrip("/").rpartition("/")[2]


def parent_of(path: str) -> str:
    """The folder that contains this one; the root of a bucket contains itself."""
    if not is_remote(path):
        return str(Path(path).parent)
    parent = path.rstrip("/").rpartition("/")[0]
    return parent if is_remote(parent) else path


def all_of(work: Callable[[_T], _R], items: Iterable[_T]) -> list[_R]:
    """The results for all items in order, by several threads: each waits for a file system."""
    waiting = list(items)
    if len(waiting) <= CALLS_ALONE:
        return [work(item) for item in waiting]
    with ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix="list folders") as pool:
        return list(pool.map(work, waiting))


def misspelled(path: str) -> str | None:
    """The reason that a path has a form that is never read, and the right one; None for others."""
    scheme = _URI.match(path)
    if scheme is None:
        return None
    if scheme[1] in _HADOOPS_NAMES:
        return f"{scheme[1]} is Hadoop's name for it: write s3{path.removeprefix(scheme[1])}"
    remote = _REMOTE.match(path)
    if remote is None:
        return f"no file system has the name {scheme[1]}: {_WRITE}"
    if "@" in remote[2] or "?" in path:
        return (
            "a report names its paths, so they have no credentials and options: set "
            f"AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_ENDPOINT_URL, and {_WRITE}"
        )
    return None if remote[2] else f"it names no {_AUTHORITIES[remote[1]]}: {_WRITE}"


_AUTHORITIES: Final = {"s3": "bucket", "hdfs": "host"}


def missing_bucket(path: str) -> str | None:
    """The bucket of a path that does not exist, if the bucket does not exist either."""
    remote = _REMOTE.match(path)
    if remote is None or remote[1] != "s3" or files_of(path).exists(remote[0]):
        return None
    return remote[2]


# --- this machine ------------------------------------------------------------------------------


class LocalFile:
    """An open file of this machine."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def pread(self, size: int, position: int, /) -> bytes:
        return os.pread(self.fd, size, position)

    def size(self) -> int:
        return os.fstat(self.fd).st_size


class _LocalEntry:
    __slots__ = ("_entry", "name")

    def __init__(self, entry: "os.DirEntry[str]") -> None:
        self._entry = entry
        self.name = entry.name

    def is_folder(self) -> bool:
        return self._entry.is_dir()

    def size_bytes(self) -> int:
        return self._entry.stat().st_size


class _LocalFiles:
    def is_folder(self, path: str, /) -> bool:
        mode = self._mode(path)
        return mode is not None and stat.S_ISDIR(mode)

    def exists(self, path: str, /) -> bool:
        return self._mode(path) is not None

    def _mode(self, path: str) -> int | None:
        try:
            return os.stat(path).st_mode
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return None
            raise

    def entries(self, folder: str, /) -> Sequence[Entry]:
        with os.scandir(folder) as found:
            return sorted(map(_LocalEntry, found), key=lambda entry: entry.name)

    def size(self, path: str, /) -> int:
        return os.stat(path).st_size

    def open(self, path: str, /) -> LocalFile:
        return LocalFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def close(self, file: LocalFile, /) -> None:
        os.close(file.fd)


LOCAL: Final[Files] = _LocalFiles()


# --- elsewhere, through Arrow --------------------------------------------------------------------


@lru_cache(maxsize=64)
def connected(root: str) -> "_ArrowFiles":
    """The file system of a bucket or of a cluster of HDFS: one for each, because it is connected
    when it is made."""
    return _ArrowFiles(root)


class _ArrowEntry:
    __slots__ = ("_is_folder", "_size", "name")

    def __init__(self, info: Any, *, is_folder: bool) -> None:
        self.name: str = info.base_name
        self._is_folder = is_folder
        self._size = info.size

    def is_folder(self) -> bool:
        return self._is_folder

    def size_bytes(self) -> int:
        return int(self._size)


class _ArrowFiles:
    """The files below `s3://bucket` or `hdfs://host:port`."""

    def __init__(self, root: str) -> None:
        try:
            from pyarrow.fs import FileSelector, FileSystem, FileType
        except ModuleNotFoundError as error:
            raise OSError(errno.ENOSYS, str(without(error)), root) from None
        self._root = root
        self._selector: Any = FileSelector
        self._type: Any = FileType
        with _said(root):
            self._files, self._inside = FileSystem.from_uri(root)
            # To Arrow nothing exists where no name node answers; its root always does.
            if _is_hdfs(root) and not self.exists(root):
                raise OSError(_NO_NAME_NODE)

    def is_folder(self, path: str, /) -> bool:
        return bool(self._info(path).type == self._type.Directory)

    def exists(self, path: str, /) -> bool:
        return bool(self._info(path).type != self._type.NotFound)

    def entries(self, folder: str, /) -> Sequence[Entry]:
        with _said(folder):
            found = self._files.get_file_info(self._selector(self._within(folder)))
        entries = (_ArrowEntry(it, is_folder=it.type == self._type.Directory) for it in found)
        # An object that stands for the folder has the name of the folder, or none.
        return sorted((each for each in entries if each.name), key=lambda entry: entry.name)

    def size(self, path: str, /) -> int:
        info = self._info(path)
        if info.type != self._type.File:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return int(info.size)

    def open(self, path: str, /) -> "_ArrowFile":
        return _ArrowFile(self, path)

    def close(self, file: "_ArrowFile", /) -> None:
        file.handle.close()

    def handle(self, path: str) -> Any:
        """Arrow's open file."""
        if _is_hdfs(path):
            self.size(path)  # For a file that is missing, libhdfs would write a stack to stderr.
        with _said(path):
            return self._files.open_input_file(self._within(path))

    def _info(self, path: str) -> Any:
        with _said(path):
            return self._files.get_file_info(self._within(path))

    def _within(self, path: str) -> str:
        """The path as Arrow's file system has it: with the bucket, without the scheme."""
        return (self._inside.rstrip("/") + path.removeprefix(self._root).rstrip("/")) or "/"


class _ArrowFile:
    """An open remote file; the last block that was read in part is kept."""

    def __init__(self, files: _ArrowFiles, path: str) -> None:
        self._files = files
        self._path = path
        self._open()

    def _open(self) -> None:
        self.handle = self._files.handle(self._path)
        with _said(self._path):
            self._size: int = self.handle.size()
        self._at, self._block = 0, b""

    def size(self) -> int:
        # An open object has the length that it had when it was opened.
        if self._files.size(self._path) != self._size:
            self.handle.close()
            self._open()
        return self._size

    def pread(self, size: int, position: int, /) -> bytes:
        if size >= BLOCK_BYTES:
            return self._read(size, position)
        at = position - position % BLOCK_BYTES
        if not self._block or at != self._at:
            self._at, self._block = at, self._read(BLOCK_BYTES, at)
        return self._block[position - at : position - at + size]

    def _read(self, size: int, position: int) -> bytes:
        if position >= self._size:
            return b""
        with _said(self._path):
            data: bytes = self.handle.read_at(min(size, self._size - position), position)
        return data


_CODE: Final = re.compile(r"AWS Error (\w+)[^:]*: ?(.*?)(?: \(Request ID: .*)?$", re.DOTALL)
_REFUSED: Final = frozenset(
    {
        "ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "INVALID_CLIENT_TOKEN_ID", "INVALID_SIGNATURE",
        "MISSING_AUTHENTICATION_TOKEN", "SIGNATURE_DOES_NOT_MATCH", "UNRECOGNIZED_CLIENT",
    }
)  # fmt: skip


_NO_NAME_NODE: Final = "no name node answers there"


def _is_hdfs(path: str) -> bool:
    return path.startswith("hdfs:")


@contextmanager
def _said(path: str) -> Iterator[None]:
    """Turn the errors of Arrow in the block into an `OSError` with one sentence."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None
    except (OSError, ValueError, NotImplementedError) as error:
        raise OSError(errno.EIO, _sentence(path, str(error)), path) from error


def _sentence(path: str, said: str) -> str:
    """The message of Arrow as a sentence that says what would be right."""
    if _NO_NAME_NODE in said:
        return f"{_NO_NAME_NODE}: name the host and port that fs.defaultFS has, hdfs://host:port"
    if _is_hdfs(path):
        return (
            f"HDFS does not serve it ({_first_line(said)}): HADOOP_HOME, JAVA_HOME and CLASSPATH "
            "(the output of `hadoop classpath --glob`) have to be set on every machine that reads"
        )
    found = _CODE.search(said)
    code, text = ("", said) if found is None else (found[1], found[2])
    if code in _REFUSED:
        return (
            f"the store refuses the credentials ({code}): set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY to those of a user who may list and read the bucket, on every "
            "machine that reads"
        )
    if code == "NO_SUCH_BUCKET":
        return no_bucket(cast(re.Match[str], _REMOTE.match(path))[2])
    if code == "NETWORK_CONNECTION":
        return (
            f"the store does not answer ({_first_line(text)}): set AWS_ENDPOINT_URL to its "
            "address, or AWS_DEFAULT_REGION to its region, on every machine that reads"
        )
    return f"the store says {code}: {_first_line(text)}" if code else _first_line(text)


def no_bucket(bucket: str) -> str:
    """The sentence for a bucket that does not exist."""
    return f"there is no bucket {bucket}: {_WRITE}"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")


# --- for the readers of quorum.log ---------------------------------------------------------------


def read_by(path: str) -> FileSystem:
    """The file system through which functions of `quorum.log` read this file."""
    return OS if not is_remote(path) else cast(FileSystem, _OneFile(path))


class _OneFile:
    """The part of the port `FileSystem` that reads a file: its path is known, because pathlib takes
    s3:// for s3:/."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._files = files_of(path)
        self._file: OpenFile | None = None

    def open(self, _path: Path, _flags: int, /) -> int:
        self._file = self._files.open(self._path)
        return 0

    def close(self, _fd: int, /) -> None:
        self._files.close(self._file)

    def pread(self, _fd: int, size_bytes: int, position: int, /) -> bytes:
        assert self._file is not None
        return self._file.pread(size_bytes, position)

    def size(self, _file: int | Path, /) -> int:
        assert self._file is not None
        return self._file.size()


def with_path(error: Exception, path: str) -> str:
    """The message of `quorum.log` about a file, with the path of the file as it was given."""
    return str(error).replace(str(Path(path)), path)


def size_or_0(path: str) -> int:
    """The length of a file; 0 if there is none."""
    with suppress(FileNotFoundError):
        return files_of(path).size(path)
    return 0
