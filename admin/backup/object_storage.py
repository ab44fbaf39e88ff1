"""Backups in an object store, through pyarrow: s3://bucket/folder and the like.

An object is there once it has been sent completely, so none is written aside. A run that was killed
may leave a shortened object; no manifest names it, and a later run removes it. `storage_of` finds
the storage that a command is given, which may be a folder.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from admin.backup.folder_storage import FolderStorage
from admin.backup.manifest import BackupError
from admin.backup.storage import PART_BYTES, Storage, Writer

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_HOW_TO_INSTALL: Final = "needs pyarrow, which is not installed: pip install pyarrow"


_ONE_REQUEST: Final = "allow_delayed_open"
"""The option by which a small object takes one request instead of three."""


def storage_of(place: str) -> Storage:
    """The storage that `place` names: a folder, or a URI such as s3://bucket/folder.

    Raises `BackupError` for a URI that cannot be used.
    """
    return object_storage(place) if "://" in place else FolderStorage(Path(place))


def object_storage(uri: str) -> Storage:
    """The storage at this URI; raises `BackupError`.

    The credentials, the region and the endpoint come from the environment, as for every client of
    the store (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL and so on), or from the URI.
    """
    try:
        from pyarrow.fs import FileSystem
    except ImportError as error:
        raise BackupError(f"{uri} {_HOW_TO_INSTALL}") from error
    place, _, options = uri.partition("?")
    if place.startswith("s3://") and _ONE_REQUEST not in options:
        options = "&".join(filter(None, (options, f"{_ONE_REQUEST}=true")))
    try:
        files, root = FileSystem.from_uri(f"{place}?{options}" if options else place)
    except (OSError, ValueError, NotImplementedError) as error:
        raise BackupError(
            f"{uri} cannot be used: {error}. Write s3://bucket/folder, or the path of a folder"
        ) from error
    if files.type_name == "local":
        return FolderStorage(Path(root))
    return ObjectStorage(place, files, root)


class ObjectStorage:
    """A folder of an object store."""

    is_exclusive = False

    def __init__(self, uri: str, files: "FileSystem", root: str) -> None:
        self._uri = uri
        self._files: Any = files
        self._root = root.rstrip("/")

    def __str__(self) -> str:
        return self._uri

    def sizes(self) -> Mapping[str, int]:
        from pyarrow.fs import FileSelector, FileType

        with self._said():
            selector = FileSelector(self._root, allow_not_found=True)
            found = self._files.get_file_info(selector)
        return {each.base_name: each.size for each in found if each.type == FileType.File}

    def read(self, name: str) -> Iterator[bytes]:
        with self._said(), self._files.open_input_stream(f"{self._root}/{name}") as stream:
            while data := stream.read(PART_BYTES):
                yield data

    @contextmanager
    def create(self, name: str) -> Iterator[Writer]:
        with self._said():
            stream = self._files.open_output_stream(f"{self._root}/{name}")

        def write(data: bytes) -> None:
            with self._said():
                stream.write(data)

        try:
            yield Writer(write)
            with self._said():
                stream.close()
        except BaseException:
            # Closing publishes what was sent. The error to tell is the first one.
            with suppress(OSError, ValueError):
                stream.close()
            with suppress(OSError, ValueError):
                self._files.delete_file(f"{self._root}/{name}")
            raise

    def remove(self, name: str) -> None:
        with self._said(), suppress(FileNotFoundError):
            self._files.delete_file(f"{self._root}/{name}")

    def unfinished(self) -> Sequence[str]:
        return ()

    @contextmanager
    def locked(self) -> Iterator[None]:
        # There is nothing to lock: docs/recovery.md asks for one process per place.
        yield

    @contextmanager
    def _said(self) -> Iterator[None]:
        """Turn an `OSError` of the block into `BackupError`."""
        try:
            yield
        except OSError as error:
            raise BackupError(f"{self._uri}: {error}") from error
