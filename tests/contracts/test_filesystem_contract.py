"""The contract of `quorum.log.filesystem.FileSystem`, for Linux and the virtual disk."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from chaos.disk.virtual_disk import VirtualDisk
from quorum.log.filesystem import OS, FileSystem, opened, read_file, replace_file

NEW = os.O_WRONLY | os.O_CREAT


class Place(NamedTuple):
    """A file system, and an empty folder in it."""

    fs: FileSystem
    folder: Path

    def write(self, name: str, data: bytes | memoryview, position: int = 0) -> None:
        with opened(self.folder / name, NEW, self.fs) as fd:
            assert self.fs.pwrite(fd, data, position) == len(data)

    def read(self, name: str) -> bytes | None:
        return read_file(self.folder / name, self.fs)


@pytest.fixture(params=["real", "virtual"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "real":
        yield Place(OS, tmp_path)
        return
    disk = VirtualDisk()
    disk.make_folder(Path("/folder"))
    yield Place(disk, Path("/folder"))
    assert disk.open_count == 0


def number_of(call: Callable[[], object]) -> int | None:
    """The number of the error that a call ends with."""
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its number is what is compared
        call()
    return caught.value.errno


def test_written_bytes_are_read_back(place: Place) -> None:
    place.write("a", b"0123456789")
    place.write("a", memoryview(b"ABC"), 4)
    assert place.read("a") == b"0123ABC789"
    with opened(place.folder / "a", os.O_RDONLY, place.fs) as fd:
        assert place.fs.size(fd) == 10
        assert place.fs.pread(fd, 3, 5) == b"BC7"
        assert place.fs.pread(fd, 100, 8) == b"89"
        assert place.fs.pread(fd, 100, 10) == b""
        assert place.fs.pread(fd, 100, 99) == b""


def test_a_gap_reads_as_zeros(place: Place) -> None:
    place.write("a", b"xy", 3)
    assert place.read("a") == b"\0\0\0xy"
    with opened(place.folder / "a", os.O_RDWR, place.fs) as fd:
        place.fs.ftruncate(fd, 7)
        place.fs.fdatasync(fd)
        assert place.fs.pread(fd, 10, 0) == b"\0\0\0xy\0\0"
        place.fs.ftruncate(fd, 4)
        place.fs.fsync(fd)
    assert place.fs.size(place.folder / "a") == 4
    assert place.read("a") == b"\0\0\0x"


def test_a_file_that_is_opened_to_be_new_is_empty(place: Place) -> None:
    place.write("a", b"old")
    with opened(place.folder / "a", NEW | os.O_TRUNC, place.fs):
        pass
    assert place.read("a") == b""


def test_the_names_of_a_folder_are_those_of_its_files_and_folders(place: Place) -> None:
    fs, folder = place.fs, place.folder
    place.write("a", b"")
    fs.make_folder(folder / "b")
    assert sorted(fs.names(folder)) == ["a", "b"]
    assert [fs.exists(folder / name) for name in "abc"] == [True, True, False]
    assert [fs.is_folder(folder / name) for name in "abc"] == [False, True, False]
    assert fs.names(folder / "b") == []
    with opened(folder, os.O_RDONLY | os.O_DIRECTORY, fs) as fd:
        fs.fsync(fd)


def test_a_renamed_file_takes_the_place_of_another(place: Place) -> None:
    place.write("a", b"new")
    place.write("b", b"old")
    place.fs.rename(place.folder / "a", place.folder / "b")
    assert place.fs.names(place.folder) == ["b"]
    assert place.read("b") == b"new"


def test_an_open_file_stays_readable_when_its_name_is_removed(place: Place) -> None:
    place.write("a", b"kept")
    with opened(place.folder / "a", os.O_RDONLY, place.fs) as fd:
        place.fs.remove(place.folder / "a")
        assert place.fs.pread(fd, 10, 0) == b"kept"
        place.write("a", b"another")
        assert place.fs.pread(fd, 10, 0) == b"kept"
    assert place.read("a") == b"another"


def test_a_lock_is_held_by_one_descriptor_until_it_is_closed(place: Place) -> None:
    fs, path = place.fs, place.folder / "lock"
    with opened(path, os.O_RDWR | os.O_CREAT, fs) as first:
        fs.lock(first)
        fs.lock(first)
        with opened(path, os.O_RDWR, fs) as second, pytest.raises(BlockingIOError):
            fs.lock(second)
    with opened(path, os.O_RDWR, fs) as third:
        fs.lock(third)


def test_an_impossible_operation_is_refused_with_its_error_number(place: Place) -> None:
    fs, folder = place.fs, place.folder
    place.write("file", b"")
    fs.make_folder(folder / "folder")
    file, inner, none = folder / "file", folder / "folder", folder / "none"
    assert number_of(lambda: fs.open(none, os.O_RDONLY)) == errno.ENOENT
    assert number_of(lambda: fs.open(none / "deep", NEW)) == errno.ENOENT
    assert number_of(lambda: fs.open(file / "deep", NEW)) == errno.ENOTDIR
    assert number_of(lambda: fs.open(inner, os.O_WRONLY)) == errno.EISDIR
    assert number_of(lambda: fs.open(inner, NEW)) == errno.EISDIR
    assert number_of(lambda: fs.open(file, os.O_RDONLY | os.O_DIRECTORY)) == errno.ENOTDIR
    assert number_of(lambda: fs.open(file, NEW | os.O_EXCL)) == errno.EEXIST
    assert number_of(lambda: fs.size(none)) == errno.ENOENT
    assert number_of(lambda: fs.names(none)) == errno.ENOENT
    assert number_of(lambda: fs.names(file)) == errno.ENOTDIR
    assert number_of(lambda: fs.make_folder(file)) == errno.EEXIST
    assert number_of(lambda: fs.make_folder(none / "deep")) == errno.ENOENT
    assert number_of(lambda: fs.rename(none, file)) == errno.ENOENT
    assert number_of(lambda: fs.rename(file, inner)) == errno.EISDIR
    assert number_of(lambda: fs.remove(none)) == errno.ENOENT
    assert number_of(lambda: fs.remove(inner)) == errno.EISDIR
    with opened(file, os.O_RDONLY, fs) as fd:
        assert number_of(lambda: fs.close(fd + 1_000)) == errno.EBADF


def test_a_descriptor_does_only_what_it_was_opened_for(place: Place) -> None:
    fs = place.fs
    place.write("a", b"12")
    with opened(place.folder / "a", os.O_RDONLY, fs) as fd:
        assert number_of(lambda: fs.pwrite(fd, b"x", 0)) == errno.EBADF
        assert number_of(lambda: fs.ftruncate(fd, 0)) == errno.EINVAL
    with opened(place.folder / "a", os.O_WRONLY, fs) as fd:
        assert number_of(lambda: fs.pread(fd, 1, 0)) == errno.EBADF
    with opened(place.folder, os.O_RDONLY, fs) as fd:
        assert number_of(lambda: fs.pread(fd, 1, 0)) == errno.EISDIR
        assert number_of(lambda: fs.pwrite(fd, b"x", 0)) == errno.EBADF
    assert place.read("a") == b"12"


@pytest.fixture
def loose_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("loose_umask")
@pytest.mark.parametrize(
    ("folder_mode", "file_mode"), [(0o700, 0o600), (0o750, 0o640), (0o711, 0o600), (0o755, 0o644)]
)
def test_a_new_file_is_read_by_those_who_may_read_its_folder(
    tmp_path: Path, folder_mode: int, file_mode: int
) -> None:
    """As PostgreSQL does it; the folder of an adopted cluster stays readable for the same ones."""
    folder = tmp_path / "log"
    OS.make_folder(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(folder_mode)
    with opened(folder / "new", NEW):
        pass
    replace_file(folder / "replaced", b"")
    for each in folder.iterdir():
        assert stat.S_IMODE(each.stat().st_mode) == file_mode, each


@pytest.mark.usefixtures("loose_umask")
def test_a_file_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    path = tmp_path / "old"
    path.touch(0o640)
    with opened(path, NEW):
        pass
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
